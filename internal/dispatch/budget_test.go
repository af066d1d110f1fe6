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
func withBudget(t *testing.T, budget Budget, test func(t *testing.T, d *desk)) {
	t.Helper()
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.limitTo(budget)
		d.rule("s")
		test(t, d)
	})
}

func (d *desk) limitTo(budget Budget) {
	d.config.Budget, d.config.Refusals = budget, limit.NewRefusals(d.registry)
}

// aged returns a task of swarm s that was created so many seconds after the first.
func (d *desk) aged(name string, seconds int) *v1alpha1.Task {
	made := &v1alpha1.Task{}
	made.Namespace, made.Name, made.UID, made.Spec.SwarmRef.Name = "ns", name, types.UID("uid-"+name), "s"
	made.CreationTimestamp = metav1.NewTime(time.Unix(int64(seconds), 0))
	d.stores(made)
	return made
}

// reasons returns why tasks wait, from an Observe of each.
func (d *desk) reasons(tasks ...*v1alpha1.Task) []v1alpha1.Reason {
	var reasons []v1alpha1.Reason
	for _, task := range tasks {
		reasons = append(reasons, d.Observe(task, Brief{}).Wait.Reason)
	}
	return reasons
}

// ends stores a final phase.
func (d *desk) ends(task *v1alpha1.Task) {
	task.Status.Phase = v1alpha1.TaskCancelled
	d.stores(task)
	d.Settle(task, nil)
}

// called returns the tasks for which an immediate reconcile was requested since the last call.
func (d *desk) called() []string {
	var names []string
	for _, signal := range d.signals {
		if signal.delay == 0 {
			names = append(names, signal.name)
		}
	}
	d.signals = nil
	return names
}

func TestTaskBeyondTheLimitIsNotHeld(t *testing.T) {
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
			withBudget(t, c.budget, func(t *testing.T, d *desk) {
				for n := range 3 {
					task := d.aged(fmt.Sprint("t", n), n)
					task.Spec.Payload = c.payload
					d.Observe(task, Brief{})
					view := d.Observe(task, Brief{}) // which is not counted again
					if over := n >= 3-c.refused; over != (view.Wait.Reason == v1alpha1.ReasonNamespaceLimitReached) || over && !strings.Contains(view.Wait.Message, c.says) {
						t.Errorf("task %d waits: %+v", n, view.Wait)
					}
				}
				if c.refused > 0 && d.metric(t, "swarm_limit_refused_total", string(c.limit)) != float64(c.refused) {
					t.Error("not every refusal was counted once")
				}
				if len(d.tasks) != 3-c.refused || len(d.line()) != c.refused {
					t.Errorf("%d tasks are held, %v wait", len(d.tasks), d.line())
				}
			})
		})
	}
}

// line returns the names of the tasks of namespace ns that wait for room.
func (d *desk) line() []string {
	var names []string
	if used := d.usage["ns"]; used != nil {
		for _, waits := range used.line.waiting {
			names = append(names, waits.name)
		}
	}
	slices.Sort(names)
	return names
}

func TestNamespacesHaveBudgetsOfTheirOwn(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		here, there := d.aged("t", 0), d.aged("t", 0)
		there.Namespace = "other"
		if got := d.reasons(here, there); got[0] != "" || got[1] != "" {
			t.Errorf("wait because of %q", got)
		}
	})
}

func TestOldestTaskIsTakenUpFirst(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		first, old, middle, young := d.aged("first", 0), d.aged("b-old", 1), d.aged("a-middle", 2), d.aged("c-young", 3)
		d.reasons(first, young, middle, old)
		d.called()
		d.ends(first)
		if called := d.called(); !slices.Equal(called, []string{"b-old"}) {
			t.Fatalf("called %v", called)
		}
		if got := d.reasons(young, d.aged("a-new", 0), old); got[0] == "" || got[1] == "" || got[2] != "" {
			t.Errorf("wait because of %q: the room was for the oldest that had waited", got)
		}
	})
}

