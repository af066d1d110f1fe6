package dispatch

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
)

// withBudget runs a test with a budget for each namespace. Swarm s has no agents.
func withBudget(t *testing.T, budget Budget, test func(t *testing.T, f *fixture)) {
	t.Helper()
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setBudget(budget)
		f.setSwarms("s")
		test(t, f)
	})
}

func (f *fixture) setBudget(budget Budget) {
	f.config.Budget, f.config.Refusals = budget, limit.NewRefusals(f.registry)
}

// taskCreatedAt returns a task of swarm s that was created so many seconds after the first.
func (f *fixture) taskCreatedAt(name string, seconds int) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.Namespace, task.Name, task.UID, task.Spec.SwarmRef.Name = "ns", name, types.UID("uid-"+name), "s"
	task.CreationTimestamp = metav1.NewTime(time.Unix(int64(seconds), 0))
	f.bumpVersion(task)
	return task
}

// waitReasons returns why tasks wait, from an Observe of each.
func (f *fixture) waitReasons(tasks ...*v1alpha1.Task) []v1alpha1.Reason {
	var reasons []v1alpha1.Reason
	for _, task := range tasks {
		reasons = append(reasons, f.Observe(task, TaskInput{}).Wait.Reason)
	}
	return reasons
}

// finishTask stores a final phase.
func (f *fixture) finishTask(task *v1alpha1.Task) {
	task.Status.Phase = v1alpha1.TaskCancelled
	f.bumpVersion(task)
	f.MarkStored(task, nil)
}

// takeImmediateTriggers returns the tasks for which an immediate reconcile was requested since the last call.
func (f *fixture) takeImmediateTriggers() []string {
	var names []string
	for _, trigger := range f.triggers {
		if trigger.delay == 0 {
			names = append(names, trigger.name)
		}
	}
	f.triggers = nil
	return names
}

func TestTaskBeyondTheLimitIsNotAdmitted(t *testing.T) {
	payload := &apiextensionsv1.JSON{Raw: []byte(`{"a":"` + strings.Repeat("a", 8000) + `"}`)}
	for name, c := range map[string]struct {
		budget  Budget
		payload *apiextensionsv1.JSON
		refused int // of three
		limit   limit.Limit
		says    string
	}{
		"no limit":              {Budget{}, payload, 0, "", ""},
		"two tasks":             {Budget{Tasks: 2}, payload, 1, limit.TasksPerNamespace, "limits.tasksPerNamespace allows (2)"},
		"room for one payload":  {Budget{Bytes: 16 << 10}, payload, 2, limit.BytesPerNamespace, "limits.bytesPerNamespace allows (16Ki)"},
		"room for none":         {Budget{Bytes: 1}, payload, 2, limit.BytesPerNamespace, "limits.bytesPerNamespace allows (1)"},
		"room without payloads": {Budget{Bytes: 16 << 10}, nil, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			withBudget(t, c.budget, func(t *testing.T, f *fixture) {
				for n := range 3 {
					task := f.taskCreatedAt(fmt.Sprint("t", n), n)
					task.Spec.Payload = c.payload
					f.Observe(task, TaskInput{})
					view := f.Observe(task, TaskInput{}) // which is not counted again
					if over := n >= 3-c.refused; over != (view.Wait.Reason == v1alpha1.ReasonNamespaceLimitReached) ||
						over && !strings.Contains(view.Wait.Message, c.says) {
						t.Errorf("task %d waits: %+v", n, view.Wait)
					}
				}
				if c.refused > 0 && f.metricValue(t, "swarm_limit_refused_total", string(c.limit)) != float64(c.refused) {
					t.Error("not every refusal was counted once")
				}
				if len(f.tasks) != 3-c.refused || len(f.waitingNames()) != c.refused {
					t.Errorf("%d tasks are held, %v wait", len(f.tasks), f.waitingNames())
				}
			})
		})
	}
}

