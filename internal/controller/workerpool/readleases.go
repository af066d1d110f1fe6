package workerpool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// readLeases observes the Leases of workers, and drops all others.
func (r *reconciler) readLeases(ctx context.Context, pool *v1alpha1.WorkerPool, workers []string, state *localState) error {
	var lock sync.Mutex
	var errs []error
	observed := plan.WorkerMap[plan.LeaseObservation](nil)
	var reads errgroup.Group
	reads.SetLimit(maxParallelRequests)
	for _, worker := range workers {
		previous := state.clocks.Leases[worker]
		reads.Go(func() error {
			next, err := r.readLease(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: lease.Name(worker)}, previous)
			lock.Lock()
			defer lock.Unlock()
			errs = append(errs, err)
			observed.Set(worker, next)
			return nil
		})
	}
	_ = reads.Wait() // every Lease is observed
	state.clocks.Leases = observed
	return errors.Join(errs...)
}

// readLease reads a Lease, unless that was just done.
func (r *reconciler) readLease(ctx context.Context, key client.ObjectKey, previous plan.LeaseObservation) (plan.LeaseObservation, error) {
	requestedAt := time.Now()
	if requestedAt.Sub(previous.CheckedAt) < plan.MinLeaseCheckInterval && previous.MayStillRun(nil) {
		return previous, nil
	}
	object := &coordinationv1.Lease{}
	err := r.apiReader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return plan.LeaseObservation{CheckedAt: requestedAt}, nil
	}
	if err != nil {
		return previous, fmt.Errorf("look at Lease %q, whose holder may live on: %w", key.Name, err)
	}
	return previous.Merge(plan.LeaseObservation{
		ResourceVersion: string(object.UID) + "/" + object.ResourceVersion, HolderUID: ptr.Deref(object.Spec.HolderIdentity, ""),
		Duration: time.Duration(ptr.Deref(object.Spec.LeaseDurationSeconds, 0)) * time.Second, ObservedSince: time.Now(), CheckedAt: requestedAt,
	}), nil
}
