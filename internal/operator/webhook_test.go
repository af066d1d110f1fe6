package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCertificateInCertDirIsUsed(t *testing.T) {
	for _, c := range []struct {
		reason string
		files  []string
		want   bool
		told   string
	}{
		{"no certificates", nil, false, ""},
		{"certificates", []string{"tls.crt", "tls.key"}, true, ""},
		{"certificates and something else", []string{"ca.crt", "tls.crt", "tls.key"}, true, ""},
		{"the key is missing", []string{"tls.crt"}, false, "must hold both tls.crt and tls.key, or neither"},
		{"the certificate is missing", []string{"tls.key"}, false, "must hold both tls.crt and tls.key, or neither"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			folder := t.TempDir()
			for _, name := range c.files {
				if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Webhook{CertDir: folder}.hasCertificate()
			if got != c.want || (err != nil) != (c.told != "") || err != nil && !strings.Contains(err.Error(), c.told) {
				t.Errorf("got %t: %v", got, err)
			}
		})
	}
}

func TestMissingCertDirHasNoCertificate(t *testing.T) {
	if got, err := (Webhook{CertDir: filepath.Join(t.TempDir(), "missing")}).hasCertificate(); got || err != nil {
		t.Errorf("got %t: %v", got, err)
	}
}

func TestCertDirThatIsAFileIsAnError(t *testing.T) {
	file := writeConfig(t, "")
	if _, err := (Webhook{CertDir: file}).hasCertificate(); err == nil || !strings.Contains(err.Error(), "webhook.certDir") {
		t.Errorf("got %v", err)
	}
}
