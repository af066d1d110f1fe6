package spread

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/window"
)

// coverageRetryDelay is the delay before a workload that admission does not see yet is reconciled again.
const coverageRetryDelay = time.Second

// constraints are the external constraints on a workload's pods.
type constraints struct {
	unsupported string    // why its pods can never be placed correctly, "" for nothing
	invalid     string    // what else users have to correct
	frozen      string    // why no pod is removed at all
	hold        string    // why Ready pods stay where they are
	recheckAt   time.Time // when that may change, zero for never
}

// constraints evaluates admission, the windows and the configuration.
func (c *controller) constraints(ctx context.Context, t target) (constraints, error) {
	text, err := c.windowsText(ctx, t)
	if err != nil {
		return constraints{}, err
	}
	result := evaluateWindows(text, t.now)
	covered, unsupported := c.coverage.Covers(ctx, t.Key.Namespace)
	switch {
	case unsupported != "":
		result.unsupported, result.frozen = unsupported, "nothing is moved: "+unsupported
	case c.settings.ReadOnly:
		result.frozen = "read-only: nothing is moved"
	case !covered:
		result.frozen, result.recheckAt = "admission does not see its pods yet", t.now.Add(coverageRetryDelay)
	}
	if result.frozen != "" {
		result.hold = result.frozen
	}
	return result, nil
}

// windowsText returns the text that defines when Ready pods may be moved: that of the workload, its namespace, or the configuration, in
// this order.
func (c *controller) windowsText(ctx context.Context, t target) (string, error) {
	if t.spec.Windows != "" {
		return t.spec.Windows, nil
	}
	namespace := &corev1.Namespace{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: t.Key.Namespace}, namespace,
		client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read namespace %q: %w", t.Key.Namespace, err)
	}
	if own := strings.TrimSpace(namespace.Annotations[c.settings.Key(v1alpha1.SpreadWindows)]); own != "" {
		return own, nil
	}
	return c.settings.Windows, nil
}

// evaluateWindows evaluates windows at a time. Invalid windows are closed.
func evaluateWindows(text string, now time.Time) constraints {
	windows, err := window.Parse(text)
	if err != nil {
		wrong := string(v1alpha1.SpreadWindows) + ": " + err.Error()
		return constraints{invalid: wrong, hold: wrong}
	}
	result := constraints{recheckAt: windows.Next(now)}
	switch {
	case windows.Open(now):
	case result.recheckAt.IsZero():
		result.hold = "no disruption window ever opens"
	default:
		result.hold = "the disruption windows are closed until " + result.recheckAt.UTC().Format(time.RFC3339)
	}
	return result
}
