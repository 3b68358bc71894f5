package tna

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"candela.dev/candela/injector/p4"
)

// intrinsics returns the fields of the architecture that the program uses.
func intrinsics() map[string][]field {
	bits := func(fields ...any) (out []field) {
		for i := 0; i < len(fields); i += 2 {
			out = append(out, field{fields[i].(string), "bit", fields[i+1].(int)})
		}
		return out
	}
	return map[string][]field{
		"ingress_intrinsic_metadata_t":                bits("ingress_port", 9),
		"ingress_intrinsic_metadata_from_parser_t":    bits("parser_err", 16, "global_tstamp", 48),
		"ingress_intrinsic_metadata_for_deparser_t":   bits("drop_ctl", 3, "mirror_type", mirrorTypeBits),
		"ingress_intrinsic_metadata_for_tm_t":         bits("ucast_egress_port", 9, "mcast_grp_a", 16),
		"egress_intrinsic_metadata_t":                 bits("egress_port", 9),
		"egress_intrinsic_metadata_from_parser_t":     bits("parser_err", 16),
		"egress_intrinsic_metadata_for_deparser_t":    bits("drop_ctl", 3, "mtu_trunc_len", 14),
		"egress_intrinsic_metadata_for_output_port_t": nil,
		"standard_metadata_t": bits("ingress_port", 9, "egress_spec", 9, "egress_port", 9, "mcast_grp", 16,
			"instance_type", 32, "packet_length", 32, "ingress_global_timestamp", 48),
	}
}

// mirrorTypeBits are as many as the wider generation has: no program of ours uses more than one type.
const mirrorTypeBits = 4

// pass is a packet in one unit after the other: parser, control, deparser.
type pass struct {
	s      *Switch
	u      *unit
	vars   map[string]value
	locals map[string]value
	own    *table // whose action runs
	key    p4.Key

	frame   []byte // what arrived
	bit     int    // how far the parser came
	out     []byte
	mirror  []byte
	session uint64

	touched map[string]bool   // registers and tables
	alias   map[string]string // arguments of a control that another one applies, by parameter

	clones   []uint32 // sessions, on bmv2
	truncate int      // to this length, on bmv2; 0: not
	again    bool     // it recirculates, on bmv2
}

func (p *pass) fault(at, format string, args ...any) {
	panic(fault(at + ": " + fmt.Sprintf(format, args...)))
}

// typeOf returns the type of a path.
func (p *pass) typeOf(at, path string) field {
	parts := split(path)
	for _, f := range p.u.params {
		if f.name != parts[0] {
			continue
		}
		for _, part := range parts[1:] {
			if part == "$valid" {
				return field{part, "bit", 1}
			}
			i := slices.IndexFunc(p.s.program.structs[f.typ], func(g field) bool { return g.name == part })
			if i < 0 {
				p.fault(at, "%s has no field %s", path, part)
			}
			f = p.s.program.structs[f.typ][i]
		}
		return f
	}
	p.fault(at, "%s: there is no %s", path, parts[0])
	return field{}
}

func split(path string) (parts []string) {
	start := 0
	for i := range path {
		if path[i] == '.' {
			parts, start = append(parts, path[start:i]), i+1
		}
	}
	return append(parts, path[start:])
}

// storage returns the name under which a path's value is kept.
func (p *pass) storage(path string) string {
	head, rest, _ := strings.Cut(path, ".")
	if to, ok := p.alias[head]; ok {
		return to + "." + rest
	}
	return path
}

func (p *pass) get(at, path string) value {
	if v, ok := p.locals[path]; ok {
		return v
	}
	kept := p.storage(path)
	v, ok := p.vars[kept]
	if !ok {
		if v.width = p.typeOf(at, path).width; v.width == 0 {
			p.fault(at, "%s is no number", path)
		}
		p.vars[kept] = v
	}
	return v
}

func (p *pass) set(at, path string, v value) {
	old := p.get(at, path)
	if v.width != 0 && v.width != old.width {
		p.fault(at, "%s of %d bits is set to %d bits", path, old.width, v.width)
	}
	v.width = old.width
	if _, ok := p.locals[path]; ok {
		p.locals[path] = v.cut()
		return
	}
	p.vars[p.storage(path)] = v.cut()
}

