package operator

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// validate rejects values that cannot work, all at once, each with what to write instead.
func (c Config) validate() error {
	_, selector := metav1.LabelSelectorAsSelector(&c.Controller.NamespaceSelector)
	return errors.Join(
		checkAtLeast("controller.resyncPeriod", c.Controller.ResyncPeriod, 5*time.Second),
		checkAtLeast("controller.cacheSyncTimeout", c.Controller.CacheSyncTimeout, time.Second),
		checkRange("controller.workers", c.Controller.Workers, 1, 1000),
		checkNamespaceName("controller.leaderElection.namespace", c.Controller.LeaderElection.Namespace),
		c.checkNamespaced(),
		selectorError("controller.namespaceSelector", selector),
		checkPort("webhook.port", c.Webhook.Port),
		checkAbsolutePath("webhook.certDir", c.Webhook.CertDir),
		c.Webhook.checkClientCA(),
		c.Webhook.checkURL(),
		c.NodeLabels.validate(),
		c.Spread.validate(),
		checkPort("link.port", c.Link.Port),
		checkDialAddress("link.address", c.Link.Address),
		c.checkLeases(),
		checkOneOf("logging.level", c.Logging.Level, "debug", "info", "warn", "error"),
		checkOneOf("logging.format", c.Logging.Format, "json", "text"),
		checkPort("metrics.port", c.Metrics.Port),
		checkPort("health.port", c.Health.Port),
		checkPort("api.port", c.API.Port),
		checkRange("client.qps", c.Client.QPS, 1, 100_000),
		checkRange("client.burst", c.Client.Burst, c.Client.QPS, 200_000),
		c.Limits.validate(),
		c.checkPorts(),
	)
}

func (l Limits) validate() error {
	return errors.Join(
		checkRange("limits.tasksPerNamespace", l.TasksPerNamespace, 1, 10_000_000),
		checkByteRange("limits.bytesPerNamespace", l.BytesPerNamespace, resource.MustParse("16Ki"), resource.MustParse("64Gi")),
		checkRange("limits.connectionsPerSource", l.ConnectionsPerSource, 1, 10_000),
		checkRange("limits.requestShare", l.RequestShare, 1, 100),
		checkByteRange("limits.cacheBytesPerNamespace", l.CacheBytesPerNamespace, resource.MustParse("1Mi"), resource.MustParse("64Gi")),
		checkRange("limits.webhookConnectionsPerSource", l.WebhookConnectionsPerSource, 1, maxWebhookConnections),
	)
}

// checkLeases rejects leases that cannot work, and an agent lease that would stop all running work at every change of leaders.
func (c Config) checkLeases() error {
	election := c.Controller.LeaderElection
	if err := errors.Join(
		checkAtLeast("controller.leaderElection.leaseDuration", election.LeaseDuration, 6*time.Second),
		checkAtMost("controller.leaderElection.leaseDuration", election.LeaseDuration, 30*time.Minute),
		checkAtLeast("link.agentLease", c.Link.AgentLease, 5*time.Second),
		checkAtMost("link.agentLease", c.Link.AgentLease, time.Hour),
	); err != nil {
		return err
	}
	if minLease := election.minAgentLease(); election.Enabled && c.Link.AgentLease.Duration < minLease {
		return fmt.Errorf("link.agentLease is %s: with controller.leaderElection.leaseDuration %s every change of leaders would stop all work, "+
			"so write %s or more", c.Link.AgentLease.Duration, election.LeaseDuration.Duration, minLease)
	}
	return nil
}

// minAgentLease is the shortest, in whole seconds, that lets work survive a change of leaders. Programs get SIGTERM when a
// quarter of their lease is left, and the last heartbeat was sent up to 5 s before the leader's end. Others notice that end after
// leaseDuration; 12 s later the new leader has read everything and all agents have found it.
func (e LeaderElection) minAgentLease() time.Duration {
	const heartbeat, handover = 5 * time.Second, 12 * time.Second
	lease := (e.LeaseDuration.Duration + handover + heartbeat) * 4 / 3
	return lease.Truncate(time.Second) + time.Second
}

// checkPorts finds servers with the same port.
func (c Config) checkPorts() error {
	type server struct {
		key  string
		port int
	}
	servers := []server{{"api.port", c.API.Port}, {"health.port", c.Health.Port}, {"link.port", c.Link.Port}}
	if c.Metrics.Enabled {
		servers = append(servers, server{"metrics.port", c.Metrics.Port})
	}
	if c.Webhook.Enabled {
		servers = append(servers, server{"webhook.port", c.Webhook.Port})
	}
	var problems []error
	keyByPort := map[int]string{}
	for _, server := range servers {
		if other, duplicate := keyByPort[server.port]; duplicate {
			problems = append(problems, fmt.Errorf("%s and %s are both %d: choose another for one of them", server.key, other, server.port))
		}
		keyByPort[server.port] = server.key
	}
	return errors.Join(problems...)
}

func checkAtLeast(key string, value metav1.Duration, lowest time.Duration) error {
	if value.Duration < lowest {
		return fmt.Errorf("%s is %s: the minimum is %s", key, value.Duration, lowest)
	}
	return nil
}

func checkAtMost(key string, value metav1.Duration, highest time.Duration) error {
	if value.Duration > highest {
		return fmt.Errorf("%s is %s: the maximum is %s", key, value.Duration, highest)
	}
	return nil
}

func checkRange(key string, value, lowest, highest int) error {
	if value < lowest || value > highest {
		return fmt.Errorf("%s is %d: choose %d to %d", key, value, lowest, highest)
	}
	return nil
}

func checkByteRange(key string, value, lowest, highest resource.Quantity) error {
	if value.Cmp(lowest) < 0 || value.Cmp(highest) > 0 {
		return fmt.Errorf("%s is %s: choose %s to %s", key, &value, &lowest, &highest)
	}
	return nil
}

func checkPort(key string, value int) error { return checkRange(key, value, 1, 65535) }

// checkDialAddress requires a host and a port, or "".
func checkDialAddress(key, value string) error {
	if value == "" {
		return nil
	}
	host, number, err := net.SplitHostPort(value)
	if err != nil || host == "" || strings.ContainsAny(value, ", ") {
		return fmt.Errorf("%s is %q: write one host and a port, such as \"swarm.example.org:9444\" or \"[fd00::1]:9444\"", key, value)
	}
	n, _ := strconv.Atoi(number) // 0 is no valid port either
	return checkPort("the port in "+key, n)
}

// checkAbsolutePath requires a path that does not depend on the working directory.
func checkAbsolutePath(key, value string) error {
	if !filepath.IsAbs(value) {
		return fmt.Errorf("%s is %q: write a path from the root, such as %q", key, value, Defaults().Webhook.CertDir)
	}
	return nil
}

func (w Webhook) checkClientCA() error {
	if w.ClientCA == "" {
		return nil
	}
	return checkAbsolutePath("webhook.clientCA", w.ClientCA)
}

// checkNamespaceName requires the name of a namespace, or "".
func checkNamespaceName(key, value string) error {
	if value != "" && len(validation.IsDNS1123Label(value)) > 0 {
		return fmt.Errorf("%s is %q: write the name of a namespace, at most 63 of a-z, 0-9 and -", key, value)
	}
	return nil
}

func checkOneOf(key, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s is %q: choose one of %q", key, value, allowed)
	}
	return nil
}

// selectorError reports an invalid selector, with the text of Kubernetes joined to one line.
func selectorError(key string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %s", key, strings.Join(strings.Fields(err.Error()), " "))
	}
	return nil
}
