package authority

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
	lookAgain = time.Hour
	// After a conflict, the watch brings what was written; this is a fallback.
	readAgain = time.Second
)

// A Keeper configures where the Secret is kept and what the certificate is for.
type Keeper struct {
	Namespace string
	Names     []string // of the server: DNS names and IP addresses
	Lifetimes Lifetimes
	Term      func() int64 // of the leader
}

// keeper is the leader's part: it writes the result of Next, and publishes the bundle.
type keeper struct {
	Keeper
	client client.Client
	live   client.Reader // not a cache
	now    func() time.Time
}

// Keep makes the leader maintain the Secret, and the ConfigMap with its public part. It does not use a controller of kit, which runs
// only for objects that exist: this one runs when its object does not.
func Keep(of manager.Manager, kept Keeper) error {
	k := &keeper{Keeper: kept, client: of.GetClient(), live: of.GetAPIReader(), now: time.Now}
	concerned := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return k.requests() })
	err := builder.ControllerManagedBy(of).Named("authority").
		WatchesRawSource(source.Func(k.once)).
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&corev1.Secret{}), concerned)).
		WatchesRawSource(k.configMaps(of)).
		Complete(k)
	if err != nil {
		return fmt.Errorf("keep the link's CA: %w", err)
	}
	return nil
}

func (k *keeper) key() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: SecretName}
}

func (k *keeper) requests() []reconcile.Request {
	return []reconcile.Request{{NamespacedName: k.key()}}
}

// once triggers the first reconcile, as there is no event while there is no Secret.
func (k *keeper) once(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(k.requests()[0])
	return nil
}

// Reconcile implements controller-runtime's reconcile.Reconciler.
func (k *keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := k.client.Get(ctx, k.key(), secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read secret %q: %w", SecretName, err)
	}
	wanted, changed, err := k.Lifetimes.Next(secret.Data, k.now(), k.Names)
	if err != nil {
		return reconcile.Result{}, err
	}
	due := k.Lifetimes.Due(wanted)
	if changed {
		if err := k.write(ctx, secret, wanted); err != nil {
			return refused(err)
		}
		log.FromContext(ctx).Info("the link has new certificates", "names", k.Names, "due", due)
	}
	switch err := k.publish(ctx, wanted[bundleKey]); {
	case errors.Is(err, errConflict):
		return reconcile.Result{RequeueAfter: readAgain}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: min(max(due.Sub(k.now()), readAgain), lookAgain)}, nil
}

// refused distinguishes failures from writes that lost to another writer, or that a new leader will make.
func refused(err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, kit.ErrNotLeading), errors.Is(err, context.Canceled):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: readAgain}, nil
	}
	return reconcile.Result{}, fmt.Errorf("write secret %q: %w", SecretName, err)
}

// write also restores the term, which was lost if the Secret was deleted.
func (k *keeper) write(ctx context.Context, secret *corev1.Secret, wanted Data) error {
	secret.Data = wanted
	if term := k.Term(); term > storedTerm(ctx, secret) {
		stamp(secret, term)
	}
	return store(ctx, k.client, k.key(), secret)
}
