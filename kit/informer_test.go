package kit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An outageAPI is an API server that cannot be reached until it is back.
type outageAPI struct {
	backAt time.Time
	answer error // of whatever stands in its place
}

func (o outageAPI) err() error {
	if time.Now().Before(o.backAt) {
		return fmt.Errorf("get pods: %w", o.answer)
	}
	return nil
}

// outageAnswers are the responses of an API server that is down or not ready.
func outageAnswers() map[string]error {
	pods := corev1.Resource("pods")
	start := func(code int) error { return apierrors.NewGenericServerResponse(code, "list", pods, "", "", 0, true) }
	return map[string]error{
		"nothing listens":                 errors.New("connection refused"),
		"load balancer without a backend": start(http.StatusServiceUnavailable),
		"load balancer, cut off":          start(http.StatusBadGateway),
		"load balancer, timeout":          start(http.StatusGatewayTimeout),
		"shutting down":                   apierrors.NewServiceUnavailable("apiserver is shutting down"),
		"priority and fairness":           apierrors.NewTooManyRequests("too many requests, please try again later", 30),
		"too many requests":               apierrors.NewTooManyRequestsError("not yet"),
		"etcd is down":                    apierrors.NewServerTimeout(pods, "list", 2),
		"etcd is lost":                    start(http.StatusInternalServerError),
		"request timeout":                 apierrors.NewTimeoutError("request did not complete", 2),
	}
}

// pods lists and watches the only pod there is.
func (o outageAPI) pods() *cache.ListWatch {
	only := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "only"}}
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{only}}, o.err()
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			if options.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil)
			}
			watched := apiwatch.NewFake()
			context.AfterFunc(ctx, watched.Stop)
			return watched, o.err()
		},
	}
}

func TestInformerFindsTheAPIServerWithinTwoSecondsOfItsReturn(t *testing.T) {
	for reason, answer := range outageAnswers() {
		t.Run(reason, func(t *testing.T) { assertFoundAgain(t, answer) })
	}
}

func assertFoundAgain(t *testing.T, answer error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		api := outageAPI{backAt: time.Now().Add(10 * time.Minute), answer: answer}
		informer := newInformer(api.pods(), &corev1.Pod{}, 0, cache.Indexers{})
		go informer.RunWithContext(ctx)
		time.Sleep(time.Until(api.backAt) + 2*unreachableRetryInterval)
		synctest.Wait()
		if !informer.HasSynced() {
			t.Error("the cache is not current two seconds after the API server is back")
		}
		cancel()
		synctest.Wait()
	})
}

// tooLarge is the answer of an API server whose own cache is behind the requested version. The reflector then asks for the newest.
func tooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version: 7, current: 5", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

func TestInformerResyncsAfterItsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		informer := newInformer(outageAPI{}.pods(), &corev1.Pod{}, time.Hour, cache.Indexers{})
		var updates atomic.Int64
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { updates.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		go informer.RunWithContext(ctx)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if updates.Load() != 1 {
			t.Errorf("%d resyncs in an hour and a half, want 1", updates.Load())
		}
		cancel()
		synctest.Wait()
	})
}

func TestAnswersOfTheAPIServerAreNotRepeated(t *testing.T) {
	for name, answer := range map[string]error{
		"forbidden": apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")),
		"gone":      fmt.Errorf("watch: %w", apierrors.NewResourceExpired("too old")),
		"invalid":   apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil),
		"broken":    apierrors.NewInternalError(errors.New("conversion failed")),
		"behind":    tooLarge(),
		"nothing":   nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			requests := 0
			_, err := retryUntilAnswered(ctx, shouldRetryWatch, func() (int, error) { requests++; return 0, answer })
			if requests != 1 || !errors.Is(err, answer) {
				t.Errorf("%s: %d requests, %v", name, requests, err)
			}
		})
	}
}

func TestUnreachableAPIServerIsTriedUntilTheProgramEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		requests := 0
		_, err := retryUntilAnswered(ctx, shouldRetryList, func() (int, error) { requests++; return 0, errors.New("connection refused") })
		if err == nil || requests < 1800 || requests > 3600 {
			t.Errorf("%d requests in an hour, then %v", requests, err)
		}
	})
}

// An informer that has missed a deletion notices it at the next list.
func TestInformerReportsWhatItNoLongerHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		watched, lists := make(chan *apiwatch.FakeWatcher, 2), [][]string{{"missed", "deleted", "stays"}, {"stays"}}
		var uncached []string
		var lock sync.Mutex
		names := func() string {
			lock.Lock()
			defer lock.Unlock()
			return fmt.Sprint(uncached)
		}
		informer := newInformerFunc(func(object client.Object) {
			lock.Lock()
			defer lock.Unlock()
			uncached = append(uncached, object.GetName())
		})(sequentialLists(lists, watched), &corev1.Pod{}, 0, cache.Indexers{})
		go informer.RunWithContext(ctx)
		synctest.Wait()
		watch := <-watched
		watch.Delete(podNamed("deleted"))
		synctest.Wait()
		if got := names(); got != "[deleted]" {
			t.Errorf("after a deletion: %s", got)
		}
		watch.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := names(); got != "[deleted missed]" {
			t.Errorf("after a list: %s", got)
		}
		cancel()
		synctest.Wait()
	})
}

func podNamed(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// sequentialLists returns these lists in order, the last one repeatedly, and returns its watches.
func sequentialLists(lists [][]string, watched chan<- *apiwatch.FakeWatcher) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for _, name := range lists[0] {
				list.Items = append(list.Items, *podNamed(name))
			}
			lists = lists[min(1, len(lists)-1):]
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			if options.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil)
			}
			made := apiwatch.NewFake()
			context.AfterFunc(ctx, made.Stop)
			watched <- made
			return made, nil
		},
	}
}
