package operator

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

func taskOf(namespace, uid string) client.Object {
	return &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "any", UID: types.UID(uid)}}
}

func newTestQuota(limitBytes int64) *cacheQuota {
	return newCacheQuota(limitBytes, slog.New(slog.DiscardHandler))
}

func (s *cacheQuota) bytesOf(namespace string) int64 {
	if share := s.namespaces[namespace]; share != nil {
		return share.bytes
	}
	return 0
}

func TestQuotaFollowsTheCache(t *testing.T) {
	type step struct {
		what           string
		act            func(*cacheQuota) bool
		taken          bool
		inTeam, inElse int64
	}
	take := func(namespace, uid string, bytes int64) func(*cacheQuota) bool {
		return func(s *cacheQuota) bool { return s.reserve(taskOf(namespace, uid), bytes) }
	}
	release := func(uid string) func(*cacheQuota) bool {
		return func(s *cacheQuota) bool { s.release(taskOf("team", uid)); return true }
	}
	shares := newTestQuota(100)
	for _, step := range []step{
		{"added", take("team", "a", 60), true, 60, 0},
		{"transformed again", take("team", "a", 60), true, 60, 0},
		{"another namespace has its own share", take("else", "x", 100), true, 60, 100},
		{"no room for another", take("team", "b", 50), false, 60, 100},
		{"grown within the limit", take("team", "a", 95), true, 95, 100},
		{"grown beyond it", take("team", "a", 101), false, 0, 100},
		{"shrunk", take("team", "a", 10), true, 10, 100},
		{"now there is room", take("team", "b", 50), true, 60, 100},
		{"deleted", release("b"), true, 10, 100},
		{"deleted twice", release("b"), true, 10, 100},
		{"created again before the deletion is heard", take("team", "a2", 10), true, 20, 100},
		{"the deletion is heard", release("a"), true, 10, 100},
		{"all are deleted", release("a2"), true, 0, 100},
		{"larger than the limit", take("team", "d", 101), false, 0, 100},
	} {
		taken := step.act(shares)
		if inTeam, inElse := shares.bytesOf("team"), shares.bytesOf("else"); taken != step.taken || inTeam != step.inTeam ||
			inElse != step.inElse {
			t.Fatalf("%s: taken %t, %d and %d bytes; want %t, %d and %d", step.what, taken, inTeam, inElse, step.taken, step.inTeam, step.inElse)
		}
	}
	if len(shares.namespaces) != 1 || len(shares.objects) != 1 {
		t.Errorf("%d namespaces and %d objects are remembered, want one of each", len(shares.namespaces), len(shares.objects))
	}
}

// A namespace that repeatedly crosses its limit does not flood the log.
func TestExceededQuotaIsLoggedOnce(t *testing.T) {
	var lines bytes.Buffer
	shares := newCacheQuota(100, slog.New(slog.NewTextHandler(&lines, nil)))
	shares.reserve(taskOf("team", "a"), 90)
	exceed := func() { shares.reserve(taskOf("team", "b"), 50) }
	exceed()
	exceed()
	if got := strings.Count(lines.String(), "namespace=team"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, lines.String())
	}
	for range 2 {
		shares.reserve(taskOf("alone", "c"), 101)
	}
	if strings.Contains(lines.String(), "namespace=alone") {
		t.Errorf("an object that exceeds the limit alone is logged:\n%s", lines.String())
	}
	shares.reserve(taskOf("team", "a"), 10)
	shares.reserve(taskOf("team", "a"), 90)
	exceed()
	if got := strings.Count(lines.String(), "namespace=team"); got != 2 {
		t.Errorf("logged %d times:\n%s", got, lines.String())
	}
}

// largeTask has a list of owners that no schema bounds.
func largeTask(namespace string, n int) *v1alpha1.Task {
	task := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint("task-", n), UID: types.UID(fmt.Sprint(namespace, n)), ResourceVersion: "7",
		Finalizers: []string{"example.test/keep", "example.test/" + strings.Repeat("x", 50)}, Labels: map[string]string{v1alpha1.LabelSwarm: "s"},
	}}
	for range 1000 {
		task.Finalizers = append(task.Finalizers, strings.Repeat("f", 1000))
	}
	task.Spec.SwarmRef.Name, task.Spec.Desired = "s", v1alpha1.TaskRun
	task.Spec.Payload = &apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)}
	task.Status.Phase, task.Status.Epoch = v1alpha1.TaskRunning, 1<<32
	task.Status.AssignedAgents = []v1alpha1.AssignedAgent{{Name: "s-coder-0", Epoch: 1 << 32, PodUID: "p", LeaseSeconds: 60}, {Name: "other"}}
	return task
}

// limitedOutlines returns the transforms of an operator with this limit, and the number of objects that it has reduced.
func limitedOutlines(shares *cacheQuota) (outline func(any) (any, error), refused func() float64) {
	registry := prometheus.NewRegistry()
	refusals := limit.NewRefusals(registry)
	refused = func() float64 {
		families, _ := registry.Gather()
		for _, series := range families[0].GetMetric() {
			if series.GetLabel()[0].GetValue() == string(limit.CacheBytesPerNamespace) {
				return series.GetCounter().GetValue()
			}
		}
		return -1
	}
	return newOutlineTransform(snapshot.DefaultSettings(), refusals, shares), refused
}

