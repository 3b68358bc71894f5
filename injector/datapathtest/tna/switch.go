package tna

import (
	"fmt"
	"io/fs"
	"slices"

	"candela.dev/candela/injector/p4"
)

// Switch is a Tofino that runs the program.
type Switch struct {
	Info    *p4.Info // what its generation serves
	program *program
	clock   uint64

	entries   map[uint32]map[p4.Key]p4.Action
	defaults  map[uint32]p4.Action
	hits      map[place]uint64
	counters  map[string]map[uint64][2]uint64 // packets, bytes
	registers map[string]map[uint64]map[string]value
	sessions  map[uint32][]uint16
	groups    map[uint32][]uint16
}

// New reads the program of a generation, 1 or 2, from the sources.
func New(sources fs.FS, generation int) (*Switch, error) {
	ts, err := preprocess(sources, "injector_tna.p4", "__TARGET_TOFINO__", generation)
	if err != nil {
		return nil, err
	}
	types := map[string]int{"PortId_t": 9, "MulticastGroupId_t": 16, "MirrorType_t": mirrorTypeBits, "MirrorId_t": 10}
	info := p4.Tofino1()
	if generation == 2 {
		types["MirrorId_t"], info = 8, p4.Base()
	}
	program, err := parse(ts, types)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"IngressParser", "I", "IngressDeparser", "EgressParser", "E", "EgressDeparser"} {
		if program.units[name] == nil {
			return nil, fmt.Errorf("the sources have no %s", name)
		}
	}
	s := &Switch{Info: info, program: program}
	s.Reset()
	return s, nil
}

// Reset forgets everything, as a push of the program does.
func (s *Switch) Reset() {
	s.entries, s.defaults = map[uint32]map[p4.Key]p4.Action{}, map[uint32]p4.Action{}
	s.hits, s.registers = map[place]uint64{}, map[string]map[uint64]map[string]value{}
	s.sessions, s.groups = map[uint32][]uint16{}, map[uint32][]uint16{}
	s.counters = map[string]map[uint64][2]uint64{}
	for _, c := range p4.Base().Counters() {
		s.counters[c.Name] = map[uint64][2]uint64{}
	}
}

// Set inserts an entry or replaces its action.
func (s *Switch) Set(table uint32, k p4.Key, a p4.Action) error {
	t := s.Info.Table(table)
	if t == nil || t.Offers(a.ID) == nil {
		return fmt.Errorf("table %d offers no action %d", table, a.ID)
	}
	if s.entries[table] == nil {
		s.entries[table] = map[p4.Key]p4.Action{}
	}
	s.entries[table][k] = a
	return nil
}

// Unset deletes an entry.
func (s *Switch) Unset(table uint32, k p4.Key) {
	delete(s.entries[table], k)
	delete(s.hits, place{table, k})
}

// SetDefault sets a default action.
func (s *Switch) SetDefault(table uint32, a p4.Action) error {
	if t := s.Info.Table(table); t == nil || t.Offers(a.ID) == nil {
		return fmt.Errorf("table %d offers no action %d", table, a.ID)
	}
	s.defaults[table] = a
	return nil
}

// SetCloneSession sets a mirror session.
func (s *Switch) SetCloneSession(id uint32, ports []uint16) error {
	s.sessions[id] = ports
	return nil
}

// SetMulticastGroup sets a group.
func (s *Switch) SetMulticastGroup(id uint32, ports []uint16) error {
	s.groups[id] = ports
	return nil
}

// Hits returns how often an entry was hit.
func (s *Switch) Hits(table uint32, k p4.Key) uint64 { return s.hits[place{table, k}] }

// SetHits sets it.
func (s *Switch) SetHits(table uint32, k p4.Key, hits uint64) { s.hits[place{table, k}] = hits }

// Counter returns a cell of a counter.
func (s *Switch) Counter(id uint32, index int) (packets, bytes uint64) {
	c := s.counters[p4.Base().Counter(id).Name][uint64(index)]
	return c[0], c[1]
}

// SetCounter sets it.
func (s *Switch) SetCounter(id uint32, index int, packets, bytes uint64) {
	s.counters[p4.Base().Counter(id).Name][uint64(index)] = [2]uint64{packets, bytes}
}

// Process returns what leaves when a frame arrives: the packet, and then its mirror copies, by port. A breach of a rule
// is an error.
func (s *Switch) Process(port uint16, frame []byte, leave func(port uint16, frame []byte)) (err error) {
	defer func() {
		if f, ok := recover().(fault); ok {
			err = fmt.Errorf("%s", string(f))
		}
	}()
	s.clock++
	in := s.pass(frame)
	in.vars["ig_intr_md.ingress_port"] = value{0, uint64(port), 9}
	in.vars["ig_prsr_md.global_tstamp"] = value{0, s.clock, 48}
	in.parse("IngressParser", "ig_prsr_md.parser_err")
	in.control("I")
	in.control("IngressDeparser")
	packet := slices.Concat(in.out, frame[min(in.bit/8, len(frame)):])
	if in.vars["ig_dprsr_md.drop_ctl"].lo&1 == 0 {
		ports := s.groups[uint32(in.vars["ig_tm_md.mcast_grp_a"].lo)]
		if to, ok := in.vars["ig_tm_md.ucast_egress_port"]; ok {
			ports = append(slices.Clone(ports), uint16(to.lo))
		}
		for _, to := range ports {
			s.egress(to, packet, leave)
		}
	}
	if in.mirror != nil {
		for _, to := range s.sessions[uint32(in.session)] {
			s.egress(to, slices.Concat(in.mirror, frame), leave)
		}
	}
	return nil
}

// egress lets a packet out of a port.
func (s *Switch) egress(port uint16, packet []byte, leave func(port uint16, frame []byte)) {
	p := s.pass(packet)
	p.vars["eg_intr_md.egress_port"] = value{0, uint64(port), 9}
	p.parse("EgressParser", "eg_prsr_md.parser_err")
	p.control("E")
	p.control("EgressDeparser")
	if p.vars["eg_dprsr_md.drop_ctl"].lo&1 == 1 {
		return
	}
	frame := slices.Concat(p.out, packet[min(p.bit/8, len(packet)):])
	if cut, ok := p.vars["eg_dprsr_md.mtu_trunc_len"]; ok {
		const fcs = 4
		frame = frame[:min(len(frame), max(int(cut.lo)-fcs, 0))]
	}
	leave(port, frame)
}

func (s *Switch) pass(frame []byte) *pass {
	return &pass{s: s, frame: frame, vars: map[string]value{}, touched: map[string]bool{}}
}

func (p *pass) parse(unit, errorField string) {
	p.u = p.s.program.units[unit]
	defer func() {
		switch r := recover().(type) {
		case nil:
		case tooShort:
			p.vars[errorField] = value{0, 2, 16}
		default:
			panic(r)
		}
	}()
	for state := "start"; state != "accept"; {
		if state == "reject" {
			p.vars[errorField] = value{0, 1, 16}
			return
		}
		state = p.run(p.u.states[state])
	}
}

func (p *pass) control(unit string) {
	p.u, p.locals = p.s.program.units[unit], nil
	p.run(p.u.apply)
}
