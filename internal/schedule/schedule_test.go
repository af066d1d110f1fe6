package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

func boundTo(decision Decision, task string) string {
	for _, binding := range decision.Bound {
		if binding.Task == task {
			return binding.Agent
		}
	}
	return ""
}

func TestCriticalGoesFirst(t *testing.T) {
	tasks := []Task{{ID: "urgent", Class: Critical, Created: 100}}
	for n := range 20 {
		tasks = append(tasks, Task{ID: fmt.Sprintf("low-%02d", n), Class: Low, Created: int64(n)})
	}
	decision := Plan(tasks, []Agent{{Name: "a", Slots: 1}}, Balanced)
	if len(decision.Bound) != 1 || decision.Bound[0] != (Binding{"urgent", "a"}) {
		t.Errorf("bound %v", decision.Bound)
	}
	if len(decision.Waiting) != 20 || decision.Waiting[0].Task != "low-00" {
		t.Errorf("waiting %v", decision.Waiting)
	}
}

func TestWhoFits(t *testing.T) {
	agents := []Agent{
		{Name: "coder", Type: "coder", Offers: []string{"go", "python"}, Slots: 1},
		{Name: "analyst", Type: "analyst", Offers: []string{"python"}, Slots: 1},
		{Name: "leaving", Type: "writer", Offers: []string{"prose"}, Slots: 1, Draining: true},
	}
	for _, c := range []struct {
		reason string
		task   Task
		agent  string
		wait   Wait
	}{
		{"the type decides", Task{ID: "t", Type: "analyst"}, "analyst", Wait{}},
		{"all capabilities are needed", Task{ID: "t", Needs: []string{"python", "go"}}, "coder", Wait{}},
		{"no agent offers it", Task{ID: "t", Needs: []string{"rust"}}, "",
			Wait{"t", NoAgentOffers, "none of the 3 agents is of any type and offers rust"}},
		{"the type does not offer it", Task{ID: "t", Type: "analyst", Needs: []string{"go"}}, "",
			Wait{"t", NoAgentOffers, "none of the 3 agents is of type analyst and offers go"}},
		{"a draining agent takes nothing", Task{ID: "t", Type: "writer"}, "",
			Wait{"t", NoFreeSlot, "all slots of the 1 agents that are of type writer are taken (1 of them draining)"}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			decision := Plan([]Task{c.task}, agents, Balanced)
			if got := boundTo(decision, "t"); got != c.agent {
				t.Errorf("bound to %q, want %q", got, c.agent)
			}
			if c.agent == "" && (len(decision.Waiting) != 1 || decision.Waiting[0] != c.wait) {
				t.Errorf("waits %v, want %v", decision.Waiting, c.wait)
			}
		})
	}
}

func TestSpecializedSparesTheVersatile(t *testing.T) {
	agents := []Agent{
		{Name: "polymath", Offers: []string{"go", "python", "prose"}, Slots: 1},
		{Name: "coder", Offers: []string{"go"}, Slots: 1, Running: 0, Given: 50},
	}
	if got := boundTo(Plan([]Task{{ID: "t", Needs: []string{"go"}}}, agents, Specialized), "t"); got != "coder" {
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
	given := map[string]int{}
	for _, binding := range Plan(tasks, agents, Balanced).Bound {
		given[binding.Agent]++
	}
	for agent, count := range given {
		if count < 14 || count > 15 {
			t.Errorf("%s got %d", agent, count)
		}
	}
}

var skills = []string{"go", "python", "rust"}

func someTasks(t *rapid.T) []Task {
	count := rapid.IntRange(0, 40).Draw(t, "tasks")
	tasks := make([]Task, 0, count)
	for n := range count {
		tasks = append(tasks, Task{
			ID: fmt.Sprint("t", n), Class: Class(rapid.IntRange(0, 3).Draw(t, "class")), Created: rapid.Int64Range(0, 5).Draw(t, "created"),
			Type:  rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "type"),
			Needs: rapid.SliceOfNDistinct(rapid.SampledFrom(skills), 0, 2, rapid.ID).Draw(t, "needs"),
		})
	}
	return tasks
}

