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

// A versionedPods holds pods by UID, each with its version. As an API server it gives them out one by one, as a cache all at once.
type versionedPods struct {
	client.Reader
	version string
	pods    []corev1.Pod
	err     error
	lists   int
}

func storedPod(uid, version string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid), ResourceVersion: version}}
}

func (s *versionedPods) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	s.lists++
	if podList, isCache := into.(*corev1.PodList); isCache {
		podList.Items = s.pods
		return s.err
	}
	listOptions := &client.ListOptions{}
	listOptions.ApplyOptions(options)
	page := into.(*metav1.PartialObjectMetadataList)
	at := len(listOptions.Continue)
	page.Items, page.ResourceVersion, page.Continue = nil, s.version, ""
	if at < len(s.pods) {
		page.Items = []metav1.PartialObjectMetadata{{ObjectMeta: s.pods[at].ObjectMeta}}
	}
	if at+1 < len(s.pods) {
		page.Continue = listOptions.Continue + "x"
	}
	return s.err
}

func TestCacheIsCurrentWhenItHoldsWhatIsStored(t *testing.T) {
	a, b := storedPod("a", "5"), storedPod("b", "7")
	for name, c := range map[string]struct {
		cached  []corev1.Pod
		current bool
	}{
		"the same":                 {[]corev1.Pod{a, b}, true},
		"newer":                    {[]corev1.Pod{a, storedPod("b", "12")}, true},
		"created since":            {[]corev1.Pod{a, b, storedPod("c", "11")}, true},
		"a write is missing":       {[]corev1.Pod{a, storedPod("b", "6")}, false},
		"an object is missing":     {[]corev1.Pod{a}, false},
		"a deletion is missing":    {[]corev1.Pod{a, b, storedPod("c", "9")}, false},
		"recreated under its name": {[]corev1.Pod{a, storedPod("other", "6")}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			live, cache := &versionedPods{version: "10", pods: []corev1.Pod{a, b}}, &versionedPods{pods: c.cached}
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
		live, cache := &versionedPods{version: "10", pods: []corev1.Pod{storedPod("a", "5")}, err: errors.New("the API server is away")},
			&versionedPods{}
		began := time.Now()
		time.AfterFunc(5*time.Second, func() { live.err = nil })
		time.AfterFunc(8*time.Second+10*time.Millisecond, func() { cache.pods = live.pods })
		err := awaitCurrent(t.Context(), live, cache, corev1.SchemeGroupVersion.WithKind("PodList"), Kind{List: &corev1.PodList{}})
		if took := time.Since(began); err != nil || took < 8*time.Second || took > 8*time.Second+2*compareInterval {
			t.Errorf("%v after %s", err, took)
		}
		if live.lists > 10 {
			t.Errorf("the API server was asked %d times", live.lists)
		}
	})
}

// An object that was deleted during the wait is not awaited forever.
func TestWhatIsStoredIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, cache := &versionedPods{version: "10", pods: []corev1.Pod{storedPod("a", "5")}}, &versionedPods{}
		time.AfterFunc(1500*time.Millisecond, func() { live.pods, live.version = nil, "11" })
		began := time.Now()
		err := awaitCurrent(t.Context(), live, cache, corev1.SchemeGroupVersion.WithKind("PodList"), Kind{List: &corev1.PodList{}})
		if took := time.Since(began); err != nil || took > 4*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}
