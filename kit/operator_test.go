package kit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// leases is an API server that knows one Lease.
type leases struct {
	lock   sync.Mutex
	stored *coordinationv1.Lease
}

func (l *leases) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	l.lock.Lock()
	defer l.lock.Unlock()
	answer.Header().Set("Content-Type", "application/json")
	if request.Method != http.MethodGet {
		l.stored = &coordinationv1.Lease{}
		_ = json.NewDecoder(request.Body).Decode(l.stored)
	}
	if l.stored == nil {
		answer.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(answer).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
			Code: http.StatusNotFound})
		return
	}
	_ = json.NewEncoder(answer).Encode(l.stored)
}

func (l *leases) holder() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.stored == nil || l.stored.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.stored.Spec.HolderIdentity
}

// world is an Operator with everything around it in memory.
type world struct {
	*Operator
	leases    *leases
	informers *informertest.FakeInformers
	caching   cache.Options // as kit passes them on
}

func newWorld(t *testing.T, options Options, objects ...client.Object) *world {
	t.Helper()
	w := &world{leases: &leases{}, informers: &informertest.FakeInformers{Scheme: scheme.Scheme}}
	api := httptest.NewServer(w.leases)
	t.Cleanup(api.Close)
	options.Election = Election{Namespace: "swarm-system", Name: "operator", Identity: "pod-1"}
	options.Manager = manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"},
		NewCache: func(_ *rest.Config, chosen cache.Options) (cache.Cache, error) {
			w.caching = chosen
			return w.informers, nil
		},
		NewClient: func(*rest.Config, client.Options) (client.Client, error) {
			return fake.NewClientBuilder().WithObjects(objects...).Build(), nil
		},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			return mapper, nil
		},
	}
	options.Manager.Controller.SkipNameValidation = new(true) // names are checked within the process, and tests may run more than once
	var err error
	if w.Operator, err = NewOperator(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		options); err != nil {
		t.Fatal(err)
	}
	return w
}

// informer is the cache of a kind. Ask for it before the start.
func (w *world) informer(t *testing.T, kind client.Object) *controllertest.FakeInformer {
	t.Helper()
	found, err := w.informers.FakeInformerFor(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// runs starts the operator, and stops it at the end of the test.
func (w *world) runs(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
		if holder := w.leases.holder(); holder != "" {
			t.Errorf("the Lease is still held by %q", holder)
		}
	})
}

// visits are the names that were reconciled.
type visits chan string

func (v visits) Reconcile(_ context.Context, object *corev1.ConfigMap) (Result, error) {
	v <- object.Name
	return Done(), nil
}

