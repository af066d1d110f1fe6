package kit

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const defaultLeaseDuration = 12 * time.Second

// An Election is the Lease for which this process competes, and its identity.
type Election struct {
	// Namespace and Name of the Lease.
	Namespace, Name string
	// Identity names this replica for users, for example the value of POD_NAME. A fresh ID is appended, so that every start is a new holder
	// with a new term.
	Identity string
	// Forced takes the Lease at once, even from another holder. Use it for programs of which only one runs. Terms still grow, and a former
	// holder that still runs ends.
	Forced bool
	// LeaseDuration is how long others wait for a silent leader; 12 s by default. The renew deadline is two thirds of it
	// (8 s), the retry period a twelfth (1 s).
	LeaseDuration time.Duration
	// PodLock proves that the earlier processes of this pod have ended, so that their Lease is taken over at once. Without it, every Lease
	// that was not released must expire.
	PodLock PodLock
	// Terms stores terms outside of the Lease. Without it, terms restart when the Lease is deleted.
	Terms Terms
	// OnStarted is called in its own goroutine when this process begins to lead. The context is cancelled when it no longer leads.
	OnStarted func(ctx context.Context)
	// OnStopped is called when it no longer leads.
	OnStopped func()
}

func (e Election) leaseDuration() time.Duration {
	return orDefault(e.LeaseDuration, defaultLeaseDuration)
}
func (e Election) renewDeadline() time.Duration { return e.leaseDuration() * 2 / 3 }
func (e Election) retryPeriod() time.Duration   { return e.leaseDuration() / 12 }

// configureManager makes the manager's own elector compete through a lock that kit observes.
//
// Why not our own elector: the manager starts and stops its controllers through its elector, and every renewal passes through the lock. So
// the lock knows what fencing needs: when a renewal was sent, and that it succeeded.
func (e Election) configureManager(config *rest.Config, options *manager.Options, leadership *Leadership, ready <-chan struct{}) error {
	if e.Name == "" || e.Namespace == "" || e.Identity == "" {
		return errors.New("election: name and namespace of the Lease and an identity are needed")
	}
	resourceLock, err := e.newResourceLock(config, leadership.identity)
	if err != nil {
		return err
	}
	lease, renew, retry := e.leaseDuration(), e.renewDeadline(), e.retryPeriod()
	options.LeaderElection = true
	options.LeaderElectionID = e.Name
	options.LeaderElectionReleaseOnCancel = true
	options.LeaderElectionResourceLockInterface = &leaseLock{Interface: resourceLock, leadership: leadership, ready: ready, forced: e.Forced,
		terms: e.Terms}
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &lease, &renew, &retry
	return nil
}

// newResourceLock uses its own connection: requests of a busy controller must not delay a renewal, and a renewal that hangs must not use up
// the whole deadline.
func (e Election) newResourceLock(config *rest.Config, identity string) (resourcelock.Interface, error) {
	leaseConfig := rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	leaseConfig.Timeout = e.renewDeadline() / 2
	leases, err := coordinationv1.NewForConfig(leaseConfig)
	if err != nil {
		return nil, fmt.Errorf("election: make client: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}

// errFormerLeader is the reason why a Lease is not released but expires.
var errFormerLeader = errors.New("a former leader may still act: the lease expires instead")

// A leaseLock is a Lease that kit observes. It stays out of the election until the caches are synced, reports renewals to Leadership,
// raises the term with each leader, and releases the Lease only while it holds it.
type leaseLock struct {
	resourcelock.Interface
	leadership       *Leadership
	ready            <-chan struct{}
	forced           bool
	predecessorGrace time.Duration // how long a former leader may continue, if this process wins now
	hasPredecessor   bool          // whether there is known to have been one
	longestDeadline  time.Duration // the longest renew deadline of another holder that was seen
	terms            Terms         // may be nil
	claimedTerm      int64         // the newest term that this process has claimed
}

// Get blocks until this process is ready: the winner of the Lease must be able to work.
func (l *leaseLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	if record.HolderIdentity != l.Identity() && l.leadership.pod.hasEnded(record.HolderIdentity) {
		record.HolderIdentity = "" // as if it had released the Lease
	}
	l.leadership.observeHolder(record.HolderIdentity)
	predecessor := Election{LeaseDuration: time.Duration(record.LeaseDurationSeconds) * time.Second}
	if record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.longestDeadline = max(l.longestDeadline, predecessor.renewDeadline())
	}
	if record.HolderIdentity != l.Identity() { // otherwise the response to Create was lost
		l.predecessorGrace, l.hasPredecessor = 0, false // the elector waits until the Lease expires or is released
	}
	if l.forced {
		if record.HolderIdentity != "" {
			l.predecessorGrace, l.hasPredecessor = max(l.leadership.deadline, predecessor.renewDeadline()), true
		}
		record.HolderIdentity = "" // the elector does not wait
	}
	return record, raw, nil
}

// Create begins with term 1, or above the newest claimed term, because the Lease may have been deleted and its former holder may not know
// that yet. A leader whose Lease was deleted creates it again if no other process can have held it since.
func (l *leaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	newest, err := l.newestTerm(ctx)
	switch {
	case err != nil:
		return err
	case l.leadership.Term() == 0:
		l.claimedTerm = 0 // what this process has claimed may be older than the Lease that was deleted
	case newest > l.claimedTerm:
		l.leadership.resign()
		return fmt.Errorf("the lease was deleted, and term %d was claimed after term %d: %w", newest, l.claimedTerm, ErrNotLeading)
	}
	// A deleted Lease no longer says how long its holder may continue.
	l.predecessorGrace, l.hasPredecessor = max(l.leadership.deadline, l.longestDeadline), newest > 0
	return l.write(ctx, record, l.Interface.Create)
}

// Update renews the Lease, takes it over, or releases it. The elector releases it without checking its holder, which may be the next leader
// after a long freeze.
func (l *leaseLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		l.leadership.resign()
		if holder := l.leadership.Holder(); holder != l.Identity() {
			return fmt.Errorf("release lease: held by %q: %w", holder, ErrNotLeading)
		}
		if !l.leadership.mayRelease() {
			return errFormerLeader
		}
	}
	return l.write(ctx, record, l.Interface.Update)
}

func (l *leaseLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if err := l.assignTerm(ctx, &record); err != nil {
		return err
	}
	if l.hasPredecessor && l.leadership.Term() == 0 { // a former leader may still act, which the next process of this pod would not know
		if err := l.leadership.pod.resetID(); err != nil {
			return err
		}
	}
	sent := l.leadership.clock()
	if err := send(ctx, record); err != nil {
		return err
	}
	l.leadership.observeHolder(record.HolderIdentity)
	if record.HolderIdentity == l.Identity() {
		l.forced = false
		l.leadership.recordWin(sent.Monotonic.Add(l.predecessorGrace), l.hasPredecessor)
		l.leadership.recordRenewal(sent, int64(record.LeaderTransitions))
	}
	return nil
}
