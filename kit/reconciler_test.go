package kit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const testFinalizer = "example.com/held"

var errRefused = errors.New("refused")

// adapterHarness is an adapter for ConfigMaps, and the names of those that reached the reconciler.
type adapterHarness struct {
	*adapter[*corev1.ConfigMap]
	reconciled []string
}

func newAdapterHarness(cluster client.Client, outcome func() (Result, error)) *adapterHarness {
	s := &adapterHarness{}
	s.adapter = &adapter[*corev1.ConfigMap]{name: "test", client: cluster, finalizer: &finalizer[*corev1.ConfigMap]{writer: cluster},
		inFlight: &inFlight{}, namespaces: &activeNamespaces{}}
	s.reconciler = Func[*corev1.ConfigMap](func(_ context.Context, object *corev1.ConfigMap) (Result, error) {
		s.reconciled = append(s.reconciled, object.Name)
		return outcome()
	})
	return s
}

func (s *adapterHarness) reconcile(t *testing.T, name string) (reconcile.Result, error) {
	t.Helper()
	return s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "demo", Name: name}})
}

func configMap(name string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
	if change != nil {
		change(made)
	}
	return made
}

func isDone() (Result, error) { return Done(), nil }

func TestPausedObjectsAreLeftAlone(t *testing.T) {
	annotated := func(value string) func(*corev1.ConfigMap) {
		return func(object *corev1.ConfigMap) { object.Annotations = map[string]string{"swarm.io/paused": value} }
	}
	s := newAdapterHarness(fake.NewClientBuilder().WithObjects(
		configMap("free", nil), configMap("paused", annotated("true")), configMap("resumed", annotated("false")),
	).Build(), isDone)
	var pausedNames []string
	s.filters = []filter{pausedFilter("swarm.io/paused", func(name types.NamespacedName) { pausedNames = append(pausedNames, name.Name) })}
	for _, name := range []string{"free", "paused", "resumed"} {
		if _, err := s.reconcile(t, name); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(s.reconciled, []string{"free", "resumed"}) || !slices.Equal(pausedNames, []string{"paused"}) {
		t.Errorf("reconciled %v, told of %v", s.reconciled, pausedNames)
	}
	s.filters = []filter{pausedFilter("swarm.io/paused", nil)}
	if _, err := s.reconcile(t, "paused"); err != nil || len(s.reconciled) != 2 {
		t.Errorf("reconciled %v, %v", s.reconciled, err)
	}
}

func TestPanicOfOneObjectIsAnErrorOfThatObject(t *testing.T) {
	s := newAdapterHarness(fake.NewClientBuilder().WithObjects(configMap("a", nil)).Build(), func() (Result, error) { panic("odd object") })
	_, err := s.reconcile(t, "a")
	if err == nil || !strings.Contains(err.Error(), "odd object") {
		t.Errorf("got %v", err)
	}
}

func TestObjectThatCannotBeReadIsTriedAgain(t *testing.T) {
	cluster := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errRefused
		},
	}).Build()
	s := newAdapterHarness(cluster, isDone)
	s.onDeleted = Forget(func(name types.NamespacedName) { t.Errorf("%s is not gone, it could not be read", name) })
	if _, err := s.reconcile(t, "a"); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
}

func TestMissingObjectNeedsNobodyWhoWantsToKnow(t *testing.T) {
	s := newAdapterHarness(fake.NewClientBuilder().Build(), isDone)
	if result, err := s.reconcile(t, "a"); err != nil || result != (reconcile.Result{}) {
		t.Errorf("got %v, %v", result, err)
	}
}

func TestFilterThatFailsIsAnError(t *testing.T) {
	s := newAdapterHarness(fake.NewClientBuilder().WithObjects(configMap("a", nil)).Build(), isDone)
	s.filters = []filter{func(context.Context, client.Object) (string, error) { return "", errRefused }}
	if _, err := s.reconcile(t, "a"); !errors.Is(err, errRefused) || len(s.reconciled) > 0 {
		t.Errorf("got %v, reconciled %v", err, s.reconciled)
	}
}

func TestResultsReachTheQueue(t *testing.T) {
	s := newAdapterHarness(fake.NewClientBuilder().WithObjects(configMap("a", nil)).Build(), func() (Result,
		error) {
		return RequeueAfter(time.Minute, "Waiting"), nil
	})
	if result, err := s.reconcile(t, "a"); err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("got %v, %v", result, err)
	}
}

