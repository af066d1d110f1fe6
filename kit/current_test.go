package kit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A shelf holds pods by UID, each with its version. As an API server it gives them out one by one, as a cache all at once.
type shelf struct {
	client.Reader
	version string
	pods    []corev1.Pod
	err     error
	lists   int
}

func stored(uid, version string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid), ResourceVersion: version}}
}

func (s *shelf) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	s.lists++
	if all, isCache := into.(*corev1.PodList); isCache {
		all.Items = s.pods
		return s.err
	}
	asked := &client.ListOptions{}
	asked.ApplyOptions(options)
	page := into.(*metav1.PartialObjectMetadataList)
	at := len(asked.Continue)
	page.Items, page.ResourceVersion, page.Continue = nil, s.version, ""
	if at < len(s.pods) {
		page.Items = []metav1.PartialObjectMetadata{{ObjectMeta: s.pods[at].ObjectMeta}}
	}
	if at+1 < len(s.pods) {
		page.Continue = asked.Continue + "x"
	}
	return s.err
}

func TestCacheIsCurrentWhenItHoldsWhatIsStored(t *testing.T) {
	a, b := stored("a", "5"), stored("b", "7")
	for name, c := range map[string]struct {
		cached  []corev1.Pod
		current bool
	}{
		"the same":                 {[]corev1.Pod{a, b}, true},
		"newer":                    {[]corev1.Pod{a, stored("b", "12")}, true},
		"created since":            {[]corev1.Pod{a, b, stored("c", "11")}, true},
		"a write is missing":       {[]corev1.Pod{a, stored("b", "6")}, false},
		"an object is missing":     {[]corev1.Pod{a}, false},
		"a deletion is missing":    {[]corev1.Pod{a, b, stored("c", "9")}, false},
		"recreated under its name": {[]corev1.Pod{a, stored("other", "6")}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			live, cache := &shelf{version: "10", pods: []corev1.Pod{a, b}}, &shelf{pods: c.cached}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := awaitCurrent(ctx, live, cache, corev1.SchemeGroupVersion.WithKind("PodList"), Kind{List: &corev1.PodList{}})
			if (err == nil) != c.current {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

func TestCacheThatCatchesUpIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, cache := &shelf{version: "10", pods: []corev1.Pod{stored("a", "5")}, err: errors.New("the API server is away")}, &shelf{}
		began := time.Now()
		time.AfterFunc(5*time.Second, func() { live.err = nil })
		time.AfterFunc(8*time.Second+10*time.Millisecond, func() { cache.pods = live.pods })
		err := awaitCurrent(t.Context(), live, cache, corev1.SchemeGroupVersion.WithKind("PodList"), Kind{List: &corev1.PodList{}})
		if took := time.Since(began); err != nil || took < 8*time.Second || took > 8*time.Second+2*compareEvery {
			t.Errorf("%v after %s", err, took)
		}
		if live.lists > 10 {
			t.Errorf("the API server was asked %d times", live.lists)
		}
	})
}

// An object that was deleted while the cache was awaited is not awaited for ever.
func TestWhatIsStoredIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, cache := &shelf{version: "10", pods: []corev1.Pod{stored("a", "5")}}, &shelf{}
		time.AfterFunc(1500*time.Millisecond, func() { live.pods, live.version = nil, "11" })
		began := time.Now()
		err := awaitCurrent(t.Context(), live, cache, corev1.SchemeGroupVersion.WithKind("PodList"), Kind{List: &corev1.PodList{}})
		if took := time.Since(began); err != nil || took > 4*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}