// However many tasks wait, one that finishes has one other looked at, and time alone has none.
func TestManyThatWaitCostNothing(t *testing.T) {
	withBudget(t, Budget{Tasks: 300}, func(t *testing.T, d *desk) {
		var held []*v1alpha1.Task
		for n := range 2000 {
			task := d.aged(fmt.Sprint("t", n), n)
			d.Observe(task, Brief{})
			if n < 300 {
				held = append(held, task)
			}
		}
		d.called()
		for range 100 {
			time.Sleep(sweepEvery)
			d.steps()
		}
		if called := d.called(); len(called) > 0 {
			t.Errorf("looked at %d tasks", len(called))
		}
		d.ends(held[0])
		if called := d.called(); len(called) != 1 {
			t.Errorf("looked at %d tasks when one had finished", len(called))
		}
		for _, task := range held[1:] {
			d.ends(task)
		}
		if called := d.called(); len(called) != mostInvited-1 {
			t.Errorf("looked at %d tasks when all had finished", len(called))
		}
	})
}

// A task that is held brings the next one: in the end all are held.
func TestTasksThatAreTakenUpBringOthers(t *testing.T) {
	withBudget(t, Budget{Tasks: 2 * mostInvited}, func(t *testing.T, d *desk) {
		all := map[string]*v1alpha1.Task{}
		for n := range 5 * mostInvited {
			task := d.aged(fmt.Sprint("t", n), n)
			all[task.Name] = task
			d.Observe(task, Brief{})
		}
		for n := range 2 * mostInvited {
			d.ends(all[fmt.Sprint("t", n)])
		}
		for called := d.called(); len(called) > 0; called = d.called() {
			for _, name := range called {
				d.Observe(all[name], Brief{})
			}
		}
		if len(d.tasks) != 2*mostInvited || len(d.line()) != mostInvited {
			t.Errorf("%d tasks are held, %d wait", len(d.tasks), len(d.line()))
		}
	})
}

// A task may be paused when there is room for it, and then it is not observed.
func TestTaskThatDoesNotComeGivesItsRoomToTheNext(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		first, paused, next := d.aged("first", 0), d.aged("paused", 1), d.aged("next", 2)
		d.reasons(first, paused, next)
		d.ends(first)
		d.steps()
		d.called()
		time.Sleep(invitedFor)
		d.steps()
		if called := d.called(); !slices.Contains(called, "next") {
			t.Errorf("called %v", called)
		}
		if got := d.reasons(paused, next); got[0] != v1alpha1.ReasonNamespaceLimitReached || got[1] != "" {
			t.Errorf("wait because of %q", got)
		}
	})
}

func TestTaskThatIsGoneLeavesTheLine(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		first, gone, invited := d.aged("first", 0), d.aged("gone", 1), d.aged("invited", 2)
		d.reasons(first, gone, invited)
		d.Forget(nameOf(gone))
		d.ends(first)
		if called := d.called(); slices.Contains(called, "gone") || !slices.Contains(called, "invited") {
			t.Errorf("called %v", called)
		}
		d.Forget(nameOf(invited))
		if len(d.usage) != 0 {
			t.Errorf("remembers %+v", d.usage["ns"])
		}
	})
}

// The room of a task is that of its current payload.
func TestLargeTaskIsNotPassedBySmallOnes(t *testing.T) {
	withBudget(t, Budget{Bytes: 16 << 10}, func(t *testing.T, d *desk) {
		large := func(name string, seconds int) *v1alpha1.Task {
			task := d.aged(name, seconds)
			task.Spec.Payload = &apiextensionsv1.JSON{Raw: make([]byte, 8<<10)}
			return task
		}
		first, second, small := large("first", 0), large("second", 1), d.aged("small", 2)
		if got := d.reasons(first, second, small); got[0] != "" || got[1] == "" || got[2] == "" {
			t.Fatalf("wait because of %q", got)
		}
		d.ends(first)
		if got := d.reasons(small, second, small); got[1] != "" || got[2] != "" {
			t.Errorf("wait because of %q", got)
		}
	})
}

