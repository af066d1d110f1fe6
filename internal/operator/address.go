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

// addresses are where the link of this process is found.
type addresses struct {
	own  string // this process and no other: where a standby sends agents while this one leads
	told string // what agents dial first, whoever leads
}

// The Services before all replicas: one for agents, one for the API server, one for Prometheus.
const (
	linkService    = "swarm-operator-link"
	webhookService = "swarm-operator-webhook"
	metricsService = "swarm-operator-metrics"
)

// locate finds the addresses. In a cluster agents dial the Service. Outside there is none: they dial this process, or what the
// configuration says, which then is also where this process is found.
func locate(ctx context.Context, config Link, around Surroundings) (addresses, error) {
	port := strconv.Itoa(config.Port)
	host, inCluster := around.Host, around.Host != ""
	if !inCluster && config.Address != "" {
		host, _, _ = net.SplitHostPort(config.Address) // was checked when it was loaded
	}
	if host == "" {
		var err error
		if host, err = reachable(ctx, around.Cluster); err != nil {
			return addresses{}, fmt.Errorf("find an address for agents: %w: set link.address", err)
		}
	}
	found := addresses{own: net.JoinHostPort(host, port), told: config.Address}
	switch {
	case config.Address != "":
	case inCluster:
		found.told = net.JoinHostPort(hostOf(linkService, around.Namespace), port)
	default:
		found.told = found.own
	}
	return found, nil
}

// names are what the certificate must be good for: the link, the webhook and the metrics show the same one. The link's Service is always among them:
// pods that were told of it before somebody set link.address go on dialing it. So are the webhook's and that of the metrics, lest the certificate change with
// whether the replica that leads serves them.
func (a addresses) names(namespace string) []string {
	host, _, _ := net.SplitHostPort(a.told)
	return []string{hostOf(linkService, namespace), hostOf(webhookService, namespace), hostOf(metricsService, namespace), host}
}

func hostOf(service, namespace string) string { return service + "." + namespace + ".svc" }

// reachable is an address of this machine that pods can reach. An API server on this machine has already found one and has published
// it, while its clients here use localhost. When it runs elsewhere, the address that we reach it from is a good guess.
func reachable(ctx context.Context, cluster *rest.Config) (string, error) {
	ours, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("list addresses: %w", err)
	}
	if shared := firstShared(apiServers(ctx, cluster), ours); shared != "" {
		return shared, nil
	}
	return outbound(ctx, cluster)
}

func firstShared(published []string, ours []net.Addr) string {
	for _, candidate := range published {
		for _, one := range ours {
			if network, ok := one.(*net.IPNet); ok && network.IP.Equal(net.ParseIP(candidate)) {
				return candidate
			}
		}
	}
	return ""
}

// apiServers are the addresses behind the Service "kubernetes"; none when they cannot be read, for then there is another way.
func apiServers(ctx context.Context, cluster *rest.Config) []string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	slices, err := discovery.NewForConfig(cluster)
	if err != nil {
		return nil
	}
	found, err := slices.EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return nil
	}
	var all []string
	for _, slice := range found.Items {
		for _, endpoint := range slice.Endpoints {
			all = append(all, endpoint.Addresses...)
		}
	}
	return all
}

// outbound is the address from which this machine reaches the API server. Nothing is sent: a UDP socket only chooses its route.
func outbound(ctx context.Context, cluster *rest.Config) (string, error) {
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

// An identity names a process in the Lease as <pod>_<address of its link>, to which kit adds _<fresh id>: so every standby knows
// where the leader's link is, without asking anybody. Neither an address nor an id has an underscore.
func identity(pod string, own string) string { return pod + "_" + own }

// linkOf is the address in a holder's identity; "" when it has none, as that of a version from before the link.
func linkOf(holder string) string {
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
