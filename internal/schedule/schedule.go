// Package schedule decides which agent takes which task.
//
// It promises that the same tasks and agents give the same decision, in whatever order they come; that a task goes only to an
// agent of its type that offers all it needs and has a free slot; that no slot is given twice; and that every task which
// waits is told why, in words that are worth showing to a person. It never remembers: what counts is in its arguments.
package schedule

import (
	"cmp"
	"slices"
)

// Class is a task's priority; a higher one goes first.
type Class int

// The classes, in the words of Task.spec.priority.
const (
	Low Class = iota
	Medium
	High
	Critical
)

// Task is a task that wants an agent.
type Task struct {
	ID      string // its UID: the last word in every tie
	Class   Class
	Created int64    // when it was made, in any unit that grows
	Type    string   // the agent type it asks for, or nothing
	Needs   []string // capabilities, all of which the agent must offer
}

// Agent is an agent of the swarm, with its room.
type Agent struct {
	Name     string
	Type     string
	Offers   []string
	Slots    int
	Running  int // attempts that it holds now
	Given    int // attempts that it has ever been given
	Draining bool
	Away     bool // it belongs to the swarm and cannot be reached now
}

// Strategy is how one of several agents that fit is chosen, in the words of Swarm.spec.strategy.
type Strategy string

// The strategies.
const (
	// Balanced takes the agent with the fewest running attempts, then with the fewest given so far.
	Balanced Strategy = "balanced"
	// Specialized takes the agent with the fewest capabilities beyond those needed.
	Specialized Strategy = "specialized"
)

// Binding gives a task to an agent.
type Binding struct {
	Task, Agent string
}

// Decision is one pass over the queue: every task is either bound or waits.
type Decision struct {
	Bound   []Binding // in the order in which they were decided
	Waiting []Wait    // in the order of the queue
}

// Wait is why a task is not bound.
type Wait struct {
	Task    string
	Reason  string
	Message string
}

// Plan binds as many tasks as fit, most important first.
func Plan(tasks []Task, agents []Agent, strategy Strategy) Decision {
	pass := begin(agents, strategy)
	var decision Decision
	for _, task := range ordered(tasks) {
		agent, wait := pass.place(task)
		if wait != nil {
			decision.Waiting = append(decision.Waiting, Wait{Task: task.ID, Reason: wait.reason, Message: wait.message})
			continue
		}
		decision.Bound = append(decision.Bound, Binding{Task: task.ID, Agent: agent})
	}
	return decision
}

// ordered is the queue: by class, then by age, then by id.
func ordered(tasks []Task) []Task {
	queue := slices.Clone(tasks)
	slices.SortFunc(queue, func(a, b Task) int {
		return cmp.Or(cmp.Compare(b.Class, a.Class), cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return queue
}