// expect waits for the reconcile of a name.
func (v visits) expect(t *testing.T, reason, want string) {
	t.Helper()
	select {
	case got := <-v:
		if got != want {
			t.Errorf("%s: reconciled %q, want %q", reason, got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing was reconciled", reason)
	}
}

func labelled(object client.Object, value string) client.Object {
	changed := object.DeepCopyObject().(client.Object)
	changed.SetLabels(map[string]string{"value": value})
	changed.SetResourceVersion(value)
	return changed
}

// started waits until the controller receives signals.
func (v visits) started(t *testing.T, signal *Signal) {
	t.Helper()
	for range 2000 {
		signal.Now(types.NamespacedName{Namespace: "demo", Name: "signalled"})
		select {
		case <-v:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the controller does not run")
}

func TestS16_DefaultPeriodOfCachesIsLeftToControllerRuntime(t *testing.T) {
	if period := newWorld(t, Options{}).caching.SyncPeriod; period != nil {
		t.Errorf("caches resync every %s", *period)
	}
}

// Controllers write through this client, so that nothing is written before this process is elected.
func TestOperatorThatDoesNotLeadWritesNothing(t *testing.T) {
	w := newWorld(t, Options{})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}
	if err := w.GetClient().Create(t.Context(), config); !errors.Is(err, ErrNotLeading) {
		t.Errorf("got %v", err)
	}
}

// An operator that is stopped before its caches are synced must not stand for election: it would act on what it has not seen.
func TestCachesThatAreNotSyncedOpenNothing(t *testing.T) {
	w := newWorld(t, Options{})
	w.informers.Synced = new(false)
	if err := w.sync(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-w.synced:
		t.Error("the way to the election is open")
	default:
	}
	if w.ready(nil) == nil {
		t.Error("it is ready")
	}
}

// A controller that finds what it owns by the index must not start before that cache is synced: it would make everything again.
func TestCacheOfOwnedObjectsIsWaitedFor(t *testing.T) {
	w := newWorld(t, Options{})
	if err := IndexOwner(t.Context(), w.Operator, &corev1.Pod{}); err != nil {
		t.Fatal(err)
	}
	w.informers.InformersByGVK = map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
		corev1.SchemeGroupVersion.WithKind("Pod"): controllertest.NewFakeInformer(),
	}
	if got := w.unsynced(t.Context()); got != "Pod" {
		t.Errorf("waits for %q", got)
	}
}

// What cannot be listed is not absent: a controller would make it again.
func TestOwnedObjectsThatCannotBeListedAreAnError(t *testing.T) {
	refused := errors.New("refused")
	reader := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
	})
	if err := OwnedBy(t.Context(), reader, &corev1.ConfigMap{}, &corev1.PodList{}); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func TestControllerHearsOfWhatItWasBuiltFor(t *testing.T) {
	var objects []client.Object
	for _, name := range []string{"own", "owner", "mapped", "selected", "signalled"} {
		objects = append(objects, configMap(name, nil))
	}
	objects[3].SetNamespace("other")
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	w := newWorld(t, Options{}, objects...)
	maps, secrets, pods, namespaces := w.informer(t, &corev1.ConfigMap{}), w.informer(t, &corev1.Secret{}), w.informer(t, &corev1.Pod{}),
		w.informer(t, &corev1.Namespace{})
	v, signal := make(visits, 10), &Signal{}
	heard := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetLabels()["value"] != "unheard" })
	gone := make(chan types.NamespacedName, 1)
	scope := NewScope(labels.Everything())
	err := New[*corev1.ConfigMap](w.Operator, "test-hears").Owns(&corev1.Secret{}).
		Watches(&corev1.Pod{}, func(context.Context, client.Object) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: "demo", Name: "mapped"}}
		}, heard).
		Predicates(heard).Signals(signal).Namespaces(scope).
		Gone(Forget(func(name types.NamespacedName) { gone <- name })).Build(v)
	if err != nil {
		t.Fatal(err)
	}
	w.runs(t)
	v.started(t, signal)
	for len(v) > 0 {
		<-v
	}

	maps.Update(objects[4], labelled(objects[4], "unheard"))
	maps.Update(objects[0], labelled(objects[0], "1"))
	v.expect(t, "its own object", "own")

	owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "s", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", Controller: new(true)}}}}
	secrets.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "nobodys"}})
	secrets.Add(owned)
	v.expect(t, "what it owns", "owner")

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "p"}}
	pods.Add(labelled(pod, "unheard"))
	pods.Add(pod)
	v.expect(t, "what it watches", "mapped")

	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	namespaces.Update(other, labelled(other, "1"))
	v.expect(t, "a namespace that may have come into scope", "selected")

	signal.Now(types.NamespacedName{Namespace: "demo", Name: "deleted"})
	if name := <-gone; name.Name != "deleted" {
		t.Errorf("%v is gone", name)
	}
	if len(v) > 0 {
		t.Errorf("%q was reconciled, too", <-v)
	}
	if !strings.HasPrefix(w.leases.holder(), "pod-1_") || !w.Leadership.Fresh() {
		t.Errorf("works, and the Lease is held by %q", w.leases.holder())
	}
}

