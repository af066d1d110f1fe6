package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

func boundAgent(decision Decision, task string) string {
	for _, binding := range decision.Bindings {
		if binding.Task == task {
			return binding.Agent
		}
	}
	return ""
}

func TestCriticalGoesFirst(t *testing.T) {
	tasks := []Task{{ID: "urgent", Priority: Critical, Created: 100}}
	for n := range 20 {
		tasks = append(tasks, Task{ID: fmt.Sprintf("low-%02d", n), Priority: Low, Created: int64(n)})
	}
	decision := Plan(tasks, []Agent{{Name: "a", Slots: 1}}, Balanced)
	if len(decision.Bindings) != 1 || decision.Bindings[0] != (Binding{"urgent", "a"}) {
		t.Errorf("bound %v", decision.Bindings)
	}
	if len(decision.Waits) != 20 || decision.Waits[0].Task != "low-00" {
		t.Errorf("waiting %v", decision.Waits)
	}
}

func TestFits(t *testing.T) {
	agents := []Agent{
		{Name: "coder", Type: "coder", Capabilities: []string{"go", "python"}, Slots: 1},
		{Name: "analyst", Type: "analyst", Capabilities: []string{"python"}, Slots: 1},
		{Name: "leaving", Type: "writer", Capabilities: []string{"prose"}, Slots: 1, Draining: true},
	}
	for _, c := range []struct {
		reason string
		task   Task
		agent  string
		wait   Wait
	}{
		{"the type decides", Task{ID: "t", Type: "analyst"}, "analyst", Wait{}},
		{"all capabilities are needed", Task{ID: "t", Capabilities: []string{"python", "go"}}, "coder", Wait{}},
		{"no agent offers it", Task{ID: "t", Capabilities: []string{"rust"}}, "",
			Wait{"t", NoAgentOffers, "none of the 3 agents is of any type and offers rust"}},
		{"the type does not offer it", Task{ID: "t", Type: "analyst", Capabilities: []string{"go"}}, "",
			Wait{"t", NoAgentOffers, "none of the 3 agents is of type analyst and offers go"}},
		{"a draining agent takes nothing", Task{ID: "t", Type: "writer"}, "",
			Wait{"t", NoFreeSlot, "all slots of the 1 agents that are of type writer are taken (1 of them draining)"}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			decision := Plan([]Task{c.task}, agents, Balanced)
			if got := boundAgent(decision, "t"); got != c.agent {
				t.Errorf("bound to %q, want %q", got, c.agent)
			}
			if c.agent == "" && (len(decision.Waits) != 1 || decision.Waits[0] != c.wait) {
				t.Errorf("waits %v, want %v", decision.Waits, c.wait)
			}
		})
	}
}

func TestSpecializedPrefersFewCapabilities(t *testing.T) {
	agents := []Agent{
		{Name: "polymath", Capabilities: []string{"go", "python", "prose"}, Slots: 1},
		{Name: "coder", Capabilities: []string{"go"}, Slots: 1, Running: 0, TotalAssigned: 50},
	}
	if got := boundAgent(Plan([]Task{{ID: "t", Capabilities: []string{"go"}}}, agents, Specialized), "t"); got != "coder" {
		t.Errorf("bound to %q", got)
	}
}

func TestEqualTasksSpreadEvenly(t *testing.T) {
	var agents []Agent
	for n := range 7 {
		agents = append(agents, Agent{Name: fmt.Sprint("a", n), Slots: 100})
	}
	var tasks []Task
	for n := range 100 {
		tasks = append(tasks, Task{ID: fmt.Sprint("t", n), Created: int64(n)})
	}
	assigned := map[string]int{}
	for _, binding := range Plan(tasks, agents, Balanced).Bindings {
		assigned[binding.Agent]++
	}
	for agent, count := range assigned {
		if count < 14 || count > 15 {
			t.Errorf("%s got %d", agent, count)
		}
	}
}

var skills = []string{"go", "python", "rust"}

func drawTasks(t *rapid.T) []Task {
	count := rapid.IntRange(0, 40).Draw(t, "tasks")
	tasks := make([]Task, 0, count)
	for n := range count {
		tasks = append(tasks, Task{
			ID: fmt.Sprint("t", n), Priority: Priority(rapid.IntRange(0, 3).Draw(t, "class")), Created: rapid.Int64Range(0, 5).Draw(t, "created"),
			Type:         rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "type"),
			Capabilities: rapid.SliceOfNDistinct(rapid.SampledFrom(skills), 0, 2, rapid.ID).Draw(t, "needs"),
		})
	}
	return tasks
}

