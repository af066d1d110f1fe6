// Package schedule decides which agent takes which task.
//
// It promises that the same tasks and agents give the same decision, regardless of their order; that a task goes only to an agent of its
// type that offers all capabilities it needs and has a free slot; that no slot is given twice; and that every task that waits has a
// reason that can be shown to users. It keeps no state and depends only on its arguments.
package schedule

import (
	"cmp"
	"slices"
)

// Priority is a task's priority; a higher one goes first.
type Priority int

// The classes, as in Task.spec.priority.
const (
	Low Priority = iota
	Medium
	High
	Critical
)

// Task is a task that needs an agent.
type Task struct {
	ID           string // its UID, the final tie-breaker
	Priority     Priority
	Created      int64    // creation time, in any unit that increases
	Type         string   // the requested agent type, or ""
	Capabilities []string // capabilities, all of which the agent must offer
}

// Agent is an agent of the swarm with its room.
type Agent struct {
	Name          string
	Type          string
	Capabilities  []string
	Slots         int
	Running       int // attempts that it currently holds
	TotalAssigned int // attempts that it was ever given
	Draining      bool
	Unreachable   bool // it belongs to the swarm but is currently unreachable
}

// Strategy is how one of several fitting agents is chosen, as in Swarm.spec.strategy.
type Strategy string

// The strategies.
const (
	// Balanced takes the agent with the fewest running attempts, then with the fewest given so far.
	Balanced Strategy = "balanced"
	// Specialized takes the agent with the fewest capabilities beyond those needed.
	Specialized Strategy = "specialized"
)

// Binding assigns a task to an agent.
type Binding struct {
	Task, Agent string
}

// Decision is one pass over the queue: every task is either bound or waits.
type Decision struct {
	Bindings []Binding // in the order of decisions
	Waits    []Wait    // in the order of the queue
}

// Wait is the reason why a task is not bound.
type Wait struct {
	Task    string
	Reason  string
	Message string
}

// Plan binds as many tasks as fit, most important first.
func Plan(tasks []Task, agents []Agent, strategy Strategy) Decision {
	cycle := newCycle(agents, strategy)
	var decision Decision
	for _, task := range sortedByPriority(tasks) {
		agent, wait := cycle.bind(task)
		if wait != nil {
			decision.Waits = append(decision.Waits, Wait{Task: task.ID, Reason: wait.reason, Message: wait.message})
			continue
		}
		decision.Bindings = append(decision.Bindings, Binding{Task: task.ID, Agent: agent})
	}
	return decision
}

// sortedByPriority returns the queue: by class, then by age, then by id.
func sortedByPriority(tasks []Task) []Task {
	queue := slices.Clone(tasks)
	slices.SortFunc(queue, func(a, b Task) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return queue
}
