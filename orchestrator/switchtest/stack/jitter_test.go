package stack_test

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func TestJitterDelaysPacketsWithinItsBoundAndKeepsTheirOrder(t *testing.T) {
	const most, packets, size = 5 * clock.Microsecond, 2000, 1500
	net, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2,
		Link: fabric.LinkSpec{Rate: 10 * clock.Gbps}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw := stack.NewRaw()
	raw.Send(stack.Flow{ID: 1, To: 1, Packets: packets, Size: size})
	frame := (10 * clock.Gbps).Serialise(size)
	decided := make(map[uint32]clock.Time)
	watch := &watched{Stack: raw, decided: decided}
	net.Host(0).Attach(stack.NewJitter(watch, most,
		func(n int32) clock.Duration { return (10 * clock.Gbps).Serialise(int(n)) }, rand.New(rand.NewPCG(1, 2))))
	seen, late, last := uint32(0), clock.Duration(0), clock.Time(0)
	net.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if !at.Host || at.Stage != fabric.Egress {
			return
		}
		if p.Number != seen+1 {
			t.Fatalf("packet %d leaves after %d others", p.Number, seen)
		}
		seen++
		wait := now.Sub(decided[p.Number])
		late, last = max(late, wait), now
		if wait < 0 || wait > 2*most+2*frame {
			t.Errorf("packet %d left %v after it was decided", p.Number, wait)
		}
	})
	if err := net.Run(clock.Time(clock.Second)); err != nil {
		t.Fatal(err)
	}
	if seen != packets || late < most*9/10 {
		t.Errorf("%d packets, at most %v late", seen, late)
	}
	if least := clock.Time(0).Add(packets * frame); last > least.Add(packets*frame/50) {
		t.Errorf("the last left at %v, at line rate it does at %v", last, least)
	}
}

// watched records when packets are polled.
type watched struct {
	fabric.Stack
	decided map[uint32]clock.Time
}

func (w *watched) Poll(now clock.Time, p *fabric.Packet) bool {
	if !w.Stack.Poll(now, p) {
		return false
	}
	w.decided[p.Number] = now
	return true
}
