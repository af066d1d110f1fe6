package operator

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/cache/ondemand"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
)

var (
	testManagedFields  = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	readySince         = metav1.NewTime(time.Unix(1_800_000_000, 0))
	readyCondition     = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: readySince}
	scheduledCondition = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, Message: "on a node"}
	askedPorts         = []corev1.ContainerPort{{Name: "internal", ContainerPort: 8080}}
	fastDisk           = map[string]string{"disk": "fast"}
	spotToleration     = []corev1.Toleration{{Key: "spot"}}
)

func TestOutlineOfPod(t *testing.T) {
	told := readyCondition
	told.Reason, told.Message = "ContainersNotReady", "containers with unready status"
	pod := func(labels map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "w-0", Labels: labels, ManagedFields: testManagedFields,
				Annotations: map[string]string{v1alpha1.AnnotationConfigVersion: "3", "team": "video"}},
			Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "queue"}}},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: "10.0.0.1", HostIP: "10.0.0.2", Conditions: []corev1.PodCondition{scheduledCondition, told},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "worker"}},
			},
		}
	}
	for reason, labels := range map[string]map[string]string{
		"of a stranger only what tells how it is": {"app": "w"},
		"of an agent also why":                    {v1alpha1.LabelSwarm: "s"},
	} {
		want := pod(labels)
		want.ManagedFields, want.Status.HostIP = nil, ""
		want.Annotations = map[string]string{v1alpha1.AnnotationConfigVersion: "3"}
		if labels[v1alpha1.LabelSwarm] == "" {
			want.Status.Conditions, want.Status.ContainerStatuses = []corev1.PodCondition{readyCondition}, nil
		}
		expectOutline(t, reason, pod(labels), want)
	}
}

func TestOutlineOfStatefulSet(t *testing.T) {
	set := func(labels map[string]string) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "w", Labels: labels, ManagedFields: testManagedFields,
				Annotations: map[string]string{"swarm.io/paused": "true", "team": "video", corev1.LastAppliedConfigAnnotation: "{}"}},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels}, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					NodeSelector: fastDisk, Tolerations: spotToleration, Affinity: &corev1.Affinity{},
					Containers: []corev1.Container{{Name: "sidecar", Image: "proxy"}, {Name: "worker", Image: "worker", Ports: askedPorts}},
				}},
			},
			Status: appsv1.StatefulSetStatus{ReadyReplicas: 2},
		}
	}
	strangers := map[string]string{"app": "w"}
	want := set(strangers)
	want.ManagedFields, want.Annotations, want.Spec.VolumeClaimTemplates = nil, map[string]string{"swarm.io/paused": "true"}, nil
	want.Spec.Template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector: fastDisk, Tolerations: spotToleration, Affinity: &corev1.Affinity{}, Containers: []corev1.Container{{Ports: askedPorts}},
	}}
	expectOutline(t, "of a stranger what chooses nodes, and the ports", set(strangers), want)

	ours := func(apiVersion string) *appsv1.StatefulSet {
		made := set(map[string]string{v1alpha1.LabelSwarm: "s"})
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Swarm", Name: "s", UID: "1", Controller: new(true)}}
		return made
	}
	want = ours(v1alpha1.GroupVersion.String())
	want.ManagedFields = nil
	expectOutline(t, "a swarm's is compared, whole", ours(v1alpha1.GroupVersion.String()), want)
	for reason, other := range map[string]*appsv1.StatefulSet{
		"controlled by a Swarm of another group": ours("example.test/v1"), "not controlled": set(map[string]string{v1alpha1.LabelSwarm: "s"}),
	} {
		want = other.DeepCopy()
		want.ManagedFields, want.Annotations, want.Spec.VolumeClaimTemplates = nil, map[string]string{"swarm.io/paused": "true"}, nil
		want.Spec.Template = templateOutline(want.Spec.Template)
		expectOutline(t, "labelled, and "+reason, other, want)
	}
}

