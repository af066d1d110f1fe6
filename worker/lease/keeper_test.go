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

// A server has one Lease, and knows which pod of its name exists.
type server struct {
	mu     sync.Mutex
	record Record
	writes int
	pod    string
}

// look is the Lease, and how often it was written.
func (s *server) look() (Record, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record, s.writes
}

// replace is another pod of the same name.
func (s *server) replace(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pod = uid
}

// A link is a pod's way to the server. Cut, requests fail; stuck, they hang as long as they may.
type link struct {
	*server
	uid        string
	cut, stuck bool
	slow       time.Duration // of answers, on their way back
}

var errCut = errors.New("no route to host")

func (l *link) pass(ctx context.Context, do func() error) error {
	l.mu.Lock()
	cut, stuck, slow := l.cut, l.stuck, l.slow
	var err error
	if !cut && !stuck {
		err = do()
	}
	l.mu.Unlock()
	switch {
	case cut:
		return errCut
	case stuck:
		slow = time.Hour
	}
	select {
	case <-time.After(slow):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) Read(ctx context.Context) (found Record, err error) {
	err = l.pass(ctx, func() error {
		if found = l.record; found.Version == "" {
			return ErrNone
		}
		return nil
	})
	return found, err
}

func (l *link) Write(ctx context.Context, record Record) (Record, error) {
	err := l.pass(ctx, func() error {
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

func (l *link) Present(ctx context.Context) (is bool, err error) {
	err = l.pass(ctx, func() error {
		is = l.pod == l.uid
		return nil
	})
	return is, err
}

func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// A holder is a keeper at work, and what it has reported last.
type holder struct {
	*link
	keeper *Keeper
	cancel context.CancelFunc
	done   chan struct{}

	lock   sync.Mutex
	tenure Tenure
}

func keep(s *server, uid string) *holder {
	h := &holder{link: &link{server: s, uid: uid}, done: make(chan struct{})}
	h.keeper = &Keeper{Records: h.link, Name: "swarm-worker-w-0", Holder: uid, Duration: duration, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() {
		defer close(h.done)
		h.keeper.Keep(ctx, func(tenure Tenure) {
			h.lock.Lock()
			defer h.lock.Unlock()
			h.tenure = tenure
		})
	}()
	return h
}

func (h *holder) told() Tenure {
	synctest.Wait()
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.tenure
}

// may reports whether something of it may run: until it has been forced to stop.
func (h *holder) may() bool {
	told := h.told()
	return told.Held || Left(told.Over) > 0
}

func (h *holder) end() {
	h.cancel()
	<-h.done
}

// held is how long it takes until the Lease is held.
func (h *holder) held(t *testing.T) time.Duration {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if h.told().Held {
			return time.Since(begun)
		}
		if time.Since(begun) > time.Hour {
			t.Fatalf("never held: %+v", h.told())
		}
	}
}

func TestALeaseIsRenewedAtAThirdOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{pod: "a"}
		a := keep(s, "a")
		if took := a.held(t); took > 0 {
			t.Errorf("a free Lease took %s", took)
		}
		if record, _ := s.look(); record.Holder != "a" || record.Duration != duration {
			t.Errorf("the Lease says %+v", record)
		}
		time.Sleep(10*duration + time.Second)
		told := a.told()
		if _, writes := s.look(); !told.Held || writes != 31 {
			t.Errorf("held %t, written %d times", told.Held, writes)
		}
		a.end()
	})
}

// The heart of it: without renewals it knows that it has lost the Lease before another process can take it, whatever requests do.
func TestWhoCannotRenewKnowsItFirst(t *testing.T) {
	for name, spoil := range map[string]func(*link){
		"requests fail":   func(l *link) { l.cut = true },
		"requests hang":   func(l *link) { l.stuck = true },
		"answers hang":    func(l *link) { l.slow = time.Hour },
		"the pod is gone": func(l *link) { l.cut, l.pod = true, "b" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{pod: "a"}
				a := keep(s, "a")
				a.held(t)
				time.Sleep(7 * time.Second) // the last renewal was 2 s ago
				a.set(func() { spoil(a.link) })
				time.Sleep(8*time.Second - time.Millisecond)
				if !a.told().Held {
					t.Fatalf("lost too early: %q", a.tenure.Problem)
				}
				time.Sleep(2 * time.Millisecond)
				told := a.told()
				if told.Held || !strings.Contains(told.Problem, "nothing runs without it") {
					t.Fatalf("not lost after two thirds: %+v", told)
				}
				if left := Left(told.Force).Round(time.Second / 2); left != 2500*time.Millisecond {
					t.Errorf("forced in %s", left)
				}
				if left := Left(told.Over).Round(time.Second); left != 5*time.Second {
					t.Errorf("over in %s", left)
				}
				b := keep(s, "b")
				for !b.told().Held {
					time.Sleep(10 * time.Millisecond)
					s.replace("b")
				}
				if Left(told.Over.Add(Margin)) >= 0 {
					t.Errorf("taken %s before it was over", Left(told.Over))
				}
				a.end()
				b.end()
			})
		})
	}
}

func TestALeaseThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := keep(&server{pod: "a"}, "a")
		a.held(t)
		a.set(func() { a.cut = true })
		time.Sleep(time.Minute)
		if a.told().Held || !strings.Contains(a.tenure.Problem, "no route to host") {
			t.Fatalf("told %+v", a.tenure)
		}
		a.set(func() { a.cut = false })
		if took := a.held(t); took > 2*time.Second {
			t.Errorf("held again after %s", took)
		}
		a.end()
	})
}

// Its pod was declared gone while it was cut off: its jobs are others' by now, though its Lease is free.
func TestAProcessWhosePodIsGoneDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := keep(&server{pod: "a"}, "a")
		a.held(t)
		a.set(func() { a.cut = true })
		time.Sleep(time.Minute)
		a.set(func() { a.cut, a.pod = false, "" })
		for range 600 {
			time.Sleep(time.Second)
			if a.told().Held {
				t.Fatal("held again")
			}
		}
		told := a.told()
		if _, writes := a.look(); !strings.Contains(told.Problem, "knows no such pod") || writes > 6 {
			t.Errorf("%q, %d writes", told.Problem, writes)
		}
		a.end()
	})
}

func TestANewPodWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{pod: "a"}
		a := keep(s, "a")
		a.held(t)
		s.replace("b")
		b := keep(s, "b")
		time.Sleep(time.Hour)
		if b.told().Held || !strings.Contains(b.tenure.Problem, "pod a has it") {
			t.Fatalf("told %+v while a renews", b.tenure)
		}
		a.end() // killed: nothing is given back
		if took := b.held(t); took < duration-duration/3+Margin || took > duration+Margin+2*time.Second {
			t.Errorf("taken after %s", took)
		}
		b.end()
	})
}

func TestReleaseLetsTheNextOneIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{pod: "a"}
		a := keep(s, "a")
		a.held(t)
		s.replace("b")
		b := keep(s, "b")
		time.Sleep(time.Minute)
		a.end()
		if err := a.keeper.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := b.held(t); took > 2*time.Second {
			t.Errorf("taken after %s", took)
		}
		err := a.keeper.Release(t.Context())
		if record, _ := s.look(); err != nil || record.Holder != "b" {
			t.Errorf("a released what is b's: %v, %+v", err, record)
		}
		b.end()
	})
}

// The Lease is deleted, and another pod takes it.
func TestALeaseThatIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{pod: "a"}
		a := keep(s, "a")
		a.held(t)
		s.mu.Lock()
		s.record = Record{}
		s.mu.Unlock()
		time.Sleep(duration / 3)
		told := a.told()
		if record, _ := s.look(); !told.Held || record.Holder != "a" {
			t.Fatal("a Lease that was deleted was not made again")
		}
		s.mu.Lock()
		s.record.Version, s.record.Holder = "other", "b"
		s.mu.Unlock()
		time.Sleep(duration / 3)
		if a.told().Held {
			t.Error("holds what it knows to be b's")
		}
		a.end()
	})
}

// A step changes a pod's way to the server, or which pod there is, and lets time pass.
type step struct {
	who, what int
	pause     time.Duration
}

var changes = []func(*link){
	func(l *link) { l.cut, l.stuck, l.slow = false, false, 0 },
	func(l *link) { l.cut = true },
	func(l *link) { l.stuck = true },
	func(l *link) { l.slow = 2 * time.Second },
	func(l *link) { l.slow = time.Hour }, // writes arrive, but answers do not
	func(l *link) { l.pod = l.uid },
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
		synctest.Test(t, func(*testing.T) { wrong = play(sequence) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// play returns what went wrong.
func play(sequence []step) (wrong string) {
	s := &server{pod: "p0"}
	all := []*holder{keep(s, "p0"), keep(s, "p1"), keep(s, "p2")}
	for _, next := range append(sequence, step{0, 0, 0}, step{1, 0, 0}, step{2, 0, 2 * time.Minute}) {
		all[next.who].set(func() { changes[next.what](all[next.who].link) })
		for end := time.Now().Add(next.pause); wrong == "" && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			wrong = overlap(all)
		}
	}
	for _, h := range all {
		h.end()
	}
	return wrong
}

func overlap(all []*holder) string {
	var able []string
	for _, h := range all {
		if h.may() {
			able = append(able, h.uid)
		}
	}
	if len(able) > 1 {
		return fmt.Sprint("may run at once: ", able)
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
	if Validate(duration) != nil || Silence(0) != time.Second+Margin || Silence(time.Hour) != Longest+Margin {
		t.Error("limits")
	}
}