// waitingNames returns the names of the tasks of namespace ns that wait for room.
func (f *fixture) waitingNames() []string {
	var names []string
	if usage := f.usage["ns"]; usage != nil {
		for _, waiting := range usage.queue.heap {
			names = append(names, waiting.name)
		}
	}
	slices.Sort(names)
	return names
}

func TestNamespacesHaveBudgetsOfTheirOwn(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		here, there := f.taskCreatedAt("t", 0), f.taskCreatedAt("t", 0)
		there.Namespace = "other"
		if got := f.waitReasons(here, there); got[0] != "" || got[1] != "" {
			t.Errorf("wait because of %q", got)
		}
	})
}

func TestOldestTaskIsTakenUpFirst(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		first, old, middle, young := f.taskCreatedAt("first", 0), f.taskCreatedAt("b-old", 1), f.taskCreatedAt("a-middle", 2),
			f.taskCreatedAt("c-young", 3)
		f.waitReasons(first, young, middle, old)
		f.takeImmediateTriggers()
		f.finishTask(first)
		if triggered := f.takeImmediateTriggers(); !slices.Equal(triggered, []string{"b-old"}) {
			t.Fatalf("called %v", triggered)
		}
		if got := f.waitReasons(young, f.taskCreatedAt("a-new", 0), old); got[0] == "" || got[1] == "" || got[2] != "" {
			t.Errorf("wait because of %q: the room was for the oldest that had waited", got)
		}
	})
}

// However many tasks wait, each finished task triggers one other, and time alone triggers none.
func TestManyThatWaitCostNothing(t *testing.T) {
	withBudget(t, Budget{Tasks: 300}, func(t *testing.T, f *fixture) {
		var admitted []*v1alpha1.Task
		for n := range 2000 {
			task := f.taskCreatedAt(fmt.Sprint("t", n), n)
			f.Observe(task, TaskInput{})
			if n < 300 {
				admitted = append(admitted, task)
			}
		}
		f.takeImmediateTriggers()
		for range 100 {
			time.Sleep(sweepInterval)
			f.runStep()
		}
		if triggered := f.takeImmediateTriggers(); len(triggered) > 0 {
			t.Errorf("looked at %d tasks", len(triggered))
		}
		f.finishTask(admitted[0])
		if triggered := f.takeImmediateTriggers(); len(triggered) != 1 {
			t.Errorf("looked at %d tasks when one had finished", len(triggered))
		}
		for _, task := range admitted[1:] {
			f.finishTask(task)
		}
		if triggered := f.takeImmediateTriggers(); len(triggered) != maxReservations-1 {
			t.Errorf("looked at %d tasks when all had finished", len(triggered))
		}
	})
}

// A task that is held brings the next one: in the end all are held.
func TestTasksThatAreTakenUpBringOthers(t *testing.T) {
	withBudget(t, Budget{Tasks: 2 * maxReservations}, func(t *testing.T, f *fixture) {
		all := map[string]*v1alpha1.Task{}
		for n := range 5 * maxReservations {
			task := f.taskCreatedAt(fmt.Sprint("t", n), n)
			all[task.Name] = task
			f.Observe(task, TaskInput{})
		}
		for n := range 2 * maxReservations {
			f.finishTask(all[fmt.Sprint("t", n)])
		}
		for triggered := f.takeImmediateTriggers(); len(triggered) > 0; triggered = f.takeImmediateTriggers() {
			for _, name := range triggered {
				f.Observe(all[name], TaskInput{})
			}
		}
		if len(f.tasks) != 2*maxReservations || len(f.waitingNames()) != maxReservations {
			t.Errorf("%d tasks are held, %d wait", len(f.tasks), len(f.waitingNames()))
		}
	})
}

