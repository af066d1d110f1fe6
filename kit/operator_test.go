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

// leaseServer is an API server that knows one Lease.
type leaseServer struct {
	lock   sync.Mutex
	stored *coordinationv1.Lease
}

func (l *leaseServer) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
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

func (l *leaseServer) holder() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.stored == nil || l.stored.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.stored.Spec.HolderIdentity
}

// operatorHarness is an Operator with everything around it in memory.
type operatorHarness struct {
	*Operator
	leases       *leaseServer
	informers    *informertest.FakeInformers
	cacheOptions cache.Options // as kit passes them on
}

func newOperatorHarness(t *testing.T, options Options, objects ...client.Object) *operatorHarness {
	t.Helper()
	w := &operatorHarness{leases: &leaseServer{}, informers: &informertest.FakeInformers{Scheme: scheme.Scheme}}
	api := httptest.NewServer(w.leases)
	t.Cleanup(api.Close)
	options.Election = Election{Namespace: "swarm-system", Name: "operator", Identity: "pod-1"}
	options.Manager = manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"},
		NewCache: func(_ *rest.Config, cacheOptions cache.Options) (cache.Cache, error) {
			w.cacheOptions = cacheOptions
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
func (w *operatorHarness) informer(t *testing.T, kind client.Object) *controllertest.FakeInformer {
	t.Helper()
	informer, err := w.informers.FakeInformerFor(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return informer
}

// start starts the operator, and stops it at the end of the test.
func (w *operatorHarness) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
		if holder := w.leases.holder(); holder != "" {
			t.Errorf("the Lease is still held by %q", holder)
		}
	})
}

// reconciledNames are the names that were reconciled.
type reconciledNames chan string

func (v reconciledNames) Reconcile(_ context.Context, object *corev1.ConfigMap) (Result, error) {
	v <- object.Name
	return Done(), nil
}

