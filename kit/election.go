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
	// Identity is the name of this replica for users, such as POD_NAME. A fresh id is added, so that every start is a new
	// holder and has a new term.
	Identity string
	// Forced takes the Lease at once, even from another holder: for programs that are known to run once. Terms grow all the same,
	// and a former holder that still runs ends.
	Forced bool
	// LeaseDuration is how long others wait for a silent leader; 12 s by default. The renew deadline is two thirds of it
	// (8 s), the retry period a twelfth (1 s).
	LeaseDuration time.Duration
	// PodLock proves that the earlier processes of this pod have ended. The Lease of one of them is taken over at once. Without it every Lease
	// that was not released must expire.
	PodLock PodLock
	// Terms remembers terms outside of the Lease. Without it, terms begin again when the Lease is deleted.
	Terms Terms
	// OnStarted is called in a goroutine of its own when this process begins to lead; the context ends with it.
	OnStarted func(ctx context.Context)
	// OnStopped is called when it no longer leads.
	OnStopped func()
}

func (e Election) leaseDuration() time.Duration {
	return orDefault(e.LeaseDuration, defaultLeaseDuration)
}
func (e Election) renewDeadline() time.Duration { return e.leaseDuration() * 2 / 3 }
func (e Election) retryPeriod() time.Duration   { return e.leaseDuration() / 12 }

// configureManager makes the manager's own elector compete, through a lock that kit listens at.
//
// Why not an elector of our own: the manager starts and stops its controllers by its elector's word, and the lock is the
// one place where every renewal passes. What is known there is exactly what fencing needs: when a renewal was sent, and
// that it succeeded.
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

// newResourceLock has a connection of its own: a request of a busy controller must not hold up a renewal, and a renewal that
// hangs must not take the whole deadline.
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

// errFormerLeader is why a Lease is left to expire.
var errFormerLeader = errors.New("a former leader may still act: the lease expires instead")

// A leaseLock is a Lease that kit observes. It keeps out of the election until the caches are synced, reports renewals to Leadership,
// keeps the term growing, and gives back only what it holds.
type leaseLock struct {
	resourcelock.Interface
	leadership       *Leadership
	ready            <-chan struct{}
	forced           bool
	predecessorGrace time.Duration // how long a former leader may go on, if this process wins now
	hasPredecessor   bool          // whether it is known that there was one
	longestDeadline  time.Duration // the longest renew deadline of another holder that was seen
	terms            Terms         // may be nil
	claimedTerm      int64         // the newest term that this process has claimed
}

// Get waits until this process is ready: the winner of the Lease must be able to work.
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
	if record.HolderIdentity != l.Identity() { // else the answer to Create was lost
		l.predecessorGrace, l.hasPredecessor = 0, false // the elector waits until the Lease has expired or was given back
	}
	if l.forced {
		if record.HolderIdentity != "" {
			l.predecessorGrace, l.hasPredecessor = max(l.leadership.deadline, predecessor.renewDeadline()), true
		}
		record.HolderIdentity = "" // the elector does not wait
	}
	return record, raw, nil
}

// Create begins with term 1, or above the newest term that was claimed, because the Lease may have been deleted. Its former holder may not
// know yet. A leader whose Lease was deleted makes it again if no other process can have held it since.
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
	// The Lease that is gone cannot be asked how long its holder goes on.
	l.predecessorGrace, l.hasPredecessor = max(l.leadership.deadline, l.longestDeadline), newest > 0
	return l.write(ctx, record, l.Interface.Create)
}

// Update renews the Lease, takes it over, or gives it back. The elector gives it back without checking its holder, which
// after a long freeze may be the next leader.
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
