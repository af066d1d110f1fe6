package kit

import (
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A podID is the lock of a process whose pod has that id.
type podID struct {
	id       string
	disowned bool
	broken   error
}

func (p *podID) ID() string { return p.id }

func (p *podID) Disown() error {
	p.disowned = true
	return p.broken
}

// ofPod is a process of a pod, which looks at a Lease.
func ofPod(pod PodLock, holder string) *lock {
	l := newLeadership(Election{Identity: "pod-1", PodLock: pod})
	ready := make(chan struct{})
	close(ready)
	record := resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: 4}
	return &lock{Interface: &memory{identity: l.Identity(), record: record}, leadership: l, ready: ready}
}

// waitsFor is the holder of the Lease for which the elector waits.
func (l *lock) waitsFor(t *testing.T) string {
	t.Helper()
	record, _, err := l.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return record.HolderIdentity
}

func (l *lock) take(t *testing.T) error {
	t.Helper()
	return l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaderTransitions: 5})
}

func TestLeaseOfAnEarlierProcessOfThePodIsTakenAtOnce(t *testing.T) {
	former := ofPod(&podID{id: "p"}, "").Identity()
	for name, pod := range map[string]PodLock{"another pod": &podID{id: "q"}, "no proof": &podID{}, "no lock": nil} {
		if got := ofPod(pod, former).waitsFor(t); got != former {
			t.Errorf("%s: waits for %q", name, got)
		}
	}
	next := ofPod(&podID{id: "p"}, former)
	if got := next.waitsFor(t); got != "" || next.leadership.Holder() != "" {
		t.Errorf("waits for %q, which has ended; agents are sent to %q", got, next.leadership.Holder())
	}
	if err := next.take(t); err != nil {
		t.Fatal(err)
	}
	if got := next.waitsFor(t); got != next.Identity() || next.leadership.Term() != 5 || time.Until(next.leadership.AloneFrom()) > 0 {
		t.Errorf("held by %q in term %d, alone from %s", got, next.leadership.Term(), next.leadership.AloneFrom())
	}
}

// A process that took the Lease by force, or made a deleted one again, is not alone at once. Neither is the next process of its pod.
func TestLeaseThatWasTakenFromALivingLeaderExpires(t *testing.T) {
	broken := errors.New("read-only file system")
	for name, c := range map[string]struct {
		holder   string
		broken   error
		disowned bool
	}{
		"from a living leader":                    {"pod-2_x", nil, true},
		"from a living leader, but not disowned":  {"pod-2_x", broken, true},
		"after it was released":                   {"", broken, false},
		"from an earlier process of the same pod": {"pod-1_p.x", broken, false},
	} {
		pod := &podID{id: "p", broken: c.broken}
		taker := ofPod(pod, c.holder)
		taker.forced = true
		taker.waitsFor(t)
		err := taker.take(t)
		if failed := c.disowned && c.broken != nil; pod.disowned != c.disowned || errors.Is(err, broken) != failed || (taker.leadership.Term() == 0) != failed {
			t.Errorf("%s: disowned %t, term %d: %v", name, pod.disowned, taker.leadership.Term(), err)
		}
	}
}