func TestOutlineOfDeployment(t *testing.T) {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "w", ManagedFields: testManagedFields,
			Annotations: map[string]string{"swarm.io/paused": "true", "team": "video", corev1.LastAppliedConfigAnnotation: "{}"}},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n", NodeSelector: fastDisk,
				Containers: []corev1.Container{{Image: "worker"}}}}},
	}
	want := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "w", Annotations: map[string]string{"swarm.io/paused": "true"}},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n", NodeSelector: fastDisk}}},
	}
	expectOutline(t, "its replicas, and what chooses nodes", deployment, want)
}

// A list of items can have 1.4 MB, and kubectl apply stores it twice. The operator does not read it.
func TestOutlineOfTask(t *testing.T) {
	task := func(annotations map[string]string, items *v1alpha1.TaskItems) *v1alpha1.Task {
		made := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: annotations}}
		made.Spec.Payload, made.Spec.Items = &apiextensionsv1.JSON{Raw: []byte("{}")}, items
		return made
	}
	paused := map[string]string{v1alpha1.AnnotationPaused: "true"}
	large := task(map[string]string{v1alpha1.AnnotationPaused: "true", "team": "video", corev1.LastAppliedConfigAnnotation: "{}"},
		&v1alpha1.TaskItems{List: make([]apiextensionsv1.JSON, 1000)})
	large.ManagedFields = testManagedFields
	expectOutline(t, "what it is, without its items", large, task(paused, &v1alpha1.TaskItems{}))
	expectOutline(t, "without items", task(nil, nil), task(nil, nil))
	inline := task(nil, nil)
	inline.Spec.Payload.Raw = []byte(`{"a":"` + strings.Repeat("x", 8<<10-8) + `"}`)
	want := task(nil, nil)
	want.Spec.Payload.Raw = []byte("8192")
	expectOutline(t, "the size of a large payload", inline, want)
	done := task(nil, nil)
	done.Spec.Payload.Raw, done.Status.Phase = []byte(`{"a":"short"}`), v1alpha1.TaskCompleted
	want = task(nil, nil)
	want.Spec.Payload.Raw, want.Status.Phase = []byte("13"), v1alpha1.TaskCompleted
	expectOutline(t, "of a finished one no payload", done, want)
	for _, kind := range []client.Object{&v1alpha1.Task{}, &v1alpha1.Swarm{}, &v1alpha1.Agent{}, &v1alpha1.WorkerPool{},
		&v1alpha1.SwarmSnapshot{}} {
		if !isOutlined(kind) {
			t.Errorf("%T is cached whole", kind)
		}
	}
}

// Spec and status of our own kinds stay, and what controllers read of the metadata.
func TestOutlineOfOurKinds(t *testing.T) {
	stored := metav1.ObjectMeta{
		Name: "x", UID: "1", Finalizers: []string{v1alpha1.Finalizer}, OwnerReferences: []metav1.OwnerReference{{Kind: "Swarm", Name: "s"}},
		ManagedFields: testManagedFields,
		Labels:        map[string]string{v1alpha1.LabelSwarm: "s", v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator, "team": "video"},
		Annotations:   map[string]string{v1alpha1.AnnotationPaused: "true", corev1.LastAppliedConfigAnnotation: "{}"},
	}
	outlined := stored.DeepCopy()
	outlined.ManagedFields, outlined.Annotations = nil, map[string]string{v1alpha1.AnnotationPaused: "true"}
	outlined.Labels = map[string]string{v1alpha1.LabelSwarm: "s", v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator}
	swarm := v1alpha1.SwarmSpec{MaxAgents: 3}
	expectOutline(t, "a Swarm", &v1alpha1.Swarm{ObjectMeta: *stored.DeepCopy(), Spec: swarm},
		&v1alpha1.Swarm{ObjectMeta: *outlined, Spec: swarm})
	status := v1alpha1.AgentStatus{LinkedPodUID: "2"}
	expectOutline(t, "an Agent", &v1alpha1.Agent{ObjectMeta: *stored.DeepCopy(), Status: status},
		&v1alpha1.Agent{ObjectMeta: *outlined, Status: status})
	expectOutline(t, "a WorkerPool", &v1alpha1.WorkerPool{ObjectMeta: *stored.DeepCopy()}, &v1alpha1.WorkerPool{ObjectMeta: *outlined})
	expectOutline(t, "a SwarmSnapshot", &v1alpha1.SwarmSnapshot{ObjectMeta: *stored.DeepCopy()},
		&v1alpha1.SwarmSnapshot{ObjectMeta: *outlined})
	expectOutline(t, "a Task", &v1alpha1.Task{ObjectMeta: *stored.DeepCopy()}, &v1alpha1.Task{ObjectMeta: *outlined})
}

