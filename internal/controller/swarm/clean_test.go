package swarm

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/kit"
)

// environment is everything around the reconciler: an API server, a leader, a link and an event recorder.
type environment struct {
	manager.Manager
	recorder.EventRecorder
	cluster client.Client
	board   *dispatch.Board
	sent    []*linkv1.OperatorMessage
}

func (e *environment) GetClient() client.Client                       { return e.cluster }
func (e *environment) GetEventRecorder(string) recorder.EventRecorder { return e }

//nolint:revive // the recorder's interface has that many arguments
func (e *environment) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

func (e *environment) Send(_ link.Agent, message *linkv1.OperatorMessage) error {
	e.sent = append(e.sent, message)
	return nil
}

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

// deleting is a swarm that is being deleted, with the objects around it.
func deleting(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) (*reconciler, *environment, *v1alpha1.Swarm) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	swarm := research(nil)
	swarm.Finalizers, swarm.DeletionTimestamp = []string{v1alpha1.Finalizer}, new(metav1.Now())
	e := &environment{cluster: fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, swarm)...).WithInterceptorFuncs(hooks).
		WithStatusSubresource(&v1alpha1.Swarm{}).WithIndex(&v1alpha1.Task{}, taskIndex, swarmOf).Build()}
	e.board = dispatch.New(dispatch.Config{Lease: 15 * time.Second, Leadership: e, Tasks: e, Agents: e, Swarms: e, Metrics: prometheus.NewRegistry()})
	e.board.Connect(e)
	e.board.Open(dispatch.Census{})
	r := &reconciler{client: e.cluster, board: e.board, status: kit.NewStatus[*v1alpha1.Swarm](&kit.Operator{Manager: e}, name)}
	if err := e.cluster.Get(t.Context(), client.ObjectKeyFromObject(swarm), swarm); err != nil {
		t.Fatal(err)
	}
	return r, e, swarm
}

func taskOf(swarm, name string, finalizers ...string) *v1alpha1.Task {
	task := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("uid-" + name), Finalizers: finalizers}}
	task.Spec.SwarmRef.Name = swarm
	return task
}

// run has an agent of the swarm take a task.
func (e *environment) run(t *testing.T, task *v1alpha1.Task) *linkv1.Attempt {
	t.Helper()
	who := link.Agent{Namespace: "demo", Name: "research-coder-0"}
	object := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: who.Namespace, Name: who.Name}}
	object.Spec.SwarmRef.Name = "research"
	e.board.Enrol(object)
	if err := e.board.Joined(who, "pod-uid", &linkv1.Hello{Swarm: "research", Slots: 2}); err != nil {
		t.Fatal(err)
	}
	e.board.Received(who, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: 2}}})
	e.board.Govern(types.NamespacedName{Namespace: "demo", Name: "research"}, dispatch.Rules{})
	e.board.Observe(task, dispatch.Brief{})
	e.pass()
	if got := e.assignments(); len(got) != 1 {
		t.Fatalf("assigned %v", got)
	}
	return e.assignments()[0]
}

// pass lets the dispatcher run until nothing is left to do at once.
func (e *environment) pass() {
	ctx, stop := context.WithCancel(context.Background())
	go e.board.Run(ctx)
	synctest.Wait()
	stop()
	synctest.Wait()
}

func (e *environment) concludes(attempt *linkv1.Attempt) {
	result := &linkv1.Result{Attempt: attempt, Outcome: linkv1.Outcome_OUTCOME_CANCELLED}
	e.board.Received(link.Agent{Namespace: "demo", Name: "research-coder-0"}, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: result}})
}

