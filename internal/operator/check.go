package operator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// check refuses values that cannot work, all of them at once, each with what to write instead.
func (c Config) check() error {
	_, selector := metav1.LabelSelectorAsSelector(&c.Controller.NamespaceSelector)
	return errors.Join(
		atLeast("controller.resyncPeriod", c.Controller.ResyncPeriod, 5*time.Second),
		within("controller.workers", c.Controller.Workers, 1, 1000),
		atLeast("controller.leaderElection.leaseDuration", c.Controller.LeaderElection.LeaseDuration, 6*time.Second),
		named("controller.namespaceSelector", selector),
		oneOf("logging.level", c.Logging.Level, "debug", "info", "warn", "error"),
		oneOf("logging.format", c.Logging.Format, "json", "text"),
		port("metrics.port", c.Metrics.Port),
		port("health.port", c.Health.Port),
		within("client.qps", c.Client.QPS, 1, 100_000),
		within("client.burst", c.Client.Burst, c.Client.QPS, 200_000),
		c.portsDiffer(),
	)
}

func (c Config) portsDiffer() error {
	if c.Metrics.Enabled && c.Metrics.Port == c.Health.Port {
		return fmt.Errorf("metrics.port and health.port are both %d: choose another for one of them", c.Health.Port)
	}
	return nil
}

func atLeast(key string, value metav1.Duration, least time.Duration) error {
	if value.Duration < least {
		return fmt.Errorf("%s is %s: the minimum is %s", key, value.Duration, least)
	}
	return nil
}

func within(key string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("%s is %d: choose %d to %d", key, value, least, most)
	}
	return nil
}

func port(key string, value int) error { return within(key, value, 1, 65535) }

func oneOf(key, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s is %q: choose one of %q", key, value, allowed)
	}
	return nil
}

func named(key string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
