package kit

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// unreachableRetryInterval is the shortest pause before a retry when the API server cannot be reached; the longest is twice that.
const unreachableRetryInterval = time.Second

// newInformerFunc returns a constructor of informers that report the objects they no longer hold.
func newInformerFunc(onUncached func(client.Object)) func(cache.ListerWatcher, runtime.Object, time.Duration,
	cache.Indexers) cache.SharedIndexInformer {
	if onUncached == nil {
		return newInformer
	}
	return func(source cache.ListerWatcher, object runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		informer := newInformer(source, object, resync, indexers)
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(deleted any) {
			if tombstone, ok := deleted.(cache.DeletedFinalStateUnknown); ok {
				deleted = tombstone.Obj
			}
			if lastState, ok := deleted.(client.Object); ok {
				onUncached(lastState)
			}
		}})
		utilruntime.Must(err) // fails only for an informer that was stopped
		return informer
	}
}

// newInformer creates an informer that reconnects soon after the API server is back. By then a reflector waits for up to a minute between
// tries, and a new leader does nothing until its caches are current.
func newInformer(source cache.ListerWatcher, object runtime.Object, resync time.Duration,
	indexers cache.Indexers) cache.SharedIndexInformer {
	listerWatcher := cache.ToListerWatcherWithContext(source)
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return retryUntilAnswered(ctx, shouldRetryList, func() (runtime.Object, error) { return listerWatcher.ListWithContext(ctx, options) })
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return retryUntilAnswered(ctx, shouldRetryWatch, func() (apiwatch.Interface, error) {
				return listerWatcher.WatchWithContext(ctx, options)
			})
		},
	}, object, resync, indexers)
}

// retryUntilAnswered repeats a request until an API server answers it. The reflector handles the answer, errors included.
func retryUntilAnswered[R any](ctx context.Context, shouldRetry func(error) bool, request func() (R, error)) (R, error) {
	logged := false
	for {
		result, err := request()
		if err == nil || ctx.Err() != nil || !shouldRetry(err) {
			return result, err
		}
		if !logged && isInternalError(err) { // the reflector, which would log it, does not see it
			logf.FromContext(ctx).Info("cannot list, retrying until the API server answers", "error", err.Error())
			logged = true
		}
		select {
		case <-ctx.Done():
			return result, err
		case <-time.After(wait.Jitter(unreachableRetryInterval, 1)):
		}
	}
}

// shouldRetryWatch reports whether to repeat a watch. After an internal error it is not repeated: if the watch was to begin with a list,
// the reflector lists instead.
func shouldRetryWatch(err error) bool { return !isAnswered(err) }

// shouldRetryList reports whether to repeat a list. An API server that has lost etcd answers with an internal error.
func shouldRetryList(err error) bool { return !isAnswered(err) || isInternalError(err) }

func isInternalError(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError
}

// isAnswered reports whether an API server has answered a request. Responses that only ask for a retry do not count: those of a load
// balancer without a backend, of an API server without etcd, and of one that sheds load (priority and fairness).
func isAnswered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return false
	case http.StatusGatewayTimeout:
		// A replica that is behind the requested version responds like this. The reflector then requests the newest one.
		return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	}
	return !apierrors.IsServerTimeout(err)
}
