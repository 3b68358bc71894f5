package fabric_test

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/bolt"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// boltNetwork is hosts at a switch with links of 10 Gb/s and 5 us. A packet of 1500 bytes takes 1.2 us, and a round
// trip without queues 22.5 us: 18.8 packets.
type boltNetwork struct {
	*fabric.Network
	t    *testing.T
	core []*bolt.Host
	left []clock.Time // when data left port 0
	of   []fabric.HostID
}

const (
	boltSlot = 1200 * clock.Nanosecond
	boltTrip = 22_512 * clock.Nanosecond // 20 us, two data packets, two ACKs
)

func newBolt(t *testing.T, spec fabric.BoltSpec, window int) *boltNetwork {
	t.Helper()
	spec.Threshold, spec.MTU, spec.MaxTokens = 3000, 1500, 256
	n, err := fabric.New(&fabric.Spec{
		Topology: fabric.TopologySpec{Hosts: 3, Link: fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: 5 * clock.Microsecond}},
		Switch:   fabric.SwitchSpec{Bolt: spec, Queues: make([]fabric.QueueSpec, 2)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &boltNetwork{Network: n, t: t}
	for id := range n.Hosts() {
		h, err := n.AttachBolt(fabric.HostID(id), fabric.BoltConfig{InitialWindow: window, Increase: 1, Reorder: 3}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b.core = append(b.core, h.Core())
	}
	n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if !at.Host && at.Stage == fabric.Egress && at.Port == 0 {
			b.left, b.of = append(b.left, now), append(b.of, p.Src)
		}
	})
	return b
}

// send has a host send so many packets to host 0; 0: without end.
func (b *boltNetwork) send(from int, packets uint64) {
	b.t.Helper()
	const payload = 1500 - 70
	if _, err := b.core[from].Send(bolt.Flow{Bytes: packets * payload}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *boltNetwork) run(until clock.Duration) {
	b.t.Helper()
	if err := b.Run(clock.Time(0).Add(until)); err != nil {
		b.t.Fatal(err)
	}
}

// An SRC packet reaches the sender one way to the switch and back after its data was sent (section 3.1): 10 us of
// propagation, the data packet, the SRC packet, and at most an ACK that is on the wire; half of the round trip, however
// long the queue is.
func TestSRCTakesHalfOfTheRoundTrip(t *testing.T) {
	b := newBolt(t, fabric.BoltSpec{SRC: true}, 19)
	notices, most := 0, 0
	b.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if !at.Host || at.Stage != fabric.Ingress || bolt.KindOf(&p.Header) != bolt.SRC {
			return
		}
		in := bolt.FromHeader(&p.Header, 0)
		took := clock.Duration(uint32(now.Nanoseconds())-in.SentNS) * clock.Nanosecond
		const way = 10*clock.Microsecond + boltSlot + 56*clock.Nanosecond
		if took < way || took > way+4*56*clock.Nanosecond {
			t.Fatalf("SRC packet for %d after %v, want %v and at most a few control packets", in.Number, took, way)
		}
		notices++
		most = max(most, int(in.Queue))
	})
	b.send(1, 0)
	b.send(2, 0)
	b.run(clock.Millisecond)
	// Both send 19 packets at once: the queue grows by one for each that a sender has until it slows down.
	if notices == 0 || most < 10*1500 || most > 19*1500 {
		t.Errorf("%d SRC packets, at most %d B in the queue", notices, most)
	}
	// Afterwards the windows share the pipe, and the queue is about the threshold.
	waiting := b.Switch(0).Port(0).Queue(0).Bytes()
	if waiting > 6000 {
		t.Errorf("after 1 ms %d B wait", waiting)
	}
}

// usedAfter returns which share of the link to host 0 is used in so many round trips after a flow that shared it has
// ended, and the window that the other one had.
func usedAfter(t *testing.T, spec fabric.BoltSpec, trips int) (share, window float64) {
	t.Helper()
	b := newBolt(t, spec, 19)
	b.send(1, 0)
	b.send(2, 400)
	var end clock.Time
	for end == 0 { // the window when the last packet of the flow leaves the switch
		b.run(b.Now().Sub(0) + clock.Microsecond)
		if n := len(b.left); b.core[2].Window(0) == 0 || n > 5000 {
			for i, from := range b.of {
				if from == 2 {
					end = b.left[i]
				}
			}
		} else {
			window = b.core[1].Window(0)
		}
	}
	until := end.Add(clock.Duration(trips) * boltTrip)
	b.run(until.Sub(0))
	packets := 0
	for _, at := range b.left {
		if at > end && at <= until {
			packets++
		}
	}
	return float64(packets) * float64(boltSlot) / float64(until.Sub(end)), window
}

// When a flow ends, the tokens of its last window let the other one grow at once (section 3.2). Without them that has
// its window w and one packet more each round trip: (w + 1 + … + w + k) / k of 18.8 packets. Packets with LAST that
// meet congestion leave no token, so part of the link stays unused even so.
func TestWithPRUAFlowTakesOverWhatAnotherLeaves(t *testing.T) {
	const trips, pipe = 5, float64(boltTrip) / float64(boltSlot)
	without, window := usedAfter(t, fabric.BoltSpec{SRC: true}, trips)
	want := min(1, (window+(trips+1)/2.0)/pipe)
	if without < want-0.12 || without > want+0.12 || without > 0.9 {
		t.Errorf("without PRU %.3f of the link is used, want about %.3f with a window of %.1f", without, want, window)
	}
	if with, _ := usedAfter(t, fabric.BoltSpec{SRC: true, PRU: true}, trips); with < 0.8 || with < without+0.15 {
		t.Errorf("with PRU %.3f of the link is used; without it %.3f", with, without)
	}
}

// A flow with 2 packets on an empty link: each round trip adds one (section 3.1). Supply matching (3.3) adds another
// for the gap before each burst from the second round trip on, as the packets of the first have no INC.
func TestSMAddsAPacketForEachGap(t *testing.T) {
	for _, test := range []struct {
		sm   bool
		want float64
	}{{false, 2 + 5}, {true, 2 + 5 + 4}} {
		b := newBolt(t, fabric.BoltSpec{SRC: true, SM: test.sm}, 2)
		b.send(1, 0)
		b.run(5*boltTrip + boltTrip/2)
		if got := b.core[1].Window(0); got != test.want {
			t.Errorf("SM %v: a window of %v packets after five round trips, want %v", test.sm, got, test.want)
		}
	}
}
