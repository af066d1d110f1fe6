package ondemand

import (
	"context"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A countingCluster counts the reads of contents. Its cache and its API server hold the same.
type countingCluster struct {
	client.Client
	api         client.WithWatch
	gets, lists int
}

func newCluster(t *testing.T, objects ...client.Object) *countingCluster {
	t.Helper()
	c := &countingCluster{api: fake.NewClientBuilder().WithObjects(objects...).Build()}
	cache := interceptor.NewClient(c.api, interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if _, partial := into.(*metav1.PartialObjectMetadata); !partial {
				t.Errorf("the cache was asked for a whole %T", into)
			}
			return inner.Get(ctx, key, into, options...)
		},
		List: func(ctx context.Context, inner client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if _, partial := into.(*metav1.PartialObjectMetadataList); !partial {
				t.Errorf("the cache was asked for a whole %T", into)
			}
			return inner.List(ctx, into, options...)
		},
	})
	live := interceptor.NewClient(c.api, interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			c.gets++
			return inner.Get(ctx, key, into, options...)
		},
		List: func(ctx context.Context, inner client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			c.lists++
			return inner.List(ctx, into, options...)
		},
	})
	c.Client = New(cache, live)
	return c
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), Labels: map[string]string{"pool": "p"}},
		Data:       map[string]string{"key": value},
	}
}

func (c *countingCluster) get(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	found := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestContentsAreReadOncePerVersion(t *testing.T) {
	c := newCluster(t, configMap("a", "1"))
	for range 3 {
		found := c.get(t, "a")
		if found.Data["key"] != "1" || c.gets != 1 {
			t.Fatalf("%v after %d reads", found.Data, c.gets)
		}
		found.Data["key"] = "the caller's"
	}
	changed := c.get(t, "a")
	changed.Data["key"] = "2"
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if found := c.get(t, "a"); found.Data["key"] != "2" || c.gets != 2 {
		t.Errorf("%v after %d reads", found.Data, c.gets)
	}
	if err := c.Delete(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(changed), changed); !apierrors.IsNotFound(err) || c.gets != 2 {
		t.Errorf("%v after %d reads", err, c.gets)
	}
}

func TestServicesAreReadOnDemand(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s", UID: "s"},
		Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	c := newCluster(t, service)
	for range 2 {
		found := &corev1.Service{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(service), found); err != nil || found.Spec.ClusterIP != "None" || c.gets != 1 {
			t.Errorf("%v, %v after %d reads", found.Spec, err, c.gets)
		}
	}
	if err := c.List(t.Context(), &corev1.ServiceList{}); err == nil {
		t.Error("services were listed")
	}
}

func TestManyMissingContentsAreListed(t *testing.T) {
	for name, want := range map[string]struct{ objects, gets, lists int }{
		"a few": {listThreshold - 1, listThreshold - 1, 0},
		"many":  {10, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			other := configMap("other", "x")
			other.Labels = nil
			objects := []client.Object{other}
			for n := range want.objects {
				objects = append(objects, configMap(strconv.Itoa(n), "1"))
			}
			c := newCluster(t, objects...)
			for range 2 {
				list := &corev1.ConfigMapList{}
				if err := c.List(t.Context(), list, client.InNamespace("team"), client.MatchingLabels{"pool": "p"}); err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != want.objects || c.gets != want.gets || c.lists != want.lists {
					t.Errorf("%d objects after %d gets and %d lists", len(list.Items), c.gets, c.lists)
				}
				for n := range list.Items {
					if list.Items[n].Data["key"] != "1" {
						t.Errorf("contents %v", list.Items[n].Data)
					}
				}
			}
		})
	}
}

func TestContentsAreBounded(t *testing.T) {
	cached := newContentCache(100 << 10)
	used := configMap("used", "small")
	used.ResourceVersion = "1"
	cached.add(used)
	for n := range 100 {
		object := configMap(strconv.Itoa(n), strings.Repeat("x", 10<<10))
		cached.add(object)
		if !cached.copyTo(used, &corev1.ConfigMap{}) {
			t.Fatalf("what is in use was dropped after %d objects", n)
		}
		total := 0
		for _, generation := range []map[types.UID]client.Object{cached.recent, cached.previous} {
			for _, object := range generation {
				total += size(object)
			}
		}
		if total > 130<<10 {
			t.Fatalf("%d bytes are kept", total)
		}
	}
	newer := used.DeepCopy()
	newer.ResourceVersion = "2"
	if cached.copyTo(newer, &corev1.ConfigMap{}) {
		t.Error("the contents of another version were returned")
	}
}
