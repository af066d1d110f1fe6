// Package explore searches the states of a model breadth first, so the first violation that it finds has the shortest trace.
// It promises that the same model and the same limits give the same answer every time. It stops at a number of states, which
// bounds its memory: a visited state costs about 30 bytes, and only the states of the current depth and the next one are kept whole.
//
// Visited states are recognized by a 64-bit hash. A collision would hide a state; with ten million states the probability of
// one is about three in a million.
package explore

import (
	"hash/maphash"
	"slices"
)

// A Step identifies one transition: what happened, and to what. Two transitions from one state have different steps.
type Step struct {
	Action, Subject, Detail uint8
}

// A Model is a transition system. S must be a value without pointers.
type Model[S comparable] interface {
	// Next calls emit for every transition from the state, always in the same order.
	Next(state S, emit func(Step, S))
	// Violation returns the name of an invariant that does not hold in the state, or "".
	Violation(state S) string
	// Describe describes a step from the state in a sentence.
	Describe(state S, step Step) string
}

// Limits bound a search. A limit of 0 means no limit.
type Limits struct {
	States, Depth int
}

// A Result reports what was searched and what was found.
type Result struct {
	States       int
	Depth        int
	Complete     bool      // every reachable state was visited
	Violation    string    // of the first violating state, or empty
	Trace        []string  // the steps that led to it, in sentences
	TakenActions [256]bool // the actions that were taken at least once
}

// Violations returns the number for a report: the search ends with the first one.
func (r Result) Violations() int {
	if r.Violation == "" {
		return 0
	}
	return 1
}

type node struct {
	parent uint32
	step   Step
}

type search[S comparable] struct {
	model    Model[S]
	initial  S
	limits   Limits
	seed     maphash.Seed
	visited  visited
	nodes    []node
	next     []S // the states of the next depth; the last of nodes, in the same order
	recycled []S // memory for the depth after that
	result   Result
}

// Search visits the states that can be reached from the initial one, breadth first, until one violates an invariant, all were
// visited, or a limit is reached.
func Search[S comparable](model Model[S], initial S, limits Limits) Result {
	s := &search[S]{model: model, initial: initial, limits: limits, seed: maphash.MakeSeed()}
	s.visit(0, Step{}, initial)
	for len(s.next) > 0 && !s.isOver() {
		s.expandAll()
	}
	s.result.States = len(s.nodes)
	s.result.Complete = len(s.next) == 0
	return s.result
}

// isOver reports whether the search ends before the next depth.
func (s *search[S]) isOver() bool {
	return s.result.Violation != "" || s.isFull() || s.limits.Depth > 0 && s.result.Depth >= s.limits.Depth
}

func (s *search[S]) isFull() bool { return s.limits.States > 0 && len(s.nodes) >= s.limits.States }

// expandAll takes every transition from the states of one depth.
func (s *search[S]) expandAll() {
	current := s.next
	first := len(s.nodes) - len(current)
	s.next, s.recycled = s.recycled[:0], current
	s.result.Depth++
	for n, state := range current {
		s.model.Next(state, func(step Step, next S) {
			s.result.TakenActions[step.Action] = true
			s.visit(uint32(first+n), step, next)
		})
		if s.result.Violation != "" || s.isFull() {
			return
		}
	}
}

func (s *search[S]) visit(parent uint32, step Step, state S) {
	if s.result.Violation != "" {
		return
	}
	if !s.visited.add(maphash.Comparable(s.seed, state)) {
		return
	}
	s.nodes = append(s.nodes, node{parent: parent, step: step})
	s.next = append(s.next, state)
	if violation := s.model.Violation(state); violation != "" {
		s.result.Violation = violation
		s.result.Trace = s.trace(uint32(len(s.nodes) - 1))
	}
}

// trace replays the steps that led to a node and describes each.
func (s *search[S]) trace(last uint32) []string {
	var steps []Step
	for at := last; at != 0; at = s.nodes[at].parent {
		steps = append(steps, s.nodes[at].step)
	}
	slices.Reverse(steps)
	state := s.initial
	lines := make([]string, 0, len(steps))
	for _, step := range steps {
		lines = append(lines, s.model.Describe(state, step))
		state = s.after(state, step)
	}
	return lines
}

func (s *search[S]) after(state S, step Step) S {
	var result S
	s.model.Next(state, func(taken Step, next S) {
		if taken == step {
			result = next
		}
	})
	return result
}
