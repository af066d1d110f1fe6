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
	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

var settings = survey.Settings{
	Prefix: "swarm.io/", Spot: []survey.Label{{Key: "class", Value: "spot"}}, OnDemand: []survey.Label{{Key: "class", Value: "on-demand"}},
	Notices: []string{"going"}, Provisioner: survey.ProvisionerNone, PendingDeadline: time.Minute, Cooldown: 10 * time.Second, Step: intstr.FromInt32(2),
}

// A stage is an in-memory cluster with one Deployment and its keeper. Tests control the time.
type stage struct {
	*reconciler[*appsv1.Deployment]

	t        *testing.T
	cluster  client.WithWatch
	registry *prometheus.Registry
	shortage engine.ClassStates // as reported to admission
	told     []told
	writes   []string
	answers  map[string]error  // responses to evictions and deletions, by pod
	refuse   error             // the response to patches
	evicted  map[string]string // evicted pods that the cache still has
	room     map[engine.Class]int
	covered  bool
	deaf     bool                       // admission is unreachable, whatever coverage reports
	gates    []corev1.PodSchedulingGate // of created pods
	never    string
	clock    time.Time
	born     int
}

// told is an event.
type told struct{ about, kind, reason, note string }

func newStage(t *testing.T, replicas int32) *stage {
	t.Helper()
	s := &stage{
		t: t, covered: true, clock: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
		answers: map[string]error{}, evicted: map[string]string{}, room: map[engine.Class]int{engine.Spot: 100, engine.OnDemand: 100},
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	s.cluster = fake.NewClientBuilder().WithScheme(known).WithObjects(deployment(replicas), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}).Build()
	for n := range 2 {
		s.join(fmt.Sprintf("spot-%d", n), engine.Spot)
		s.join(fmt.Sprintf("on-demand-%d", n), engine.OnDemand)
	}
	s.start()
	return s
}

// replicas finds pods like a cache indexed by workload.
func (s *stage) replicas(ctx context.Context, of survey.Key) ([]*corev1.Pod, error) {
	list, found := &corev1.PodList{}, []*corev1.Pod{}
	err := s.cluster.List(ctx, list, client.InNamespace(of.Namespace))
	for n := range list.Items {
		if owner, owned := survey.OwnerOf(&list.Items[n]); owned && owner == of {
			found = append(found, &list.Items[n])
		}
	}
	return found, err
}

func deployment(replicas int32) *appsv1.Deployment {
	made := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "web", Annotations: map[string]string{
		"swarm.io/spread": "enabled", "swarm.io/min-on-demand": "2", "swarm.io/spot-percentage": "60",
	}}}
	made.Spec.Replicas = &replicas
	return made
}

// start simulates a new leader without memory.
func (s *stage) start() {
	watched := interceptor.NewClient(s.cluster, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			only := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
			if only.ResourceVersion != nil && *only.ResourceVersion != s.pod(object.GetName()).ResourceVersion {
				return other
			}
			return s.take("delete", object.GetName(), *only.UID)
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, object, body client.Object, _ ...client.SubResourceCreateOption) error {
			return s.take("evict", object.GetName(), *body.(*policyv1.Eviction).DeleteOptions.Preconditions.UID)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if s.refuse != nil {
				return s.refuse
			}
			if body, err := patch.Data(object); err != nil || !strings.Contains(string(body), fmt.Sprintf(`"uid":%q`, object.GetName())) {
				return other
			}
			s.writes = append(s.writes, "annotate "+object.GetName())
			return c.Patch(ctx, object, patch, options...)
		},
	})
	k := &keeper{
		client: watched, replicas: s.replicas, recorder: s, settings: settings, board: s, coverage: s, memories: newMemories(settings), now: func() time.Time { return s.clock },
		signals: map[v1alpha1.WorkloadKind]*kit.Trigger{v1alpha1.WorkloadDeployment: {}, v1alpha1.WorkloadStatefulSet: {}},
	}
	k.nodes = &nodes{settings: settings, cached: s.cluster, live: s.cluster, changed: k.wake, now: k.now}
	s.registry = prometheus.NewRegistry()
	k.metrics = newMetrics(s.registry, k.memories, k.nodes)
	s.reconciler = &reconciler[*appsv1.Deployment]{k, v1alpha1.WorkloadDeployment, survey.Deployment}
}