// A task may be paused when there is room for it, and then it is not observed.
func TestUnusedReservationExpires(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		first, paused, next := f.taskCreatedAt("first", 0), f.taskCreatedAt("paused", 1), f.taskCreatedAt("next", 2)
		f.waitReasons(first, paused, next)
		f.finishTask(first)
		f.runStep()
		f.takeImmediateTriggers()
		time.Sleep(reservationTTL)
		f.runStep()
		if triggered := f.takeImmediateTriggers(); !slices.Contains(triggered, "next") {
			t.Errorf("called %v", triggered)
		}
		if got := f.waitReasons(paused, next); got[0] != v1alpha1.ReasonNamespaceLimitReached || got[1] != "" {
			t.Errorf("wait because of %q", got)
		}
	})
}

func TestDeletedTaskLeavesTheWaitQueue(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		first, gone, invited := f.taskCreatedAt("first", 0), f.taskCreatedAt("gone", 1), f.taskCreatedAt("invited", 2)
		f.waitReasons(first, gone, invited)
		f.Forget(nameOf(gone))
		f.finishTask(first)
		if triggered := f.takeImmediateTriggers(); slices.Contains(triggered, "gone") || !slices.Contains(triggered, "invited") {
			t.Errorf("called %v", triggered)
		}
		f.Forget(nameOf(invited))
		if len(f.usage) != 0 {
			t.Errorf("remembers %+v", f.usage["ns"])
		}
	})
}

// The room of a task is that of its current payload.
func TestLargeTaskIsNotPassedBySmallOnes(t *testing.T) {
	withBudget(t, Budget{Bytes: 16 << 10}, func(t *testing.T, f *fixture) {
		large := func(name string, seconds int) *v1alpha1.Task {
			task := f.taskCreatedAt(name, seconds)
			task.Spec.Payload = &apiextensionsv1.JSON{Raw: make([]byte, 8<<10)}
			return task
		}
		first, second, small := large("first", 0), large("second", 1), f.taskCreatedAt("small", 2)
		if got := f.waitReasons(first, second, small); got[0] != "" || got[1] == "" || got[2] == "" {
			t.Fatalf("wait because of %q", got)
		}
		f.finishTask(first)
		if got := f.waitReasons(small, second, small); got[1] != "" || got[2] != "" {
			t.Errorf("wait because of %q", got)
		}
	})
}

func TestAssignedTaskIsAlwaysAdmitted(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		f.waitReasons(f.taskCreatedAt("first", 0))
		stored := f.taskCreatedAt("stored", 1)
		stored.Status.Epoch, stored.Status.AssignedAgents = 1, []v1alpha1.AssignedAgent{{Name: "a", Epoch: 1}}
		f.sequence = 1
		f.joinAgent(t, "b", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "unwritten", TaskUid: "uid-unwritten", Attempt: 1, Epoch: 1<<32 | 1})
		for _, task := range []*v1alpha1.Task{stored, f.taskCreatedAt("unwritten", 2)} {
			if view := f.Observe(task, TaskInput{}); view.Assignment == nil {
				t.Errorf("%s: %+v", task.Name, view)
			}
		}
	})
}

func TestNewLeaderAdmitsAssignedTasksThenTheOldest(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setBudget(Budget{Tasks: 3})
		running := f.taskCreatedAt("running", 9)
		running.Status.Epoch, running.Status.AssignedAgents = 1, []v1alpha1.AssignedAgent{{Name: "a", Epoch: 1}}
		snapshot := Snapshot{}
		for _, task := range []*v1alpha1.Task{f.taskCreatedAt("c", 3), f.taskCreatedAt("d", 4), f.taskCreatedAt("a", 1), f.taskCreatedAt("b", 2),
			running} {
			snapshot.Tasks = append(snapshot.Tasks, *task)
		}
		f.Open(snapshot)
		for _, name := range []string{"running", "a", "b"} {
			if f.tasks[namespacedName(name)] == nil {
				t.Errorf("%s is not held", name)
			}
		}
		if waiting := f.waitingNames(); !slices.Equal(waiting, []string{"c", "d"}) {
			t.Errorf("%v wait", waiting)
		}
	})
}