// expect waits for the reconcile of a name.
func (v reconciledNames) expect(t *testing.T, reason, want string) {
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

// awaitStart waits until the controller receives triggers.
func (v reconciledNames) awaitStart(t *testing.T, trigger *Trigger) {
	t.Helper()
	for range 2000 {
		trigger.Now(types.NamespacedName{Namespace: "demo", Name: "signalled"})
		select {
		case <-v:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the controller does not run")
}

func TestS16_DefaultPeriodOfCachesIsLeftToControllerRuntime(t *testing.T) {
	if period := newOperatorHarness(t, Options{}).cacheOptions.SyncPeriod; period != nil {
		t.Errorf("caches resync every %s", *period)
	}
}

// Controllers write through this client, so that nothing is written before this process is elected.
func TestOperatorThatDoesNotLeadWritesNothing(t *testing.T) {
	w := newOperatorHarness(t, Options{})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}
	if err := w.GetClient().Create(t.Context(), config); !errors.Is(err, ErrNotLeading) {
		t.Errorf("got %v", err)
	}
}

// An operator that is stopped before its caches are synced must not stand for election: it would act on what it has not seen.
func TestCachesThatAreNotSyncedOpenNothing(t *testing.T) {
	w := newOperatorHarness(t, Options{})
	w.informers.Synced = new(false)
	if err := w.awaitCaches(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-w.synced:
		t.Error("the way to the election is open")
	default:
	}
	if w.checkReady(nil) == nil {
		t.Error("it is ready")
	}
}

// A controller that finds what it owns by the index must not start before that cache is synced: it would make everything again.
func TestCacheOfOwnedObjectsIsWaitedFor(t *testing.T) {
	w := newOperatorHarness(t, Options{})
	if err := IndexOwner(t.Context(), w.Operator, &corev1.Pod{}); err != nil {
		t.Fatal(err)
	}
	w.informers.InformersByGVK = map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
		corev1.SchemeGroupVersion.WithKind("Pod"): controllertest.NewFakeInformer(),
	}
	if got := w.unsyncedKinds(t.Context()); got != "Pod" {
		t.Errorf("waits for %q", got)
	}
}

// What cannot be listed is not absent: a controller would make it again.
func TestOwnedObjectsThatCannotBeListedAreAnError(t *testing.T) {
	refused := errors.New("refused")
	reader := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
	})
	if err := ListOwned(t.Context(), reader, &corev1.ConfigMap{}, &corev1.PodList{}); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func TestControllerReconcilesWhatItWatches(t *testing.T) {
	var objects []client.Object
	for _, name := range []string{"own", "owner", "mapped", "selected", "signalled"} {
		objects = append(objects, configMap(name, nil))
	}
	objects[3].SetNamespace("other")
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	w := newOperatorHarness(t, Options{}, objects...)
	maps, secrets, pods, namespaces := w.informer(t, &corev1.ConfigMap{}), w.informer(t, &corev1.Secret{}), w.informer(t, &corev1.Pod{}),
		w.informer(t, &corev1.Namespace{})
	v, signal := make(reconciledNames, 10), &Trigger{}
	isRelevant := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetLabels()["value"] != "unheard" })
	gone := make(chan types.NamespacedName, 1)
	scope := NewScope(labels.Everything())
	err := New[*corev1.ConfigMap](w.Operator, "test-hears").Owns(&corev1.Secret{}).
		Watches(&corev1.Pod{}, func(context.Context, client.Object) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: "demo", Name: "mapped"}}
		}, isRelevant).
		Predicates(isRelevant).TriggeredBy(signal).Namespaces(scope).
		OnDeleted(Forget(func(name types.NamespacedName) { gone <- name })).Build(v)
	if err != nil {
		t.Fatal(err)
	}
	w.start(t)
	v.awaitStart(t, signal)
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
	w := newOperatorHarness(t, Options{}, configMap("a", nil), configMap("b", nil), configMap("signalled", nil))
	maps := w.informer(t, &corev1.ConfigMap{})
	both, free, signal, started := make(chan string), make(chan struct{}), &Trigger{}, make(reconciledNames, 100)
	err := New[*corev1.ConfigMap](w.Operator, "test-concurrency").Concurrency(2).TriggeredBy(signal).
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
	w.start(t)
	started.awaitStart(t, signal)
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
	w := newOperatorHarness(t, Options{})
	if err := w.claimKind("first", &corev1.ConfigMap{}); err != nil {
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
		if err := c.builder.Build(make(reconciledNames)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", reason, err)
		}
	}
}

// neverSynced is a cache that never syncs.
type neverSynced struct{ *informertest.FakeInformers }

func (neverSynced) WaitForCacheSync(ctx context.Context) bool { <-ctx.Done(); return false }

func TestOperatorNamesTheCachesThatAreMissing(t *testing.T) {
	w := newOperatorHarness(t, Options{SyncTimeout: 50 * time.Millisecond})
	w.Manager = idleManager{w.Manager, neverSynced{&informertest.FakeInformers{Scheme: scheme.Scheme, Error: errors.New("no such kind")}}}
	for _, kind := range []client.Object{&corev1.Secret{}, &corev1.Pod{}, &corev1.Secret{}} {
		w.requireCache(kind)
	}
	err := w.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "50ms: Pod, Secret: ") {
		t.Errorf("got %v", err)
	}
	if w.checkReady(nil) == nil || w.leases.holder() != "" {
		t.Errorf("ready without its caches: held by %q", w.leases.holder())
	}
}

func TestOperatorGivesUpAtItsSyncTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		o := &Operator{Manager: idleManager{}, syncTimeout: 3 * time.Second, synced: make(chan struct{})}
		began := time.Now()
		if err := o.Start(ctx); err == nil || !strings.Contains(err.Error(), "caches not synced within 3s") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("gave up after %s", took)
		}
	})
}

// idleManager is a manager that only waits, with another cache.
type idleManager struct {
	manager.Manager
	cache cache.Cache
}

func (c idleManager) GetCache() cache.Cache           { return c.cache }
func (c idleManager) Start(ctx context.Context) error { <-ctx.Done(); return nil }

func TestOperatorThatIsStoppedBeforeItsCachesAreThereEnds(t *testing.T) {
	w := newOperatorHarness(t, Options{})
	w.Manager = idleManager{w.Manager, nil}
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