// take is the API server's side of an eviction. The cache has it only from the next step on.
func (s *stage) take(verb, pod string, uid types.UID) error {
	if err := s.answers[pod]; err != nil {
		return err
	}
	s.writes = append(s.writes, verb+" "+pod)
	s.evicted[pod] = string(uid)
	return nil
}

func (s *stage) Judged(_ survey.Key, shortage engine.ClassStates) { s.shortage = shortage }
func (s *stage) Forget(survey.Key)                                { s.shortage = engine.ClassStates{} }
func (s *stage) Covers(context.Context, string) (bool, string)    { return s.covered, s.never }

//nolint:revive // the interface has so many arguments
func (s *stage) Eventf(_, related runtime.Object, kind, reason, _, note string, arguments ...any) {
	about := ""
	if pod, is := related.(*corev1.ObjectReference); is {
		about = pod.Name
	}
	s.told = append(s.told, told{about, kind, reason, fmt.Sprintf(note, arguments...)})
}

// reasons returns the reasons of all events except those of pods.
func (s *stage) reasons() []string {
	var all []string
	for _, event := range s.told {
		if event.about == "" {
			all = append(all, event.reason)
		}
	}
	return all
}

func (s *stage) deployment() *appsv1.Deployment {
	s.t.Helper()
	found := &appsv1.Deployment{}
	if err := s.cluster.Get(s.t.Context(), client.ObjectKey{Namespace: "demo", Name: "web"}, found); err != nil {
		s.t.Fatal(err)
	}
	return found
}

// change edits the Deployment.
func (s *stage) change(edit func(*appsv1.Deployment)) {
	s.t.Helper()
	found := s.deployment()
	edit(found)
	s.update(found)
}

func (s *stage) update(object client.Object) {
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

func (s *stage) create(object client.Object) {
	s.t.Helper()
	if err := s.cluster.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) pods() []corev1.Pod {
	s.t.Helper()
	list := &corev1.PodList{}
	if err := s.cluster.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

func (s *stage) pod(name string) *corev1.Pod {
	s.t.Helper()
	found := &corev1.Pod{}
	if err := s.cluster.Get(s.t.Context(), client.ObjectKey{Namespace: "demo", Name: name}, found); err != nil {
		s.t.Fatal(err)
	}
	return found
}

// join adds a node, and leave removes one; both are reported to the keeper of nodes.
func (s *stage) join(name string, class engine.Class) {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"class": string(class)}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Add(-time.Hour))}}
	s.create(node)
	if s.reconciler != nil {
		if _, err := s.nodes.Reconcile(s.t.Context(), node); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) leave(name string) {
	s.t.Helper()
	if err := s.cluster.Delete(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		s.t.Fatal(err)
	}
	s.nodes.lose(types.NamespacedName{Name: name})
}

// raise creates the missing pods of the Deployment, through admission if it covers them.
func (s *stage) raise() {
	s.t.Helper()
	of := survey.Deployment(s.deployment())
	for missing := of.Replicas - len(s.pods()); missing > 0; missing-- {
		s.born++
		pod := podOf(fmt.Sprintf("web-%02d", s.born), s.clock)
		pod.Spec.SchedulingGates = s.gates
		if policy := s.settings.Spec(of).Policy; s.covered && !s.deaf && policy != nil {
			number := s.number(of, *policy)
			pod.Annotations = map[string]string{"swarm.io/spread-number": strconv.Itoa(number), "swarm.io/spread-class": string(s.shortage.ClassFor(*policy, number))}
		}
		s.create(pod)
	}
}

