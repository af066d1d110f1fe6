package certs

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/kit"
)

func (d *reconcilerHarness) published(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	found := &corev1.ConfigMap{}
	if err := d.cluster.Get(t.Context(), d.configMapKey(), found); err != nil {
		t.Fatal(err)
	}
	return found
}

func (d *reconcilerHarness) expectPublished(t *testing.T, reason string) {
	t.Helper()
	data := d.published(t).Data
	if want := string(d.secret(t).Data[bundleKey]); want == "" || data[bundleKey] != want || len(data) != 1 {
		t.Fatalf("%s: the ConfigMap has %d keys, %q, want %q", reason, len(data), data[bundleKey], want)
	}
}

func TestLeaderPublishesTheBundle(t *testing.T) {
	d := newReconcilerHarness()
	d.reconcile(t)
	d.expectPublished(t, "at first")
	made := d.published(t)
	d.reconcile(t)
	if d.published(t).ResourceVersion != made.ResourceVersion {
		t.Error("it was written again though nothing had changed")
	}

	made.Data = map[string]string{bundleKey: "foreign", "key": "value"}
	if err := d.cluster.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	d.reconcile(t)
	d.expectPublished(t, "after another client wrote")
	if err := d.cluster.Delete(t.Context(), d.published(t)); err != nil {
		t.Fatal(err)
	}
	d.reconcile(t)
	d.expectPublished(t, "after it was deleted")
}

// While one CA replaces another, both are published before the next one signs.
func TestBundleIsPublishedThroughoutARotation(t *testing.T) {
	d := newReconcilerHarness()
	d.reconcile(t)
	first := d.published(t).Data[bundleKey]
	seen := map[string]bool{first: true}
	for range 400 {
		d.time = d.time.Add(time.Hour)
		d.reconcile(t)
		d.expectPublished(t, d.time.String())
		seen[d.published(t).Data[bundleKey]] = true
	}
	if len(seen) < 3 {
		t.Errorf("%d bundles: the CA was not rotated", len(seen))
	}
}

func TestFailedWriteOfTheBundle(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for _, c := range []failedWrite{
		{"another leader was first", apierrors.NewAlreadyExists(configMaps, ConfigMapName), time.Second, false},
		{"another client wrote in between", apierrors.NewConflict(configMaps, ConfigMapName, errors.New("stale")), time.Second, false},
		{"we lead no more", kit.ErrNotLeading, time.Hour, false},
		{"we may not", apierrors.NewForbidden(configMaps, ConfigMapName, errors.New("no rule")), 0, true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			d := newReconcilerHarness()
			d.client = interceptor.NewClient(d.cluster, interceptor.Funcs{
				Create: func(ctx context.Context, inner client.WithWatch, object client.Object, options ...client.CreateOption) error {
					if _, is := object.(*corev1.ConfigMap); is {
						return c.answer
					}
					return inner.Create(ctx, object, options...)
				},
			})
			d.expectOutcome(t, c)
			if d.secret(t).Data[servingKey] == nil {
				t.Error("the Secret has to wait for the ConfigMap")
			}
		})
	}
}