// The finalizer must be stored before anything is created for the object.
func TestFinalizerIsHeldBeforeTheFirstReconcile(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(configMap("a",
		func(object *corev1.ConfigMap) { object.Finalizers = []string{"example.com/other"} })).Build()
	s := newAdapterHarness(cluster, nil)
	s.finalizer.id = testFinalizer
	stored := &corev1.ConfigMap{}
	s.reconciler = Func[*corev1.ConfigMap](func(ctx context.Context, object *corev1.ConfigMap) (Result, error) {
		return Done(), cluster.Get(ctx, client.ObjectKeyFromObject(object), stored)
	})
	if _, err := s.reconcile(t, "a"); err != nil || !slices.Equal(stored.Finalizers, []string{"example.com/other", testFinalizer}) {
		t.Errorf("stored %v, %v", stored.Finalizers, err)
	}
}

func TestObjectWithoutItsFinalizerIsNotReconciled(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(configMap("a", nil)).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errRefused
		},
	}).Build()
	s := newAdapterHarness(cluster, isDone)
	s.finalizer.id = testFinalizer
	if _, err := s.reconcile(t, "a"); !errors.Is(err, errRefused) || len(s.reconciled) > 0 {
		t.Errorf("got %v, reconciled %v", err, s.reconciled)
	}
}

func TestDeletionFollowsTheCleaner(t *testing.T) {
	for reason, c := range map[string]struct {
		cleanup    Cleanup
		err        error
		after      time.Duration
		reconciled int
		gone       bool
	}{
		"cleaned: the object goes":                   {Cleaned(), nil, 0, 0, true},
		"pending: the cleaner is asked again":        {Pending("Draining"), nil, pendingRetry, 0, false},
		"pending: it works in batches":               {PendingFor(time.Second, "Draining"), nil, time.Second, 0, false},
		"continued: the reconciler works on":         {Continue(), nil, 0, 1, false},
		"not ours: nothing happens":                  {NotOurs(), nil, 0, 0, false},
		"failed: the object stays, whatever it said": {Cleaned(), errRefused, 0, 0, false},
	} {
		t.Run(reason, func(t *testing.T) {
			cluster := fake.NewClientBuilder().WithObjects(configMap("a", func(object *corev1.ConfigMap) {
				object.Finalizers, object.DeletionTimestamp = []string{testFinalizer}, new(metav1.Now())
			})).Build()
			s := newAdapterHarness(cluster, isDone)
			s.finalizer.id = testFinalizer
			s.finalizer.clean = func(context.Context, *corev1.ConfigMap) (Cleanup, error) { return c.cleanup, c.err }
			result, err := s.reconcile(t, "a")
			if !errors.Is(err, c.err) || result.RequeueAfter != c.after || len(s.reconciled) != c.reconciled {
				t.Errorf("got %v, %v, reconciled %v", result, err, s.reconciled)
			}
			err = cluster.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "a"}, &corev1.ConfigMap{})
			if apierrors.IsNotFound(err) != c.gone {
				t.Errorf("after it: %v", err)
			}
		})
	}
}

func TestDeletedObjectWithoutOurFinalizerIsLeftAlone(t *testing.T) {
	f := &finalizer[*corev1.ConfigMap]{id: testFinalizer, clean: func(context.Context, *corev1.ConfigMap) (Cleanup, error) {
		t.Error("cleaned up twice")
		return Cleaned(), nil
	}}
	leaving := configMap("a", func(object *corev1.ConfigMap) {
		object.Finalizers, object.DeletionTimestamp = []string{"example.com/other"}, new(metav1.Now())
	})
	if onward, result, err := f.beforeReconcile(t.Context(), leaving); onward || err != nil || result != skip("NotOurs") {
		t.Errorf("got %t, %+v, %v", onward, result, err)
	}
}

// Another client may add a finalizer between our read and our write: a patch of the whole list must not remove it.
func TestFinalizerIsRemovedOnlyFromTheObjectThatWasRead(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(configMap("a", func(object *corev1.ConfigMap) {
		object.Finalizers, object.DeletionTimestamp = []string{testFinalizer}, new(metav1.Now())
	})).Build()
	read := &corev1.ConfigMap{}
	if err := cluster.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "a"}, read); err != nil {
		t.Fatal(err)
	}
	changed := read.DeepCopy()
	changed.Labels = map[string]string{"changed": "since"}
	if err := cluster.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	f := &finalizer[*corev1.ConfigMap]{id: testFinalizer, writer: cluster}
	if err := f.remove(t.Context(), read); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if err := f.remove(t.Context(), configMap("gone", nil)); err != nil {
		t.Errorf("an object that is gone needs no finalizer removed: %v", err)
	}
}
