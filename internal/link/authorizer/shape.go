package authorizer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/link"
)

const (
	maxValueBytes   = 4 << 10 // of a result, according to the API
	maxMessageBytes = 4 << 10
	maxReasonBytes  = 128
	maxSlots        = 1000 // according to the API
	extraRunning    = 16   // attempts beyond the slots of an agent
	maxNameBytes    = 253  // of objects
	maxIDBytes      = 64   // of UIDs, and of processes in Task status

	refusalTTL = 2 * time.Second
	maxRefused = 10_000
)

// checkNames reports whether Hello has impossible names. Names are remembered for as long as the agent is known.
func checkNames(hello *linkv1.Hello) error {
	if len(hello.GetSwarm()) > maxNameBytes || len(hello.GetProcess()) > maxIDBytes {
		return denyf("the name of the swarm or of the process is too long: at most %d and %d bytes", maxNameBytes, maxIDBytes)
	}
	return nil
}

// isValidAttempt reports whether such an attempt can exist.
func isValidAttempt(attempt *linkv1.Attempt) bool {
	return hasLength(attempt.GetTask(), maxNameBytes) && hasLength(attempt.GetTaskUid(), maxIDBytes) && attempt.GetEpoch() > 0
}

// hasLength reports whether a text has 1 to most bytes.
func hasLength(text string, maxBytes int) bool { return text != "" && len(text) <= maxBytes }

// sanitizeHello reduces Hello to what the agent may report.
func (a *Authorizer) sanitizeHello(agent link.Agent, hello *linkv1.Hello) {
	hello.Slots = min(max(hello.GetSlots(), 0), maxSlots)
	hello.Running = slices.DeleteFunc(hello.GetRunning(), func(attempt *linkv1.Attempt) bool { return !a.mayReport(agent, attempt) })
	hello.Unacknowledged = slices.DeleteFunc(hello.GetUnacknowledged(), func(result *linkv1.Result) bool {
		return !a.mayReport(agent, result.GetAttempt())
	})
	for _, result := range hello.GetUnacknowledged() {
		limitResult(result)
	}
}

// checkRunning reports whether an agent runs more than it can. The bound is the slots that Hello itself names: the slots of
// the Agent object may have been lowered while attempts run. An agent declines an assignment while an earlier attempt of the
// same work is being stopped, so it never runs two of them.
func checkRunning(hello *linkv1.Hello) error {
	if maxRunning := min(int(hello.GetSlots())+extraRunning, maxSlots); len(hello.GetRunning()) > maxRunning {
		return denyf("%d attempts run in %d slots", len(hello.GetRunning()), hello.GetSlots())
	}
	running := make(map[linkv1.WorkKey]struct{}, len(hello.GetRunning()))
	for _, attempt := range hello.GetRunning() {
		key := attempt.Key().WorkKey
		if _, twice := running[key]; twice {
			return denyf("two attempts of task %q run", attempt.GetTask())
		}
		running[key] = struct{}{}
	}
	return nil
}

// limitResult makes a result small enough for Task status. A result that is too large, or has an unknown outcome, becomes a
// failure, because an agent keeps sending results that are not acknowledged. The controller judges whether a value is JSON
// and a reason is valid.
func limitResult(result *linkv1.Result) {
	switch _, isKnown := linkv1.Outcome_name[int32(result.GetOutcome())]; {
	case !isKnown || result.GetOutcome() == linkv1.Outcome_OUTCOME_UNSPECIFIED:
		setFailed(result, v1alpha1.ReasonAttemptFailed, fmt.Sprintf("the agent reported outcome %d, which this operator does not know",
			result.GetOutcome()))
	case len(result.GetValue()) > maxValueBytes:
		setFailed(result, v1alpha1.ReasonResultTooLarge, fmt.Sprintf(
			"the result has %d bytes, the limit is %d: store it elsewhere and return where it is", len(result.GetValue()), maxValueBytes))
	}
	if len(result.GetReason()) > maxReasonBytes {
		result.Reason = ""
	}
	result.Message = truncateStart(result.GetMessage(), maxMessageBytes)
}

func setFailed(result *linkv1.Result, reason v1alpha1.Reason, message string) {
	result.Outcome, result.Value, result.Reason, result.Message = linkv1.Outcome_OUTCOME_FAILED, nil, string(reason), message
}

// truncateStart keeps the end of a text, where programs report what went wrong. The rest is freed.
func truncateStart(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[len(text)-maxBytes:]), "")
}

func (a *Authorizer) isRefused(podUID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.refusedUntil[podUID])
}

// refuse remembers a refusal, so that a pod that keeps reconnecting costs no requests.
func (a *Authorizer) refuse(podUID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if len(a.refusedUntil) >= maxRefused {
		for uid, until := range a.refusedUntil {
			if !now.Before(until) {
				delete(a.refusedUntil, uid)
			}
		}
	}
	if len(a.refusedUntil) >= maxRefused {
		a.config.Refusals.Count(limit.RememberedRefusals)
		return
	}
	a.refusedUntil[podUID] = now.Add(refusalTTL)
}