func TestCacheKeepsWhatTheQuotaOfANamespaceAllows(t *testing.T) {
	const most = 8 << 20
	shares := newTestQuota(most)
	outline, refused := limitedOutlines(shares)
	held, counted := int64(0), int64(0)
	for n := range 20 {
		task := largeTask("hostile", n)
		whole := keptWhole(t, outline, task)
		held += sizeOf(task)
		if whole {
			counted += sizeOf(task)
		}
	}
	if held > most+20*trimmedOutlineBytes || shares.bytesOf("hostile") != counted || refused() < 12 {
		t.Errorf("the cache holds %d bytes and counts %d of %d, %g objects are reduced", held, shares.bytesOf("hostile"), counted, refused())
	}
	for name, task := range map[string]*v1alpha1.Task{"of another namespace": largeTask("honest", 0), "small": smallTask("hostile")} {
		before := sizeOf(task.DeepCopy())
		if !keptWhole(t, outline, task) || sizeOf(task) < before-100 {
			t.Errorf("a Task %s is reduced from %d to %d bytes", name, before, sizeOf(task))
		}
	}
	for n := range 19 { // and the last one changes
		shares.release(largeTask("hostile", n))
	}
	if last := largeTask("hostile", 19); !keptWhole(t, outline, last) {
		t.Errorf("there is room again, and %d bytes are kept", sizeOf(last))
	}
}

func TestManySmallTasksLeaveTheirSwarmItsPlace(t *testing.T) {
	shares := newTestQuota(1 << 20)
	outline, _ := limitedOutlines(shares)
	for n := range 2000 {
		task := smallTask("busy")
		task.UID = types.UID(fmt.Sprint(n))
		if _, err := outline(task); err != nil {
			t.Fatal(err)
		}
	}
	swarm := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: "busy", Name: "s", UID: "s"}}
	swarm.Status.Conditions = []metav1.Condition{{Type: "Ready", Message: strings.Repeat("m", 2*trimmedOutlineBytes)}}
	if !keptWhole(t, outline, swarm) || shares.bytesOf("busy") != sizeOf(swarm) {
		t.Errorf("%d bytes are counted", shares.bytesOf("busy"))
	}
	swarm.Status.Conditions = nil
	if !keptWhole(t, outline, swarm) || shares.bytesOf("busy") != 0 {
		t.Errorf("%d bytes are counted of a Swarm that is small now", shares.bytesOf("busy"))
	}
}

func smallTask(namespace string) *v1alpha1.Task {
	task := largeTask(namespace, 1000)
	task.Finalizers = nil
	return task
}

func keptWhole(t *testing.T, outline func(any) (any, error), object client.Object) bool {
	t.Helper()
	if _, err := outline(object); err != nil {
		t.Fatal(err)
	}
	return !workload.TooLarge(object)
}

func TestReducedTaskKeepsWhatListsAreReadFor(t *testing.T) {
	outline, _ := limitedOutlines(newTestQuota(1))
	task := largeTask("hostile", 1)
	want := task.DeepCopy()
	for range 2 { // an informer may transform an object again
		if keptWhole(t, outline, task) {
			t.Fatal("it is not marked")
		}
	}
	if len(task.Finalizers) != 1 {
		t.Errorf("finalizers %q", task.Finalizers)
	}
	type reduced struct {
		uid                               types.UID
		version, swarm, swarmRef, payload string
		phase                             v1alpha1.TaskPhase
		epoch                             int64
		given                             []v1alpha1.AssignedAgent
	}
	cached := func(task *v1alpha1.Task) reduced {
		return reduced{
			task.UID, task.ResourceVersion, task.Labels[v1alpha1.LabelSwarm], task.Spec.SwarmRef.Name, string(task.Spec.Payload.Raw),
			task.Status.Phase, task.Status.Epoch, task.Status.AssignedAgents[:1],
		}
	}
	if diff := cmp.Diff(cached(want), cached(task), cmp.AllowUnexported(reduced{})); diff != "" || len(task.Status.AssignedAgents) != 1 {
		t.Errorf("%d agents (-want +got):\n%s", len(task.Status.AssignedAgents), diff)
	}
}

// Whatever users write into an object, little of it is kept, and objects that are compared whole are marked as partial.
func TestNothingLargeIsLeftOfReducedObjects(t *testing.T) {
	outline, _ := limitedOutlines(newTestQuota(1))
	for _, object := range []client.Object{
		&v1alpha1.Swarm{}, &v1alpha1.Agent{}, &v1alpha1.Task{}, &v1alpha1.WorkerPool{}, &v1alpha1.SwarmSnapshot{},
		&corev1.Pod{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.ControllerRevision{}, &corev1.PersistentVolumeClaim{},
	} {
		for _, owner := range []string{"Swarm", "WorkerPool", "Other"} {
			filled := object.DeepCopyObject().(client.Object)
			fillValue(reflect.ValueOf(filled).Elem(), 0)
			filled.SetNamespace("hostile")
			filled.SetName("n")
			filled.SetUID("u")
			filled.SetResourceVersion("1")
			filled.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: owner, Name: "o", UID: "o", Controller: new(true),
			}})
			before := sizeOf(filled)
			if _, err := outline(filled); err != nil {
				t.Fatal(err)
			}
			if kept := sizeOf(filled); kept > 4*trimmedOutlineBytes || before < 6*trimmedOutlineBytes { // the schema admits fewer long texts
				t.Errorf("of %d bytes of a %T of a %s, %d are kept", before, filled, owner, kept)
			}
			if _, isClaim := filled.(*corev1.PersistentVolumeClaim); !isClaim && !workload.TooLarge(filled) {
				t.Errorf("a %T of a %s has no mark", filled, owner)
			}
		}
	}
}

// fillValue puts long strings into all of a value, and two items into lists.
func fillValue(value reflect.Value, depth int) {
	if !value.CanSet() || depth > 8 {
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(strings.Repeat("x", 2000))
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fillValue(value.Elem(), depth+1)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 20, 20))
		for n := range min(2, value.Len()) {
			fillValue(value.Index(n), depth+1)
		}
	case reflect.Struct:
		for _, field := range value.Fields() {
			fillValue(field, depth+1)
		}
	}
}
