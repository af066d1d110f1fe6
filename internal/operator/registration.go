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

	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
)

// autoURL as webhook.url stands for this machine's loopback address, if the API server is on this machine.
const autoURL = "auto"

// unregisterTimeout bounds how long an unresponsive API server delays the end of the process.
const unregisterTimeout = 5 * time.Second

// addRegistration makes the operator register its webhook by URL, if so configured.
func (p *deps) addRegistration(ctx context.Context) error {
	webhookURL, err := p.config.webhookURL(p.env)
	if err != nil || webhookURL == "" {
		return err
	}
	p.registration = &webhookconfig.Registration{
		URL: webhookURL, Identity: p.Leadership.Identity(), Bundle: p.certs.Bundle, Reader: p.GetAPIReader(), Writer: p.GetClient(),
	}
	return errors.Join(p.registration.Check(ctx), p.Add(p.registration))
}

// webhookURL is where the API server should call the webhook, or "" if the operator does not register it.
func (c Config) webhookURL(env Environment) (string, error) {
	if !c.Webhook.Enabled {
		return "", nil
	}
	if c.Webhook.URL != autoURL {
		return c.Webhook.URL, nil
	}
	server, _, err := rest.DefaultServerUrlFor(env.Cluster)
	if err != nil {
		return "", fmt.Errorf("read address of the API server: %w", err)
	}
	if !isThisMachine(server.Hostname()) {
		env.Log.Warn(webhookconfig.NotRegistered, "apiServer", server.Host)
		return "", nil
	}
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Webhook.Port)), nil
}

// isThisMachine reports whether a host is this machine by its address. Whether the API server there can call us is known only once it
// does: it may be in a container, behind a forwarded port.
func isThisMachine(host string) bool {
	ip := net.ParseIP(host)
	if host == "localhost" || ip.IsLoopback() {
		return true
	}
	local, _ := net.InterfaceAddrs() // without them, only the loopback is this machine
	return slices.ContainsFunc(local, func(addr net.Addr) bool {
		network, ok := addr.(*net.IPNet)
		return ok && network.IP.Equal(ip)
	})
}

// certificateNames are the hosts at which agents and the API server call this process.
func (p *deps) certificateNames() []string {
	names := p.addresses.certificateNames(p.env.Namespace)
	if p.registration == nil {
		return names
	}
	parsed, _ := url.Parse(p.registration.URL) // validated by check
	return append(names, parsed.Hostname())
}

// observeWebhook reports the API server's calls of the webhook to the registration.
func (p *deps) observeWebhook(inner http.Handler) http.Handler {
	if p.registration == nil {
		return inner
	}
	return p.registration.Observe(inner)
}

// unregister removes the registration of a process that has stopped. It uses new connections, as the manager's ended with its
// leadership.
func (p *deps) unregister(ctx context.Context) {
	if p.registration == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	direct, err := client.New(p.cluster, client.Options{Scheme: p.GetScheme()})
	if err == nil {
		err = p.registration.Remove(ctx, direct, direct)
	}
	if err != nil {
		p.env.Log.Warn("cannot remove MutatingWebhookConfiguration: the next start replaces it, make uninstall removes it", "name",
			webhookconfig.ConfigurationName, "err", err)
	}
}

// checkURL rejects URLs that the API server would not call.
func (w Webhook) checkURL() error {
	if w.URL == "" || w.URL == autoURL {
		return nil
	}
	parsed, err := url.Parse(w.URL)
	if err != nil || parsed.Hostname() == "" || parsed.String() != "https://"+parsed.Host || !isValidPort(parsed) {
		return fmt.Errorf(`webhook.url is %q: write "auto", or https, a host and a port, such as "https://127.0.0.1:9443"`, w.URL)
	}
	if !w.Enabled {
		return fmt.Errorf("webhook.url is %q, and webhook.enabled is false, so nothing would answer there: write true, or remove webhook.url",
			w.URL)
	}
	return nil
}

// isValidPort reports whether a URL has a valid port, or none, which means 443.
func isValidPort(parsed *url.URL) bool {
	number, err := strconv.Atoi(parsed.Port())
	return parsed.Port() == "" || err == nil && checkPort("webhook.url", number) == nil
}
