package kit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ofPod is a process of the pod whose directory this is, which looks at a Lease.
func ofPod(t *testing.T, directory string, lease *memory) *lock {
	t.Helper()
	pod, err := lockPod(directory)
	if err != nil {
		t.Fatal(err)
	}
	l := newLeadership(Election{Identity: "pod-1"}, pod)
	ready := make(chan struct{})
	close(ready)
	return &lock{Interface: &memory{identity: l.Identity(), record: lease.record}, leadership: l, ready: ready}
}

// dies ends a process, as far as the kernel is concerned.
func (l *lock) dies(t *testing.T) {
	t.Helper()
	if err := l.leadership.pod.file.Close(); err != nil {
		t.Fatal(err)
	}
}

func (l *lock) held(t *testing.T) string {
	t.Helper()
	record, _, err := l.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return record.HolderIdentity
}

func heldBy(holder string) *memory {
	return &memory{record: resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: 4}}
}

func TestLeaseOfAnEarlierProcessOfThePodIsTakenAtOnce(t *testing.T) {
	directory := t.TempDir()
	former := ofPod(t, directory, heldBy(""))
	lease := heldBy(former.Identity())

	beside := ofPod(t, directory, lease)
	if got := beside.held(t); got != former.Identity() {
		t.Errorf("held by %q while the process of that identity lives", got)
	}
	if other := ofPod(t, t.TempDir(), lease); other.held(t) != former.Identity() {
		t.Error("a process of another pod does not wait")
	}
	former.dies(t)
	if without := ofPod(t, "", lease); without.held(t) != former.Identity() {
		t.Error("a process without a directory does not wait")
	}
	next := ofPod(t, directory, lease)
	if got := next.held(t); got != "" || next.leadership.Holder() != "" {
		t.Errorf("waits for %q, which has ended; agents are sent to %q", got, next.leadership.Holder())
	}
	if err := next.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: next.Identity(), LeaderTransitions: 5}); err != nil {
		t.Fatal(err)
	}
	if got := next.held(t); got != next.Identity() || next.leadership.Term() != 5 || time.Until(next.leadership.AloneFrom()) > 0 {
		t.Errorf("held by %q in term %d, alone from %s", got, next.leadership.Term(), next.leadership.AloneFrom())
	}
	next.dies(t)
	if third := ofPod(t, directory, lease); third.held(t) != "" {
		t.Error("the third process waits for the first")
	}
}

// A process that took the Lease by force, or made a deleted one again, is not alone at once. Neither is the next process of its pod.
func TestLeaseThatWasTakenFromALivingLeaderExpires(t *testing.T) {
	directory := t.TempDir()
	taker := ofPod(t, directory, heldBy("pod-2_x"))
	taker.forced = true
	taker.held(t)
	if err := taker.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: taker.Identity(), LeaderTransitions: 5}); err != nil {
		t.Fatal(err)
	}
	taker.dies(t)
	if next := ofPod(t, directory, heldBy(taker.Identity())); next.held(t) != taker.Identity() {
		t.Error("the next process of the pod does not wait until the former leader must have ended")
	}
}

func TestPodLockThatCannotBeHadIsAnError(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := lockPod(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
	pod, err := lockPod(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	closed := ofPod(t, "", heldBy("pod-2_x"))
	closed.leadership.pod, closed.forced = pod, true
	closed.held(t)
	closed.dies(t)
	if err := closed.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: closed.Identity()}); err == nil || closed.leadership.Term() != 0 {
		t.Errorf("took the Lease from a living leader without telling the next process: %v", err)
	}
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Error(err)
	}
}
