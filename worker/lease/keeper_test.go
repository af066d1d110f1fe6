package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

const duration = 15 * time.Second

// A fakeServer has one Lease, and one pod of its name.
type fakeServer struct {
	mu     sync.Mutex
	record Record
	writes int
	pod    string
}

// snapshot is the Lease, and how often it was written.
func (s *fakeServer) snapshot() (Record, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record, s.writes
}

// replacePod replaces the pod by another one of the same name.
func (s *fakeServer) replacePod(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pod = uid
}

// A fakeStore is a pod's connection to the server. When it is cut, requests fail; when it is stuck, they hang until they time out.
type fakeStore struct {
	*fakeServer
	uid                  string
	unreachable, hanging bool
	delay                time.Duration // of answers, on their way back
}

var errUnreachable = errors.New("no route to host")

func (l *fakeStore) do(ctx context.Context, request func() error) error {
	l.mu.Lock()
	unreachable, hanging, delay := l.unreachable, l.hanging, l.delay
	var err error
	if !unreachable && !hanging {
		err = request()
	}
	l.mu.Unlock()
	switch {
	case unreachable:
		return errUnreachable
	case hanging:
		delay = time.Hour
	}
	select {
	case <-time.After(delay):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *fakeStore) Read(ctx context.Context) (record Record, err error) {
	err = l.do(ctx, func() error {
		if record = l.record; record.Version == "" {
			return ErrNotFound
		}
		return nil
	})
	return record, err
}

func (l *fakeStore) Write(ctx context.Context, record Record) (Record, error) {
	err := l.do(ctx, func() error {
		if record.Version != l.record.Version {
			return ErrConflict
		}
		l.writes++
		if l.record = (Record{}); record.Holder != "" {
			record.Version = strconv.Itoa(l.writes)
			l.record = record
		}
		return nil
	})
	return record, err
}

func (l *fakeStore) PodExists(ctx context.Context) (is bool, err error) {
	err = l.do(ctx, func() error {
		is = l.pod == l.uid
		return nil
	})
	return is, err
}

func (l *fakeStore) change(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// A testKeeper is a running keeper, and its last report.
type testKeeper struct {
	*fakeStore
	keeper *Keeper
	cancel context.CancelFunc
	done   chan struct{}

	lock  sync.Mutex
	state State
}

func startKeeper(s *fakeServer, uid string) *testKeeper {
	h := &testKeeper{fakeStore: &fakeStore{fakeServer: s, uid: uid}, done: make(chan struct{})}
	h.keeper = &Keeper{Store: h.fakeStore, Name: "swarm-worker-w-0", Holder: uid, Duration: duration, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() {
		defer close(h.done)
		h.keeper.Run(ctx, func(tenure State) {
			h.lock.Lock()
			defer h.lock.Unlock()
			h.state = tenure
		})
	}()
	return h
}

// startCutOffKeeper returns the keeper of pod a, which held the Lease before it was cut off from the API server a minute ago.
func startCutOffKeeper(t *testing.T) *testKeeper {
	t.Helper()
	a := startKeeper(&fakeServer{pod: "a"}, "a")
	a.awaitHeld(t)
	a.change(func() { a.unreachable = true })
	time.Sleep(time.Minute)
	return a
}

// startSuccessor returns the keeper of pod a, which holds the Lease, and that of its successor b.
func startSuccessor(t *testing.T) (a, b *testKeeper) {
	t.Helper()
	s := &fakeServer{pod: "a"}
	a = startKeeper(s, "a")
	a.awaitHeld(t)
	s.replacePod("b")
	return a, startKeeper(s, "b")
}

func (h *testKeeper) lastState() State {
	synctest.Wait()
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.state
}

// mayRun reports whether jobs of the keeper may run: until they have been stopped by force.
func (h *testKeeper) mayRun() bool {
	state := h.lastState()
	return state.Held || Remaining(state.ExpiresAt) > 0
}

func (h *testKeeper) stop() {
	h.cancel()
	<-h.done
}

// awaitHeld waits until the Lease is held, and returns how long that took.
func (h *testKeeper) awaitHeld(t *testing.T) time.Duration {
	t.Helper()
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if h.lastState().Held {
			return time.Since(start)
		}
		if time.Since(start) > time.Hour {
			t.Fatalf("never held: %+v", h.lastState())
		}
	}
}

func TestALeaseIsRenewedAtAThirdOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{pod: "a"}
		a := startKeeper(s, "a")
		if took := a.awaitHeld(t); took > 0 {
			t.Errorf("a free Lease took %s", took)
		}
		if record, _ := s.snapshot(); record.Holder != "a" || record.Duration != duration {
			t.Errorf("the Lease says %+v", record)
		}
		time.Sleep(10*duration + time.Second)
		state := a.lastState()
		if _, writes := s.snapshot(); !state.Held || writes != 31 {
			t.Errorf("held %t, written %d times", state.Held, writes)
		}
		a.stop()
	})
}

