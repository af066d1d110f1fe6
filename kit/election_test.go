package kit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

func TestElectionNeedsANamedLeaseAndAnIdentity(t *testing.T) {
	whole := Election{Namespace: "swarm-system", Name: "operator", Identity: "pod-1"}
	for reason, change := range map[string]func(*Election){
		"no namespace": func(e *Election) { e.Namespace = "" },
		"no name":      func(e *Election) { e.Name = "" },
		"no identity":  func(e *Election) { e.Identity = "" },
	} {
		lacking := whole
		change(&lacking)
		if err := lacking.join(&rest.Config{}, &manager.Options{}, newLeadership(lacking), nil); err == nil {
			t.Errorf("%s: an election without it was joined", reason)
		}
	}
	options := &manager.Options{}
	if err := whole.join(&rest.Config{}, options, newLeadership(whole), nil); err != nil {
		t.Fatal(err)
	}
	if !options.LeaderElection || !options.LeaderElectionReleaseOnCancel || *options.LeaseDuration <= *options.RenewDeadline ||
		*options.RenewDeadline <= *options.RetryPeriod {
		t.Errorf("got %+v", options)
	}
}

// unreachable is a Lease on an API server that does not answer.
type unreachable struct{ memory }

var errUnreachable = errors.New("unreachable")

func (u *unreachable) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return nil, nil, errUnreachable
}

func (u *unreachable) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	return errUnreachable
}

func TestRenewalThatFailsDoesNotCount(t *testing.T) {
	l, _ := lockOver("", false)
	l.Interface = &unreachable{memory{identity: l.Identity()}}
	if record, _, err := l.Get(t.Context()); !errors.Is(err, errUnreachable) || record != nil {
		t.Errorf("got %v, %v", record, err)
	}
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}); !errors.Is(err, errUnreachable) {
		t.Errorf("got %v", err)
	}
	if l.leadership.Fresh() || l.leadership.Holder() != "" {
		t.Error("leads by a renewal that failed")
	}
}

// The elector compares the raw record with the last one to find out whether its holder is alive.
func TestRecordIsPassedOnAsItWasRead(t *testing.T) {
	l, inner := lockOver("pod-2_x", false)
	l.Interface = rawLease{inner}
	if _, raw, err := l.Get(t.Context()); err != nil || string(raw) != "raw" {
		t.Errorf("got %q, %v", raw, err)
	}
}

type rawLease struct{ *memory }

func (r rawLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, _, err := r.memory.Get(ctx)
	return record, []byte("raw"), err
}

// Nothing may be written between giving the Lease back and the end of the process.
func TestLeadershipEndsBeforeTheLeaseIsGivenBack(t *testing.T) {
	l, inner := lockOver("", false)
	if err := l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}); err != nil {
		t.Fatal(err)
	}
	if !l.leadership.Fresh() {
		t.Fatal("does not lead")
	}
	watched := &watchedLease{memory: inner, leadership: l.leadership}
	l.Interface = watched
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	if watched.ledThen || inner.record.HolderIdentity != "" {
		t.Errorf("led while the Lease was given back: %t, held by %q", watched.ledThen, inner.record.HolderIdentity)
	}
}

// watchedLease notes whether its holder leads at the moment of a write.
type watchedLease struct {
	*memory
	leadership *Leadership
	ledThen    bool
}

func (w *watchedLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	w.ledThen = w.leadership.Fresh()
	return w.memory.Update(ctx, record)
}

// The timer may run just when a renewal has come.
func TestTimerThatRunsEarlyDoesNotEndLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeadership(Election{Identity: "pod-1"})
		l.renew(l.clock(), 1)
		time.Sleep(5 * time.Second)
		l.expire()
		if ended(l) || !l.Fresh() {
			t.Fatal("ended 3 s before its deadline")
		}
		time.Sleep(3*time.Second + 2*time.Millisecond)
		synctest.Wait()
		if !ended(l) {
			t.Error("goes on after its deadline")
		}
	})
}
