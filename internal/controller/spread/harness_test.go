package spread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/spread/state"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

var settings = snapshot.Settings{
	Prefix: "swarm.io/", Spot: []snapshot.Label{{Key: "class", Value: "spot"}}, OnDemand: []snapshot.Label{{Key: "class", Value: "on-demand"}},
	Notices: []string{"going"}, Provisioner: snapshot.ProvisionerNone, PendingDeadline: time.Minute, Cooldown: 10 * time.Second,
	Step: intstr.FromInt32(2),
}

// A harness is an in-memory cluster with one Deployment and its controller. Tests control the time.
type harness struct {
	*reconciler[*appsv1.Deployment]

	t           *testing.T
	cluster     client.WithWatch
	registry    *prometheus.Registry
	classes     split.ClassStates // as reported to admission
	recorded    []recordedEvent
	writes      []string
	removeErrs  map[string]error  // responses to evictions and deletions, by pod
	patchErr    error             // the response to patches
	removed     map[string]string // evicted pods that the cache still has
	maxPods     map[split.Class]int
	covered     bool
	webhookDown bool                       // admission is unreachable, whatever coverage reports
	gates       []corev1.PodSchedulingGate // of created pods
	unsupported string
	clock       time.Time
	created     int
}

// recordedEvent is an event.
type recordedEvent struct{ pod, eventType, reason, note string }

func newHarness(t *testing.T, replicas int32) *harness {
	t.Helper()
	s := &harness{
		t: t, covered: true, clock: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
		removeErrs: map[string]error{}, removed: map[string]string{}, maxPods: map[split.Class]int{split.Spot: 100, split.OnDemand: 100},
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	s.cluster = fake.NewClientBuilder().WithScheme(known).WithObjects(newDeployment(replicas),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}).Build()
	for n := range 2 {
		s.addNode(fmt.Sprintf("spot-%d", n), split.Spot)
		s.addNode(fmt.Sprintf("on-demand-%d", n), split.OnDemand)
	}
	s.startLeader()
	return s
}

// listPods finds pods like a cache indexed by workload.
func (s *harness) listPods(ctx context.Context, key workloads.Key) ([]*corev1.Pod, error) {
	list, pods := &corev1.PodList{}, []*corev1.Pod{}
	err := s.cluster.List(ctx, list, client.InNamespace(key.Namespace))
	for n := range list.Items {
		if owner, owned := workloads.OwnerOf(&list.Items[n]); owned && owner == key {
			pods = append(pods, &list.Items[n])
		}
	}
	return pods, err
}

func newDeployment(replicas int32) *appsv1.Deployment {
	object := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "web", Annotations: map[string]string{
		"swarm.io/spread": "enabled", "swarm.io/min-on-demand": "2", "swarm.io/spot-percentage": "60",
	}}}
	object.Spec.Replicas = &replicas
	return object
}

// startLeader simulates a new leader without memory.
func (s *harness) startLeader() {
	watched := interceptor.NewClient(s.cluster, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			only := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
			if only.ResourceVersion != nil && *only.ResourceVersion != s.pod(object.GetName()).ResourceVersion {
				return errConflict
			}
			return s.recordRemoval("delete", object.GetName(), *only.UID)
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, object, body client.Object,
			_ ...client.SubResourceCreateOption) error {
			return s.recordRemoval("evict", object.GetName(), *body.(*policyv1.Eviction).DeleteOptions.Preconditions.UID)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if s.patchErr != nil {
				return s.patchErr
			}
			if body, err := patch.Data(object); err != nil || !strings.Contains(string(body), fmt.Sprintf(`"uid":%q`, object.GetName())) {
				return errConflict
			}
			s.writes = append(s.writes, "annotate "+object.GetName())
			return c.Patch(ctx, object, patch, options...)
		},
	})
	c := &controller{
		client: watched, listPods: s.listPods, recorder: s, settings: settings, allocator: s, coverage: s, states: newStateStore(settings),
		now:      func() time.Time { return s.clock },
		triggers: map[v1alpha1.WorkloadKind]*kit.Trigger{v1alpha1.WorkloadDeployment: {}, v1alpha1.WorkloadStatefulSet: {}},
	}
	c.nodes = &nodeTracker{settings: settings, cachedReader: s.cluster, liveReader: s.cluster, onChange: c.triggerAll, now: c.now}
	s.registry = prometheus.NewRegistry()
	c.metrics = newMetrics(s.registry, c.states, c.nodes)
	s.reconciler = &reconciler[*appsv1.Deployment]{c, v1alpha1.WorkloadDeployment, workloads.Deployment}
}