func (p *pass) valid(at, header string) bool { return p.get(at, header+".$valid").lo == 1 }

func (p *pass) eval(e *expr) value {
	switch e.op {
	case "num":
		return e.num
	case "name":
		return p.get(e.at, e.text)
	case "slice":
		return p.eval(e.args[0]).slice(e.hi, e.lo)
	case "cast":
		v := p.eval(e.args[0])
		v.width = e.hi
		return v.cut()
	case "!":
		v := p.eval(e.args[0])
		return value{0, v.lo ^ 1, 1}
	case "~":
		v := p.eval(e.args[0])
		return value{^v.hi, ^v.lo, v.width}.cut()
	case "&&":
		if v := p.eval(e.args[0]); v.lo == 0 {
			return v
		}
		return p.eval(e.args[1])
	case "||":
		if v := p.eval(e.args[0]); v.lo == 1 {
			return v
		}
		return p.eval(e.args[1])
	case "list":
		var all value
		for _, a := range e.args {
			v := p.eval(a)
			if v.width == 0 || all.width+v.width > 128 {
				p.fault(e.at, "a list of %d and %d bits", all.width, v.width)
			}
			all = concat(all, v)
		}
		return all
	case "method":
		inner := e.args[0]
		if inner.op == "invoke" && inner.text == "apply" {
			hit := p.apply(inner)
			if e.text == "miss" {
				hit = !hit
			}
			if hit {
				return value{0, 1, 1}
			}
			return value{0, 0, 1}
		}
		if inner.op == "invoke" && inner.text == "lookahead" {
			bits := 0
			for _, f := range p.s.program.structs[inner.args[1].text] {
				if f.name == e.text {
					v, _ := p.peek(bits, f.width)
					return v
				}
				bits += f.width
			}
		}
		p.fault(e.at, "%s of what?", e.text)
	case "invoke":
		return p.invoke(e)
	case "?":
		if p.eval(e.args[0]).lo == 1 {
			return p.eval(e.args[1])
		}
		return p.eval(e.args[2])
	}
	if len(e.args) == 2 {
		a, b := p.eval(e.args[0]), p.eval(e.args[1])
		v, ok := compute(e.op, a, b)
		if !ok {
			p.fault(e.at, "%s of %d and %d bits", e.op, a.width, b.width)
		}
		return v
	}
	p.fault(e.at, "expression %q is not known", e.op)
	return value{}
}

// run runs statements; it returns the state that a parser goes to.
func (p *pass) run(list []*stmt) (next string) {
	for _, s := range list {
		switch s.kind {
		case "block":
			p.run(s.body)
		case "if":
			if p.eval(s.cond).lo == 1 {
				p.run(s.body)
			} else if s.other != nil {
				p.run([]*stmt{s.other})
			}
		case "set":
			p.assign(s)
		case "call":
			p.call(s.rhs)
		case "var":
			if p.locals == nil {
				p.locals = map[string]value{}
			}
			v := value{}
			if s.rhs != nil {
				v = p.eval(s.rhs)
			}
			v.width = s.width
			p.locals[s.name] = v.cut()
		case "transition":
			return p.transition(s)
		}
	}
	return ""
}

func (p *pass) assign(s *stmt) {
	v := p.eval(s.rhs)
	if s.lhs.op == "name" {
		p.set(s.at, s.lhs.text, v)
		return
	}
	p.fault(s.at, "%s is no place", s.lhs.op)
}

func (p *pass) transition(s *stmt) string {
	if s.rhs == nil {
		return s.name
	}
	keys := make([]value, len(s.rhs.args))
	for i, k := range s.rhs.args {
		keys[i] = p.eval(k)
	}
	for _, c := range s.cases {
		if len(c.keys) == 1 && c.keys[0].op == "any" || p.matches(c.keys, keys) {
			return c.state
		}
	}
	return "reject"
}

