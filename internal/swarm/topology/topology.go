// Package topology decides which agents of a swarm are peers.
//
// It promises an undirected, connected graph without loops or duplicates that depends only on the order of the agents. It computes one
// agent's peers without the rest of the graph: a mesh of a thousand agents has half a million edges, and no caller needs all of them. It
// never reads the cluster; the caller provides the agents and their order.
package topology

import "slices"

// Shape is the kind of graph. The values are those of Swarm.spec.topology.
type Shape string

// The shapes.
const (
	// Mesh links every agent with every other.
	Mesh Shape = "mesh"
	// Ring links each agent with the next, and the last with the first; with fewer than three it is a line.
	Ring Shape = "ring"
	// Star links one hub with every other agent.
	Star Shape = "star"
	// Hierarchical is a binary tree: the parent of agent i is agent (i-1)/2.
	Hierarchical Shape = "hierarchical"
)

// Graph is the agents of a swarm as positions 0 to Size-1: coordinators first, then by declared type, then by ordinal.
type Graph struct {
	Shape Shape
	Size  int
	Hub   int // the hub of a star: the current coordinator, else 0
}

// Linked reports whether two agents are peers. It is symmetric.
func (g Graph) Linked(a, b int) bool {
	if a == b || !g.contains(a) || !g.contains(b) {
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

// Peers returns the agents linked with one agent, in order.
func (g Graph) Peers(agent int) []int {
	if !g.contains(agent) {
		return nil
	}
	switch {
	case g.Shape == Ring:
		return g.onlyLinked(agent, agent-1, agent+1, 0, g.Size-1)
	case g.Shape == Hierarchical:
		return g.onlyLinked(agent, (agent-1)/2, 2*agent+1, 2*agent+2)
	case g.Shape == Star && agent != g.Hub:
		return g.onlyLinked(agent, g.Hub)
	default:
		return g.onlyLinked(agent, g.allAgents()...)
	}
}

// onlyLinked returns the candidates that are linked with an agent.
func (g Graph) onlyLinked(agent int, candidates ...int) []int {
	slices.Sort(candidates)
	return slices.DeleteFunc(slices.Compact(candidates), func(other int) bool { return !g.Linked(agent, other) })
}

func (g Graph) allAgents() []int {
	all := make([]int, g.Size)
	for agent := range all {
		all[agent] = agent
	}
	return all
}

func (g Graph) contains(agent int) bool { return agent >= 0 && agent < g.Size }
