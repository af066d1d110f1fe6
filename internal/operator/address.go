package operator

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discovery "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
)

// addresses are where the link of this process is reached.
type addresses struct {
	process    string // this process only: where a standby redirects agents while this one leads
	advertised string // what agents dial first, regardless of the leader
}

// The Services in front of all replicas: one for agents, one for the API server, one for Prometheus.
const (
	linkService    = "swarm-operator-link"
	webhookService = "swarm-operator-webhook"
	metricsService = "swarm-operator-metrics"
)

// findAddresses determines the addresses. In a cluster agents dial the Service. Outside there is none: they dial this process, or the
// configured address, which then is also where this process is reached.
func findAddresses(ctx context.Context, config Link, env Environment) (addresses, error) {
	port := strconv.Itoa(config.Port)
	host, inCluster := env.Host, env.Host != ""
	if !inCluster && config.Address != "" {
		host, _, _ = net.SplitHostPort(config.Address) // validated by check
	}
	if host == "" {
		var err error
		if host, err = reachableAddress(ctx, env.Cluster); err != nil {
			return addresses{}, fmt.Errorf("find an address for agents: %w: set link.address", err)
		}
	}
	result := addresses{process: net.JoinHostPort(host, port), advertised: config.Address}
	switch {
	case config.Address != "":
	case inCluster:
		result.advertised = net.JoinHostPort(serviceHost(linkService, env.Namespace), port)
	default:
		result.advertised = result.process
	}
	return result, nil
}

// certificateNames returns the names of the certificate that the link, the webhook and the metrics share. The link's Service is always
// included: pods created before link.address was set still dial it. So are the Services of the webhook and the metrics, so that the
// certificate does not depend on whether the leader serves them.
func (a addresses) certificateNames(namespace string) []string {
	host, _, _ := net.SplitHostPort(a.advertised)
	return []string{serviceHost(linkService, namespace), serviceHost(webhookService, namespace), serviceHost(metricsService, namespace), host}
}

func serviceHost(service, namespace string) string { return service + "." + namespace + ".svc" }

// reachableAddress returns an address of this machine that pods can reach. An API server on this machine has already found and published
// one, although its clients here use localhost. If it runs elsewhere, the address that we reach it from is a good guess.
func reachableAddress(ctx context.Context, cluster *rest.Config) (string, error) {
	local, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("list addresses: %w", err)
	}
	if common := firstCommonAddress(apiServers(ctx, cluster), local); common != "" {
		return common, nil
	}
	return outboundAddress(ctx, cluster)
}

func firstCommonAddress(published []string, local []net.Addr) string {
	for _, candidate := range published {
		for _, addr := range local {
			if network, ok := addr.(*net.IPNet); ok && network.IP.Equal(net.ParseIP(candidate)) {
				return candidate
			}
		}
	}
	return ""
}

// apiServers returns the addresses behind the Service "kubernetes", or none if they cannot be read: there is a fallback.
func apiServers(ctx context.Context, cluster *rest.Config) []string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := discovery.NewForConfig(cluster)
	if err != nil {
		return nil
	}
	list, err := client.EndpointSlices(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return nil
	}
	var all []string
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			all = append(all, endpoint.Addresses...)
		}
	}
	return all
}

// outboundAddress returns the address from which this machine reaches the API server. It sends nothing: a UDP socket only selects its
// route.
func outboundAddress(ctx context.Context, cluster *rest.Config) (string, error) {
	server, _, err := rest.DefaultServerUrlFor(cluster)
	if err != nil {
		return "", fmt.Errorf("read address of the API server: %w", err)
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(server.Hostname(), port))
	if err != nil {
		return "", fmt.Errorf("find a route to the API server: %w", err)
	}
	defer connection.Close()
	host, _, err := net.SplitHostPort(connection.LocalAddr().String())
	return host, err
}

// leaseIdentity identifies a process in the Lease as <pod>_<address of its link>, to which kit adds _<new id>. Every standby thus knows
// where the leader's link is, without a request. Neither an address nor an id contains an underscore.
func leaseIdentity(pod string, linkAddress string) string { return pod + "_" + linkAddress }

// linkAddressOf returns the address in a holder's identity; "" if it has none, as in versions before the link.
func linkAddressOf(holder string) string {
	parts := strings.Split(holder, "_")
	if len(parts) < 3 {
		return ""
	}
	address := parts[len(parts)-2]
	if host, _, err := net.SplitHostPort(address); err != nil || host == "" {
		return ""
	}
	return address
}