// The controller stores the end of a task even if the task is not held. A stale cache does not bring it back.
func TestEndOfAnUnadmittedTaskIsRemembered(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		first, over := f.taskCreatedAt("first", 0), f.taskCreatedAt("over", 1)
		f.waitReasons(first, over)
		before := over.DeepCopy()
		f.finishTask(over)
		f.finishTask(first)
		if view := f.Observe(before, TaskInput{}); !view.Stale {
			t.Errorf("a cache that is behind shows it again: %+v", view)
		}
	})
}

// A former leader may have assigned the task without a trace in its status. It must not end before its agents have reported.
func TestEndOfAnUnadmittedTaskWaitsForAgents(t *testing.T) {
	withFixture(t, []corev1.Pod{pod("a", "s")}, func(t *testing.T, f *fixture) {
		f.setBudget(Budget{Tasks: 1})
		f.setSwarms("s")
		f.waitReasons(f.taskCreatedAt("first", 0))
		over := f.taskCreatedAt("over", 1)
		if view := f.Observe(over, TaskInput{Stop: Cancel, WillEnd: true}); view.DeferredUntil.IsZero() {
			t.Fatalf("may end at once: %+v", view)
		}
		time.Sleep(f.leaseTimeout())
		if view := f.Observe(over, TaskInput{Stop: Cancel, WillEnd: true}); !view.DeferredUntil.IsZero() {
			t.Errorf("may not end: %+v", view)
		}
	})
}

// Each of many waiting tasks costs a write.
func TestWaitsBeyondTheLimitAreReportedOneAfterTheOther(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		f.waitReasons(f.taskCreatedAt("first", 0))
		for n := range 100 {
			told := f.Observe(f.taskCreatedAt(fmt.Sprint("t", n), n), TaskInput{}).WaitingSince.Add(longReportDelay)
			if want := time.Now().Add(longReportDelay + time.Duration(n)*waitReportInterval); !told.Equal(want) {
				t.Fatalf("task %d is reported at %s, want %s", n, told, want)
			}
		}
	})
}

func TestTasksBeyondTheLimitAreCounted(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		f.waitReasons(f.taskCreatedAt("a", 0), f.taskCreatedAt("b", 1), f.taskCreatedAt("c", 2))
		f.runStep()
		if waiting, over := f.metricValue(t, "swarm_task_unfinished", "waiting"), f.metricValue(t, "swarm_task_unfinished",
			"overLimit"); waiting != 1 || over != 2 {
			t.Errorf("%v wait, %v are beyond the limit", waiting, over)
		}
	})
}

// In every order of events, the usage matches what is held, and no task waits while there is room.
func TestBudgetIsKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		withBudget(t, Budget{Tasks: 3, Bytes: 8 << 10}, func(t *testing.T, f *fixture) {
			tasks := map[string]*v1alpha1.Task{}
			for range rapid.IntRange(1, 60).Draw(r, "events") {
				name := fmt.Sprint("t", rapid.IntRange(0, 9).Draw(r, "task"))
				task := tasks[name]
				if task == nil {
					task = f.taskCreatedAt(name, rapid.IntRange(0, 3).Draw(r, "age"))
					task.Spec.Payload = &apiextensionsv1.JSON{Raw: make([]byte, rapid.IntRange(0, 4<<10).Draw(r, "bytes"))}
					tasks[name] = task
				}
				switch rapid.IntRange(0, 4).Draw(r, "event") {
				case 0:
					f.finishTask(task)
					delete(tasks, name)
				case 1:
					f.Forget(nameOf(task))
					delete(tasks, name)
				case 2:
					time.Sleep(reservationTTL)
					f.runStep()
				default:
					f.Observe(task, TaskInput{})
				}
				f.checkUsage(t)
			}
			for triggered := f.takeImmediateTriggers(); len(triggered) > 0; triggered = f.takeImmediateTriggers() {
				for _, name := range triggered {
					if tasks[name] != nil {
						f.Observe(tasks[name], TaskInput{})
					}
				}
			}
			for name, task := range tasks {
				f.finishTask(task)
				delete(tasks, name)
			}
			if len(f.usage) != 0 {
				t.Errorf("remembers %+v", f.usage["ns"])
			}
		})
	})
}