// The core: without renewals it knows that it has lost the Lease before another process can take it, however requests behave.
func TestHolderThatCannotRenewLosesTheLeaseFirst(t *testing.T) {
	for name, breakStore := range map[string]func(*fakeStore){
		"requests fail":   func(l *fakeStore) { l.unreachable = true },
		"requests hang":   func(l *fakeStore) { l.hanging = true },
		"answers hang":    func(l *fakeStore) { l.delay = time.Hour },
		"the pod is gone": func(l *fakeStore) { l.unreachable, l.pod = true, "b" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{pod: "a"}
				a := startKeeper(s, "a")
				a.awaitHeld(t)
				time.Sleep(7 * time.Second) // the last renewal was 2 s ago
				a.change(func() { breakStore(a.fakeStore) })
				time.Sleep(8*time.Second - time.Millisecond)
				if !a.lastState().Held {
					t.Fatalf("lost too early: %q", a.state.Problem)
				}
				time.Sleep(2 * time.Millisecond)
				state := a.lastState()
				if state.Held || !strings.Contains(state.Problem, "nothing runs without it") {
					t.Fatalf("not lost after two thirds: %+v", state)
				}
				if remaining := Remaining(state.ForceAt).Round(time.Second / 2); remaining != 2500*time.Millisecond {
					t.Errorf("forced in %s", remaining)
				}
				if remaining := Remaining(state.ExpiresAt).Round(time.Second); remaining != 5*time.Second {
					t.Errorf("over in %s", remaining)
				}
				b := startKeeper(s, "b")
				for !b.lastState().Held {
					time.Sleep(10 * time.Millisecond)
					s.replacePod("b")
				}
				if Remaining(state.ExpiresAt.Add(Margin)) >= 0 {
					t.Errorf("taken %s before it was over", Remaining(state.ExpiresAt))
				}
				a.stop()
				b.stop()
			})
		})
	}
}

func TestALeaseThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startCutOffKeeper(t)
		if a.lastState().Held || !strings.Contains(a.state.Problem, "no route to host") {
			t.Fatalf("told %+v", a.state)
		}
		a.change(func() { a.unreachable = false })
		if took := a.awaitHeld(t); took > 2*time.Second {
			t.Errorf("held again after %s", took)
		}
		a.stop()
	})
}

// Its pod was declared gone while it was cut off: other workers have its jobs by now, although its Lease is free.
func TestAProcessWhosePodIsGoneDoesNotReacquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startCutOffKeeper(t)
		a.change(func() { a.unreachable, a.pod = false, "" })
		for range 600 {
			time.Sleep(time.Second)
			if a.lastState().Held {
				t.Fatal("held again")
			}
		}
		state := a.lastState()
		if _, writes := a.snapshot(); !strings.Contains(state.Problem, "the pod no longer exists") || writes > 6 {
			t.Errorf("%q, %d writes", state.Problem, writes)
		}
		a.stop()
	})
}

func TestANewPodWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := startSuccessor(t)
		time.Sleep(time.Hour)
		if b.lastState().Held || !strings.Contains(b.state.Problem, "pod a holds it") {
			t.Fatalf("reported %+v while a renews", b.state)
		}
		a.stop() // killed: nothing is released
		if took := b.awaitHeld(t); took < duration-duration/3+Margin || took > duration+Margin+2*time.Second {
			t.Errorf("taken after %s", took)
		}
		b.stop()
	})
}

func TestReleaseLetsTheNextHolderIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := startSuccessor(t)
		time.Sleep(time.Minute)
		a.stop()
		if err := a.keeper.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := b.awaitHeld(t); took > 2*time.Second {
			t.Errorf("taken after %s", took)
		}
		err := a.keeper.Release(t.Context())
		if record, _ := b.snapshot(); err != nil || record.Holder != "b" {
			t.Errorf("a released what is b's: %v, %+v", err, record)
		}
		b.stop()
	})
}

// The Lease is deleted, and another pod takes it.
func TestALeaseThatIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{pod: "a"}
		a := startKeeper(s, "a")
		a.awaitHeld(t)
		s.mu.Lock()
		s.record = Record{}
		s.mu.Unlock()
		time.Sleep(duration / 3)
		state := a.lastState()
		if record, _ := s.snapshot(); !state.Held || record.Holder != "a" {
			t.Fatal("a Lease that was deleted was not made again")
		}
		s.mu.Lock()
		s.record.Version, s.record.Holder = "other", "b"
		s.mu.Unlock()
		time.Sleep(duration / 3)
		if a.lastState().Held {
			t.Error("holds what it knows to be b's")
		}
		a.stop()
	})
}

// A step changes a pod's connection to the server, or replaces the pod, and lets time pass.
type step struct {
	keeper, change int
	pause          time.Duration
}

var changes = []func(*fakeStore){
	func(l *fakeStore) { l.unreachable, l.hanging, l.delay = false, false, 0 },
	func(l *fakeStore) { l.unreachable = true },
	func(l *fakeStore) { l.hanging = true },
	func(l *fakeStore) { l.delay = 2 * time.Second },
	func(l *fakeStore) { l.delay = time.Hour }, // writes arrive, but answers do not
	func(l *fakeStore) { l.pod = l.uid },
}

// For any sequence of partitions and replacements of the pod, nothing of two processes may run at once.
func TestNeverTwoHolders(t *testing.T) {
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			rapid.IntRange(0, 2).Draw(t, "who"), rapid.IntRange(0, len(changes)-1).Draw(t, "what"),
			time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * 100 * time.Millisecond,
		}
	}), 1, 20)
	rapid.Check(t, func(rt *rapid.T) {
		sequence, wrong := steps.Draw(rt, "steps"), ""
		synctest.Test(t, func(*testing.T) { wrong = runSteps(sequence) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// runSteps returns what went wrong.
func runSteps(sequence []step) (problem string) {
	s := &fakeServer{pod: "p0"}
	keepers := []*testKeeper{startKeeper(s, "p0"), startKeeper(s, "p1"), startKeeper(s, "p2")}
	for _, next := range append(sequence, step{0, 0, 0}, step{1, 0, 0}, step{2, 0, 2 * time.Minute}) {
		keepers[next.keeper].change(func() { changes[next.change](keepers[next.keeper].fakeStore) })
		for end := time.Now().Add(next.pause); problem == "" && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			problem = describeOverlap(keepers)
		}
	}
	for _, h := range keepers {
		h.stop()
	}
	return problem
}

func describeOverlap(all []*testKeeper) string {
	var running []string
	for _, h := range all {
		if h.mayRun() {
			running = append(running, h.uid)
		}
	}
	if len(running) > 1 {
		return fmt.Sprint("may run at once: ", running)
	}
	return ""
}

func TestNames(t *testing.T) {
	long, other := strings.Repeat("x", 252)+"a", strings.Repeat("x", 252)+"b"
	if Name("w-0") != "swarm-worker-w-0" || len(Name(long)) != 253 || Name(long) == Name(other) {
		t.Errorf("%s, %s", Name("w-0"), Name(long))
	}
	for _, bad := range []time.Duration{time.Second, time.Hour, 3500 * time.Millisecond, -15 * time.Second} {
		if Validate(bad) == nil {
			t.Errorf("%s is no duration", bad)
		}
	}
	if Validate(duration) != nil || TakeoverDelay(0) != time.Second+Margin || TakeoverDelay(time.Hour) != MaxDuration+Margin {
		t.Error("limits")
	}
}
