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

	"github.com/swarm-io/swarm-operator/internal/testkit/chronicle"
)

// lag is how late an observer may learn of a change, on a busy machine.
const lag = 1500 * time.Millisecond

// A ledger is when the pods of a scene did what.
type ledger struct {
	lock  sync.Mutex
	lives map[types.UID]*life
	cut   bool
}

// A life is that of a pod. Times are zero for what has not happened.
type life struct {
	name, app     string
	placed, ended time.Time // ended: deletion was requested
	served        []span
}

// A span is from when to when, or until now.
type span struct{ from, until time.Time }

func (o *life) serves(at time.Time) bool {
	return slices.ContainsFunc(o.served, func(s span) bool { return !s.from.After(at) && (s.until.IsZero() || s.until.After(at)) })
}

func (o *life) turn(serves bool) {
	last := len(o.served) - 1
	switch open := last >= 0 && o.served[last].until.IsZero(); {
	case serves && !open:
		o.served = append(o.served, span{from: time.Now()})
	case !serves && open:
		o.served[last].until = time.Now()
	}
}

// record keeps a ledger until the spec ends.
func record(ctx context.Context, s *scene) *ledger {
	GinkgoHelper()
	l := &ledger{lives: map[types.UID]*life{}}
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx))
	seen, err := api.Watch(ctx, &corev1.PodList{}, client.InNamespace(s.in), &client.ListOptions{Raw: &metav1.ListOptions{}})
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range seen.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is {
				l.take(pod, event.Type == watch.Deleted)
			}
		}
		l.lock.Lock()
		defer l.lock.Unlock()
		l.cut = ctx.Err() == nil
	}()
	DeferCleanup(func() {
		leave()
		<-done
	})
	return l
}

func (l *ledger) take(pod *corev1.Pod, gone bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	one := l.lives[pod.UID]
	if one == nil {
		one = &life{name: pod.Name, app: pod.Labels["app"]}
		l.lives[pod.UID] = one
	}
	first := func(at *time.Time, happened bool) {
		if happened && at.IsZero() {
			*at = time.Now()
		}
	}
	first(&one.placed, pod.Spec.NodeName != "")
	one.turn(chronicle.IsAvailable(pod) && !gone)
	first(&one.ended, pod.DeletionTimestamp != nil || gone)
}

// taken returns the life that a request has ended, nil when it is unknown.
func (l *ledger) taken(by request) *life {
	l.lock.Lock()
	defer l.lock.Unlock()
	var found *life
	for _, one := range l.lives {
		off := one.ended.Sub(by.Received).Abs() // pods of a StatefulSet have one name after the other
		if one.name == by.ObjectRef.Name && !one.ended.IsZero() && (found == nil || off < found.ended.Sub(by.Received).Abs()) {
			found = one
		}
	}
	return found
}

// settled is the most pods of a workload that were not on their way at one time in the lag before another: those that served, and those
// that waited for a node.
func (l *ledger) settled(app string, until time.Time) int {
	l.lock.Lock()
	defer l.lock.Unlock()
	most := 0
	for at := until.Add(-lag); !at.After(until); at = at.Add(50 * time.Millisecond) {
		count := 0
		for _, one := range l.lives {
			waits := (one.placed.IsZero() || one.placed.After(at)) && (one.ended.IsZero() || one.ended.After(at))
			if one.app == app && (one.serves(at) || waits) {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// around is what was asked of a workload about a time.
func (a *actor) around(at time.Time) []asked {
	var found []asked
	for n, one := range a.past {
		over := n+1 < len(a.past) && a.past[n+1].at.Before(at.Add(-lag))
		if !over && one.at.Before(at.Add(lag)) {
			found = append(found, one)
		}
	}
	return found
}

// judge looks whether the operator has kept its promises with every pod that it took.
func (s *soak) judge() {
	GinkgoHelper()
	Expect(s.ledger.cut).To(BeFalse(), "the API server has ended the watch")
	notes, moves := s.notes(), s.moves()
	for n, move := range moves {
		one := s.ledger.taken(move)
		if one == nil {
			s.fault("%s: that pod was not seen to go", move)
			continue
		}
		at := slices.IndexFunc(s.cast, func(a *actor) bool { return a.GetName() == one.app })
		if at < 0 {
			s.fault("%s: it has no owner", move)
			continue
		}
		reason := why(move, notes)
		s.allowed(move, one, s.cast[at], reason)
		if strings.HasPrefix(reason, "number ") && one.serves(move.Received) { // others do not wait
			s.paced(s.cast[at], moves[:n+1])
		}
	}
}

// allowed looks whether a pod was one that may be taken, in this way.
func (s *soak) allowed(move request, one *life, of *actor, reason string) {
	known := of.around(move.Received)
	interrupted := slices.ContainsFunc(s.interruptions, func(at time.Time) bool { return at.Sub(move.Received).Abs() < lag })
	ran := !one.placed.IsZero() && one.placed.Before(move.Received)
	switch {
	case !slices.ContainsFunc(known, func(a asked) bool { return a.managed }):
		s.fault("%s: %s is not spread", move, one.app)
	case reason == "" && !interrupted: // a killed process cannot log it any more, and a frozen one only when it goes on
		s.fault("%s: no reason in any log", move)
	case move.Verb == "delete" && ran && !slices.ContainsFunc(known, func(a asked) bool { return a.override }):
		s.fault("%s: it had a node for %s: %s", move, move.Received.Sub(one.placed), reason)
	}
}

// paced looks whether the last of some moves was one that the step allows.
func (s *soak) paced(of *actor, moves []request) {
	last, least, step := moves[len(moves)-1], math.MaxInt, 1
	for _, one := range of.around(last.Received) {
		least, step = min(least, one.size), max(step, (one.size+3)/4)
	}
	batch := 0
	for _, move := range moves {
		if one := s.ledger.taken(move); move.Received.After(last.Received.Add(-lag)) && one != nil && one.app == of.GetName() && one.serves(move.Received) {
			batch++
		}
	}
	if away := least - s.ledger.settled(of.GetName(), last.Received) + batch; away > step {
		s.fault("%s: %d of %d are away, and the step is %d", last, away, least, step)
	}
}

var took = regexp.MustCompile(`time=(\S+) .*msg="took a pod away".* pod=\S+/(\S+) verb=.* reason="?([^"\n]*)"?`)

// A note is a log line about a pod that was taken.
type note struct {
	at       time.Time
	pod, why string
}

// notes are what all logs say.
func (s *soak) notes() []note {
	GinkgoHelper()
	var all []note
	for _, one := range s.crew {
		for _, line := range took.FindAllStringSubmatch(string(one.session.Err.Contents())+string(one.session.Out.Contents()), -1) {
			at, err := time.Parse(time.RFC3339Nano, line[1])
			Expect(err).NotTo(HaveOccurred())
			all = append(all, note{at, line[2], line[3]})
		}
	}
	return all
}

// why is the reason of a move, "" when no log has any.
func why(move request, notes []note) string {
	found := note{at: move.Received.Add(2 * lag)}
	for _, one := range notes {
		if one.pod == move.ObjectRef.Name && one.at.Sub(move.Received).Abs() < found.at.Sub(move.Received).Abs() {
			found = one
		}
	}
	return found.why
}