func (f *fixture) checkUsage(t *testing.T) {
	t.Helper()
	tasks, bytes := 0, int64(0)
	for _, state := range f.tasks {
		tasks, bytes = tasks+1, bytes+state.size
	}
	usage := f.usage["ns"]
	if usage == nil {
		usage = &namespaceUsage{}
	}
	promised := int64(0)
	for _, reservation := range usage.reservations {
		promised += reservation.bytes
	}
	if usage.tasks != tasks || usage.bytes != bytes || usage.reservedBytes != promised || tasks > 3 || tasks > 1 && bytes > 8<<10 {
		t.Fatalf("%d tasks of %d bytes are held, counted are %+v", tasks, bytes, usage)
	}
	if waiting := usage.queue.heap; len(waiting) > 0 && usage.exceededLimit(f.config.Budget, waiting[0].bytes) == "" {
		t.Fatalf("%s waits although there is room: %+v", waiting[0].name, usage)
	}
}

// noopDependencies stubs the dependencies of a dispatcher and remembers nothing.
type noopDependencies struct{}

func (noopDependencies) Term() int64                               { return 1 }
func (noopDependencies) RaiseTerm(int64) int64                     { return 1 }
func (noopDependencies) After(types.NamespacedName, time.Duration) {}

// observeMany shows a new dispatcher this many tasks with large payloads and lists of items, and returns how many bytes of each it keeps.
func observeMany(t *testing.T, many int, budget Budget, change func(*v1alpha1.Task)) (perTask, charged int64) {
	t.Helper()
	dispatcher := New(Config{Leadership: noopDependencies{}, Tasks: noopDependencies{}, Agents: noopDependencies{}, Swarms: noopDependencies{},
		Metrics: prometheus.NewRegistry(), Budget: budget})
	dispatcher.Open(Snapshot{})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	for n := range many {
		task := &v1alpha1.Task{}
		task.Namespace, task.Name, task.UID, task.Spec.SwarmRef.Name = "ns", fmt.Sprint("a-task-with-a-name-", n),
			types.UID(fmt.Sprint("0123456789-0123456789-0123456789-", n)), "s"
		change(task)
		charged = sizeOf(task)
		dispatcher.Observe(task, TaskInput{})
	}
	perTask = (heap() - before) / int64(many)
	runtime.KeepAlive(dispatcher)
	return perTask, charged
}

func TestTaskTakesNoMoreThanItCounts(t *testing.T) {
	perTask, charged := observeMany(t, 5_000, Budget{}, func(task *v1alpha1.Task) {
		task.Spec.Items = &v1alpha1.TaskItems{List: []apiextensionsv1.JSON{{Raw: make([]byte, 100<<10)}}}
		for n := range 8 {
			task.Spec.Capabilities = append(task.Spec.Capabilities, fmt.Sprint("capability-", n))
		}
	})
	t.Logf("a task takes %d bytes, %d are counted", perTask, charged)
	if perTask > charged {
		t.Errorf("a task takes %d bytes, %d are counted", perTask, charged)
	}
}

func TestTaskBeyondTheLimitTakesLittleMoreThanItsName(t *testing.T) {
	perTask, _ := observeMany(t, 20_000, Budget{Tasks: 1}, func(task *v1alpha1.Task) {
		task.Spec.Payload = &apiextensionsv1.JSON{Raw: make([]byte, 8<<10)}
	})
	t.Logf("a task beyond the limit takes %d bytes", perTask)
	if perTask > 300 {
		t.Errorf("a task beyond the limit takes %d bytes", perTask)
	}
}
