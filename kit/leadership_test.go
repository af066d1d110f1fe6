package kit

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
)

func TestK10_IdentityAndTerms(t *testing.T) {
	l := newLeadership(Election{Identity: "pod-1"})
	if !strings.HasPrefix(l.Identity(), "pod-1_") || l.Identity() == newLeadership(Election{Identity: "pod-1"}).Identity() {
		t.Errorf("identity %q: want POD_NAME and a fresh id", l.Identity())
	}
	if l.Term() != 0 || l.Fresh() {
		t.Error("leads before it was elected")
	}
	l.recordRenewal(l.clock(), 3)
	if l.Term() != 3 || !l.Fresh() {
		t.Error("does not lead after it was elected")
	}
	if raised := l.RaiseTerm(7); raised != 8 || l.RaiseTerm(2) != 8 {
		t.Errorf("raised to %d", raised)
	}
}

func TestDurationsFollowTheLease(t *testing.T) {
	for lease, want := range map[time.Duration][3]time.Duration{
		0:                {12 * time.Second, 8 * time.Second, time.Second},
		24 * time.Second: {24 * time.Second, 16 * time.Second, 2 * time.Second},
	} {
		e := Election{LeaseDuration: lease}
		if got := [3]time.Duration{e.leaseDuration(), e.renewDeadline(), e.retryPeriod()}; got != want {
			t.Errorf("lease %s: got %v, want %v", lease, got, want)
		}
	}
}

func TestLeadershipEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeadership(Election{Identity: "pod-1"})
		for range 10 {
			l.recordRenewal(l.clock(), 1)
			time.Sleep(7 * time.Second)
		}
		if !l.Fresh() {
			t.Fatal("was renewed in time, and yet does not lead")
		}
		time.Sleep(time.Second + 10*time.Millisecond)
		synctest.Wait()
		if l.Fresh() || !ended(l) {
			t.Error("leads though the last renewal is older than the deadline")
		}
		l.recordRenewal(l.clock(), 1)
		if l.Fresh() {
			t.Error("leads again: leadership ends once")
		}
	})
}

// A process that was frozen may find the renewal's answer before its timer has run.
func TestLateRenewalDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeadership(Election{Identity: "pod-1"})
		l.recordRenewal(l.clock(), 1)
		l.expiry.Stop()
		time.Sleep(9 * time.Second)
		l.recordRenewal(l.clock(), 1)
		if l.Fresh() || !ended(l) {
			t.Error("a renewal that came too late restored leadership")
		}
	})
}

// A leader that was suspended for an hour, while the wall clock was set back by an hour, knows it by the time since boot.
func TestSuspensionEndsLeadershipWhateverTheWallClockSays(t *testing.T) {
	for reason, c := range map[string]struct{ wall, boot time.Duration }{
		"suspended":                                    {time.Hour, time.Hour},
		"suspended, and the wall clock set back":       {0, time.Hour},
		"suspended, and the wall clock set far back":   {-time.Hour, time.Hour},
		"suspended, which only the wall clock noticed": {time.Hour, 0},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeadership(Election{Identity: "pod-1"})
				l.recordRenewal(l.clock(), 1)
				l.clock = func() hostclock.Reading {
					reading := hostclock.Read()
					reading.Wall, reading.Boot = reading.Wall.Add(c.wall), reading.Boot+c.boot
					return reading
				}
				if l.Fresh() {
					t.Error("leads an hour after its last renewal")
				}
				if l.recordRenewal(l.clock(), 1); l.Fresh() || !ended(l) {
					t.Error("a renewal that came too late restored leadership")
				}
			})
		})
	}
}

// The renewal counts from its sending: while the answer was under way, others were already waiting.
func TestRenewalCountsFromItsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeadership(Election{Identity: "pod-1"})
		sent := l.clock()
		time.Sleep(3 * time.Second)
		l.recordRenewal(sent, 1)
		time.Sleep(5*time.Second + 10*time.Millisecond)
		synctest.Wait()
		if l.Fresh() || !ended(l) {
			t.Error("leads 8 seconds after the renewal was sent")
		}
	})
}

func TestCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started, stopped atomic.Bool
		l := newLeadership(Election{
			Identity:  "pod-1",
			OnStarted: func(ctx context.Context) { started.Store(true); <-ctx.Done() },
			OnStopped: func() { stopped.Store(true) },
		})
		l.recordRenewal(l.clock(), 1)
		result := make(chan error, 1)
		go func() { result <- l.Start(t.Context()) }()
		synctest.Wait()
		if !started.Load() || stopped.Load() {
			t.Errorf("started %t, stopped %t", started.Load(), stopped.Load())
		}
		if err := <-result; !errors.Is(err, ErrNotLeading) || !stopped.Load() {
			t.Errorf("ended with %v, stopped %t", err, stopped.Load())
		}
	})
}

func TestResigningEndsLeadership(t *testing.T) {
	l := newLeadership(Election{Identity: "pod-1"})
	l.recordRenewal(l.clock(), 1)
	l.resign()
	if l.Fresh() || !ended(l) {
		t.Error("leads after it resigned")
	}
}

func ended(l *Leadership) bool {
	select {
	case <-l.Ended():
		return true
	default:
		return false
	}
}

// A leaseMemory is a Lease without an API server.
type leaseMemory struct {
	resourcelock.Interface
	identity string
	record   resourcelock.LeaderElectionRecord
}

func (m *leaseMemory) Identity() string { return m.identity }

func (m *leaseMemory) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := m.record
	return &record, nil, nil
}

func (m *leaseMemory) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	m.record = record
	return nil
}

func (m *leaseMemory) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return m.Update(ctx, record)
}

func newLeaseLock(holder string, forced bool) (*leaseLock, *leaseMemory) {
	l := newLeadership(Election{Identity: "pod-1"})
	inner := &leaseMemory{identity: l.Identity(), record: resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: 4}}
	ready := make(chan struct{})
	close(ready)
	return &leaseLock{Interface: inner, leadership: l, ready: ready, forced: forced}, inner
}

func TestNobodyReleasesAnothersLease(t *testing.T) {
	l, inner := newLeaseLock("pod-2_x", false)
	if _, _, err := l.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaderTransitions: 4})
	if !errors.Is(err, ErrNotLeading) || inner.record.HolderIdentity != "pod-2_x" {
		t.Errorf("released: %v, held by %q", err, inner.record.HolderIdentity)
	}
}

func TestHolderIsWhomTheLeaseNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, inner := newLeaseLock("pod-2_x", true)
		if got := l.leadership.Holder(); got != "" {
			t.Errorf("%q, before the first look", got)
		}
		for _, step := range []struct {
			reason, want string
			do           func() error
		}{
			{"seen, though the election is forced", "pod-2_x", func() error { _, _, err := l.Get(t.Context()); return err }},
			{"won", l.Identity(), func() error {
				return l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()})
			}},
			{"given back, when the former holder has ended", "", func() error {
				time.Sleep(l.leadership.deadline)
				return l.Update(t.Context(), resourcelock.LeaderElectionRecord{})
			}},
			{"taken by another", "pod-3_y", func() error {
				inner.record.HolderIdentity = "pod-3_y"
				_, _, err := l.Get(t.Context())
				return err
			}},
		} {
			if err := step.do(); err != nil || l.leadership.Holder() != step.want {
				t.Errorf("%s: %q, want %q: %v", step.reason, l.leadership.Holder(), step.want, err)
			}
		}
	})
}

func TestForcedElectionWaitsForNobody(t *testing.T) {
	l, _ := newLeaseLock("pod-2_x", true)
	if record, _, _ := l.Get(t.Context()); record.HolderIdentity != "" {
		t.Error("the elector would wait for", record.HolderIdentity)
	}
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaderTransitions: 5}); err != nil {
		t.Fatal(err)
	}
	if record, _, _ := l.Get(t.Context()); record.HolderIdentity != l.Identity() || l.leadership.Term() != 5 {
		t.Errorf("held by %q in term %d", record.HolderIdentity, l.leadership.Term())
	}
}

func TestTermIsNeverNoughtAndStaysRaised(t *testing.T) {
	l, inner := newLeaseLock("", false)
	if err := l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}); err != nil {
		t.Fatal(err)
	}
	if l.leadership.Term() != 1 || inner.record.LeaderTransitions != 1 {
		t.Errorf("term %d, transitions %d", l.leadership.Term(), inner.record.LeaderTransitions)
	}
	l.leadership.RaiseTerm(41)
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}); err != nil ||
		inner.record.LeaderTransitions != 42 {
		t.Errorf("transitions %d: %v", inner.record.LeaderTransitions, err)
	}
}

