package swarm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// finishedTask returns a task of the swarm research that was completed so many minutes after the first one.
func finishedTask(name string, minutes int, changes ...func(*v1alpha1.Task)) *v1alpha1.Task {
	task := newTask("research", name)
	task.Status.Phase = v1alpha1.TaskCompleted
	task.Status.CompletionTime = new(metav1.NewTime(time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC)))
	for _, change := range changes {
		change(task)
	}
	return task
}

func TestOldestFinishedTasksAreTooMany(t *testing.T) {
	unfinished := func(task *v1alpha1.Task) { task.Status.Phase = v1alpha1.TaskRunning }
	protected := func(task *v1alpha1.Task) { task.Finalizers = []string{"example.com/archive"} }
	leaving := func(task *v1alpha1.Task) { task.DeletionTimestamp = new(metav1.Now()) }
	paused := func(task *v1alpha1.Task) { task.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"} }
	timeless := func(task *v1alpha1.Task) { task.Status.CompletionTime = nil }
	for reason, c := range map[string]struct {
		limit int
		tasks []*v1alpha1.Task
		want  string
	}{
		"none":                                {2, nil, ""},
		"as many as may be":                   {2, []*v1alpha1.Task{finishedTask("a", 1), finishedTask("b", 2)}, ""},
		"one too many":                        {2, []*v1alpha1.Task{finishedTask("a", 3), finishedTask("b", 1), finishedTask("c", 2)}, "b"},
		"all":                                 {0, []*v1alpha1.Task{finishedTask("a", 2), finishedTask("b", 1)}, "b a"},
		"equally old go by name":              {1, []*v1alpha1.Task{finishedTask("c", 1), finishedTask("a", 1), finishedTask("b", 1)}, "a b"},
		"unfinished ones are not counted":     {1, []*v1alpha1.Task{finishedTask("a", 1), finishedTask("b", 0, unfinished)}, ""},
		"protected ones are not counted":      {1, []*v1alpha1.Task{finishedTask("a", 1), finishedTask("b", 0, protected)}, ""},
		"those that go are not counted":       {1, []*v1alpha1.Task{finishedTask("a", 1), finishedTask("b", 0, leaving)}, ""},
		"paused ones are not counted":         {1, []*v1alpha1.Task{finishedTask("a", 1), finishedTask("b", 0, paused)}, ""},
		"without a time it is their creation": {1, []*v1alpha1.Task{finishedTask("a", 1), finishedTask("b", 2, timeless)}, "b"},
	} {
		t.Run(reason, func(t *testing.T) {
			var tasks []v1alpha1.Task
			for _, task := range c.tasks {
				tasks = append(tasks, *task)
			}
			var got []string
			for _, task := range surplusTasks(tasks, c.limit) {
				got = append(got, task.Name)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

// newRetention returns a swarm with a limit, and with finished tasks, oldest first.
func newRetention(t *testing.T, limit *int32, finished int, hooks interceptor.Funcs) (*retentionReconciler, *environment, *v1alpha1.Swarm) {
	t.Helper()
	swarm := newSwarm(func(spec *v1alpha1.SwarmSpec) { spec.Tasks.FinishedLimit = limit })
	objects := []client.Object{swarm, finishedTask("waiting", 0, func(task *v1alpha1.Task) { task.Status = v1alpha1.TaskStatus{} })}
	for n := range finished {
		objects = append(objects, finishedTask(fmt.Sprintf("t%04d", n), n))
	}
	_, e := newEnvironment(t, hooks, objects...)
	return &retentionReconciler{client: e.client, trigger: &kit.Trigger{}}, e, e.getSwarm(t)
}

func TestFinishedTasksBeyondTheLimitAreDeleted(t *testing.T) {
	r, e, swarm := newRetention(t, new(int32(2)), 5, interceptor.Funcs{})
	if got, err := r.Reconcile(t.Context(), swarm); err != nil || got != kit.Done() {
		t.Fatalf("got %+v, %v", got, err)
	}
	left := remainingTasks(t, e.client)
	slices.Sort(left)
	if want := []string{"t0003", "t0004", "waiting"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

func TestLimitOfFinishedTasksHasADefault(t *testing.T) {
	r, e, swarm := newRetention(t, nil, defaultFinishedLimit+3, interceptor.Funcs{})
	if _, err := r.Reconcile(t.Context(), swarm); err != nil {
		t.Fatal(err)
	}
	if left := remainingTasks(t, e.client); len(left) != defaultFinishedLimit+1 {
		t.Errorf("left %d", len(left))
	}
}

func TestFinishedTasksAreDeletedInBatches(t *testing.T) {
	r, e, swarm := newRetention(t, new(int32(10)), 10+retentionBatchSize+5, interceptor.Funcs{})
	for _, want := range []struct {
		left  int
		again kit.Result
	}{{15, kit.RequeueAfter(retentionPause, "FinishedLimit").LowPriority()}, {10, kit.Done()}} {
		got, err := r.Reconcile(t.Context(), swarm)
		if left := len(remainingTasks(t, e.client)) - 1; err != nil || got != want.again || left != want.left {
			t.Errorf("left %d, %+v, %v", left, got, err)
		}
	}
}

// Since the cache was read, a task may have got a finalizer, or may be another one of the same name.
func TestFinishedTasksAreDeletedWithPreconditions(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct{ answer, fails error }{
		"it is as it was": {nil, nil}, "it has changed": {conflict("t0000"), nil}, "it is gone": {notFound("t0000"), nil},
		"the server failed": {refused, refused},
	} {
		t.Run(name, func(t *testing.T) {
			var preconditions []string
			hooks := interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
				if conditions := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions; conditions != nil && conditions.UID != nil &&
					conditions.ResourceVersion != nil {
					preconditions = append(preconditions, string(*conditions.UID)+" "+*conditions.ResourceVersion)
				}
				return c.answer
			}}
			r, _, swarm := newRetention(t, new(int32(1)), 2, hooks)
			if _, err := r.Reconcile(t.Context(), swarm); !errors.Is(err, c.fails) || !slices.Equal(preconditions, []string{"uid-t0000 999"}) {
				t.Errorf("asked for %q, %v", preconditions, err)
			}
		})
	}
}

func TestRetentionWatchesOnlyTasksThatFinish(t *testing.T) {
	running, finished := finishedTask("t", 0, func(task *v1alpha1.Task) { task.Status.Phase = v1alpha1.TaskRunning }), finishedTask("t", 0)
	for reason, c := range map[string]struct {
		change event.UpdateEvent
		passes bool
	}{
		"it finishes":     {event.UpdateEvent{ObjectOld: running, ObjectNew: finished}, true},
		"it goes on":      {event.UpdateEvent{ObjectOld: running, ObjectNew: running}, false},
		"it was finished": {event.UpdateEvent{ObjectOld: finished, ObjectNew: finished}, false},
	} {
		if got := taskFinishedPredicate.Update(c.change); got != c.passes {
			t.Errorf("%s: %t", reason, got)
		}
	}
}
