package schedule

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// The reasons for which a task waits, as shown in Task.status.reason.
const (
	NoAgentOffers = "NoAgentOffers"
	NoAgentReady  = "NoAgentReady"
	NoFreeSlot    = "NoFreeSlot"
)

// cycle is the state of one pass: the remaining room, and a cache by kind of demand.
type cycle struct {
	agents       []Agent // by name
	strategy     Strategy
	requirements map[string]*requirementGroup
}

// requirementGroup is what all tasks with the same type and needs have in common, computed once: the agents that fit and, after the first
// of these tasks found no room, why the others wait as well. Room only shrinks during a pass.
type requirementGroup struct {
	task       Task
	candidates []int // positions in pass.agents
	noRoom     *waitReason
}

type waitReason struct{ reason, message string }

func newCycle(agents []Agent, strategy Strategy) *cycle {
	sorted := slices.Clone(agents)
	slices.SortFunc(sorted, func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
	return &cycle{agents: sorted, strategy: strategy, requirements: map[string]*requirementGroup{}}
}

// bind takes a slot for the task, or returns why there is none.
func (c *cycle) bind(task Task) (agent string, wait *waitReason) {
	requirements := c.requirementsOf(task)
	if requirements.noRoom != nil {
		return "", requirements.noRoom
	}
	best := -1
	for _, i := range requirements.candidates {
		if c.agents[i].freeSlots() > 0 && (best < 0 || c.prefers(task, c.agents[i], c.agents[best])) {
			best = i
		}
	}
	if best < 0 {
		requirements.noRoom = c.explainWait(requirements)
		return "", requirements.noRoom
	}
	c.agents[best].Running++
	c.agents[best].TotalAssigned++
	return c.agents[best].Name, nil
}

func (c *cycle) requirementsOf(task Task) *requirementGroup {
	key := task.Type + "\x00" + strings.Join(slices.Sorted(slices.Values(task.Capabilities)), "\x00")
	requirements := c.requirements[key]
	if requirements == nil {
		requirements = &requirementGroup{task: task}
		for i, agent := range c.agents {
			if agent.Fits(task) {
				requirements.candidates = append(requirements.candidates, i)
			}
		}
		c.requirements[key] = requirements
	}
	return requirements
}

// Fits reports whether the agent could take the task if it had room.
func (a Agent) Fits(task Task) bool {
	if task.Type != "" && task.Type != a.Type {
		return false
	}
	return !slices.ContainsFunc(task.Capabilities, func(capability string) bool { return !slices.Contains(a.Capabilities, capability) })
}

func (a Agent) freeSlots() int {
	if a.Draining || a.Unreachable {
		return 0
	}
	return a.Slots - a.Running
}

// prefers reports whether the strategy prefers a to b. Ties are resolved by a hash of task and agent, so that equal tasks spread without a
// counter.
func (c *cycle) prefers(task Task, a, b Agent) bool {
	load := cmp.Or(cmp.Compare(a.Running, b.Running), cmp.Compare(a.TotalAssigned, b.TotalAssigned))
	if c.strategy == Specialized {
		load = cmp.Or(cmp.Compare(len(a.Capabilities), len(b.Capabilities)), load)
	}
	return cmp.Or(load, cmp.Compare(rendezvousHash(task.ID, a.Name), rendezvousHash(task.ID, b.Name)), cmp.Compare(a.Name, b.Name)) < 0
}

// rendezvousHash is the rendezvous hash of a pair.
func rendezvousHash(task, agent string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(task + "\x00" + agent)) // a hash never fails
	return hash.Sum64()
}

func (c *cycle) explainWait(requirements *requirementGroup) *waitReason {
	description := describeRequirements(requirements.task)
	draining, unreachable := c.countUnavailable(requirements.candidates)
	switch {
	case len(c.agents) == 0:
		return &waitReason{NoAgentReady, "the swarm has no agents yet"}
	case len(requirements.candidates) == 0:
		return &waitReason{NoAgentOffers, fmt.Sprintf("none of the %d agents is %s", len(c.agents), description)}
	case unreachable == len(requirements.candidates):
		return &waitReason{NoAgentReady, fmt.Sprintf("none of the %d agents that are %s is ready", unreachable, description)}
	}
	message := fmt.Sprintf("all slots of the %d agents that are %s are taken", len(requirements.candidates), description)
	if draining > 0 {
		message += fmt.Sprintf(" (%d of them draining)", draining)
	}
	if unreachable > 0 {
		message += fmt.Sprintf(" (%d of them not ready)", unreachable)
	}
	return &waitReason{NoFreeSlot, message}
}

// countUnavailable counts the agents that take nothing, by reason.
func (c *cycle) countUnavailable(agents []int) (draining, unreachable int) {
	for _, i := range agents {
		switch {
		case c.agents[i].Unreachable:
			unreachable++
		case c.agents[i].Draining:
			draining++
		}
	}
	return draining, unreachable
}

// describeRequirements returns what a task requires of an agent, to follow "is".
func describeRequirements(task Task) string {
	kind := "of any type"
	if task.Type != "" {
		kind = fmt.Sprintf("of type %s", task.Type)
	}
	if len(task.Capabilities) == 0 {
		return kind
	}
	return kind + " and offers " + strings.Join(slices.Sorted(slices.Values(task.Capabilities)), ", ")
}
