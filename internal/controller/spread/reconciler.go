// Package spread keeps the replicas of Deployments and StatefulSets split between spot and on-demand nodes, as their annotations specify.
// The engine of the same name decides; this package observes the cluster and acts on it.
//
// It promises:
//   - Unmanaged workloads cost no reads. Our annotations are removed when a workload stops being managed.
//   - Pods are only ever removed, by eviction or, if they never ran or the workload requests it, by deletion; always by UID, and only
//     where admission places their replacement.
//   - An eviction that a disruption budget refuses is not requested again before the budget changes or some time has passed.
//   - The state of a workload is written in one patch of its own annotations, when they change. A stable workload causes no request at
//     all.
//   - All memory can be lost at any time without changing the result.
//
// It never modifies a pod template, a number of replicas or a node.
package spread

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// name is the reporting controller of events, and the prefix of the controller names.
const name = "spread"

// A Board informs admission which classes accept pods.
type Board interface {
	Judged(workload survey.Key, shortage engine.ClassStates)
	Forget(workload survey.Key)
}

// Coverage reports whether admission sees the pods of a namespace and, if it never will, why.
type Coverage interface {
	Covers(ctx context.Context, namespace string) (covered bool, never string)
}

// Options are the configuration and the dependencies of this controller.
type Options struct {
	Settings survey.Settings
	Pods     survey.PodLister
	Board    Board
	Coverage Coverage
	Scope    *kit.Scope
	Resync   time.Duration
	Workers  int
	Metrics  prometheus.Registerer
}

// A keeper keeps workloads of any kind spread.
type keeper struct {
	client   client.Client
	replicas survey.PodLister
	recorder events.EventRecorder
	settings survey.Settings
	board    Board
	coverage Coverage
	nodes    *nodes
	memories *memories
	metrics  *metrics
	signals  map[v1alpha1.WorkloadKind]*kit.Trigger
	resync   time.Duration
	now      func() time.Time
}

// Add adds the spread controllers to the operator: one for each kind of workload, and one for nodes.
func Add(operator *kit.Operator, options Options) error {
	k := &keeper{
		client: operator.GetClient(), replicas: options.Pods, recorder: operator.GetEventRecorder(name), settings: options.Settings,
		board: options.Board, coverage: options.Coverage, memories: newMemories(options.Settings), resync: options.Resync, now: time.Now,
		signals: map[v1alpha1.WorkloadKind]*kit.Trigger{v1alpha1.WorkloadDeployment: {}, v1alpha1.WorkloadStatefulSet: {}},
	}
	k.nodes = &nodes{settings: options.Settings, cached: operator.GetClient(), live: operator.GetAPIReader(), changed: k.wake, now: time.Now}
	k.metrics = newMetrics(options.Metrics, k.memories, k.nodes)
	return errors.Join(
		kit.New[*corev1.Node](operator, name+"-nodes").Predicates(k.nodes.news()).IncludeDeleting().OnDeleted(kit.Forget(k.nodes.lose)).Build(k.nodes),
		add(operator, options, &reconciler[*appsv1.Deployment]{k, v1alpha1.WorkloadDeployment, survey.Deployment}),
		add(operator, options, &reconciler[*appsv1.StatefulSet]{k, v1alpha1.WorkloadStatefulSet, survey.StatefulSet}),
	)
}

func add[T client.Object](operator *kit.Operator, options Options, r *reconciler[T]) error {
	return kit.New[T](operator, name+"-"+strings.ToLower(string(r.kind))).
		Secondary().
		Predicates(r.news()).
		Watches(&corev1.Pod{}, r.workload, podNews()).
		Watches(&policyv1.PodDisruptionBudget{}, r.neighbours, budgetNews()).
		Watches(&corev1.Namespace{}, r.inhabitants, windowNews(r.settings)).
		TriggeredBy(r.signals[r.kind]).
		OnDeleted(kit.Forget(r.forget)).
		OnOutOfScope(r.forget).
		Namespaces(options.Scope).
		Concurrency(options.Workers).
		Build(r)
}

// A reconciler keeps workloads of one kind spread.
type reconciler[T client.Object] struct {
	*keeper
	kind v1alpha1.WorkloadKind
	of   func(T) survey.Workload
}

// Reconcile advances a workload by one step.
func (r *reconciler[T]) Reconcile(ctx context.Context, object T) (kit.Result, error) {
	workload := r.of(object)
	wish := r.settings.Spec(workload)
	if !wish.Managed() {
		return kit.Done(), r.release(ctx, workload)
	}
	return r.keep(ctx, subject{workload, wish, r.memories.remember(workload), r.now()})
}

func (r *reconciler[T]) forget(workload types.NamespacedName) {
	r.keeper.forget(survey.Key{Kind: r.kind, NamespacedName: workload})
}

// subject is a managed workload during one reconcile.
type subject struct {
	survey.Workload

	wish   survey.Spec
	memory *memory
	now    time.Time
}

func (k *keeper) keep(ctx context.Context, of subject) (kit.Result, error) {
	seen, err := k.observe(ctx, of)
	if err != nil {
		return kit.Done(), err
	}
	made := plan(seen, of)
	k.memories.learn(of.memory, made.Decision.Classes, seen.landscape)
	// Before any pod is removed: its replacement is admitted at once.
	k.board.Judged(of.Key, made.Decision.Classes)
	err = k.apply(ctx, of, seen, &made)
	return k.report(ctx, of, made, err)
}

func (k *keeper) forget(workload survey.Key) {
	k.memories.forget(workload)
	k.board.Forget(workload)
}

// wake triggers a reconcile of every managed workload.
func (k *keeper) wake() {
	for _, workload := range k.memories.managed("") {
		k.signals[workload.Kind].Now(workload.NamespacedName)
	}
}