// recordRemoval is the API server's side of an eviction. The cache has it only from the next step on.
func (s *harness) recordRemoval(verb, pod string, uid types.UID) error {
	if err := s.removeErrs[pod]; err != nil {
		return err
	}
	s.writes = append(s.writes, verb+" "+pod)
	s.removed[pod] = string(uid)
	return nil
}

func (s *harness) SetClassStates(_ workloads.Key, shortage split.ClassStates) { s.classes = shortage }
func (s *harness) Forget(workloads.Key)                                       { s.classes = split.ClassStates{} }
func (s *harness) Covers(context.Context, string) (bool, string)              { return s.covered, s.unsupported }

//nolint:revive // the interface has so many arguments
func (s *harness) Eventf(_, related runtime.Object, kind, reason, _, note string, arguments ...any) {
	about := ""
	if pod, is := related.(*corev1.ObjectReference); is {
		about = pod.Name
	}
	s.recorded = append(s.recorded, recordedEvent{about, kind, reason, fmt.Sprintf(note, arguments...)})
}

// reasons returns the reasons of all events except those of pods.
func (s *harness) reasons() []string {
	var all []string
	for _, event := range s.recorded {
		if event.pod == "" {
			all = append(all, event.reason)
		}
	}
	return all
}

func (s *harness) getDeployment() *appsv1.Deployment {
	s.t.Helper()
	object := &appsv1.Deployment{}
	if err := s.cluster.Get(s.t.Context(), client.ObjectKey{Namespace: "demo", Name: "web"}, object); err != nil {
		s.t.Fatal(err)
	}
	return object
}

// editDeployment edits the Deployment.
func (s *harness) editDeployment(edit func(*appsv1.Deployment)) {
	s.t.Helper()
	found := s.getDeployment()
	edit(found)
	s.update(found)
}

func (s *harness) update(object client.Object) {
	s.t.Helper()
	whole := object.DeepCopyObject().(client.Object)
	if err := s.cluster.Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
	whole.SetResourceVersion("")
	if err := s.cluster.Status().Update(s.t.Context(), whole); err != nil {
		s.t.Fatal(err)
	}
}

func (s *harness) create(object client.Object) {
	s.t.Helper()
	if err := s.cluster.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *harness) pods() []corev1.Pod {
	s.t.Helper()
	list := &corev1.PodList{}
	if err := s.cluster.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

func (s *harness) pod(name string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{}
	if err := s.cluster.Get(s.t.Context(), client.ObjectKey{Namespace: "demo", Name: name}, pod); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// addNode adds a node, and leave removes one; both are reported to the nodes controller.
func (s *harness) addNode(name string, class split.Class) {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"class": string(class)}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(s.clock.Add(-time.Hour))}}
	s.create(node)
	if s.reconciler != nil {
		if _, err := s.nodes.Reconcile(s.t.Context(), node); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *harness) removeNode(name string) {
	s.t.Helper()
	if err := s.cluster.Delete(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		s.t.Fatal(err)
	}
	s.nodes.remove(types.NamespacedName{Name: name})
}

// createPods creates the missing pods of the Deployment, through admission if it covers them.
func (s *harness) createPods() {
	s.t.Helper()
	workload := workloads.Deployment(s.getDeployment())
	for missing := workload.Replicas - len(s.pods()); missing > 0; missing-- {
		s.created++
		pod := newPod(fmt.Sprintf("web-%02d", s.created), s.clock)
		pod.Spec.SchedulingGates = s.gates
		if policy := s.settings.Spec(workload).Policy; s.covered && !s.webhookDown && policy != nil {
			number := s.number(workload, *policy)
			pod.Annotations = map[string]string{"swarm.io/spread-number": strconv.Itoa(number),
				"swarm.io/spread-class": string(s.classes.ClassFor(*policy, number))}
		}
		s.create(pod)
	}
}

// number returns the number of the next pod.
func (s *harness) number(workload workloads.Workload, policy split.Policy) int {
	s.t.Helper()
	objects := snapshot.Objects{Workload: workload, Now: s.clock}
	if view := s.nodes.latest(); view != nil {
		objects.Nodes = view.ByName
	}
	for _, pod := range s.pods() {
		objects.Pods = append(objects.Pods, &pod)
	}
	input, err := s.settings.Snapshot(objects)
	if err != nil {
		s.t.Fatal(err)
	}
	numbers := split.NewNumbers(0)
	numbers.SetPods(policy, workload.Replicas, input.Pods)
	return numbers.LowestFree(s.clock)
}

