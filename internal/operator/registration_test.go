package operator

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
)

func TestWhereTheWebhookIsRegistered(t *testing.T) {
	for _, c := range []struct {
		reason    string
		webhook   Webhook
		apiServer string
		want      string
		explained bool
	}{
		{"an installation registers it", Webhook{Enabled: true}, "https://127.0.0.1:6443", "", false},
		{"as configured", Webhook{Enabled: true, URL: "https://dev.example.org"}, "https://10.0.0.1", "https://dev.example.org", false},
		{"on the loopback", Webhook{Enabled: true, Port: 1234, URL: autoURL}, "https://127.0.0.1:6443", "https://127.0.0.1:1234", false},
		{"on the loopback of IPv6", Webhook{Enabled: true, Port: 1234, URL: autoURL}, "https://[::1]:6443", "https://127.0.0.1:1234", false},
		{"on localhost", Webhook{Enabled: true, Port: 1234, URL: autoURL}, "https://localhost:6443", "https://127.0.0.1:1234", false},
		{"on another machine", Webhook{Enabled: true, Port: 1234, URL: autoURL}, "https://198.51.100.7:6443", "", true},
		{"on another machine that has a name", Webhook{Enabled: true, Port: 1234, URL: autoURL}, "https://api.example.org", "", true},
		{"not served", Webhook{Enabled: false, URL: autoURL}, "https://127.0.0.1:6443", "", false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			var logs bytes.Buffer
			got, err := Config{Webhook: c.webhook}.webhookURL(Environment{Cluster: &rest.Config{Host: c.apiServer},
				Log: slog.New(slog.NewTextHandler(&logs, nil))})
			if err != nil || got != c.want {
				t.Errorf("got %q, want %q: %v", got, c.want, err)
			}
			if explained := strings.Contains(logs.String(), "make install"); explained != c.explained || strings.Count(logs.String(), "\n") > 1 {
				t.Errorf("the log has %q", logs.String())
			}
		})
	}
}

func TestAddressOfThisMachineIsOnThisMachine(t *testing.T) {
	ours, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range ours {
		if ip := one.(*net.IPNet).IP; !isThisMachine(ip.String()) {
			t.Errorf("%s is not", ip)
		}
	}
}

func TestCertificateIsValidForTheRegisteredURL(t *testing.T) {
	p := &deps{addresses: addresses{advertised: "10.0.0.7:9444"}, env: Environment{Namespace: "system"}}
	if got := p.certificateNames(); slices.Contains(got, "127.0.0.1") || len(got) != 4 {
		t.Errorf("without a registration: %v", got)
	}
	p.registration = &webhookconfig.Registration{URL: "https://127.0.0.1:9443"}
	if got := p.certificateNames(); !slices.Contains(got, "127.0.0.1") || len(got) != 5 {
		t.Errorf("with a registration: %v", got)
	}
}

func TestRegistrationNeedsACertificateOfOurs(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := deps{config: Config{Webhook: Webhook{Enabled: true, CertDir: folder}}, registration: &webhookconfig.Registration{}}
	if err := p.addWebhook(t.Context()); err == nil || !strings.Contains(err.Error(), "webhook.url needs one of the operator's own") {
		t.Errorf("got %v", err)
	}
}
