package fabric_test

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// source sends packets of one size to one host at a constant rate, and counts received packets.
type source struct {
	to       fabric.HostID
	size     int
	left     int
	idle     bool
	class    uint8
	ecn      packet.ECN
	v6       bool
	next     clock.Time
	interval clock.Duration
	received int
	bytes    int
	onPacket func(now clock.Time, p *fabric.Packet)
}

func (s *source) Receive(now clock.Time, p *fabric.Packet) {
	s.received++
	s.bytes += int(p.Size)
	if s.onPacket != nil {
		s.onPacket(now, p)
	}
}

func (s *source) Poll(now clock.Time, p *fabric.Packet) bool {
	if s.idle || s.left == 0 || s.next > now {
		return false
	}
	s.left--
	s.next = max(s.next, 0).Add(s.interval)
	p.Dst, p.Size, p.Protocol, p.Flow = s.to, int32(s.size), fabric.Raw, uint32(p.Src)
	p.Class, p.ECN, p.IPv6 = s.class, s.ecn, s.v6
	return true
}

func (s *source) NextTimer() clock.Time {
	if s.idle || s.left == 0 {
		return clock.Never
	}
	return s.next
}

func (s *source) HandleTimer(clock.Time) {}

func TestOverloadedPortDropsWhatDoesNotFit(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{
		Topology: fabric.TopologySpec{Hosts: 3},
		Switch:   fabric.SwitchSpec{Queues: []fabric.QueueSpec{{MaxPackets: 10}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var last clock.Time
	sink := &source{onPacket: func(now clock.Time, _ *fabric.Packet) { last = now }}
	n.Host(0).Attach(&source{to: 2, size: 1500, left: 100})
	n.Host(1).Attach(&source{to: 2, size: 1500, left: 100})
	n.Host(2).Attach(sink)
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	// Twice the rate for 100 packet times of 120 ns: each pair of arrivals finds the queue full before one packet leaves;
	// 9 wait when the last has arrived.
	raw := fabric.Kind(fabric.Raw) * 8
	if got := n.Counts(raw); got.Sent != 200 || got.Delivered != 109 || got.Dropped != 91 || sink.received != 109 {
		t.Errorf("%+v, %d received", got, sink.received)
	}
	if want := clock.Time(0).Add(120*clock.Nanosecond*110 + clock.Microsecond); last != want {
		t.Errorf("the last arrives at %v, want %v", last, want)
	}
	if n.Hops() != 309 {
		t.Errorf("%d hops", n.Hops())
	}
}
