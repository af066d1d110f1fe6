package spread

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/window"
)

// coverageAgain is the delay before a workload that admission does not see yet is reconciled again.
const coverageAgain = time.Second

// rules are the external constraints on a workload's pods.
type rules struct {
	never string    // why its pods can never be placed correctly, "" for nothing
	wrong string    // what else users have to correct
	still string    // why no pod is removed at all
	hold  string    // why Ready pods stay where they are
	turn  time.Time // when that may change, zero for never
}

// rules evaluates admission, the windows and the configuration.
func (k *keeper) rules(ctx context.Context, of subject) (rules, error) {
	text, err := k.windows(ctx, of)
	if err != nil {
		return rules{}, err
	}
	found := windowed(text, of.now)
	covered, never := k.coverage.Covers(ctx, of.Key.Namespace)
	switch {
	case never != "":
		found.never, found.still = never, "nothing is moved: "+never
	case k.settings.ReadOnly:
		found.still = "read-only: nothing is moved"
	case !covered:
		found.still, found.turn = "admission does not see its pods yet", of.now.Add(coverageAgain)
	}
	if found.still != "" {
		found.hold = found.still
	}
	return found, nil
}

// windows returns the text that defines when Ready pods may be moved: that of the workload, its namespace, or the configuration, in this
// order.
func (k *keeper) windows(ctx context.Context, of subject) (string, error) {
	if of.wish.Windows != "" {
		return of.wish.Windows, nil
	}
	namespace := &corev1.Namespace{}
	if err := k.client.Get(ctx, client.ObjectKey{Name: of.Key.Namespace}, namespace, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read namespace %q: %w", of.Key.Namespace, err)
	}
	if own := strings.TrimSpace(namespace.Annotations[k.settings.Key(v1alpha1.SpreadWindows)]); own != "" {
		return own, nil
	}
	return k.settings.Windows, nil
}

// windowed evaluates windows at a time. Invalid windows are closed.
func windowed(text string, now time.Time) rules {
	windows, err := window.Parse(text)
	if err != nil {
		wrong := string(v1alpha1.SpreadWindows) + ": " + err.Error()
		return rules{wrong: wrong, hold: wrong}
	}
	found := rules{turn: windows.Next(now)}
	switch {
	case windows.Open(now):
	case found.turn.IsZero():
		found.hold = "no disruption window ever opens"
	default:
		found.hold = "the disruption windows are closed until " + found.turn.UTC().Format(time.RFC3339)
	}
	return found
}