func newPod(name string, at time.Time) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at),
		Labels:          map[string]string{"pod-template-hash": "1", "app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "1", Controller: new(true)}},
	}}
}

// schedulePods assigns nodes to pods while there is room, and makes them Ready.
func (s *harness) schedulePods() {
	s.t.Helper()
	used := map[split.Class]int{}
	for _, pod := range s.pods() {
		used[split.Class(pod.Labels["on"])]++
	}
	for _, pod := range s.pods() {
		class := split.Class(pod.Annotations["swarm.io/spread-class"])
		if class == "" {
			class = split.OnDemand
		}
		node := s.openNode(class)
		if pod.Spec.NodeName != "" || node == "" || used[class] >= s.maxPods[class] || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		used[class]++
		pod.Spec.NodeName, pod.Labels["on"] = node, string(class)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		s.update(&pod)
	}
}

// openNode returns a node of a class that accepts pods, "" for none.
func (s *harness) openNode(class split.Class) string {
	snap := s.nodes.latest()
	if snap == nil {
		return string(class) + "-0"
	}
	for _, name := range slices.Sorted(maps.Keys(snap.ByName)) {
		if node := snap.ByName[name]; node.Class == class && state.AcceptsPods(node) {
			return name
		}
	}
	return ""
}

// deleteRemoved deletes the pods that were removed.
func (s *harness) deleteRemoved() {
	s.t.Helper()
	for name := range s.removed {
		if err := s.cluster.Delete(s.t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}); client.IgnoreNotFound(err) != nil {
			s.t.Fatal(err)
		}
	}
	clear(s.removed)
}

func (s *harness) reconcile() (kit.Result, error) {
	s.t.Helper()
	return s.Reconcile(log.IntoContext(s.t.Context(), logr.Discard()), s.getDeployment())
}

// mustReconcile reconciles and fails the test on an error.
func (s *harness) mustReconcile() kit.Result {
	s.t.Helper()
	result, err := s.reconcile()
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// expectMoveAfter requires that one pod is moved when removals succeed again and this time has passed.
func (s *harness) expectMoveAfter(pause time.Duration) {
	s.t.Helper()
	s.setRemoveErr(nil)
	s.clock = s.clock.Add(pause)
	s.mustReconcile()
	if s.countMoves() != 1 {
		s.t.Errorf("written: %v", s.writes)
	}
}

// stepDuration is the duration of a step.
const stepDuration = 5 * time.Second

// runSteps simulates a number of steps.
func (s *harness) runSteps(steps int) {
	s.t.Helper()
	for range steps {
		s.deleteRemoved()
		s.createPods()
		s.schedulePods()
		s.mustReconcile()
		s.mustReconcile() // the cache does not have the last writes yet
		s.clock = s.clock.Add(stepDuration)
	}
}

// annotation returns one of our annotations on the Deployment.
func (s *harness) annotation(annotation v1alpha1.SpreadAnnotation) string {
	s.t.Helper()
	return s.getDeployment().Annotations["swarm.io/"+string(annotation)]
}

func (s *harness) expectStatus(status, current string) {
	s.t.Helper()
	if got := s.annotation(v1alpha1.SpreadStatus); got != status {
		s.t.Errorf("status is %q, want %q", got, status)
	}
	if got := s.annotation(v1alpha1.SpreadCurrent); got != current {
		s.t.Errorf("current distribution is %q, want %q", got, current)
	}
}

// Responses of the API server.
var (
	errBudgetExhausted = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 429,
		Reason:  metav1.StatusReasonTooManyRequests,
		Message: "Cannot evict pod as it would violate the pod's disruption budget.",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause,
			Message: "The disruption budget all needs 10 healthy pods and has 10 currently"}}}}}
	errBusy           = apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	errInternal       = apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	errDown           = errors.New("the network is down")
	errConflict       = apierrors.NewConflict(corev1.Resource("pods"), "", errors.New("the UID in the precondition is another"))
	errNotFound       = apierrors.NewNotFound(corev1.Resource("pods"), "")
	errSeveralBudgets = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
)
