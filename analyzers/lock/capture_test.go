package lock

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

// frameOf returns the bytes of a packet as a switch has it on the wire.
func frameOf(p *Packet) []byte {
	b := make([]byte, 14, 128)
	binary.BigEndian.PutUint16(b[12:], typeIPv4)
	payload := p.Header.AppendTo(nil)
	protocol := byte(protocolUDP)
	src, dst := p.Src, p.Dst
	if !p.Lock {
		payload = binary.BigEndian.AppendUint64(nil, p.Digest)
		protocol, src, dst = 200, netip.AddrFrom4([4]byte{1, 2, byte(p.Flow)}), netip.AddrFrom4([4]byte{9, 9, 9, 9})
	}
	total := 20 + 8 + len(payload)
	ip := []byte{0x45, 0, byte(total >> 8), byte(total), 0, 0, 0, 0, 64, protocol, 0, 0}
	ip = append(append(ip, src.AsSlice()...), dst.AsSlice()...)
	udp := binary.BigEndian.AppendUint16(nil, 4000)
	udp = binary.BigEndian.AppendUint16(udp, p.DstPort)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(payload)))
	udp = append(udp, 0, 0)
	return append(append(append(b, ip...), udp...), payload...)
}

// recorded judges a workload from captures of its ports alone, whose clocks differ by up to as much as is given.
func (s *setup) recorded(t *testing.T, apart clock.Duration) analyzers.Result {
	var tape []Packet
	s.gap = func(_ *Judge, _ int, p *Packet) bool {
		tape = append(tape, *p)
		return true
	}
	_, m := s.run()
	r := rand.New(rand.NewPCG(s.seed, 9))
	offsets := make([]clock.Duration, s.clients+1)
	if ns := int64(apart/clock.Nanosecond) - 1; ns > 0 {
		for i := range offsets {
			offsets[i] = clock.Duration(r.Int64N(ns)) * clock.Nanosecond
		}
	}
	var decoder Decoder
	entered := make(map[uint64]uint64) // numbers of frames by those of the packets that they were
	for i := range tape {
		p, was := &tape[i], tape[i].ID
		f := trace.Frame{TimeNS: p.Time.Add(offsets[p.Port]).Nanoseconds(), Data: frameOf(p), OrigLen: int(p.Size)}
		at := Packet{Switch: p.Switch, Port: p.Port, Stage: p.Stage}
		decoder.Decode(&f, 0, p)
		p.Switch, p.Port, p.Stage = at.Switch, at.Port, at.Stage
		if p.Stage == trace.Entered {
			entered[was] = p.ID
		} else if id, ok := entered[was]; ok && p.Stage == trace.Dropped { // no capture shows it: the switch says which
			p.ID = id
		}
	}
	slices.SortStableFunc(tape, func(a, b Packet) int { return int(a.Time - b.Time) })
	facts := m.judge.facts
	facts.Uncertainty = max(apart, clock.Nanosecond)
	facts.Switches = slices.Clone(facts.Switches)
	j, err := New(facts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tape {
		j.Packet(&tape[i])
	}
	return j.Finish(m.now)
}

// Captures of the ports suffice, with times in whole ns, and with clocks that differ by less than the pipeline takes.
func TestCapturesAlone(t *testing.T) {
	grants := int64(0)
	for seed := range uint64(wide(60)) {
		s := workload(seed)
		s.hide = nil
		apart := clock.Nanosecond
		if seed%2 == 1 {
			apart = s.facts.Pipeline / 2
		}
		r := s.recorded(t, apart)
		if v := violated(&r); len(v) > 0 {
			t.Errorf("seed %d, clocks %v apart: %v\n%v", seed, apart, v, describe(&r))
		}
		grants += r.Coverage["grants-switch"] + r.Coverage["grants-server"]
		if r.Coverage["unsure"] > 0 {
			t.Errorf("seed %d: %v", seed, r.Coverage)
		}
	}
	if grants < 3000 && !runtimetest.Race {
		t.Errorf("%d grants", grants)
	}
	for i, m := range mutants {
		if !runtimetest.Sampled(i) {
			continue
		}
		s := base(1)
		if s.every, s.fault = 7, m.fault; m.change != nil {
			m.change(s)
		}
		if m.rule == lock.RuleFailover {
			continue // captures do not show when a switch stops
		}
		r := s.recorded(t, clock.Nanosecond)
		if v := violated(&r); v[m.rule] == 0 {
			t.Errorf("%s: %v, want %s", m.fault, v, m.rule)
		}
	}
}