func someAgents(t *rapid.T) []Agent {
	count := rapid.IntRange(0, 10).Draw(t, "agents")
	agents := make([]Agent, 0, count)
	for n := range count {
		slots := rapid.IntRange(1, 3).Draw(t, "slots")
		agents = append(agents, Agent{
			Name: fmt.Sprint("a", n), Type: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "type"), Slots: slots,
			Offers:  rapid.SliceOfNDistinct(rapid.SampledFrom(skills), 0, 3, rapid.ID).Draw(t, "offers"),
			Running: rapid.IntRange(0, slots).Draw(t, "running"), Draining: rapid.IntRange(0, 4).Draw(t, "draining") == 0,
		})
	}
	return agents
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks, agents := someTasks(t), someAgents(t)
		strategy := rapid.SampledFrom([]Strategy{Balanced, Specialized}).Draw(t, "strategy")
		decision := Plan(tasks, agents, strategy)
		everyTaskOnce(t, tasks, decision)
		roomKept(t, tasks, agents, decision)
		nothingLeftBehind(t, tasks, agents, decision)
		orderIsNothing(t, tasks, agents, strategy, decision)
	})
}

func everyTaskOnce(t *rapid.T, tasks []Task, decision Decision) {
	seen := map[string]int{}
	for _, binding := range decision.Bound {
		seen[binding.Task]++
	}
	for _, wait := range decision.Waiting {
		seen[wait.Task]++
	}
	for _, task := range tasks {
		if seen[task.ID] != 1 {
			t.Fatalf("%s was decided %d times", task.ID, seen[task.ID])
		}
	}
}

// remaining returns the room after a decision. It fails if an agent got a task that it cannot take.
func remaining(t *rapid.T, tasks []Task, agents []Agent, decision Decision) []Agent {
	left := slices.Clone(agents)
	for _, binding := range decision.Bound {
		agent := slices.IndexFunc(left, func(a Agent) bool { return a.Name == binding.Agent })
		task := slices.IndexFunc(tasks, func(a Task) bool { return a.ID == binding.Task })
		if !left[agent].Fits(tasks[task]) || left[agent].free() < 1 {
			t.Fatalf("%v does not fit %v", tasks[task], left[agent])
		}
		left[agent].Running++
	}
	return left
}

func roomKept(t *rapid.T, tasks []Task, agents []Agent, decision Decision) {
	remaining(t, tasks, agents, decision)
}

func nothingLeftBehind(t *rapid.T, tasks []Task, agents []Agent, decision Decision) {
	left := remaining(t, tasks, agents, decision)
	for _, wait := range decision.Waiting {
		task := tasks[slices.IndexFunc(tasks, func(a Task) bool { return a.ID == wait.Task })]
		if slices.ContainsFunc(left, func(a Agent) bool { return a.free() > 0 && a.Fits(task) }) {
			t.Fatalf("%v waits beside room: %v", task, left)
		}
	}
}

func orderIsNothing(t *rapid.T, tasks []Task, agents []Agent, strategy Strategy, want Decision) {
	shuffle := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	shuffle.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	shuffle.Shuffle(len(agents), func(i, j int) { agents[i], agents[j] = agents[j], agents[i] })
	got := Plan(tasks, agents, strategy)
	if !slices.Equal(got.Bound, want.Bound) || !slices.Equal(got.Waiting, want.Waiting) {
		t.Fatalf("shuffled: %v, before: %v", got, want)
	}
}

func TestAgentsThatCannotBeReachedAreSaidToBeSo(t *testing.T) {
	task := Task{ID: "t", Type: "coder"}
	near, far := Agent{Name: "a", Type: "coder", Slots: 1, Running: 1}, Agent{Name: "b", Type: "coder", Slots: 1, Away: true}
	for _, c := range []struct {
		reason string
		agents []Agent
		wait   Wait
	}{
		{"no agents", nil, Wait{"t", NoAgentReady, "the swarm has no agents yet"}},
		{"all are away", []Agent{far}, Wait{"t", NoAgentReady, "none of the 1 agents that are of type coder is ready"}},
		{"one is away, one is busy", []Agent{near, far}, Wait{"t", NoFreeSlot, "all slots of the 2 agents that are of type coder are taken (1 of them not ready)"}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := Plan([]Task{task}, c.agents, Balanced).Waiting; len(got) != 1 || got[0] != c.wait {
				t.Errorf("got %v, want %v", got, c.wait)
			}
		})
	}
}