// number returns the number of the next pod.
func (s *stage) number(of survey.Workload, policy engine.Policy) int {
	s.t.Helper()
	scene := survey.Objects{Workload: of, Now: s.clock}
	if view := s.nodes.known(); view != nil {
		scene.Nodes = view.nodes
	}
	for _, pod := range s.pods() {
		scene.Pods = append(scene.Pods, &pod)
	}
	world, err := s.settings.Snapshot(scene)
	if err != nil {
		s.t.Fatal(err)
	}
	numbers := engine.NewNumbers(0)
	numbers.SetPods(policy, of.Replicas, world.Pods)
	return numbers.LowestFree(s.clock)
}

func podOf(name string, at time.Time) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at), Labels: map[string]string{"pod-template-hash": "1", "app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "1", Controller: new(true)}},
	}}
}

// bind assigns nodes to pods while there is room, and makes them Ready.
func (s *stage) bind() {
	s.t.Helper()
	used := map[engine.Class]int{}
	for _, pod := range s.pods() {
		used[engine.Class(pod.Labels["on"])]++
	}
	for _, pod := range s.pods() {
		class := engine.Class(pod.Annotations["swarm.io/spread-class"])
		if class == "" {
			class = engine.OnDemand
		}
		node := s.open(class)
		if pod.Spec.NodeName != "" || node == "" || used[class] >= s.room[class] || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		used[class]++
		pod.Spec.NodeName, pod.Labels["on"] = node, string(class)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		s.update(&pod)
	}
}

// open returns a node of a class that accepts pods, "" for none.
func (s *stage) open(class engine.Class) string {
	view := s.nodes.known()
	if view == nil {
		return string(class) + "-0"
	}
	for _, name := range slices.Sorted(maps.Keys(view.nodes)) {
		if node := view.nodes[name]; node.Class == class && welcomes(node) {
			return name
		}
	}
	return ""
}

// bury deletes the pods that were removed.
func (s *stage) bury() {
	s.t.Helper()
	for name := range s.evicted {
		if err := s.cluster.Delete(s.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}); client.IgnoreNotFound(err) != nil {
			s.t.Fatal(err)
		}
	}
	clear(s.evicted)
}

func (s *stage) reconcile() (kit.Result, error) {
	s.t.Helper()
	return s.Reconcile(log.IntoContext(s.t.Context(), logr.Discard()), s.deployment())
}

// must reconciles and fails the test on an error.
func (s *stage) must() kit.Result {
	s.t.Helper()
	result, err := s.reconcile()
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// pass is the duration of a step.
const pass = 5 * time.Second

// run simulates a number of steps.
func (s *stage) run(steps int) {
	s.t.Helper()
	for range steps {
		s.bury()
		s.raise()
		s.bind()
		s.must()
		s.must() // the cache does not have the last writes yet
		s.clock = s.clock.Add(pass)
	}
}

// annotated returns one of our annotations on the Deployment.
func (s *stage) annotated(annotation v1alpha1.SpreadAnnotation) string {
	s.t.Helper()
	return s.deployment().Annotations["swarm.io/"+string(annotation)]
}

func (s *stage) expect(status, current string) {
	s.t.Helper()
	if got := s.annotated(v1alpha1.SpreadStatus); got != status {
		s.t.Errorf("status is %q, want %q", got, status)
	}
	if got := s.annotated(v1alpha1.SpreadCurrent); got != current {
		s.t.Errorf("current distribution is %q, want %q", got, current)
	}
}

// Responses of the API server.
var (
	tooMany = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 429, Reason: metav1.StatusReasonTooManyRequests,
		Message: "Cannot evict pod as it would violate the pod's disruption budget.",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget all needs 10 healthy pods and has 10 currently"}}}}}
	busy     = apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	broken   = apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	errDown  = errors.New("the network is down")
	other    = apierrors.NewConflict(corev1.Resource("pods"), "", errors.New("the UID in the precondition is another"))
	vanished = apierrors.NewNotFound(corev1.Resource("pods"), "")
	several  = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
)