// A patch of a cached object does not touch what the cache leaves out.
func TestPatchOfAnOutlineKeepsTheRest(t *testing.T) {
	stored := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "t", Labels: map[string]string{"team": "video"},
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"},
	}}
	stored.Spec.Payload = &apiextensionsv1.JSON{Raw: []byte(`{"a":"` + strings.Repeat("x", 1000) + `"}`)}
	api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(stored).WithStatusSubresource(stored).Build()
	cached := &v1alpha1.Task{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), cached); err != nil {
		t.Fatal(err)
	}
	complete := cached.DeepCopy()
	if _, err := newOutlineTransform(snapshot.DefaultSettings(), nil, nil)(cached); err != nil {
		t.Fatal(err)
	}
	before := cached.DeepCopy()
	cached.Status.Phase = v1alpha1.TaskRunning
	if err := api.Status().Patch(t.Context(), cached, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		t.Fatal(err)
	}
	after := &v1alpha1.Task{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), after); err != nil {
		t.Fatal(err)
	}
	if after.Status.Phase != v1alpha1.TaskRunning || !equality.Semantic.DeepEqual(after.Spec, complete.Spec) ||
		!equality.Semantic.DeepEqual(after.Labels, complete.Labels) ||
		!equality.Semantic.DeepEqual(after.Annotations, complete.Annotations) {
		t.Errorf("stored %+v", after)
	}
	if string(cached.Spec.Payload.Raw) != string(complete.Spec.Payload.Raw) {
		t.Error("the answer to the write did not bring the payload")
	}
}

// isOutlined reports whether the cache keeps less than the whole of a kind.
func isOutlined(kind client.Object) bool {
	for cached, options := range cacheOptions("system", snapshot.DefaultSettings(), nil, nil).ByObject {
		if reflect.TypeOf(cached) == reflect.TypeOf(kind) {
			return options.Transform != nil
		}
	}
	return false
}

// expectOutline also transforms the outline again: a cache may do that.
func expectOutline(t *testing.T, reason string, from, want any) {
	t.Helper()
	for range 2 {
		got, err := newOutlineTransform(snapshot.DefaultSettings(), nil, nil)(from)
		if err != nil || !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: outline is\n%+v\nand not\n%+v (%v)", reason, got, want, err)
		}
	}
}

// podFixture returns a pod as decoded from the API server: with its own copy of everything.
func podFixture(name, number string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"app": "w"}, Annotations: map[string]string{corev1.PodDeletionCost: number},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "w-1", UID: "1", Controller: new(true)}},
	}}
}

func TestPodsInternEqualValues(t *testing.T) {
	outline := newOutlineTransform(snapshot.DefaultSettings(), nil, nil)
	first, same, other := podFixture("w-a", "-1"), podFixture("w-b", "-1"), podFixture("w-c", "-2")
	for _, pod := range []*corev1.Pod{first, same, other} {
		want := podFixture(pod.Name, pod.Annotations[corev1.PodDeletionCost])
		if got, err := outline(pod); err != nil || !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", pod.Name, got, err, want)
		}
	}
	if &first.OwnerReferences[0] != &other.OwnerReferences[0] {
		t.Error("two pods of one owner have it twice")
	}
	first.Labels["touched"], first.Annotations["touched"] = "x", "x" // as only this test may
	if other.Labels["touched"] == "" || same.Annotations["touched"] == "" {
		t.Error("pods that say the same have it twice")
	}
	if other.Annotations["touched"] != "" {
		t.Error("pods that say something else share it")
	}
}

