package kit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// termStore is a store of terms in memory that counts its writes.
type termStore struct {
	newest int64
	writes int
	failed error
}

func (c *termStore) Newest(context.Context) (int64, error) { return c.newest, c.failed }

func (c *termStore) Claim(_ context.Context, atLeast int64) (int64, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	c.newest = max(c.newest+1, atLeast)
	c.writes++
	return c.newest, nil
}

// newLockWithTerms is a lock over a Lease that does not exist, with a store of terms.
func newLockWithTerms(terms *termStore) (*leaseLock, *leaseMemory) {
	l, inner := newLeaseLock("", false)
	inner.record = resourcelock.LeaderElectionRecord{}
	l.terms = terms
	return l, inner
}

// recordOf is the record of a renewal.
func recordOf(l *leaseLock, transitions int) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaderTransitions: transitions}
}

func TestTermIsAboveEveryOneThatWasClaimed(t *testing.T) {
	for name, c := range map[string]struct {
		newest      int64
		transitions int
		create      bool
		want        int64
	}{
		"first leader":                     {create: true, want: 1},
		"the Lease was deleted":            {newest: 41, create: true, want: 42},
		"next leader":                      {newest: 5, transitions: 6, want: 6},
		"the Lease is behind":              {newest: 8, transitions: 2, want: 9},
		"an operator without terms before": {transitions: 7, want: 7},
	} {
		terms := &termStore{newest: c.newest}
		l, inner := newLockWithTerms(terms)
		acquire := l.Update
		if c.create {
			acquire = l.Create
		}
		if err := acquire(t.Context(), recordOf(l, c.transitions)); err != nil {
			t.Fatal(err)
		}
		if got := l.leadership.Term(); got != c.want || int64(inner.record.LeaderTransitions) != c.want || terms.newest != c.want {
			t.Errorf("%s: term %d, transitions %d, claimed %d: want %d", name, got, inner.record.LeaderTransitions, terms.newest, c.want)
		}
		if succeeds := c.create && c.newest > 0; l.leadership.HasPredecessor() != succeeds {
			t.Errorf("%s: succeeds another leader: %t", name, !succeeds)
		}
		l.leadership.resign()
	}
}

