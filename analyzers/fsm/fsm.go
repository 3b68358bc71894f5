// Package fsm has finite state machines declared as tables: state × input → state, or the rule that this input breaks
// there. A machine defines what is legal; the analyzer that steps it determines the input.
package fsm

import (
	"fmt"
	"slices"
)

// Machine is a table of edges for the rules R of an analyzer. It does not change.
type Machine[R ~string] struct {
	name   string
	states []string
	inputs []string
	edges  []edge[R] // state·len(inputs) + input
	names  []string  // of edges
}

type edge[R ~string] struct {
	to   uint8
	rule R // that this input breaks in this state; "" if it is legal
}

// Row declares edges: Input in any of the States leads to state To, or leaves the state unchanged.
type Row[R ~string] struct {
	Input  uint8
	States []uint8 // nil: every state
	To     uint8   // or Stay
	Rule   R       // that it breaks; "": it is legal
}

// Stay is the To of edges that lead back to where they come from.
const Stay = 0xfe

// undeclared is the to of edges of no row.
const undeclared = 0xff

// Declare builds a machine from rows; a later row overrides an earlier one, so general rows come first. Every pair of
// state and input must be covered, which a test of the machine checks with Holes.
func Declare[R ~string](name string, states, inputs []string, rows []Row[R]) *Machine[R] {
	m := &Machine[R]{name: name, states: states, inputs: inputs, edges: make([]edge[R], len(states)*len(inputs))}
	for i := range m.edges {
		m.edges[i].to = undeclared
	}
	for _, r := range rows {
		for s := range states {
			if r.States == nil || slices.Contains(r.States, uint8(s)) {
				to := r.To
				if to == Stay {
					to = uint8(s)
				}
				m.edges[s*len(inputs)+int(r.Input)] = edge[R]{to, r.Rule}
			}
		}
	}
	m.names = make([]string, len(m.edges))
	for i, e := range m.edges {
		if e.to != undeclared {
			m.names[i] = fmt.Sprintf("%s: %s + %s -> %s", name, states[i/len(inputs)], inputs[i%len(inputs)], states[e.to])
		}
	}
	return m
}

// Name returns what the machine is of.
func (m *Machine[R]) Name() string { return m.name }

// Holes lists pairs of state and input that no row declares.
func (m *Machine[R]) Holes() []string {
	var out []string
	for i, e := range m.edges {
		if e.to == undeclared {
			out = append(out, m.states[i/len(m.inputs)]+"/"+m.inputs[i%len(m.inputs)])
		}
	}
	return out
}

// Transitions calls yield for every declared edge: its name as coverage shows it, and the rule that it breaks, "" if it
// is legal.
func (m *Machine[R]) Transitions(yield func(name string, rule R) bool) {
	for i, e := range m.edges {
		if e.to != undeclared && !yield(m.names[i], e.rule) {
			return
		}
	}
}

// Coverage steps states of one machine and counts how often each edge was taken, over all of them.
type Coverage[R ~string] struct {
	m      *Machine[R]
	counts []int64
}

// NewCoverage returns a coverage that has counted nothing.
func NewCoverage[R ~string](m *Machine[R]) Coverage[R] {
	return Coverage[R]{m: m, counts: make([]int64, len(m.edges))}
}

// Step takes the edge of input from *state and returns the rule that it breaks, or "".
func (c *Coverage[R]) Step(state *uint8, input uint8) R {
	i := int(*state)*len(c.m.inputs) + int(input)
	c.counts[i]++
	e := &c.m.edges[i]
	*state = e.to
	return e.rule
}

// Repeat counts n more steps by input from a state in which input leads to nothing new.
func (c *Coverage[R]) Repeat(state, input uint8, n int64) {
	c.counts[int(state)*len(c.m.inputs)+int(input)] += n
}

// Join adds what another coverage of the same machine has counted.
func (c *Coverage[R]) Join(other *Coverage[R]) {
	for i, n := range other.counts {
		c.counts[i] += n
	}
}

// AddTo adds the legal transitions to out, those never taken with 0. Violations are findings, not coverage.
func (c *Coverage[R]) AddTo(out map[string]int64) { c.add(out, false) }

// AddIllegal adds the transitions that are violations to out, those never taken with 0.
func (c *Coverage[R]) AddIllegal(out map[string]int64) { c.add(out, true) }

func (c *Coverage[R]) add(out map[string]int64, illegal bool) {
	for i, n := range c.counts {
		if e := &c.m.edges[i]; e.to != undeclared && (e.rule != "") == illegal {
			out[c.m.names[i]] += n
		}
	}
}
