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

// check rejects values that cannot work, all at once, each with what to write instead.
func (c Config) check() error {
	_, selector := metav1.LabelSelectorAsSelector(&c.Controller.NamespaceSelector)
	return errors.Join(
		atLeast("controller.resyncPeriod", c.Controller.ResyncPeriod, 5*time.Second),
		atLeast("controller.cacheSyncTimeout", c.Controller.CacheSyncTimeout, time.Second),
		within("controller.workers", c.Controller.Workers, 1, 1000),
		label("controller.leaderElection.namespace", c.Controller.LeaderElection.Namespace),
		c.confinement(),
		selects("controller.namespaceSelector", selector),
		port("webhook.port", c.Webhook.Port),
		absolute("webhook.certDir", c.Webhook.CertDir),
		c.Webhook.checkClientCA(),
		c.Webhook.checkURL(),
		c.NodeLabels.check(),
		c.Spread.check(),
		port("link.port", c.Link.Port),
		dialable("link.address", c.Link.Address),
		c.leasesFit(),
		oneOf("logging.level", c.Logging.Level, "debug", "info", "warn", "error"),
		oneOf("logging.format", c.Logging.Format, "json", "text"),
		port("metrics.port", c.Metrics.Port),
		port("health.port", c.Health.Port),
		port("api.port", c.API.Port),
		within("client.qps", c.Client.QPS, 1, 100_000),
		within("client.burst", c.Client.Burst, c.Client.QPS, 200_000),
		c.Limits.check(),
		c.portsDiffer(),
	)
}

func (l Limits) check() error {
	return errors.Join(
		within("limits.tasksPerNamespace", l.TasksPerNamespace, 1, 10_000_000),
		bytesWithin("limits.bytesPerNamespace", l.BytesPerNamespace, resource.MustParse("16Ki"), resource.MustParse("64Gi")),
		within("limits.connectionsPerSource", l.ConnectionsPerSource, 1, 10_000),
		within("limits.requestShare", l.RequestShare, 1, 100),
		bytesWithin("limits.cacheBytesPerNamespace", l.CacheBytesPerNamespace, resource.MustParse("1Mi"), resource.MustParse("64Gi")),
		within("limits.webhookConnectionsPerSource", l.WebhookConnectionsPerSource, 1, webhookConnections),
	)
}

// leasesFit rejects leases that cannot work, and an agent lease that would stop all running work at every change of leaders.
func (c Config) leasesFit() error {
	election := c.Controller.LeaderElection
	if err := errors.Join(
		atLeast("controller.leaderElection.leaseDuration", election.LeaseDuration, 6*time.Second),
		atMost("controller.leaderElection.leaseDuration", election.LeaseDuration, 30*time.Minute),
		atLeast("link.agentLease", c.Link.AgentLease, 5*time.Second),
		atMost("link.agentLease", c.Link.AgentLease, time.Hour),
	); err != nil {
		return err
	}
	if shortest := election.shortestAgentLease(); election.Enabled && c.Link.AgentLease.Duration < shortest {
		return fmt.Errorf("link.agentLease is %s: with controller.leaderElection.leaseDuration %s every change of leaders would stop all work, "+
			"so write %s or more", c.Link.AgentLease.Duration, election.LeaseDuration.Duration, shortest)
	}
	return nil
}

// shortestAgentLease is the shortest, in whole seconds, that lets work survive a change of leaders. Programs get SIGTERM when a
// quarter of their lease is left, and the last heartbeat was sent up to 5 s before the leader's end. Others notice that end after
// leaseDuration; 12 s later the new leader has read everything and all agents have found it.
func (e LeaderElection) shortestAgentLease() time.Duration {
	const heartbeat, handover = 5 * time.Second, 12 * time.Second
	longer := (e.LeaseDuration.Duration + handover + heartbeat) * 4 / 3
	return longer.Truncate(time.Second) + time.Second
}

// portsDiffer finds servers with the same port.
func (c Config) portsDiffer() error {
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
	taken := map[int]string{}
	for _, server := range servers {
		if other, twice := taken[server.port]; twice {
			problems = append(problems, fmt.Errorf("%s and %s are both %d: choose another for one of them", server.key, other, server.port))
		}
		taken[server.port] = server.key
	}
	return errors.Join(problems...)
}

func atLeast(key string, value metav1.Duration, least time.Duration) error {
	if value.Duration < least {
		return fmt.Errorf("%s is %s: the minimum is %s", key, value.Duration, least)
	}
	return nil
}

func atMost(key string, value metav1.Duration, most time.Duration) error {
	if value.Duration > most {
		return fmt.Errorf("%s is %s: the maximum is %s", key, value.Duration, most)
	}
	return nil
}

func within(key string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("%s is %d: choose %d to %d", key, value, least, most)
	}
	return nil
}

func bytesWithin(key string, value, least, most resource.Quantity) error {
	if value.Cmp(least) < 0 || value.Cmp(most) > 0 {
		return fmt.Errorf("%s is %s: choose %s to %s", key, &value, &least, &most)
	}
	return nil
}

func port(key string, value int) error { return within(key, value, 1, 65535) }

// dialable requires a host and a port, or "".
func dialable(key, value string) error {
	if value == "" {
		return nil
	}
	host, number, err := net.SplitHostPort(value)
	if err != nil || host == "" || strings.ContainsAny(value, ", ") {
		return fmt.Errorf("%s is %q: write one host and a port, such as \"swarm.example.org:9444\" or \"[fd00::1]:9444\"", key, value)
	}
	n, _ := strconv.Atoi(number) // 0 is no valid port either
	return port("the port in "+key, n)
}

// absolute requires a path that does not depend on the working directory.
func absolute(key, value string) error {
	if !filepath.IsAbs(value) {
		return fmt.Errorf("%s is %q: write a path from the root, such as %q", key, value, Defaults().Webhook.CertDir)
	}
	return nil
}

func (w Webhook) checkClientCA() error {
	if w.ClientCA == "" {
		return nil
	}
	return absolute("webhook.clientCA", w.ClientCA)
}

// label requires the name of a namespace, or "".
func label(key, value string) error {
	if value != "" && len(validation.IsDNS1123Label(value)) > 0 {
		return fmt.Errorf("%s is %q: write the name of a namespace, at most 63 of a-z, 0-9 and -", key, value)
	}
	return nil
}

func oneOf(key, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s is %q: choose one of %q", key, value, allowed)
	}
	return nil
}

// selects reports an invalid selector, with the text of Kubernetes joined to one line.
func selects(key string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %s", key, strings.Join(strings.Fields(err.Error()), " "))
	}
	return nil
}
