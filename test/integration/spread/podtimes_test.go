package spread

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// lag is how late an observer may learn of a change, on a busy machine.
const lag = 1500 * time.Millisecond

// A podTimes records when the pods of an environment were created, Ready and removed.
type podTimes struct {
	lock        sync.Mutex
	pods        map[types.UID]*podLifetime
	interrupted bool
}

// A podLifetime is that of a pod. Times are zero for what has not happened.
type podLifetime struct {
	name, app     string
	placed, ended time.Time // ended: deletion was requested
	servedSpans   []span
}

// A span is from when to when, or until now.
type span struct{ start, end time.Time }

func (o *podLifetime) isServingAt(at time.Time) bool {
	return slices.ContainsFunc(o.servedSpans, func(s span) bool { return !s.start.After(at) && (s.end.IsZero() || s.end.After(at)) })
}

func (o *podLifetime) setServing(serves bool) {
	last := len(o.servedSpans) - 1
	switch open := last >= 0 && o.servedSpans[last].end.IsZero(); {
	case serves && !open:
		o.servedSpans = append(o.servedSpans, span{start: time.Now()})
	case !serves && open:
		o.servedSpans[last].end = time.Now()
	}
}

// record records until the spec ends.
func record(ctx context.Context, s *environment) *podTimes {
	GinkgoHelper()
	l := &podTimes{pods: map[types.UID]*podLifetime{}}
	handle := func(event watch.Event) {
		if pod, is := event.Object.(*corev1.Pod); is {
			l.update(pod, event.Type == watch.Deleted)
		}
	}
	testcluster.Watch(ctx, api, &corev1.PodList{}, testcluster.WatchHandler{Event: handle, Interrupted: l.markInterrupted},
		client.InNamespace(s.namespace), &client.ListOptions{Raw: &metav1.ListOptions{}})
	return l
}

func (l *podTimes) markInterrupted() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.interrupted = true
}

func (l *podTimes) update(pod *corev1.Pod, deleted bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	lifetime := l.pods[pod.UID]
	if lifetime == nil {
		lifetime = &podLifetime{name: pod.Name, app: pod.Labels["app"]}
		l.pods[pod.UID] = lifetime
	}
	first := func(at *time.Time, happened bool) {
		if happened && at.IsZero() {
			*at = time.Now()
		}
	}
	first(&lifetime.placed, pod.Spec.NodeName != "")
	lifetime.setServing(podwatch.IsAvailable(pod) && !deleted)
	first(&lifetime.ended, pod.DeletionTimestamp != nil || deleted)
}

// removedBy returns the life that a request has ended, nil when it is unknown.
func (l *podTimes) removedBy(r request) *podLifetime {
	l.lock.Lock()
	defer l.lock.Unlock()
	var result *podLifetime
	for _, one := range l.pods {
		off := one.ended.Sub(r.Received).Abs() // pods of a StatefulSet have one name after the other
		if one.name == r.ObjectRef.Name && !one.ended.IsZero() && (result == nil || off < result.ended.Sub(r.Received).Abs()) {
			result = one
		}
	}
	return result
}

// maxSettled is the most pods of a workload that were not on their way at one time in the lag before another: those that served, and those
// that waited for a node.
func (l *podTimes) maxSettled(app string, until time.Time) int {
	l.lock.Lock()
	defer l.lock.Unlock()
	highest := 0
	for at := until.Add(-lag); !at.After(until); at = at.Add(50 * time.Millisecond) {
		count := 0
		for _, one := range l.pods {
			waits := (one.placed.IsZero() || one.placed.After(at)) && (one.ended.IsZero() || one.ended.After(at))
			if one.app == app && (one.isServingAt(at) || waits) {
				count++
			}
		}
		highest = max(highest, count)
	}
	return highest
}

// settingsAround is what was asked of a workload about a time.
func (a *managedWorkload) settingsAround(at time.Time) []settings {
	var result []settings
	for n, one := range a.settingsHistory {
		over := n+1 < len(a.settingsHistory) && a.settingsHistory[n+1].at.Before(at.Add(-lag))
		if !over && one.at.Before(at.Add(lag)) {
			result = append(result, one)
		}
	}
	return result
}