func TestTaskThatAgentsHaveIsAlwaysHeld(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		d.reasons(d.aged("first", 0))
		stored := d.aged("stored", 1)
		stored.Status.Epoch, stored.Status.AssignedAgents = 1, []v1alpha1.AssignedAgent{{Name: "a", Epoch: 1}}
		d.sequence = 1
		d.joins(t, "b", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "unwritten", TaskUid: "uid-unwritten", Attempt: 1, Epoch: 1<<32 | 1})
		for _, task := range []*v1alpha1.Task{stored, d.aged("unwritten", 2)} {
			if view := d.Observe(task, Brief{}); view.Held == nil {
				t.Errorf("%s: %+v", task.Name, view)
			}
		}
	})
}

func TestNewLeaderHoldsWhatAgentsHaveAndTheOldest(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.limitTo(Budget{Tasks: 3})
		running := d.aged("running", 9)
		running.Status.Epoch, running.Status.AssignedAgents = 1, []v1alpha1.AssignedAgent{{Name: "a", Epoch: 1}}
		census := Census{}
		for _, task := range []*v1alpha1.Task{d.aged("c", 3), d.aged("d", 4), d.aged("a", 1), d.aged("b", 2), running} {
			census.Tasks = append(census.Tasks, *task)
		}
		d.Open(census)
		for _, name := range []string{"running", "a", "b"} {
			if d.tasks[inNS(name)] == nil {
				t.Errorf("%s is not held", name)
			}
		}
		if waiting := d.line(); !slices.Equal(waiting, []string{"c", "d"}) {
			t.Errorf("%v wait", waiting)
		}
	})
}

// The controller stores the end of a task even if the task is not held. A stale cache does not bring it back.
func TestEndOfATaskThatIsNotHeldIsRemembered(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		first, over := d.aged("first", 0), d.aged("over", 1)
		d.reasons(first, over)
		before := over.DeepCopy()
		d.ends(over)
		d.ends(first)
		if view := d.Observe(before, Brief{}); !view.Stale {
			t.Errorf("a cache that is behind shows it again: %+v", view)
		}
	})
}

// A former leader may have assigned the task without a trace in its status. It must not end before its agents have reported.
func TestEndOfATaskThatIsNotHeldWaitsForAgents(t *testing.T) {
	atDesk(t, []corev1.Pod{pod("a", "s")}, func(t *testing.T, d *desk) {
		d.limitTo(Budget{Tasks: 1})
		d.rule("s")
		d.reasons(d.aged("first", 0))
		over := d.aged("over", 1)
		if view := d.Observe(over, Brief{Stop: Cancel, Ends: true}); view.HeldBack.IsZero() {
			t.Fatalf("may end at once: %+v", view)
		}
		time.Sleep(d.lapse())
		if view := d.Observe(over, Brief{Stop: Cancel, Ends: true}); !view.HeldBack.IsZero() {
			t.Errorf("may not end: %+v", view)
		}
	})
}

// Each of many waiting tasks costs a write.
func TestTasksBeyondTheLimitAreToldOneAfterTheOther(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		d.reasons(d.aged("first", 0))
		for n := range 100 {
			told := d.Observe(d.aged(fmt.Sprint("t", n), n), Brief{}).Since.Add(toldLate)
			if want := time.Now().Add(toldLate + time.Duration(n)*toldEvery); !told.Equal(want) {
				t.Fatalf("task %d is told at %s, want %s", n, told, want)
			}
		}
	})
}

func TestTasksBeyondTheLimitAreShown(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		d.reasons(d.aged("a", 0), d.aged("b", 1), d.aged("c", 2))
		d.steps()
		if waiting, over := d.metric(t, "swarm_task_unfinished", "waiting"), d.metric(t, "swarm_task_unfinished", "overLimit"); waiting != 1 || over != 2 {
			t.Errorf("%v wait, %v are beyond the limit", waiting, over)
		}
	})
}

