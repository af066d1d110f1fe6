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
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// controllerName is the reporting controller of events, and the prefix of the controller names.
const controllerName = "spread"

// An Allocator informs admission which classes accept pods.
type Allocator interface {
	SetClassStates(workload workloads.Key, shortage split.ClassStates)
	Forget(workload workloads.Key)
}

// Coverage reports whether admission sees the pods of a namespace and, if it never will, why.
type Coverage interface {
	Covers(ctx context.Context, namespace string) (covered bool, never string)
}

// Options are the configuration and the dependencies of this controller.
type Options struct {
	Settings  snapshot.Settings
	ListPods  workloads.PodLister
	Allocator Allocator
	Coverage  Coverage
	Scope     *kit.Scope
	Resync    time.Duration
	Workers   int
	Metrics   prometheus.Registerer
}

// A controller keeps workloads of any kind spread.
type controller struct {
	client    client.Client
	listPods  workloads.PodLister
	recorder  events.EventRecorder
	settings  snapshot.Settings
	allocator Allocator
	coverage  Coverage
	nodes     *nodeTracker
	states    *stateStore
	metrics   *metrics
	triggers  map[v1alpha1.WorkloadKind]*kit.Trigger
	resync    time.Duration
	now       func() time.Time
}

// Add adds the spread controllers to the operator: one for each kind of workload, and one for nodes.
func Add(operator *kit.Operator, options Options) error {
	c := &controller{
		client: operator.GetClient(), listPods: options.ListPods, recorder: operator.GetEventRecorder(controllerName), settings: options.Settings,
		allocator: options.Allocator, coverage: options.Coverage, states: newStateStore(options.Settings), resync: options.Resync, now: time.Now,
		triggers: map[v1alpha1.WorkloadKind]*kit.Trigger{v1alpha1.WorkloadDeployment: {}, v1alpha1.WorkloadStatefulSet: {}},
	}
	c.nodes = &nodeTracker{settings: options.Settings, cachedReader: operator.GetClient(), liveReader: operator.GetAPIReader(),
		onChange: c.triggerAll, now: time.Now}
	c.metrics = newMetrics(options.Metrics, c.states, c.nodes)
	return errors.Join(
		kit.New[*corev1.Node](operator, controllerName+"-nodes").Predicates(c.nodes.nodeChanged()).IncludeDeleting().
			OnDeleted(kit.Forget(c.nodes.remove)).Build(c.nodes),
		add(operator, options, &reconciler[*appsv1.Deployment]{c, v1alpha1.WorkloadDeployment, workloads.Deployment}),
		add(operator, options, &reconciler[*appsv1.StatefulSet]{c, v1alpha1.WorkloadStatefulSet, workloads.StatefulSet}),
	)
}

func add[T client.Object](operator *kit.Operator, options Options, r *reconciler[T]) error {
	return kit.New[T](operator, controllerName+"-"+strings.ToLower(string(r.kind))).
		Secondary().
		Predicates(r.workloadChanged()).
		Watches(&corev1.Pod{}, r.workloadOfPod, podChanged()).
		Watches(&policyv1.PodDisruptionBudget{}, r.workloadsNear, budgetChanged()).
		Watches(&corev1.Namespace{}, r.workloadsIn, windowsChanged(r.settings)).
		TriggeredBy(r.triggers[r.kind]).
		OnDeleted(kit.Forget(r.forget)).
		OnOutOfScope(r.forget).
		Namespaces(options.Scope).
		Concurrency(options.Workers).
		Build(r)
}

// A reconciler keeps workloads of one kind spread.
type reconciler[T client.Object] struct {
	*controller
	kind       v1alpha1.WorkloadKind
	toWorkload func(T) workloads.Workload
}

// Reconcile advances a workload by one step.
func (r *reconciler[T]) Reconcile(ctx context.Context, object T) (kit.Result, error) {
	workload := r.toWorkload(object)
	spec := r.settings.Spec(workload)
	if !spec.Managed() {
		return kit.Done(), r.release(ctx, workload)
	}
	return r.reconcileTarget(ctx, target{workload, spec, r.states.getOrCreate(workload), r.now()})
}

func (r *reconciler[T]) forget(name types.NamespacedName) {
	r.controller.forget(workloads.Key{Kind: r.kind, NamespacedName: name})
}

// target is a managed workload during one reconcile.
type target struct {
	workloads.Workload

	spec  snapshot.Spec
	state *workloadState
	now   time.Time
}

func (c *controller) reconcileTarget(ctx context.Context, t target) (kit.Result, error) {
	snap, err := c.observe(ctx, t)
	if err != nil {
		return kit.Done(), err
	}
	plan := makePlan(snap, t)
	c.states.update(t.state, plan.Decision.Classes, snap.nodes)
	// Before any pod is removed: its replacement is admitted at once.
	c.allocator.SetClassStates(t.Key, plan.Decision.Classes)
	err = c.apply(ctx, t, snap, &plan)
	return c.report(ctx, t, plan, err)
}

func (c *controller) forget(workload workloads.Key) {
	c.states.forget(workload)
	c.allocator.Forget(workload)
}

// triggerAll triggers a reconcile of every managed workload.
func (c *controller) triggerAll() {
	for _, workload := range c.states.managedKeys("") {
		c.triggers[workload.Kind].Now(workload.NamespacedName)
	}
}
