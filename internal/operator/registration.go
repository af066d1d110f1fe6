package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/admission"
)

// autoURL as webhook.url stands for this machine's loopback address, if the API server is on this machine.
const autoURL = "auto"

// unregisterTimeout bounds how long an unresponsive API server delays the end of the process.
const unregisterTimeout = 5 * time.Second

// addRegistration makes the operator register its webhook by URL, if so configured.
func (p *parts) addRegistration(ctx context.Context) error {
	at, err := p.config.webhookURL(p.around)
	if err != nil || at == "" {
		return err
	}
	p.registration = &admission.Registration{
		URL: at, Identity: p.Leadership.Identity(), Bundle: p.authority.Bundle, Reader: p.GetAPIReader(), Writer: p.GetClient(),
	}
	return errors.Join(p.registration.Check(ctx), p.Add(p.registration))
}

// webhookURL is where the API server should call the webhook, or "" if the operator does not register it.
func (c Config) webhookURL(around Surroundings) (string, error) {
	if !c.Webhook.Enabled {
		return "", nil
	}
	if c.Webhook.URL != autoURL {
		return c.Webhook.URL, nil
	}
	server, _, err := rest.DefaultServerUrlFor(around.Cluster)
	if err != nil {
		return "", fmt.Errorf("read address of the API server: %w", err)
	}
	if !onThisMachine(server.Hostname()) {
		around.Log.Warn(admission.NotRegistered, "apiServer", server.Host)
		return "", nil
	}
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Webhook.Port)), nil
}

// onThisMachine reports whether a host is this machine by its address. Whether the API server there can call us is known only once it
// does: it may be in a container, behind a forwarded port.
func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	if host == "localhost" || ip.IsLoopback() {
		return true
	}
	ours, _ := net.InterfaceAddrs() // without them, only the loopback is this machine
	return slices.ContainsFunc(ours, func(one net.Addr) bool {
		network, is := one.(*net.IPNet)
		return is && network.IP.Equal(ip)
	})
}

// certificateNames are the hosts at which agents and the API server call this process.
func (p *parts) certificateNames() []string {
	names := p.at.names(p.around.Namespace)
	if p.registration == nil {
		return names
	}
	at, _ := url.Parse(p.registration.URL) // validated by check
	return append(names, at.Hostname())
}

// observed reports the API server's calls of the webhook to the registration.
func (p *parts) observed(inner http.Handler) http.Handler {
	if p.registration == nil {
		return inner
	}
	return p.registration.Observe(inner)
}

// unregister removes the registration of a process that has stopped. It uses new connections, as the manager's ended with its
// leadership.
func (p *parts) unregister(ctx context.Context) {
	if p.registration == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	free, err := client.New(p.cluster, client.Options{Scheme: p.GetScheme()})
	if err == nil {
		err = p.registration.Remove(ctx, free, free)
	}
	if err != nil {
		p.around.Log.Warn("left MutatingWebhookConfiguration behind: the next start replaces it, make uninstall removes it", "name", admission.ConfigurationName, "err", err)
	}
}

// checkURL rejects URLs that the API server would not call.
func (w Webhook) checkURL() error {
	if w.URL == "" || w.URL == autoURL {
		return nil
	}
	at, err := url.Parse(w.URL)
	if err != nil || at.Hostname() == "" || at.String() != "https://"+at.Host || !validPort(at) {
		return fmt.Errorf(`webhook.url is %q: write "auto", or https, a host and a port, such as "https://127.0.0.1:9443"`, w.URL)
	}
	if !w.Enabled {
		return fmt.Errorf("webhook.url is %q, and webhook.enabled is false, so nothing would answer there: write true, or remove webhook.url", w.URL)
	}
	return nil
}

// validPort reports whether a URL has a valid port, or none, which means 443.
func validPort(at *url.URL) bool {
	number, err := strconv.Atoi(at.Port())
	return at.Port() == "" || err == nil && port("webhook.url", number) == nil
}