func drawAgents(t *rapid.T) []Agent {
	count := rapid.IntRange(0, 10).Draw(t, "agents")
	agents := make([]Agent, 0, count)
	for n := range count {
		slots := rapid.IntRange(1, 3).Draw(t, "slots")
		agents = append(agents, Agent{
			Name: fmt.Sprint("a", n), Type: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "type"), Slots: slots,
			Capabilities: rapid.SliceOfNDistinct(rapid.SampledFrom(skills), 0, 3, rapid.ID).Draw(t, "offers"),
			Running:      rapid.IntRange(0, slots).Draw(t, "running"), Draining: rapid.IntRange(0, 4).Draw(t, "draining") == 0,
		})
	}
	return agents
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks, agents := drawTasks(t), drawAgents(t)
		strategy := rapid.SampledFrom([]Strategy{Balanced, Specialized}).Draw(t, "strategy")
		decision := Plan(tasks, agents, strategy)
		checkTasksDecidedOnce(t, tasks, decision)
		checkSlots(t, tasks, agents, decision)
		checkNoneWaitsBesideRoom(t, tasks, agents, decision)
		checkOrderIndependence(t, tasks, agents, strategy, decision)
	})
}

func checkTasksDecidedOnce(t *rapid.T, tasks []Task, decision Decision) {
	decided := map[string]int{}
	for _, binding := range decision.Bindings {
		decided[binding.Task]++
	}
	for _, wait := range decision.Waits {
		decided[wait.Task]++
	}
	for _, task := range tasks {
		if decided[task.ID] != 1 {
			t.Fatalf("%s was decided %d times", task.ID, decided[task.ID])
		}
	}
}

// agentsAfter returns the room after a decision. It fails if an agent got a task that it cannot take.
func agentsAfter(t *rapid.T, tasks []Task, agents []Agent, decision Decision) []Agent {
	remaining := slices.Clone(agents)
	for _, binding := range decision.Bindings {
		agent := slices.IndexFunc(remaining, func(a Agent) bool { return a.Name == binding.Agent })
		task := slices.IndexFunc(tasks, func(a Task) bool { return a.ID == binding.Task })
		if !remaining[agent].Fits(tasks[task]) || remaining[agent].freeSlots() < 1 {
			t.Fatalf("%v does not fit %v", tasks[task], remaining[agent])
		}
		remaining[agent].Running++
	}
	return remaining
}

func checkSlots(t *rapid.T, tasks []Task, agents []Agent, decision Decision) {
	agentsAfter(t, tasks, agents, decision)
}

func checkNoneWaitsBesideRoom(t *rapid.T, tasks []Task, agents []Agent, decision Decision) {
	remaining := agentsAfter(t, tasks, agents, decision)
	for _, wait := range decision.Waits {
		task := tasks[slices.IndexFunc(tasks, func(a Task) bool { return a.ID == wait.Task })]
		if slices.ContainsFunc(remaining, func(a Agent) bool { return a.freeSlots() > 0 && a.Fits(task) }) {
			t.Fatalf("%v waits beside room: %v", task, remaining)
		}
	}
}

func checkOrderIndependence(t *rapid.T, tasks []Task, agents []Agent, strategy Strategy, want Decision) {
	shuffle := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	shuffle.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	shuffle.Shuffle(len(agents), func(i, j int) { agents[i], agents[j] = agents[j], agents[i] })
	got := Plan(tasks, agents, strategy)
	if !slices.Equal(got.Bindings, want.Bindings) || !slices.Equal(got.Waits, want.Waits) {
		t.Fatalf("shuffled: %v, before: %v", got, want)
	}
}

func TestUnreachableAgentsAreReported(t *testing.T) {
	task := Task{ID: "t", Type: "coder"}
	reachable, unreachable := Agent{Name: "a", Type: "coder", Slots: 1, Running: 1}, Agent{Name: "b", Type: "coder", Slots: 1,
		Unreachable: true}
	for _, c := range []struct {
		reason string
		agents []Agent
		wait   Wait
	}{
		{"no agents", nil, Wait{"t", NoAgentReady, "the swarm has no agents yet"}},
		{"all are away", []Agent{unreachable}, Wait{"t", NoAgentReady, "none of the 1 agents that are of type coder is ready"}},
		{"one is away, one is busy", []Agent{reachable, unreachable},
			Wait{"t", NoFreeSlot, "all slots of the 2 agents that are of type coder are taken (1 of them not ready)"}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := Plan([]Task{task}, c.agents, Balanced).Waits; len(got) != 1 || got[0] != c.wait {
				t.Errorf("got %v, want %v", got, c.wait)
			}
		})
	}
}