func TestControllerWorksOnAsManyObjectsAtOnceAsItMay(t *testing.T) {
	w := newWorld(t, Options{}, configMap("a", nil), configMap("b", nil), configMap("signalled", nil))
	maps := w.informer(t, &corev1.ConfigMap{})
	both, free, signal, started := make(chan string), make(chan struct{}), &Signal{}, make(visits, 100)
	err := New[*corev1.ConfigMap](w.Operator, "test-concurrency").Concurrency(2).Signals(signal).
		Build(Func[*corev1.ConfigMap](func(_ context.Context, object *corev1.ConfigMap) (Result, error) {
			if object.Name == "signalled" {
				started <- object.Name
				return Done(), nil
			}
			both <- object.Name
			<-free
			return Done(), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	w.runs(t)
	started.started(t, signal)
	maps.Add(configMap("a", nil))
	maps.Add(configMap("b", nil))
	for range 2 {
		select {
		case <-both:
		case <-time.After(20 * time.Second):
			t.Fatal("the second object waits for the first")
		}
	}
	close(free)
}

func TestControllerThatCannotBeBuilt(t *testing.T) {
	w := newWorld(t, Options{})
	if err := w.claim("first", &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	clean := func(context.Context, *corev1.ConfigMap) (Cleanup, error) { return Cleaned(), nil }
	for reason, c := range map[string]struct {
		builder *Builder[*corev1.ConfigMap]
		want    string
	}{
		"no workers":         {New[*corev1.ConfigMap](w.Operator, "none").Concurrency(0), "concurrency 0"},
		"finalizer":          {New[*corev1.ConfigMap](w.Operator, "bare").Finalizer("bare", clean), `finalizer "bare"`},
		"finalizer's group":  {New[*corev1.ConfigMap](w.Operator, "bare").Finalizer("/bare", clean), `finalizer "/bare"`},
		"finalizer's name":   {New[*corev1.ConfigMap](w.Operator, "bare").Finalizer("bare/", clean), `finalizer "bare/"`},
		"kind that is taken": {New[*corev1.ConfigMap](w.Operator, "second"), "has a controller already"},
	} {
		if err := c.builder.Build(make(visits)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", reason, err)
		}
	}
}

// deaf is a cache that never syncs.
type deaf struct{ *informertest.FakeInformers }

func (deaf) WaitForCacheSync(ctx context.Context) bool { <-ctx.Done(); return false }

func TestOperatorNamesTheCachesThatAreMissing(t *testing.T) {
	w := newWorld(t, Options{SyncTimeout: 50 * time.Millisecond})
	w.Manager = cached{w.Manager, deaf{&informertest.FakeInformers{Scheme: scheme.Scheme, Error: errors.New("no such kind")}}}
	for _, kind := range []client.Object{&corev1.Secret{}, &corev1.Pod{}, &corev1.Secret{}} {
		w.needs(kind)
	}
	err := w.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "50ms: Pod, Secret: ") {
		t.Errorf("got %v", err)
	}
	if w.ready(nil) == nil || w.leases.holder() != "" {
		t.Errorf("ready without its caches: held by %q", w.leases.holder())
	}
}

func TestOperatorGivesUpAtItsSyncTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		o := &Operator{Manager: cached{}, syncTimeout: 3 * time.Second, synced: make(chan struct{})}
		began := time.Now()
		if err := o.Start(ctx); err == nil || !strings.Contains(err.Error(), "caches not synced within 3s") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("gave up after %s", took)
		}
	})
}

// cached is a manager that only waits, with another cache.
type cached struct {
	manager.Manager
	cache cache.Cache
}

func (c cached) GetCache() cache.Cache           { return c.cache }
func (c cached) Start(ctx context.Context) error { <-ctx.Done(); return nil }

func TestOperatorThatIsStoppedBeforeItsCachesAreThereEnds(t *testing.T) {
	w := newWorld(t, Options{})
	w.Manager = cached{w.Manager, nil}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := w.Start(ctx); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestMapperNamesRequests(t *testing.T) {
	mapper := Mapper(func(_ context.Context, object client.Object) []types.NamespacedName {
		return []types.NamespacedName{{Name: object.GetName()}, {Name: "b"}}
	})
	if got := mapper.requests(t.Context(), configMap("a", nil)); len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("got %v", got)
	}
	if passes := Changes().Create(event.CreateEvent{Object: configMap("a", nil)}); !passes {
		t.Error("a new object is not heard of")
	}
}