func TestElectionWaitsUntilReady(t *testing.T) {
	l, _ := newLeaseLock("", false)
	l.ready = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := l.Get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("looked at the Lease before it was ready: %v", err)
	}
}

func TestFence(t *testing.T) {
	l := newLeadership(Election{Identity: "pod-1"})
	wrote := 0
	write := func(context.Context) error { wrote++; return nil }
	if err := (fence{l}).do(t.Context(), write); !errors.Is(err, ErrNotLeading) || wrote != 0 {
		t.Errorf("a standby wrote: %v", err)
	}
	l.recordRenewal(l.clock(), 1)
	if err := (fence{l}).do(t.Context(), write); err != nil || wrote != 1 {
		t.Errorf("a leader did not write: %v", err)
	}
	hanging := func(ctx context.Context) error { l.resign(); <-ctx.Done(); return ctx.Err() }
	if err := (fence{l}).do(t.Context(), hanging); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a write under way was not given up: %v", err)
	}
}

func TestNothingLeavesAFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		l := newLeadership(Election{Identity: "pod-1"})
		config := l.fenceConnections(&rest.Config{Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
		connection, err := config.Dial(t.Context(), "tcp", "api:443")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connection.Write([]byte("a standby reads")); err != nil {
			t.Error(err)
		}
		l.recordRenewal(l.clock(), 1)
		if _, err := connection.Write([]byte("a leader writes")); err != nil {
			t.Error(err)
		}
		l.expiry.Stop() // frozen: not even the timer runs
		time.Sleep(9 * time.Second)
		if _, err := connection.Write([]byte("too late")); !errors.Is(err, ErrNotLeading) {
			t.Errorf("bytes left: %v", err)
		}
	})
}

// The Lease was deleted, or taken by force. Its new holder may have begun to act.
func TestLeaderEndsWhenItSeesAnotherHolder(t *testing.T) {
	l, inner := newLeaseLock("", false)
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}); err != nil {
		t.Fatal(err)
	}
	for _, holder := range []string{"", l.Identity()} {
		inner.record.HolderIdentity = holder
		if _, _, err := l.Get(t.Context()); err != nil || !l.leadership.Fresh() {
			t.Fatalf("does not lead any more: the Lease names %q, %v", holder, err)
		}
	}
	inner.record.HolderIdentity = "pod-2_x"
	if _, _, err := l.Get(t.Context()); err != nil || l.leadership.Fresh() || !ended(l.leadership) {
		t.Errorf("still leads, %v", err)
	}
}

func TestLeaderIsAloneAtOnceUnlessAnotherMayGoOn(t *testing.T) {
	deadline := newLeadership(Election{Identity: "pod-1"}).deadline
	for name, c := range map[string]struct {
		holder          string
		forced, created bool
		seconds         int
		contested       time.Duration
	}{
		"expired or given back":          {},
		"the Lease was deleted":          {created: true, contested: deadline},
		"a long one was deleted":         {holder: "pod-2_x", created: true, seconds: 60, contested: 40 * time.Second},
		"deleted, given back before":     {created: true, seconds: 60, contested: deadline},
		"taken by force":                 {holder: "pod-2_x", forced: true, seconds: 1, contested: deadline},
		"by force, of a long lease":      {holder: "pod-2_x", forced: true, seconds: 60, contested: 40 * time.Second},
		"by force, but without a holder": {forced: true, seconds: 60},
		"expired, without any force":     {holder: "pod-2_x", seconds: 60},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, inner := newLeaseLock(c.holder, c.forced)
			inner.record.LeaseDurationSeconds = c.seconds
			won := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}
			acquire := func() error { _, _, err := l.Get(t.Context()); return errors.Join(err, l.Update(t.Context(), won)) }
			if c.created {
				acquire = func() error { _, _, err := l.Get(t.Context()); return errors.Join(err, l.Create(t.Context(), won)) }
			}
			if err := acquire(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := l.Update(t.Context(), won); err != nil {
				t.Fatal(err)
			}
			if got := l.leadership.HasPredecessor(); got != (c.contested > 0 &&
				!c.created) { // without stored terms, the first Lease and a deleted one look alike
				t.Errorf("%s: succeeds another leader: %t", name, got)
			}
			if got := l.leadership.SoleLeaderFrom().Sub(time.Now().Add(-time.Second)); got != c.contested {
				t.Errorf("%s: alone after %s, want %s", name, got, c.contested)
			}
			l.leadership.resign()
		})
	}
}
