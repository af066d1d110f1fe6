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
	complete := Election{Namespace: "swarm-system", Name: "operator", Identity: "pod-1"}
	for reason, change := range map[string]func(*Election){
		"no namespace": func(e *Election) { e.Namespace = "" },
		"no name":      func(e *Election) { e.Name = "" },
		"no identity":  func(e *Election) { e.Identity = "" },
	} {
		lacking := complete
		change(&lacking)
		if err := lacking.configureManager(&rest.Config{}, &manager.Options{}, newLeadership(lacking), nil); err == nil {
			t.Errorf("%s: an election without it was joined", reason)
		}
	}
	options := &manager.Options{}
	if err := complete.configureManager(&rest.Config{}, options, newLeadership(complete), nil); err != nil {
		t.Fatal(err)
	}
	if !options.LeaderElection || !options.LeaderElectionReleaseOnCancel || *options.LeaseDuration <= *options.RenewDeadline ||
		*options.RenewDeadline <= *options.RetryPeriod {
		t.Errorf("got %+v", options)
	}
}

// unreachable is a Lease on an API server that does not respond.
type unreachable struct{ leaseMemory }

var errUnreachable = errors.New("unreachable")

func (u *unreachable) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return nil, nil, errUnreachable
}

func (u *unreachable) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	return errUnreachable
}

func TestRenewalThatFailsDoesNotCount(t *testing.T) {
	l, _ := newLeaseLock("", false)
	l.Interface = &unreachable{leaseMemory{identity: l.Identity()}}
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
func TestLeaseRecordIsNotModified(t *testing.T) {
	l, inner := newLeaseLock("pod-2_x", false)
	l.Interface = rawLease{inner}
	if _, raw, err := l.Get(t.Context()); err != nil || string(raw) != "raw" {
		t.Errorf("got %q, %v", raw, err)
	}
}

type rawLease struct{ *leaseMemory }

func (r rawLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, _, err := r.leaseMemory.Get(ctx)
	return record, []byte("raw"), err
}

// Nothing may be written between the release of the Lease and the end of the process.
func TestLeadershipEndsBeforeTheLeaseIsGivenBack(t *testing.T) {
	l, inner := newLeaseLock("", false)
	if err := l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}); err != nil {
		t.Fatal(err)
	}
	if !l.leadership.Fresh() {
		t.Fatal("does not lead")
	}
	watched := &watchedLease{leaseMemory: inner, leadership: l.leadership}
	l.Interface = watched
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	if watched.ledDuringUpdate || inner.record.HolderIdentity != "" {
		t.Errorf("led while the Lease was given back: %t, held by %q", watched.ledDuringUpdate, inner.record.HolderIdentity)
	}
}

// watchedLease records whether its holder leads at the time of a write.
type watchedLease struct {
	*leaseMemory
	leadership      *Leadership
	ledDuringUpdate bool
}

func (w *watchedLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	w.ledDuringUpdate = w.leadership.Fresh()
	return w.leaseMemory.Update(ctx, record)
}

// The timer may run just when a renewal has come.
func TestTimerThatRunsEarlyDoesNotEndLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeadership(Election{Identity: "pod-1"})
		l.recordRenewal(l.clock(), 1)
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
