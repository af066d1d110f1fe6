package kit

import (
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A fakePodLock is the lock of a process whose pod has that id.
type fakePodLock struct {
	id       string
	wasReset bool
	err      error
}

func (p *fakePodLock) ID() string { return p.id }

func (p *fakePodLock) ResetID() error {
	p.wasReset = true
	return p.err
}

// lockOfPod is a process of a pod, which looks at a Lease.
func lockOfPod(pod PodLock, holder string) *leaseLock {
	l := newLeadership(Election{Identity: "pod-1", PodLock: pod})
	ready := make(chan struct{})
	close(ready)
	record := resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: 4}
	return &leaseLock{Interface: &leaseMemory{identity: l.Identity(), record: record}, leadership: l, ready: ready}
}

// awaitedHolder is the holder of the Lease for which the elector waits.
func (l *leaseLock) awaitedHolder(t *testing.T) string {
	t.Helper()
	record, _, err := l.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return record.HolderIdentity
}

func (l *leaseLock) acquire(t *testing.T) error {
	t.Helper()
	return l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaderTransitions: 5})
}

func TestLeaseOfAnEarlierProcessOfThePodIsTakenAtOnce(t *testing.T) {
	former := lockOfPod(&fakePodLock{id: "p"}, "").Identity()
	for name, pod := range map[string]PodLock{"another pod": &fakePodLock{id: "q"}, "no proof": &fakePodLock{}, "no lock": nil} {
		if got := lockOfPod(pod, former).awaitedHolder(t); got != former {
			t.Errorf("%s: waits for %q", name, got)
		}
	}
	next := lockOfPod(&fakePodLock{id: "p"}, former)
	if got := next.awaitedHolder(t); got != "" || next.leadership.Holder() != "" {
		t.Errorf("waits for %q, which has ended; agents are sent to %q", got, next.leadership.Holder())
	}
	if err := next.acquire(t); err != nil {
		t.Fatal(err)
	}
	if got := next.awaitedHolder(t); got != next.Identity() || next.leadership.Term() != 5 ||
		time.Until(next.leadership.SoleLeaderFrom()) > 0 {
		t.Errorf("held by %q in term %d, alone from %s", got, next.leadership.Term(), next.leadership.SoleLeaderFrom())
	}
}

// A process that took the Lease by force, or made a deleted one again, is not alone at once. Neither is the next process of its pod.
func TestLeaseThatWasTakenFromALivingLeaderExpires(t *testing.T) {
	brokenLock := errors.New("read-only file system")
	for name, c := range map[string]struct {
		holder   string
		broken   error
		disowned bool
	}{
		"from a living leader":                    {"pod-2_x", nil, true},
		"from a living leader, but not disowned":  {"pod-2_x", brokenLock, true},
		"after it was released":                   {"", brokenLock, false},
		"from an earlier process of the same pod": {"pod-1_p.x", brokenLock, false},
	} {
		pod := &fakePodLock{id: "p", err: c.broken}
		taker := lockOfPod(pod, c.holder)
		taker.forced = true
		taker.awaitedHolder(t)
		err := taker.acquire(t)
		if failed := c.disowned && c.broken != nil; pod.wasReset != c.disowned || errors.Is(err, brokenLock) != failed ||
			(taker.leadership.Term() == 0) != failed {
			t.Errorf("%s: disowned %t, term %d: %v", name, pod.wasReset, taker.leadership.Term(), err)
		}
	}
}