// checkMoves checks that the operator has kept its promises with every pod that it removed.
func (s *soakTest) checkMoves() {
	GinkgoHelper()
	Expect(s.podTimes.interrupted).To(BeFalse(), "the API server has ended the watch")
	notes, moves := s.evictionEntries(), s.moves()
	for n, move := range moves {
		p := s.podTimes.removedBy(move)
		if p == nil {
			s.fault("%s: that pod was not seen to go", move)
			continue
		}
		at := slices.IndexFunc(s.workloads, func(a *managedWorkload) bool { return a.GetName() == p.app })
		if at < 0 {
			s.fault("%s: it has no owner", move)
			continue
		}
		reason := evictionReason(move, notes)
		s.checkAllowed(move, p, s.workloads[at], reason)
		if strings.HasPrefix(reason, "number ") && p.isServingAt(move.Received) { // others do not wait
			s.checkPace(s.workloads[at], moves[:n+1])
		}
	}
}

// checkAllowed checks that a pod could be removed in this way.
func (s *soakTest) checkAllowed(move request, p *podLifetime, w *managedWorkload, reason string) {
	history := w.settingsAround(move.Received)
	interrupted := slices.ContainsFunc(s.interruptions, func(at time.Time) bool { return at.Sub(move.Received).Abs() < lag })
	ran := !p.placed.IsZero() && p.placed.Before(move.Received)
	switch {
	case !slices.ContainsFunc(history, func(a settings) bool { return a.managed }):
		s.fault("%s: %s is not spread", move, p.app)
	case reason == "" && !interrupted: // a killed process cannot log it any more, and a frozen one only when it goes on
		s.fault("%s: no reason in any log", move)
	case move.Verb == "delete" && ran && !slices.ContainsFunc(history, func(a settings) bool { return a.override }):
		s.fault("%s: it had a node for %s: %s", move, move.Received.Sub(p.placed), reason)
	}
}

// checkPace checks that the last of some moves was within the allowed step.
func (s *soakTest) checkPace(w *managedWorkload, moves []request) {
	last, least, step := moves[len(moves)-1], math.MaxInt, 1
	for _, setting := range w.settingsAround(last.Received) {
		least, step = min(least, setting.size), max(step, (setting.size+3)/4)
	}
	batch := 0
	for _, move := range moves {
		if setting := s.podTimes.removedBy(move); move.Received.After(last.Received.Add(-lag)) && setting != nil && setting.app == w.GetName() &&
			setting.isServingAt(move.Received) {
			batch++
		}
	}
	if away := least - s.podTimes.maxSettled(w.GetName(), last.Received) + batch; away > step {
		s.fault("%s: %d of %d are away, and the step is %d", last, away, least, step)
	}
}

var evictionLog = regexp.MustCompile(`time=(\S+) .*msg="removed pod".* pod=\S+/(\S+) verb=.* reason="?([^"\n]*)"?`)

// An evictionEntry is a log line about a removed pod.
type evictionEntry struct {
	at       time.Time
	pod, why string
}

// evictionEntries are what all logs say.
func (s *soakTest) evictionEntries() []evictionEntry {
	GinkgoHelper()
	var entries []evictionEntry
	for _, one := range s.replicas {
		for _, line := range evictionLog.FindAllStringSubmatch(string(one.session.Err.Contents())+string(one.session.Out.Contents()), -1) {
			at, err := time.Parse(time.RFC3339Nano, line[1])
			Expect(err).NotTo(HaveOccurred())
			entries = append(entries, evictionEntry{at, line[2], line[3]})
		}
	}
	return entries
}

// evictionReason is the reason of a move, "" when no log has any.
func evictionReason(move request, notes []evictionEntry) string {
	nearest := evictionEntry{at: move.Received.Add(2 * lag)}
	for _, one := range notes {
		if one.pod == move.ObjectRef.Name && one.at.Sub(move.Received).Abs() < nearest.at.Sub(move.Received).Abs() {
			nearest = one
		}
	}
	return nearest.why
}