func remaining(t *testing.T, cluster client.Client) []string {
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

func TestSwarmWithNothingLeftIsCleanedAtOnce(t *testing.T) {
	r, e, swarm := deleting(t, interceptor.Funcs{}, taskOf("other", "u"))
	if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Cleaned() {
		t.Errorf("got %+v, %v", got, err)
	}
	if left := remaining(t, e.cluster); len(left) != 1 {
		t.Errorf("left %v: tasks of other swarms stay", left)
	}
	if swarm.Status.Phase == v1alpha1.SwarmPhaseTerminating {
		t.Error("a status was written that nobody waits for")
	}
}

func TestDeletedSwarmDeletesItsTasksAndNoOthers(t *testing.T) {
	r, e, swarm := deleting(t, interceptor.Funcs{}, taskOf("research", "a"), taskOf("research", "b"), taskOf("other", "u"))
	if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Cleaned() {
		t.Errorf("got %+v, %v", got, err)
	}
	if left := remaining(t, e.cluster); len(left) != 1 || left[0] != "u" {
		t.Errorf("left %v, want [u]", left)
	}
}

func TestDeletedSwarmStaysWhileAnAgentHoldsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := taskOf("research", "a")
		r, e, swarm := deleting(t, interceptor.Funcs{}, task)
		attempt := e.run(t, task)
		for range 3 {
			if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Pending("Draining") {
				t.Fatalf("got %+v, %v: the agent still works", got, err)
			}
		}
		if left := remaining(t, e.cluster); len(left) != 0 {
			t.Errorf("left %v", left)
		}
		e.board.Forget(client.ObjectKeyFromObject(task))
		e.concludes(attempt)
		if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Cleaned() {
			t.Errorf("got %+v, %v: nothing runs any more", got, err)
		}
	})
}

func TestDeletedSwarmStaysWhileATaskIsHeld(t *testing.T) {
	r, e, swarm := deleting(t, interceptor.Funcs{}, taskOf("research", "a"), taskOf("research", "b", "example.com/archive"), taskOf("research", "c"))
	for range 2 { // the second time the task is already being deleted
		if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Pending("Draining") {
			t.Errorf("got %+v, %v: another controller has not let go of a task", got, err)
		}
	}
	if left := remaining(t, e.cluster); len(left) != 1 || left[0] != "b" {
		t.Errorf("left %v, want [b]", left)
	}
}

func TestDeletedSwarmGivesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, next := taskOf("research", "a"), taskOf("research", "b")
		r, e, swarm := deleting(t, interceptor.Funcs{}, first)
		e.run(t, first)
		if _, err := r.clean(t.Context(), swarm); err != nil {
			t.Fatal(err)
		}
		e.board.Observe(next, dispatch.Brief{})
		e.pass()
		view := e.board.Observe(next, dispatch.Brief{})
		if got := e.assignments(); len(got) != 1 || view.Wait == nil || view.Wait.Reason != v1alpha1.ReasonTerminating {
			t.Errorf("assigned %v, waits %+v", got, view.Wait)
		}
	})
}

func TestDeletionShowsWhatItWaitsFor(t *testing.T) {
	patches := 0
	count := interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, part string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		patches++
		return c.SubResource(part).Patch(ctx, object, patch, options...)
	}}
	r, e, swarm := deleting(t, count, taskOf("research", "a", "example.com/archive"))
	for range 3 {
		if _, err := r.clean(t.Context(), swarm); err != nil {
			t.Fatal(err)
		}
	}
	stored := &v1alpha1.Swarm{}
	if err := e.cluster.Get(t.Context(), client.ObjectKeyFromObject(swarm), stored); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(stored.Status.Conditions, v1alpha1.ConditionReady)
	if stored.Status.Phase != v1alpha1.SwarmPhaseTerminating || ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != string(v1alpha1.ReasonTerminating) {
		t.Errorf("phase %q, Ready %+v", stored.Status.Phase, ready)
	}
	if patches != 1 {
		t.Errorf("%d status writes for one piece of news", patches)
	}
}

func TestDeletionThatFailsIsTriedAgain(t *testing.T) {
	refused := errors.New("refused")
	for reason, hooks := range map[string]interceptor.Funcs{
		"tasks cannot be listed": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused }},
		"a task cannot be deleted": {Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return refused
		}},
		"the status cannot be written": {SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return refused
		}},
	} {
		t.Run(reason, func(t *testing.T) {
			r, _, swarm := deleting(t, hooks, taskOf("research", "a"))
			if got, err := r.clean(t.Context(), swarm); !errors.Is(err, refused) || got == kit.Cleaned() {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// A task that was deleted and created anew under its name since the cache was read is not the one that was looked at.
func TestTasksAreDeletedByTheirUID(t *testing.T) {
	named := types.UID("")
	hooks := interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
		if conditions := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions; conditions != nil && conditions.UID != nil {
			named = *conditions.UID
		}
		return nil
	}}
	r, _, swarm := deleting(t, hooks, taskOf("research", "a"))
	if _, err := r.clean(t.Context(), swarm); err != nil || named != "uid-a" {
		t.Errorf("deleted whatever has UID %q, %v", named, err)
	}
}