func TestTermIsClaimedOnceAndWhenItIsRaised(t *testing.T) {
	terms := &termStore{}
	l, inner := newLockWithTerms(terms)
	if err := l.Create(t.Context(), recordOf(l, 0)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.Update(t.Context(), recordOf(l, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if terms.writes != 1 {
		t.Errorf("%d writes for one change of the leader", terms.writes)
	}
	l.leadership.RaiseTerm(8)
	if err := l.Update(t.Context(), recordOf(l, 0)); err != nil || terms.newest != 9 || inner.record.LeaderTransitions != 9 {
		t.Errorf("claimed %d, transitions %d: %v", terms.newest, inner.record.LeaderTransitions, err)
	}
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || terms.writes != 2 {
		t.Errorf("%d writes after the Lease was released: %v", terms.writes, err)
	}
}

func TestProcessWithoutATermDoesNotLead(t *testing.T) {
	l, inner := newLockWithTerms(&termStore{failed: errUnreachable})
	for _, acquire := range []func(context.Context, resourcelock.LeaderElectionRecord) error{l.Create, l.Update} {
		if err := acquire(t.Context(), recordOf(l, 1)); !errors.Is(err, errUnreachable) || l.leadership.Fresh() ||
			inner.record.HolderIdentity != "" {
			t.Errorf("leads: %t, the Lease names %q: %v", l.leadership.Fresh(), inner.record.HolderIdentity, err)
		}
	}
}

// A process that loses the race for the Lease does not claim another term for each try.
func TestClaimIsKeptForTheNextTry(t *testing.T) {
	terms := &termStore{newest: 5}
	l, inner := newLockWithTerms(terms)
	l.Interface = &unreachable{leaseMemory{identity: l.Identity()}}
	for range 3 {
		if err := l.Update(t.Context(), recordOf(l, 6)); !errors.Is(err, errUnreachable) {
			t.Fatal(err)
		}
	}
	if terms.newest != 6 {
		t.Errorf("claimed %d", terms.newest)
	}
	terms.newest = 8 // others led in terms 7 and 8, and then the Lease was deleted
	l.Interface = inner
	if err := l.Create(t.Context(), recordOf(l, 0)); err != nil || l.leadership.Term() != 9 {
		t.Errorf("leads in term %d: %v", l.leadership.Term(), err)
	}
}

func TestLeaderMakesADeletedLeaseAgainUnlessAnotherHasClaimedATerm(t *testing.T) {
	terms := &termStore{newest: 3}
	l, inner := newLockWithTerms(terms)
	for range 2 {
		inner.record = resourcelock.LeaderElectionRecord{}
		if err := l.Create(t.Context(), recordOf(l, 0)); err != nil || l.leadership.Term() != 4 || inner.record.LeaderTransitions != 4 ||
			terms.writes != 1 {
			t.Fatalf("term %d, transitions %d, %d claims: %v", l.leadership.Term(), inner.record.LeaderTransitions, terms.writes, err)
		}
	}
	inner.record = resourcelock.LeaderElectionRecord{}
	terms.newest++
	if err := l.Create(t.Context(), recordOf(l, 0)); !errors.Is(err, ErrNotLeading) || l.leadership.Fresh() ||
		inner.record.HolderIdentity != "" {
		t.Errorf("leads: %t, the Lease names %q: %v", l.leadership.Fresh(), inner.record.HolderIdentity, err)
	}
}

// lostCreateAnswer is a Lease that is created, while the answer is lost.
type lostCreateAnswer struct{ *leaseMemory }

func (a lostCreateAnswer) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return errors.Join(a.leaseMemory.Create(ctx, record), errUnreachable)
}

func TestLeaderWaitsForTheFormerOneAlsoWhenAnAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := &termStore{newest: 3}
		l, inner := newLockWithTerms(terms)
		l.Interface = lostCreateAnswer{inner}
		if err := l.Create(t.Context(), recordOf(l, 0)); !errors.Is(err, errUnreachable) || l.leadership.Fresh() {
			t.Fatal(err)
		}
		found, _, err := l.Get(t.Context())
		if err != nil || found.LeaderTransitions != 4 {
			t.Fatalf("transitions %d: %v", found.LeaderTransitions, err)
		}
		if err := l.Update(t.Context(), *found); err != nil || time.Until(l.leadership.SoleLeaderFrom()) != l.leadership.deadline ||
			l.leadership.mayRelease() {
			t.Errorf("alone in %s: %v", time.Until(l.leadership.SoleLeaderFrom()), err)
		}
		if l.leadership.Term() != 4 || terms.writes != 1 {
			t.Errorf("term %d after %d claims", l.leadership.Term(), terms.writes)
		}
		l.leadership.resign()
	})
}

// A process that takes a Lease that was released assumes that no other process leads.
func TestLeaseIsReleasedWhenNoFormerLeaderCanAct(t *testing.T) {
	for name, c := range map[string]struct {
		holder string
		newest int64
		create bool
		after  time.Duration
		want   bool
	}{
		"the first leader":                  {create: true, want: true},
		"the Lease was deleted":             {newest: 3, create: true, after: 8*time.Second - 1},
		"the Lease was deleted a while ago": {newest: 3, create: true, after: 8 * time.Second, want: true},
		"the Lease had expired":             {newest: 3, want: true},
		"the Lease was taken by force":      {newest: 3, holder: "pod-2_x"},
		"it was taken by force a while ago": {newest: 3, holder: "pod-2_x", after: 8 * time.Second, want: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, inner := newLockWithTerms(&termStore{newest: c.newest})
			l.forced, inner.record.HolderIdentity = c.holder != "", c.holder
			acquire := func() error {
				_, _, err := l.Get(t.Context())
				return errors.Join(err, l.Update(t.Context(), recordOf(l, 4)))
			}
			if c.create {
				acquire = func() error { return l.Create(t.Context(), recordOf(l, 0)) }
			}
			if err := acquire(); err != nil {
				t.Fatal(err)
			}
			for range c.after / time.Second {
				time.Sleep(time.Second)
				if err := l.Update(t.Context(), recordOf(l, 0)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(c.after % time.Second)
			_, _, err := l.Get(t.Context()) // as the elector does before it releases
			err = errors.Join(err, l.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaderTransitions: 4}))
			released := err == nil && inner.record.HolderIdentity == ""
			if released != c.want || !released && !errors.Is(err, errFormerLeader) || l.leadership.Fresh() {
				t.Errorf("%s: released %t, want %t; leads %t: %v", name, released, c.want, l.leadership.Fresh(), err)
			}
		})
	}
}
