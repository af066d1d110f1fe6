package plan

import (
	"cmp"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/spread/window"
)

// coverageRetryDelay is the delay before a workload that admission does not see yet is planned again.
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
func (i Input) constraints(now time.Time) constraints {
	result := evaluateWindows(i.Windows, now)
	switch {
	case i.Admission.Never != "":
		result.unsupported, result.frozen = i.Admission.Never, "nothing is moved: "+i.Admission.Never
	case i.ReadOnly:
		result.frozen = "read-only: nothing is moved"
	case !i.Admission.Covered:
		result.frozen, result.recheckAt = "admission does not see its pods yet", now.Add(coverageRetryDelay)
	}
	if result.frozen != "" {
		result.hold = result.frozen
	}
	return result
}

// applyTo returns a snapshot with these constraints.
func (c constraints) applyTo(snapshot split.Snapshot) split.Snapshot {
	snapshot.Hold = cmp.Or(c.hold, snapshot.Hold)
	snapshot.Problem = cmp.Or(c.unsupported, snapshot.Problem, c.invalid)
	return snapshot
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
