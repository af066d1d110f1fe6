package kit

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func markDeleted(object *corev1.ConfigMap) {
	now := metav1.Now()
	object.DeletionTimestamp, object.Finalizers = &now, append(object.Finalizers, testFinalizer)
}

// A paused object, one out of scope, and one whose cleanup never ends because an agent lies about what runs.
func TestNothingHoldsAnObjectOfANamespaceThatIsDeleted(t *testing.T) {
	const other = "example.com/other"
	leave := filter(func(context.Context, client.Object) (string, error) { return "LeftAlone", nil })
	for reason, c := range map[string]struct {
		change      func(*corev1.ConfigMap)
		guards      []filter
		terminating bool
		unreadable  error
		left        []string // finalizers; nil when the object is gone
	}{
		"left alone":                   {markDeleted, []filter{leave}, true, nil, nil},
		"never clean":                  {markDeleted, nil, true, nil, nil},
		"left alone, namespace stays":  {markDeleted, []filter{leave}, false, nil, []string{testFinalizer}},
		"never clean, namespace stays": {markDeleted, nil, false, nil, []string{testFinalizer}},
		"namespace cannot be read":     {markDeleted, []filter{leave}, true, errRefused, []string{testFinalizer}},
		"not deleted yet": {func(object *corev1.ConfigMap) { object.Finalizers = []string{testFinalizer} }, []filter{leave},
			true, nil, []string{testFinalizer}},
		"held by another controller, too": {func(object *corev1.ConfigMap) { object.Finalizers = []string{other}; markDeleted(object) },
			[]filter{leave}, true, nil, []string{other}},
		"held by another controller, alone": {func(object *corev1.ConfigMap) { markDeleted(object); object.Finalizers = []string{other} }, nil,
			true, nil, []string{other}},
	} {
		t.Run(reason, func(t *testing.T) {
			cluster := fake.NewClientBuilder().WithObjects(configMap("a", c.change)).Build()
			s := newAdapterHarness(cluster, isDone)
			s.filters = c.guards
			s.finalizer.id, s.finalizer.clean = testFinalizer, func(context.Context, *corev1.ConfigMap) (Cleanup, error) {
				return Pending("Draining"), nil
			}
			s.finalizer.terminating = func(_ context.Context, namespace string) (bool, error) {
				return c.terminating && namespace == "demo", c.unreadable
			}
			if _, err := s.reconcile(t, "a"); !errors.Is(err, c.unreadable) {
				t.Errorf("got %v", err)
			}
			stored := &corev1.ConfigMap{}
			err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "a"}, stored)
			if gone := client.IgnoreNotFound(err) == nil && err != nil; gone != (c.left == nil) || !slices.Equal(stored.Finalizers, c.left) {
				t.Errorf("gone: %v, finalizers %v", gone, stored.Finalizers)
			}
		})
	}
}

func namespaceOf(name string, deleted bool) *corev1.Namespace {
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{testFinalizer}}}
	if deleted {
		now := metav1.Now()
		made.DeletionTimestamp = &now
	}
	return made
}

func TestScopeKnowsNamespacesThatAreDeleted(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(namespaceOf("going", true), namespaceOf("staying", false)).Build()
	terminating := NewScope(labels.Nothing()).isTerminatingFunc(cluster)
	for name, want := range map[string]bool{"going": true, "staying": false, "missing": false} {
		if got, err := terminating(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	unreadable := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errRefused
		},
	}).Build()
	if _, err := NewScope(labels.Nothing()).isTerminatingFunc(unreadable)(t.Context(), "going"); !errors.Is(err, errRefused) {
		t.Errorf("what cannot be read: got %v", err)
	}
}

// A scope of names has no right to read namespaces.
func TestScopeOfNamesLearnsByADryRunThatANamespaceIsDeleted(t *testing.T) {
	group := schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"}
	terminating := apierrors.NewForbidden(group, "", errors.New("namespace going is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		answer, failure error
		want            bool
	}{
		"going":         {terminating, nil, true},
		"staying":       {nil, nil, false},
		"missing":       {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "missing"), nil, false},
		"no right":      {apierrors.NewForbidden(group, "", errors.New("no right")), nil, false},
		"no API server": {errRefused, errRefused, false},
	} {
		cluster := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if given := (&client.CreateOptions{}).ApplyOptions(options); !slices.Equal(given.DryRun, []string{metav1.DryRunAll}) {
					t.Errorf("%s: an event is created", name)
				}
				if object.GetNamespace() != name {
					t.Errorf("%s: an event in namespace %q", name, object.GetNamespace())
				}
				return c.answer
			},
		}).Build()
		if got, err := NewNamedScope(name).isTerminatingFunc(cluster)(t.Context(), name); got != c.want || !errors.Is(err, c.failure) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestLeftAloneIsLookedAtAgainWhereNamespacesAreNotWatched(t *testing.T) {
	deleted, staying := configMap("a", func(object *corev1.ConfigMap) { object.Finalizers = []string{testFinalizer}; markDeleted(object) }),
		configMap("b", nil)
	asking, watching := &finalizer[*corev1.ConfigMap]{id: testFinalizer, recheckAfter: NewNamedScope("demo").recheckInterval()},
		&finalizer[*corev1.ConfigMap]{id: testFinalizer, recheckAfter: NewScope(labels.Nothing()).recheckInterval()}
	if got := asking.skipResult(deleted, "Paused"); got != RequeueAfter(namespaceRecheckInterval, "Paused") {
		t.Errorf("got %+v", got)
	}
	for _, got := range []Result{asking.skipResult(staying, "Paused"), watching.skipResult(deleted, "Paused")} {
		if got != skip("Paused") {
			t.Errorf("got %+v", got)
		}
	}
}

func TestOnlyTheBeginningOfADeletionConcernsTheObjects(t *testing.T) {
	going, staying := namespaceOf("a", true), namespaceOf("a", false)
	for reason, c := range map[string]struct {
		before, after *corev1.Namespace
		want          bool
	}{
		"begins": {staying, going, true}, "goes on": {going, going, false}, "another change": {staying, staying, false},
	} {
		if got := deletionStarted.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: got %v", reason, got)
		}
	}
	if deletionStarted.Create(event.CreateEvent{Object: going}) || deletionStarted.Delete(event.DeleteEvent{Object: going}) {
		t.Error("namespaces that appear or are gone concern nothing")
	}
}
