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

// pass is the state of one pass: the remaining room, and a cache by kind of demand.
type pass struct {
	agents   []Agent // by name
	strategy Strategy
	demands  map[string]*demand
}

// demand is what all tasks with the same type and needs have in common, computed once: the agents that fit and, after the first of these
// tasks found no room, why the others wait as well. Room only shrinks during a pass.
type demand struct {
	task Task
	fits []int // positions in pass.agents
	full *refusal
}

type refusal struct{ reason, message string }

func begin(agents []Agent, strategy Strategy) *pass {
	sorted := slices.Clone(agents)
	slices.SortFunc(sorted, func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
	return &pass{agents: sorted, strategy: strategy, demands: map[string]*demand{}}
}

// place takes a slot for the task, or returns why there is none.
func (p *pass) place(task Task) (agent string, wait *refusal) {
	demand := p.demandOf(task)
	if demand.full != nil {
		return "", demand.full
	}
	best := -1
	for _, at := range demand.fits {
		if p.agents[at].free() > 0 && (best < 0 || p.before(task, p.agents[at], p.agents[best])) {
			best = at
		}
	}
	if best < 0 {
		demand.full = p.refuse(demand)
		return "", demand.full
	}
	p.agents[best].Running++
	p.agents[best].Given++
	return p.agents[best].Name, nil
}

func (p *pass) demandOf(task Task) *demand {
	key := task.Type + "\x00" + strings.Join(slices.Sorted(slices.Values(task.Needs)), "\x00")
	known := p.demands[key]
	if known == nil {
		known = &demand{task: task}
		for at, agent := range p.agents {
			if agent.Fits(task) {
				known.fits = append(known.fits, at)
			}
		}
		p.demands[key] = known
	}
	return known
}

// Fits reports whether the agent could take the task if it had room.
func (a Agent) Fits(task Task) bool {
	if task.Type != "" && task.Type != a.Type {
		return false
	}
	return !slices.ContainsFunc(task.Needs, func(need string) bool { return !slices.Contains(a.Offers, need) })
}

func (a Agent) free() int {
	if a.Draining || a.Away {
		return 0
	}
	return a.Slots - a.Running
}

// before reports whether the strategy prefers a to b. Ties are resolved by a hash of task and agent, so that equal tasks spread without a
// counter.
func (p *pass) before(task Task, a, b Agent) bool {
	load := cmp.Or(cmp.Compare(a.Running, b.Running), cmp.Compare(a.Given, b.Given))
	if p.strategy == Specialized {
		load = cmp.Or(cmp.Compare(len(a.Offers), len(b.Offers)), load)
	}
	return cmp.Or(load, cmp.Compare(rank(task.ID, a.Name), rank(task.ID, b.Name)), cmp.Compare(a.Name, b.Name)) < 0
}

// rank is the rendezvous hash of a pair.
func rank(task, agent string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(task + "\x00" + agent)) // a hash never fails
	return hash.Sum64()
}

func (p *pass) refuse(demand *demand) *refusal {
	wanted := describe(demand.task)
	draining, away := p.count(demand.fits)
	switch {
	case len(p.agents) == 0:
		return &refusal{NoAgentReady, "the swarm has no agents yet"}
	case len(demand.fits) == 0:
		return &refusal{NoAgentOffers, fmt.Sprintf("none of the %d agents is %s", len(p.agents), wanted)}
	case away == len(demand.fits):
		return &refusal{NoAgentReady, fmt.Sprintf("none of the %d agents that are %s is ready", away, wanted)}
	}
	message := fmt.Sprintf("all slots of the %d agents that are %s are taken", len(demand.fits), wanted)
	if draining > 0 {
		message += fmt.Sprintf(" (%d of them draining)", draining)
	}
	if away > 0 {
		message += fmt.Sprintf(" (%d of them not ready)", away)
	}
	return &refusal{NoFreeSlot, message}
}

// count counts the agents that take nothing, by reason.
func (p *pass) count(agents []int) (draining, away int) {
	for _, at := range agents {
		switch {
		case p.agents[at].Away:
			away++
		case p.agents[at].Draining:
			draining++
		}
	}
	return draining, away
}

// describe returns what a task requires of an agent, to follow "is".
func describe(task Task) string {
	kind := "of any type"
	if task.Type != "" {
		kind = fmt.Sprintf("of type %s", task.Type)
	}
	if len(task.Needs) == 0 {
		return kind
	}
	return kind + " and offers " + strings.Join(slices.Sorted(slices.Values(task.Needs)), ", ")
}
