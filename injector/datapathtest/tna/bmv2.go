package tna

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/injector/p4"
)

// BMv2 is bmv2's simple_switch that runs the program for it with the passes of hardware.
type BMv2 struct {
	Switch
	recirculating []recirculated
}

// recirculated is a packet that is to pass again, with the metadata that it keeps.
type recirculated struct {
	port  uint16
	frame []byte
	kept  map[string]value
}

// bmv2's port of packets that are dropped, and the kinds of packets in egress.
const (
	dropPort    = 511
	ingressCopy = 1
	replicated  = 5
	again       = 4
)

// NewBMv2 reads the program for bmv2 with PASSES.
func NewBMv2(sources fs.FS) (*BMv2, error) {
	return NewProgram(sources, "injector_v1model.p4", "PASSES")
}

// NewProgram reads a program for bmv2 with a macro defined.
func NewProgram(sources fs.FS, name, macro string) (*BMv2, error) {
	ts, err := preprocess(sources, name, macro, 1)
	if err != nil {
		return nil, err
	}
	program, err := parse(ts, map[string]int{})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"P", "I", "E", "Sum", "D"} {
		if program.units[name] == nil {
			return nil, fmt.Errorf("the sources have no %s", name)
		}
	}
	s := &BMv2{Switch: Switch{Info: p4.Base(), program: program}}
	s.Reset()
	return s, nil
}

// Process is [Switch.Process].
func (s *BMv2) Process(port uint16, frame []byte, leave func(port uint16, frame []byte)) error {
	return s.process(&recirculated{port: port, frame: frame}, 0, leave)
}

// Recirculate has the first packet that recirculates pass again; false: there is none.
func (s *BMv2) Recirculate(leave func(port uint16, frame []byte)) (bool, error) {
	if len(s.recirculating) == 0 {
		return false, nil
	}
	first := s.recirculating[0]
	s.recirculating = s.recirculating[1:]
	return true, s.process(&first, again, leave)
}

func (s *BMv2) process(of *recirculated, kind uint64, leave func(port uint16, frame []byte)) (err error) {
	defer func() {
		if f, ok := recover().(fault); ok {
			err = fmt.Errorf("%s", string(f))
		}
	}()
	s.clock++
	arrive := func() *pass {
		p := s.pass(of.frame)
		maps.Copy(p.vars, of.kept)
		p.vars["std.ingress_port"] = value{0, uint64(of.port), 9}
		p.vars["std.instance_type"] = value{0, kind, 32}
		p.vars["std.packet_length"] = value{0, uint64(len(of.frame)), 32}
		p.vars["std.ingress_global_timestamp"] = value{0, s.clock, 48}
		p.parse("P", "parser error")
		return p
	}
	in := arrive()
	in.control("I")
	for _, session := range in.clones {
		for _, to := range s.sessions[session] {
			p := arrive()
			maps.Copy(p.vars, in.kept())
			s.leave(p, to, ingressCopy, leave)
		}
	}
	if group := in.vars["std.mcast_grp"].lo; group != 0 {
		for _, to := range s.groups[uint32(group)] {
			s.leave(in.fork(), to, replicated, leave)
		}
	} else if to, ok := in.vars["std.egress_spec"]; ok && to.lo != dropPort {
		s.leave(in, uint16(to.lo), 0, leave)
	}
	return nil
}

// fork returns a copy of a packet between ingress and egress.
func (p *pass) fork() *pass {
	q := *p
	q.vars = maps.Clone(p.vars)
	return &q
}

// leave lets a packet through egress.
func (s *BMv2) leave(p *pass, port uint16, kind uint64, leave func(port uint16, frame []byte)) {
	p.vars["std.egress_port"] = value{0, uint64(port), 9}
	p.vars["std.egress_spec"] = value{0, 0, 9}
	p.vars["std.instance_type"] = value{0, kind, 32}
	p.touched = map[string]bool{}
	p.control("E")
	if p.vars["std.egress_spec"].lo == dropPort {
		return
	}
	p.control("Sum")
	p.control("D")
	frame := slices.Concat(p.out, p.frame[min(p.bit/8, len(p.frame)):])
	if p.truncate > 0 {
		frame = frame[:min(len(frame), p.truncate)]
	}
	if p.again {
		s.recirculating = append(s.recirculating, recirculated{uint16(p.vars["std.ingress_port"].lo), frame, p.kept()})
		return
	}
	leave(port, frame)
}

// kept returns the metadata that clones and recirculated packets keep: the programs have one field list, of what is
// called so.
func (p *pass) kept() map[string]value {
	kept := map[string]value{}
	for name, v := range p.vars {
		if strings.HasPrefix(name, "meta.mirror_") {
			kept[name] = v
		}
	}
	return kept
}

// software runs a function of v1model, and reports whether e calls one.
func (p *pass) software(e *expr) bool {
	switch e.text {
	case "mark_to_drop":
		p.vars["std.egress_spec"], p.vars["std.mcast_grp"] = value{0, dropPort, 9}, value{0, 0, 16}
	case "clone_preserving_field_list":
		p.clones = append(p.clones, uint32(p.eval(e.args[1]).lo))
	case "recirculate_preserving_field_list":
		p.again = true
	case "truncate":
		p.truncate = int(p.eval(e.args[0]).lo)
	case "update_checksum":
		if p.eval(e.args[0]).lo == 1 {
			p.set(e.at, e.args[2].text, p.sum(e.args[1]))
		}
	case "hash":
		p.set(e.at, e.args[0].text, value{0, uint64(crc16(p.eval(e.args[3]))), 16})
	default:
		return false
	}
	return true
}

// width returns how many bits a cell of a register has.
func width(in *instance) int {
	w, _ := strconv.Atoi(in.types[0])
	return w
}

// softwareCell returns a cell of a register of v1model.
func (p *pass) softwareCell(e *expr, in *instance, index value) value {
	if index.lo >= in.args[0].num.lo {
		p.fault(e.at, "register %s has no cell %d", in.name, index.lo)
	}
	cells := p.s.registers[in.name]
	if cells == nil {
		cells = map[uint64]map[string]value{}
		p.s.registers[in.name] = cells
	}
	if cells[index.lo] == nil {
		cells[index.lo] = map[string]value{"": {0, 0, width(in)}}
	}
	return cells[index.lo][""]
}

// within applies a control that another one declares.
func (p *pass) within(e *expr, u *unit) {
	outer := *p
	p.u, p.locals, p.alias = u, map[string]value{}, map[string]string{}
	for i, f := range u.params {
		arg := e.args[i+1]
		if f.width > 0 {
			q := outer
			v := q.eval(arg)
			v.width = f.width
			p.locals[f.name] = v
		} else {
			p.alias[f.name] = arg.text
		}
	}
	p.run(u.apply)
	p.u, p.locals, p.alias = outer.u, outer.locals, outer.alias
}
