package kit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// An outage is an API server that cannot be reached until it is back.
type outage struct{ back time.Time }

func (o outage) err() error {
	if time.Now().Before(o.back) {
		return fmt.Errorf("get pods: %w", errors.New("connection refused"))
	}
	return nil
}

func TestInformerFindsTheAPIServerWithinTwoSecondsOfItsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		api := outage{back: time.Now().Add(10 * time.Minute)}
		informer := newInformer(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, api.err()
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
				if options.SendInitialEvents != nil {
					return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil)
				}
				watched := apiwatch.NewFake()
				context.AfterFunc(ctx, watched.Stop)
				return watched, api.err()
			},
		}, &corev1.Pod{}, 0, cache.Indexers{})
		go informer.RunWithContext(ctx)
		time.Sleep(time.Until(api.back) + 2*reachAgain)
		synctest.Wait()
		if !informer.HasSynced() {
			t.Error("the cache is not current two seconds after the API server is back")
		}
		cancel()
		synctest.Wait()
	})
}

func TestAnswersOfTheAPIServerAreNotRepeated(t *testing.T) {
	for name, answer := range map[string]error{
		"forbidden": apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")),
		"gone":      fmt.Errorf("watch: %w", apierrors.NewResourceExpired("too old")),
		"nothing":   nil,
	} {
		requests := 0
		_, err := untilReached(t.Context(), func() (int, error) { requests++; return 0, answer })
		if requests != 1 || !errors.Is(err, answer) {
			t.Errorf("%s: %d requests, %v", name, requests, err)
		}
	}
}

func TestUnreachableAPIServerIsTriedUntilTheProgramEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		requests := 0
		_, err := untilReached(ctx, func() (int, error) { requests++; return 0, errors.New("connection refused") })
		if err == nil || requests < 1800 || requests > 3600 {
			t.Errorf("%d requests in an hour, then %v", requests, err)
		}
	})
}
