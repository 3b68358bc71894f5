package tna

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

// maxRegisterActions is how many programs the stateful ALU of a register has.
const maxRegisterActions = 4

// Breaches returns where a generation's program breaks a rule of the hardware that its earlier version broke, and that
// a type checker does not know:
//
//   - every action of a table with a direct counter counts, but for its default
//   - an action that takes a hash does nothing else, so that nothing must be merged with it
//   - no default action touches a register at a cell that a hash names: misses have no hash
//   - an action touches one register, and all actions on a register use one cell
//   - a register has at most four register actions
//   - a table is applied in one place
//   - an action sets no field to bits of a packet beside constant ones below them, which would need a rotation
func Breaches(sources fs.FS, generation int) (list []string, err error) {
	s, err := New(sources, generation)
	if err != nil {
		return nil, err
	}
	for _, control := range []string{"I", "E"} {
		list = append(list, s.program.units[control].breaches()...)
	}
	return list, nil
}

// calls returns the methods that statements call, with the extern objects.
func (u *unit) calls(list []*stmt, do func(in *instance, e *expr)) {
	var look func(e *expr)
	look = func(e *expr) {
		if e == nil {
			return
		}
		if e.op == "invoke" {
			if in := u.instances[e.args[0].text]; in != nil {
				do(in, e)
			}
		}
		for _, a := range e.args {
			look(a)
		}
	}
	for _, s := range list {
		look(s.cond)
		look(s.rhs)
		u.calls(s.body, do)
		if s.other != nil {
			u.calls([]*stmt{s.other}, do)
		}
	}
}

func (u *unit) breaches() (list []string) {
	breach := func(format string, args ...any) { list = append(list, u.name+": "+fmt.Sprintf(format, args...)) }
	cells := map[string]string{} // of registers: the index
	programs := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(u.instances)) {
		if in := u.instances[name]; in.typ == "RegisterAction" {
			reg := in.args[0].text
			if programs[reg]++; programs[reg] > maxRegisterActions {
				breach("register %s has %d register actions", reg, programs[reg])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.actions)) {
		a := u.actions[name]
		registers := map[string]bool{}
		u.calls(a.body, func(in *instance, e *expr) {
			switch in.typ {
			case "Hash":
				if len(a.body) > 1 {
					breach("action %s takes a hash and does something else", name)
				}
			case "RegisterAction":
				reg, index := in.args[0].text, print(e.args[1])
				registers[reg] = true
				if known, ok := cells[reg]; ok && known != index {
					breach("register %s is touched at %s and at %s", reg, known, index)
				}
				cells[reg] = index
			}
		})
		if len(registers) > 1 {
			breach("action %s touches %d registers", name, len(registers))
		}
		for _, s := range a.body {
			if s.kind == "set" && s.rhs.op == "++" && s.rhs.args[1].op == "num" && s.rhs.args[0].op != "num" {
				breach("action %s sets %s to rotated bits and constant ones", name, s.lhs.text)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.tables)) {
		t := u.tables[name]
		if t.defaultAction != nil {
			if a := u.actions[callee(t.defaultAction)]; a != nil {
				u.calls(a.body, func(in *instance, e *expr) {
					if in.typ == "RegisterAction" && e.args[1].op != "num" {
						breach("the default action of table %s touches a register by a hash", name)
					}
				})
			}
		}
		if t.counter == "" {
			continue
		}
		for _, a := range t.actions {
			counted := a == "NoAction"
			if !counted {
				u.calls(u.actions[a].body, func(in *instance, _ *expr) { counted = counted || in.name == t.counter })
			}
			if !counted {
				breach("action %s of table %s does not count", a, name)
			}
		}
	}
	c := &chains{u: u}
	c.walk(u.apply, &node{matched: map[string]bool{}, branches: map[int]bool{}})
	places := map[string]int{}
	for _, n := range c.nodes {
		if u.tables[n.name] != nil {
			if places[n.name]++; places[n.name] == 2 {
				breach("table %s is applied in two places", n.name)
			}
		}
	}
	return list
}

// callee returns the name of the action that an expression calls.
func callee(e *expr) string {
	if e.text == "" && len(e.args) > 0 {
		return e.args[0].text
	}
	return e.text
}

// print returns an expression as text, the same for the same expression.
func print(e *expr) string {
	s := fmt.Sprint(e.op, " ", e.text, e.num, e.hi, e.lo)
	for _, a := range e.args {
		s += "(" + print(a) + ")"
	}
	return s
}
