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
	valueBytes   = 4 << 10 // of a result, according to the API
	messageBytes = 4 << 10
	reasonBytes  = 128
	mostSlots    = 1000 // according to the API
	spareRunning = 16   // attempts beyond the slots of an agent
	nameBytes    = 253  // of objects
	idBytes      = 64   // of UIDs, and of processes in Task status

	refusedFor  = 2 * time.Second
	mostRefused = 10_000
)

// checkNames reports whether Hello has impossible names. Names are remembered for as long as the agent is known.
func checkNames(hello *linkv1.Hello) error {
	if len(hello.GetSwarm()) > nameBytes || len(hello.GetProcess()) > idBytes {
		return denyf("the name of the swarm or of the process is too long: at most %d and %d bytes", nameBytes, idBytes)
	}
	return nil
}

// canName reports whether such an attempt can exist.
func canName(attempt *linkv1.Attempt) bool {
	return within(attempt.GetTask(), nameBytes) && within(attempt.GetTaskUid(), idBytes) && attempt.GetEpoch() > 0
}

// within reports whether a text has 1 to most bytes.
func within(text string, most int) bool { return text != "" && len(text) <= most }

// restrict reduces Hello to what the agent may report.
func (a *Authorizer) restrict(agent link.Agent, hello *linkv1.Hello) {
	hello.Slots = min(max(hello.GetSlots(), 0), mostSlots)
	hello.Running = slices.DeleteFunc(hello.GetRunning(), func(attempt *linkv1.Attempt) bool { return !a.mayName(agent, attempt) })
	hello.Unacknowledged = slices.DeleteFunc(hello.GetUnacknowledged(), func(result *linkv1.Result) bool {
		return !a.mayName(agent, result.GetAttempt())
	})
	for _, result := range hello.GetUnacknowledged() {
		bound(result)
	}
}

// checkRunning reports whether an agent runs more than it can. The bound is the slots that Hello itself names: the slots of
// the Agent object may have been lowered while attempts run. An agent declines an assignment while an earlier attempt of the
// same work is being stopped, so it never runs two of them.
func checkRunning(hello *linkv1.Hello) error {
	if most := min(int(hello.GetSlots())+spareRunning, mostSlots); len(hello.GetRunning()) > most {
		return denyf("%d attempts run in %d slots", len(hello.GetRunning()), hello.GetSlots())
	}
	seen := make(map[linkv1.WorkKey]struct{}, len(hello.GetRunning()))
	for _, attempt := range hello.GetRunning() {
		key := attempt.Key().WorkKey
		if _, twice := seen[key]; twice {
			return denyf("two attempts of task %q run", attempt.GetTask())
		}
		seen[key] = struct{}{}
	}
	return nil
}

// bound makes a result small enough for Task status. A result that is too large, or has an unknown outcome, becomes a
// failure, because an agent keeps sending results that are not acknowledged. The controller judges whether a value is JSON
// and a reason is valid.
func bound(result *linkv1.Result) {
	switch _, known := linkv1.Outcome_name[int32(result.GetOutcome())]; {
	case !known || result.GetOutcome() == linkv1.Outcome_OUTCOME_UNSPECIFIED:
		fail(result, v1alpha1.ReasonAttemptFailed, fmt.Sprintf("the agent reported outcome %d, which this operator does not know", result.GetOutcome()))
	case len(result.GetValue()) > valueBytes:
		fail(result, v1alpha1.ReasonResultTooLarge, fmt.Sprintf(
			"the result has %d bytes, the limit is %d: store it elsewhere and return where it is", len(result.GetValue()), valueBytes))
	}
	if len(result.GetReason()) > reasonBytes {
		result.Reason = ""
	}
	result.Message = shorten(result.GetMessage(), messageBytes)
}

func fail(result *linkv1.Result, reason v1alpha1.Reason, message string) {
	result.Outcome, result.Value, result.Reason, result.Message = linkv1.Outcome_OUTCOME_FAILED, nil, string(reason), message
}

// shorten keeps the end of a text, where programs report what went wrong. The rest is freed.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[len(text)-most:]), "")
}

func (a *Authorizer) isRefused(podUID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.refused[podUID])
}

// refuse remembers a refusal, so that a pod that keeps reconnecting costs no requests.
func (a *Authorizer) refuse(podUID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if len(a.refused) >= mostRefused {
		for uid, until := range a.refused {
			if !now.Before(until) {
				delete(a.refused, uid)
			}
		}
	}
	if len(a.refused) >= mostRefused {
		a.config.Refusals.Count(limit.RememberedRefusals)
		return
	}
	a.refused[podUID] = now.Add(refusedFor)
}
