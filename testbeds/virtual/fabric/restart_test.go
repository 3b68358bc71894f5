package fabric_test

import (
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// counter is a mechanism with a register and a timer.
type counter struct {
	fabric.TailDrop
	seen, ticks *int
}

func (m counter) Start(now clock.Time, sw *fabric.Switch) { sw.Wake(now.Add(clock.Microsecond), 0) }

func (m counter) HandleTimer(now clock.Time, sw *fabric.Switch, _ uint64) {
	if *m.ticks++; *m.ticks < 1000 {
		sw.Wake(now.Add(clock.Microsecond), 0)
	}
}

func (m counter) Ingress(_ clock.Time, _ *fabric.Switch, _ *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	*m.seen++
	return v
}

func newCounter() counter { return counter{seen: new(int), ticks: new(int)} }

func TestAStoppedSwitchLosesItsRegistersTimersAndPackets(t *testing.T) {
	first, second := newCounter(), newCounter()
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 3}},
		func(*fabric.Switch) fabric.Mechanism { return first })
	if err != nil {
		t.Fatal(err)
	}
	const each = 1000
	for id := range fabric.HostID(2) {
		n.Host(id).Attach(&source{to: 2, size: 1500, left: each})
	}
	sink := &source{idle: true}
	n.Host(2).Attach(sink)
	run := func(us int64) {
		t.Helper()
		if err := n.Run(clock.Time(0).Add(clock.Duration(us) * clock.Microsecond)); err != nil {
			t.Fatal(err)
		}
	}
	sw := n.Switch(0)
	run(10)
	waiting, before := sw.Port(2).Queue(0).Packets(), *first.seen
	sw.Stop(n.Now())
	if !sw.Stopped() || waiting == 0 || sw.Port(2).Queue(0).Packets() != 0 ||
		int(sw.Dropped(fabric.ReasonStopped)) != waiting {
		t.Errorf("%d packets waited; after the stop %d, %d lost", waiting, sw.Port(2).Queue(0).Packets(),
			sw.Dropped(fabric.ReasonStopped))
	}
	run(12) // packets on the wire arrive
	received := sink.received
	run(20)
	if *first.seen != before || *first.ticks != 10 || sink.received != received {
		t.Errorf("stopped, the mechanism saw %d packets and %d ticks; %d packets were forwarded", *first.seen-before,
			*first.ticks-10, sink.received-received)
	}
	lost := int(sw.Dropped(fabric.ReasonStopped))
	sw.Start(n.Now(), second)
	run(5000)
	if int(sw.Dropped(fabric.ReasonStopped)) != lost || *second.seen+*first.seen+lost-waiting != 2*each ||
		*second.ticks != 1000 || *first.ticks != 10 {
		t.Errorf("after the start: %d more lost, %d + %d seen, %d lost on arrival, %d and %d ticks",
			int(sw.Dropped(fabric.ReasonStopped))-lost, *first.seen,
			*second.seen, lost-waiting, *first.ticks, *second.ticks)
	}
	if n.InFlight() != 0 || sink.received == received {
		t.Errorf("%d in flight, %d received", n.InFlight(), sink.received)
	}
}

// Switches stop and start at random instants; every packet still ends exactly once, and lossless classes continue after
// the last start.
func TestEveryPacketEndsOnceThoughSwitchesStop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pfc := fabric.PFCSpec{Classes: uint8(rapid.SampledFrom([]int{0, 0b101}).Draw(t, "pfc")), XOff: 20_000,
			Headroom: 400_000}
		n, err := fabric.New(&fabric.Spec{Seed: 5, Topology: topologies(t), Switch: fabric.SwitchSpec{
			Queues: queueSpecs(t, false), PFC: pfc,
			Recirculation: fabric.RecirculationSpec{Rate: clock.Gbps, Latency: clock.Microsecond},
		}}, busy)
		if err != nil {
			t.Fatal(err)
		}
		chatter(t, n)
		now := clock.Time(0)
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			now = now.Add(clock.Duration(rapid.Int64Range(0, int64(20*clock.Microsecond)).Draw(t, "gap")))
			if err := n.Run(now); err != nil {
				t.Fatal(err)
			}
			sw := n.Switch(rapid.IntRange(0, n.Switches()-1).Draw(t, "switch"))
			if sw.Stopped() {
				sw.Start(n.Now(), busybody{})
			} else {
				sw.Stop(n.Now())
			}
		}
		for i := range n.Switches() {
			n.Switch(i).Start(n.Now(), busybody{})
		}
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		if c := n.Total(); c.Sent+c.Copied != c.Delivered+c.Dropped || n.InFlight() != 0 {
			t.Errorf("%+v, %d in flight", c, n.InFlight())
		}
		for id := range n.Hosts() {
			if p := n.Host(fabric.HostID(id)).Port(); p.Paused() != 0 {
				t.Errorf("host %d is paused for ever", id)
			}
		}
	})
}
