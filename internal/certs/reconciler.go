package certs

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// Long timers are unreliable (clocks are set, machines sleep), so this is the maximum.
	maxRequeue = time.Hour
	// After a conflict, the watch brings what was written; this is a fallback.
	conflictRequeue = time.Second
)

// Options configures where the Secret is stored and what the certificate is for.
type Options struct {
	Namespace string
	Names     []string // of the server: DNS names and IP addresses
	Lifetimes Lifetimes
	Term      func() int64 // of the leader
}

// reconciler is the leader's part: it writes the result of Next, and publishes the bundle.
type reconciler struct {
	Options
	client client.Client
	live   client.Reader // not a cache
	now    func() time.Time
}

// AddController makes the leader maintain the Secret, and the ConfigMap with its public part. It does not use a controller of kit, which
// runs only for objects that exist: this one runs when its object does not.
func AddController(mgr manager.Manager, options Options) error {
	r := &reconciler{Options: options, client: mgr.GetClient(), live: mgr.GetAPIReader(), now: time.Now}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return r.requests() })
	err := builder.ControllerManagedBy(mgr).Named("authority").
		WatchesRawSource(source.Func(r.enqueueFirst)).
		WatchesRawSource(source.Kind(mgr.GetCache(), client.Object(&corev1.Secret{}), enqueue)).
		WatchesRawSource(r.configMapSource(mgr)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("keep the link's CA: %w", err)
	}
	return nil
}

func (r *reconciler) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: SecretName}
}

func (r *reconciler) requests() []reconcile.Request {
	return []reconcile.Request{{NamespacedName: r.key()}}
}

// enqueueFirst triggers the first reconcile, as there is no event while there is no Secret.
func (r *reconciler) enqueueFirst(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(r.requests()[0])
	return nil
}

// Reconcile implements controller-runtime's reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := r.client.Get(ctx, r.key(), secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read secret %q: %w", SecretName, err)
	}
	desired, changed, err := r.Lifetimes.Next(secret.Data, r.now(), r.Names)
	if err != nil {
		return reconcile.Result{}, err
	}
	due := r.Lifetimes.Due(desired)
	if changed {
		if err := r.write(ctx, secret, desired); err != nil {
			return writeResult(err)
		}
		log.FromContext(ctx).Info("stored new certificates of the link", "names", r.Names, "due", due)
	}
	switch err := r.publish(ctx, desired[bundleKey]); {
	case errors.Is(err, errConflict):
		return reconcile.Result{RequeueAfter: conflictRequeue}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: min(max(due.Sub(r.now()), conflictRequeue), maxRequeue)}, nil
}

// writeResult distinguishes failures from writes that lost to another writer, or that a new leader will make.
func writeResult(err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, kit.ErrNotLeading), errors.Is(err, context.Canceled):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: conflictRequeue}, nil
	}
	return reconcile.Result{}, fmt.Errorf("write secret %q: %w", SecretName, err)
}

// write also restores the term, which was lost if the Secret was deleted.
func (r *reconciler) write(ctx context.Context, secret *corev1.Secret, desired Data) error {
	secret.Data = desired
	if term := r.Term(); term > storedTerm(ctx, secret) {
		setTerm(secret, term)
	}
	return writeSecret(ctx, r.client, r.key(), secret)
}