// matches reports whether keys are in a keyset.
func (p *pass) matches(set []*expr, keys []value) bool {
	for i, e := range set {
		k := keys[i]
		switch e.op {
		case "any":
			continue
		case "&&&":
			want, mask := p.eval(e.args[0]), p.eval(e.args[1])
			if (k.hi^want.hi)&mask.hi != 0 || (k.lo^want.lo)&mask.lo != 0 {
				return false
			}
		case "..":
			if k.lo < p.eval(e.args[0]).lo || k.lo > p.eval(e.args[1]).lo {
				return false
			}
		default:
			want := p.eval(e)
			if want.width != 0 && want.width != k.width {
				p.fault(e.at, "a key of %d bits is compared with %d bits", k.width, want.width)
			}
			if want.hi != k.hi || want.lo != k.lo {
				return false
			}
		}
	}
	return true
}

// call runs an action or a method for what it does.
func (p *pass) call(e *expr) {
	if e.op == "call" {
		if a := p.u.actions[e.text]; a != nil {
			args := make([]value, len(e.args))
			for i := range e.args {
				args[i] = p.eval(e.args[i])
			}
			p.act(a, args)
			return
		}
		if e.text == "NoAction" || p.software(e) {
			return
		}
	}
	if e.op == "invoke" {
		p.invoke(e)
		return
	}
	p.fault(e.at, "%s is no action", e.text)
}

func (p *pass) act(a *action, args []value) {
	outer := p.locals
	p.locals = maps.Clone(outer)
	if p.locals == nil {
		p.locals = map[string]value{}
	}
	for i, f := range a.params {
		v := args[i]
		v.width = f.width
		p.locals[f.name] = v
	}
	p.run(a.body)
	p.locals = outer
}

// once notes that a packet touches something that it may touch once.
func (p *pass) once(at, what string) {
	if p.touched[what] {
		p.fault(at, "one packet touches %s twice", what)
	}
	p.touched[what] = true
}

// apply applies a table, and reports a hit.
func (p *pass) apply(e *expr) bool {
	t := p.u.tables[e.args[0].text]
	if t == nil {
		p.fault(e.at, "there is no table %s", e.args[0].text)
	}
	p.once(e.at, "table "+t.name)
	keys := make([]value, len(t.keys))
	for i, k := range t.keys {
		keys[i] = p.eval(k)
	}
	outer, outerKey := p.own, p.key
	p.own, p.key = t, p4.Key{}
	defer func() { p.own, p.key = outer, outerKey }()
	for _, c := range t.entries {
		if p.matches(c.keys, keys) {
			p.call(c.call)
			return true
		}
	}
	contract := p.s.Info.TableNamed(t.control)
	if contract == nil {
		p.call(t.defaultAction)
		return false
	}
	for i, k := range keys {
		if k.width != contract.Fields[i].Bits {
			p.fault(e.at, "key %s of table %s has %d bits", contract.Fields[i].Name, t.control, k.width)
		}
		p.key[i] = p4.Value{Hi: k.hi, Lo: k.lo}
	}
	a, hit := p.s.entries[contract.ID][p.key]
	if in := p.u.instances[t.counter]; hit && in != nil && in.typ == "direct_counter" {
		p.s.hits[place{contract.ID, p.key}]++
	}
	if !hit {
		if a, _ = p.s.defaults[contract.ID]; a.ID == 0 {
			p.call(t.defaultAction)
			return false
		}
	}
	if a.ID == p4.ActionNoAction {
		return hit
	}
	ref := contract.Offers(a.ID)
	if ref == nil {
		p.fault(e.at, "table %s offers no action %d", t.control, a.ID)
	}
	for _, name := range t.actions {
		of := p.u.actions[name]
		if of != nil && (of.control == ref.Name || of.control == t.control+"."+ref.Name) {
			args := make([]value, len(of.params))
			for i := range of.params {
				args[i] = value{0, a.Params[i], 0}
			}
			p.act(of, args)
			return hit
		}
	}
	p.fault(e.at, "table %s has no action %s", t.name, ref.Name)
	return false
}
