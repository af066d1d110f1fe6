// Package topology says which agents of a swarm are peers.
//
// It promises an undirected, connected graph without loops or duplicates that follows from the order of the agents alone, and
// it computes one agent's peers without the rest of the graph: a mesh of a thousand agents has half a million edges, and nobody
// needs them all. It never looks at the cluster; who is an agent, and in which order, is the caller's to say.
package topology

import "slices"

// Shape is the kind of graph. The words are those of Swarm.spec.topology.
type Shape string

// The shapes.
const (
	// Mesh joins everybody with everybody.
	Mesh Shape = "mesh"
	// Ring joins each with the next and the last with the first; while there are fewer than three it is a line.
	Ring Shape = "ring"
	// Star joins one hub with every other.
	Star Shape = "star"
	// Hierarchical is a binary tree: the parent of agent i is agent (i-1)/2.
	Hierarchical Shape = "hierarchical"
)

// Graph is a swarm's agents as positions 0 to Size-1: coordinators first, then by declared type, then by ordinal.
type Graph struct {
	Shape Shape
	Size  int
	Hub   int // the hub of a star: the current coordinator, else 0
}

// Linked tells whether two agents are peers. It answers the same for (a, b) and (b, a).
func (g Graph) Linked(a, b int) bool {
	if a == b || !g.has(a) || !g.has(b) {
		return false
	}
	low, high := min(a, b), max(a, b)
	switch g.Shape {
	case Ring:
		return high-low == 1 || (low == 0 && high == g.Size-1)
	case Star:
		return a == g.Hub || b == g.Hub
	case Hierarchical:
		return (high-1)/2 == low
	default:
		return true
	}
}

// Peers are the agents that one agent is linked with, in order.
func (g Graph) Peers(agent int) []int {
	if !g.has(agent) {
		return nil
	}
	switch {
	case g.Shape == Ring:
		return g.linkedTo(agent, agent-1, agent+1, 0, g.Size-1)
	case g.Shape == Hierarchical:
		return g.linkedTo(agent, (agent-1)/2, 2*agent+1, 2*agent+2)
	case g.Shape == Star && agent != g.Hub:
		return g.linkedTo(agent, g.Hub)
	default:
		return g.linkedTo(agent, g.everybody()...)
	}
}

// linkedTo keeps, of some candidates, those that an agent is linked with.
func (g Graph) linkedTo(agent int, candidates ...int) []int {
	slices.Sort(candidates)
	return slices.DeleteFunc(slices.Compact(candidates), func(other int) bool { return !g.Linked(agent, other) })
}

func (g Graph) everybody() []int {
	all := make([]int, g.Size)
	for agent := range all {
		all[agent] = agent
	}
	return all
}

func (g Graph) has(agent int) bool { return agent >= 0 && agent < g.Size }
