package tna

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// node is what takes a place in a stage: a table, or an action that is called without one.
type node struct {
	name            string
	matched         map[string]bool // fields that decide: keys, and conditions around it
	read, written   map[string]bool // by its actions
	registers       map[string]bool
	branches        map[int]bool // of the ifs around it, by their number: taken or not
	behind          []int        // nodes whose hit or miss leads here
	stage           int
	longestPrevious int
}

// chains collects the nodes of a control in the order of the program.
type chains struct {
	u     *unit
	nodes []*node
	ifs   int
}

// Chain returns the longest chain of dependent tables in a control of a generation's program, from the first stage on:
// no placement needs fewer stages. A table that matches, reads or writes what another one wrote comes a stage later;
// one that only another's hit or miss leads to may share its stage. Sizes of tables are left out, and so is everything
// else that a compiler must place.
func Chain(sources fs.FS, generation int, control string) (chain []string, err error) {
	s, err := New(sources, generation)
	if err != nil {
		return nil, err
	}
	c := &chains{u: s.program.units[control]}
	c.walk(c.u.apply, &node{matched: map[string]bool{}, branches: map[int]bool{}})
	last := -1
	for changed := true; changed; { // nodes of one register share a stage, so that a later one can move an earlier one
		changed = false
		for i, n := range c.nodes {
			stage, previous := n.stage, n.longestPrevious
			for j, m := range c.nodes {
				at := -1
				switch {
				case j < i && !m.excludes(n) && (m.leads(n.matched) || m.leads(n.read) || m.leads(n.written)):
					at = m.stage + 1
				case j < i && slices.Contains(n.behind, j):
					at = m.stage
				case j != i && meet(m.registers, n.registers):
					at = m.stage
				}
				if at > stage {
					stage, previous = at, j
				}
			}
			if stage != n.stage {
				n.stage, n.longestPrevious, changed = stage, previous, true
			}
		}
	}
	for i, n := range c.nodes {
		if last < 0 || n.stage > c.nodes[last].stage {
			last = i
		}
	}
	for at, stage := last, -1; at >= 0; at = c.nodes[at].longestPrevious {
		if n := c.nodes[at]; n.stage != stage {
			chain, stage = append(chain, n.name), n.stage
		}
	}
	slices.Reverse(chain)
	return chain, nil
}

func meet(a, b map[string]bool) bool {
	for f := range a {
		if b[f] {
			return true
		}
	}
	return false
}

// leads reports whether n writes one of the fields.
func (n *node) leads(fields map[string]bool) bool { return meet(n.written, fields) }

// excludes reports whether no packet meets both.
func (n *node) excludes(m *node) bool {
	for i, taken := range n.branches {
		if other, both := m.branches[i]; both && other != taken {
			return true
		}
	}
	return false
}

// walk adds the nodes of statements that depend on conditions.
func (c *chains) walk(list []*stmt, under *node) {
	for _, s := range list {
		switch s.kind {
		case "block":
			c.walk(s.body, under)
		case "call":
			c.add(s.rhs, under)
		case "if":
			inner := *under
			inner.behind = slices.Clone(under.behind)
			if at := c.applied(s.cond, under); at >= 0 {
				inner.behind = append(inner.behind, at)
			} else {
				inner.matched = maps.Clone(under.matched)
				fields(s.cond, inner.matched)
			}
			c.ifs++
			number := c.ifs
			branch := func(taken bool, body []*stmt) {
				in := inner
				in.branches = maps.Clone(under.branches)
				in.branches[number] = taken
				c.walk(body, &in)
			}
			branch(true, s.body)
			if s.other != nil {
				branch(false, []*stmt{s.other})
			}
		}
	}
}

// applied adds the table whose hit or miss is a condition and returns its place, or −1.
func (c *chains) applied(cond *expr, under *node) int {
	if cond.op == "method" && cond.args[0].op == "invoke" && cond.args[0].text == "apply" {
		c.add(cond.args[0], under)
		return len(c.nodes) - 1
	}
	return -1
}

func (c *chains) add(e *expr, under *node) {
	n := &node{matched: maps.Clone(under.matched), read: map[string]bool{}, written: map[string]bool{},
		registers: map[string]bool{}, branches: maps.Clone(under.branches), behind: slices.Clone(under.behind),
		longestPrevious: -1}
	if e.op == "call" {
		n.name = e.text
		c.action(n, e.text)
	} else if t := c.u.tables[e.args[0].text]; t != nil {
		n.name = t.name
		for _, k := range t.keys {
			fields(k, n.matched)
		}
		for _, a := range t.actions {
			c.action(n, a)
		}
	}
	c.nodes = append(c.nodes, n)
}

func (c *chains) action(n *node, name string) {
	a := c.u.actions[name]
	if a == nil {
		return // NoAction
	}
	var run func([]*stmt)
	run = func(list []*stmt) {
		for _, s := range list {
			switch s.kind {
			case "block":
				run(s.body)
			case "if":
				fields(s.cond, n.read)
				run(s.body)
			case "set":
				n.written[s.lhs.text] = true
				c.value(n, s.rhs, a)
			case "call":
				c.value(n, s.rhs, a)
			}
		}
	}
	run(a.body)
}

// value notes what an expression of an action reads, and the register that it touches with what that reads.
func (c *chains) value(n *node, e *expr, a *action) {
	if e.op == "invoke" {
		if in := c.u.instances[e.args[0].text]; in != nil {
			for _, arg := range e.args[1:] {
				c.value(n, arg, a)
			}
			if in.typ == "RegisterAction" {
				n.registers[in.args[0].text] = true
				c.stateful(n, in.apply)
			}
			return
		}
	}
	if e.op == "name" {
		if !slices.ContainsFunc(a.params, func(f field) bool { return f.name == e.text }) {
			fields(e, n.read)
		}
		return
	}
	for _, arg := range e.args {
		c.value(n, arg, a)
	}
}

// stateful notes what the body of a register action reads of the packet.
func (c *chains) stateful(n *node, list []*stmt) {
	for _, s := range list {
		for _, e := range []*expr{s.cond, s.rhs} {
			if e != nil {
				fields(e, n.read)
			}
		}
		c.stateful(n, s.body)
		if s.other != nil {
			c.stateful(n, []*stmt{s.other})
		}
	}
}

// fields adds the fields of an expression; those of the parser never change.
func fields(e *expr, to map[string]bool) {
	if e.op == "name" && strings.Contains(e.text, ".") {
		to[e.text] = true
	}
	for _, a := range e.args {
		fields(a, to)
	}
}
