package swarm

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// environment is everything around the reconciler: an API server, a leader, a link and an event recorder.
type environment struct {
	manager.Manager
	recorder.EventRecorder
	indexes    *fake.ClientBuilder
	client     client.Client
	dispatcher *dispatch.Dispatcher
	sent       []*linkv1.OperatorMessage
	events     []string // the reasons
}

func (e *environment) GetClient() client.Client                       { return e.client }
func (e *environment) GetEventRecorder(string) recorder.EventRecorder { return e }

func (e *environment) GetFieldIndexer() client.FieldIndexer { return e }

// IndexField implements client.FieldIndexer.
func (e *environment) IndexField(_ context.Context, kind client.Object, field string, extract client.IndexerFunc) error {
	e.indexes.WithIndex(kind, field, extract)
	return nil
}

//nolint:revive // the recorder's interface has that many arguments
func (e *environment) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	e.events = append(e.events, reason)
}

func (e *environment) Send(_ link.Agent, message *linkv1.OperatorMessage) error {
	e.sent = append(e.sent, message)
	return nil
}

func (e *environment) Disconnect(link.Agent, time.Time) bool     { return true }
func (e *environment) LastHeard(link.Agent) (time.Time, bool)    { return time.Now(), true }
func (e *environment) Term() int64                               { return 1 }
func (e *environment) RaiseTerm(int64) int64                     { return 1 }
func (e *environment) After(types.NamespacedName, time.Duration) {}
func (e *environment) assignments() (assigned []*linkv1.Attempt) {
	for _, message := range e.sent {
		if assign := message.GetAssign(); assign != nil {
			assigned = append(assigned, assign.GetAttempt())
		}
	}
	return assigned
}

// newEnvironment returns a cluster with these objects and a reconciler for it.
func newEnvironment(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) (*reconciler, *environment) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	e := &environment{indexes: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(hooks).
		WithStatusSubresource(&v1alpha1.Swarm{}, &v1alpha1.Agent{}).WithIndex(&v1alpha1.Task{}, taskIndex, indexTaskBySwarm)}
	if err := errors.Join(kit.IndexOwner(t.Context(), e, &appsv1.StatefulSet{}), kit.IndexOwner(t.Context(), e,
		&v1alpha1.Agent{})); err != nil {
		t.Fatal(err)
	}
	e.client = e.indexes.Build()
	e.dispatcher = dispatch.New(dispatch.Config{Lease: 15 * time.Second, Leadership: e, Tasks: e, Agents: e, Swarms: e,
		Metrics: prometheus.NewRegistry()})
	e.dispatcher.Connect(e)
	e.dispatcher.Open(dispatch.Snapshot{})
	return &reconciler{
		client: e.client, apiReader: e.client, dispatcher: e.dispatcher, status: kit.NewStatus[*v1alpha1.Swarm](&kit.Operator{Manager: e}, name),
		settings: func(context.Context) manifest.Settings { return manifest.Settings{Authority: "PEM"} },
	}, e
}

// getSwarm returns the stored swarm.
func (e *environment) getSwarm(t *testing.T) *v1alpha1.Swarm {
	t.Helper()
	swarm := &v1alpha1.Swarm{}
	if err := e.client.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "research"}, swarm); err != nil {
		t.Fatal(err)
	}
	return swarm
}

// newDeletingSwarm returns a swarm that is being deleted, with the objects around it.
func newDeletingSwarm(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) (*reconciler, *environment, *v1alpha1.Swarm) {
	t.Helper()
	swarm := newSwarm(nil)
	swarm.Finalizers, swarm.DeletionTimestamp = []string{v1alpha1.Finalizer}, new(metav1.Now())
	r, e := newEnvironment(t, hooks, append(objects, swarm)...)
	return r, e, e.getSwarm(t)
}

func newTask(swarm, name string, finalizers ...string) *v1alpha1.Task {
	task := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("uid-" + name), Finalizers: finalizers}}
	task.Spec.SwarmRef.Name = swarm
	return task
}

// startTask makes an agent of the swarm take a task.
func (e *environment) startTask(t *testing.T, task *v1alpha1.Task) *linkv1.Attempt {
	t.Helper()
	agent := link.Agent{Namespace: "demo", Name: "research-coder-0"}
	object := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: agent.Namespace, Name: agent.Name}}
	object.Spec.SwarmRef.Name, object.Status.LinkedPodUID = "research", "pod-uid"
	e.dispatcher.SetAgent(object, 0)
	if err := e.dispatcher.Joined(agent, "pod-uid", &linkv1.Hello{Swarm: "research", Slots: 2}); err != nil {
		t.Fatal(err)
	}
	e.dispatcher.Received(agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: 2}}})
	e.dispatcher.SetSwarm(types.NamespacedName{Namespace: "demo", Name: "research"}, dispatch.SwarmRules{})
	e.dispatcher.Observe(task, dispatch.TaskInput{})
	e.runDispatcher()
	if got := e.assignments(); len(got) != 1 {
		t.Fatalf("assigned %v", got)
	}
	return e.assignments()[0]
}

// runDispatcher lets the dispatcher run until nothing is left to do at once.
func (e *environment) runDispatcher() {
	ctx, stop := context.WithCancel(context.Background())
	go e.dispatcher.Run(ctx)
	synctest.Wait()
	stop()
	synctest.Wait()
}

func (e *environment) finishAttempt(attempt *linkv1.Attempt) {
	result := &linkv1.Result{Attempt: attempt, Outcome: linkv1.Outcome_OUTCOME_CANCELLED}
	e.dispatcher.Received(link.Agent{Namespace: "demo", Name: "research-coder-0"},
		&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: result}})
}

func remainingTasks(t *testing.T, cluster client.Client) []string {
	t.Helper()
	tasks := &v1alpha1.TaskList{}
	if err := cluster.List(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	var left []string
	for n := range tasks.Items {
		left = append(left, tasks.Items[n].Name)
	}
	return left
}

var anyResource = v1alpha1.GroupVersion.WithResource("agents").GroupResource()

func notFound(name string) error { return apierrors.NewNotFound(anyResource, name) }

func conflict(name string) error {
	return apierrors.NewConflict(anyResource, name, errors.New("the UID in the precondition is another"))
}