// In every order of events, the usage matches what is held, and no task waits while there is room.
func TestBudgetIsKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		withBudget(t, Budget{Tasks: 3, Bytes: 8 << 10}, func(t *testing.T, d *desk) {
			tasks := map[string]*v1alpha1.Task{}
			for range rapid.IntRange(1, 60).Draw(r, "events") {
				name := fmt.Sprint("t", rapid.IntRange(0, 9).Draw(r, "task"))
				task := tasks[name]
				if task == nil {
					task = d.aged(name, rapid.IntRange(0, 3).Draw(r, "age"))
					task.Spec.Payload = &apiextensionsv1.JSON{Raw: make([]byte, rapid.IntRange(0, 4<<10).Draw(r, "bytes"))}
					tasks[name] = task
				}
				switch rapid.IntRange(0, 4).Draw(r, "event") {
				case 0:
					d.ends(task)
					delete(tasks, name)
				case 1:
					d.Forget(nameOf(task))
					delete(tasks, name)
				case 2:
					time.Sleep(invitedFor)
					d.steps()
				default:
					d.Observe(task, Brief{})
				}
				d.checkUsage(t)
			}
			for called := d.called(); len(called) > 0; called = d.called() {
				for _, name := range called {
					if tasks[name] != nil {
						d.Observe(tasks[name], Brief{})
					}
				}
			}
			for name, task := range tasks {
				d.ends(task)
				delete(tasks, name)
			}
			if len(d.usage) != 0 {
				t.Errorf("remembers %+v", d.usage["ns"])
			}
		})
	})
}

func (d *desk) checkUsage(t *testing.T) {
	t.Helper()
	tasks, bytes := 0, int64(0)
	for _, held := range d.tasks {
		tasks, bytes = tasks+1, bytes+held.size
	}
	used := d.usage["ns"]
	if used == nil {
		used = &usage{}
	}
	promised := int64(0)
	for _, invited := range used.invited {
		promised += invited.bytes
	}
	if used.tasks != tasks || used.bytes != bytes || used.promised != promised || tasks > 3 || tasks > 1 && bytes > 8<<10 {
		t.Fatalf("%d tasks of %d bytes are held, counted are %+v", tasks, bytes, used)
	}
	if waiting := used.line.waiting; len(waiting) > 0 && used.exceeds(d.config.Budget, waiting[0].bytes) == "" {
		t.Fatalf("%s waits although there is room: %+v", waiting[0].name, used)
	}
}

// quiet stubs the dependencies of a board and remembers nothing.
type quiet struct{}

func (quiet) Term() int64                               { return 1 }
func (quiet) RaiseTerm(int64) int64                     { return 1 }
func (quiet) After(types.NamespacedName, time.Duration) {}

// observeMany shows a new board this many tasks with large payloads and lists of items, and returns how many bytes of each it keeps.
func observeMany(t *testing.T, many int, budget Budget, change func(*v1alpha1.Task)) (each, counted int64) {
	t.Helper()
	board := New(Config{Leadership: quiet{}, Tasks: quiet{}, Agents: quiet{}, Swarms: quiet{}, Metrics: prometheus.NewRegistry(), Budget: budget})
	board.Open(Census{})
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
		task.Namespace, task.Name, task.UID, task.Spec.SwarmRef.Name = "ns", fmt.Sprint("a-task-with-a-name-", n), types.UID(fmt.Sprint("0123456789-0123456789-0123456789-", n)), "s"
		change(task)
		counted = sizeOf(task)
		board.Observe(task, Brief{})
	}
	each = (heap() - before) / int64(many)
	runtime.KeepAlive(board)
	return each, counted
}

func TestTaskTakesNoMoreThanItCounts(t *testing.T) {
	each, counted := observeMany(t, 5_000, Budget{}, func(task *v1alpha1.Task) {
		task.Spec.Items = &v1alpha1.TaskItems{List: []apiextensionsv1.JSON{{Raw: make([]byte, 100<<10)}}}
		for n := range 8 {
			task.Spec.Capabilities = append(task.Spec.Capabilities, fmt.Sprint("capability-", n))
		}
	})
	t.Logf("a task takes %d bytes, %d are counted", each, counted)
	if each > counted {
		t.Errorf("a task takes %d bytes, %d are counted", each, counted)
	}
}

func TestTaskBeyondTheLimitTakesLittleMoreThanItsName(t *testing.T) {
	each, _ := observeMany(t, 20_000, Budget{Tasks: 1}, func(task *v1alpha1.Task) {
		task.Spec.Payload = &apiextensionsv1.JSON{Raw: make([]byte, 8<<10)}
	})
	t.Logf("a task beyond the limit takes %d bytes", each)
	if each > 300 {
		t.Errorf("a task beyond the limit takes %d bytes", each)
	}
}