func TestInternedValuesAreDropped(t *testing.T) {
	var numbers interner[int]
	for n := range 3 * maxInterned {
		if got := numbers.intern(strconv.Itoa(n), n); got != n || len(numbers.values) > maxInterned {
			t.Fatalf("got %d for %d, with %d remembered", got, n, len(numbers.values))
		}
	}
}

func TestMapKeysDifferForDifferentMaps(t *testing.T) {
	if one, other := mapKey(map[string]string{"a": `1""b""2`}), mapKey(map[string]string{"a": "1", "b": "2"}); one == other {
		t.Errorf("both are %s", one)
	}
}

// The period of every informer is the default of controller-runtime, 10 hours with a jitter of 10 %.
func TestS16_DefaultPeriodOfCachesIsThatOfControllerRuntime(t *testing.T) {
	for name, namespaces := range map[string]string{"the whole cluster": "", "two namespaces": "team-a,team-b"} {
		t.Run(name, func(t *testing.T) {
			config := Defaults()
			config.Controller.Namespaces = namespaces
			options := config.restrictCaches(cacheOptions("home", config.spreadSettings(), nil, nil))
			kinds := []client.Object{&coordinationv1.Lease{}, &corev1.ConfigMap{}}
			for kind := range options.ByObject {
				kinds = append(kinds, kind)
			}
			periods := resyncPeriods(t, options, kinds)
			if len(periods) < len(kinds) {
				t.Fatalf("%d informers for %d kinds", len(periods), len(kinds))
			}
			for _, period := range periods {
				if period < 9*time.Hour || period > 11*time.Hour {
					t.Errorf("an informer resyncs every %s", period)
				}
			}
		})
	}
}

// resyncPeriods returns the period of each informer that a cache with these options creates for the kinds.
func resyncPeriods(t *testing.T, options cache.Options, kinds []client.Object) []time.Duration {
	t.Helper()
	var periods []time.Duration
	options.Scheme, options.Mapper = newScheme(), testrestmapper.TestOnlyStaticRESTMapper(newScheme())
	options.NewInformer = func(
		source toolscache.ListerWatcher, kind runtime.Object, period time.Duration, by toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		periods = append(periods, period)
		return toolscache.NewSharedIndexInformer(source, kind, period, by)
	}
	made, err := cache.New(&rest.Config{}, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if _, err := made.GetInformer(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	return periods
}

func TestOutlineOfConfigMapsAndServices(t *testing.T) {
	yes := true
	owner := metav1.OwnerReference{Kind: "Swarm", Name: "s", UID: "1", Controller: &yes}
	for _, kind := range []*metav1.PartialObjectMetadata{ondemand.ConfigMaps(), ondemand.Services()} {
		object := kind.DeepCopy()
		object.ObjectMeta = metav1.ObjectMeta{
			Name: "x", UID: "2", ResourceVersion: "3", ManagedFields: testManagedFields, Annotations: map[string]string{"large": "text"},
			Labels: map[string]string{v1alpha1.LabelPool: "p", "app": "web"}, OwnerReferences: []metav1.OwnerReference{{Kind: "App"}, owner},
		}
		want := kind.DeepCopy()
		want.ObjectMeta = metav1.ObjectMeta{
			Name: "x", UID: "2", ResourceVersion: "3", Labels: map[string]string{v1alpha1.LabelPool: "p"},
			OwnerReferences: []metav1.OwnerReference{owner},
		}
		expectOutline(t, kind.Kind, object, want)
	}
}
