package fabric_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// glass is a shim that changes nothing.
type glass struct{}

func (glass) Outbound(clock.Time, *fabric.Host, *fabric.Packet) fabric.Action { return fabric.Forward }
func (glass) Inbound(clock.Time, *fabric.Host, *fabric.Packet) fabric.Action  { return fabric.Forward }

// transportView hides from a tap the stages that only hosts with a shim or queues have.
func transportView(f fabric.Tap) fabric.Tap {
	return func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if at.Stage <= fabric.Dropped {
			f(at, now, p)
		}
	}
}

func TestAShimThatDoesNothingChangesNothing(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, run := range runs(t) {
		if run.name == "NDP permutation, 432 hosts" {
			continue // too slow for what it adds
		}
		var seen [2][]string
		for i := range seen {
			n := run.make()
			if i == 1 {
				for id := range n.Hosts() {
					n.Host(fabric.HostID(id)).SetShim(glass{})
				}
			}
			n.SetTap(transportView(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
				seen[i] = append(seen[i], fmt.Sprint(at, int64(now), p.ID, p.Size, p.Flags, p.Hops))
			}))
			if err := n.Run(clock.Never); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(seen[0], seen[1]) {
			at := 0
			for at < min(len(seen[0]), len(seen[1])) && seen[0][at] == seen[1][at] {
				at++
			}
			t.Errorf("%s: %d sights, with a shim %d; the %d. differs", run.name, len(seen[0]), len(seen[1]), at+1)
		}
	}
}

// meddler is a shim that drops, holds, makes and returns packets of both directions at random.
type meddler struct {
	held []held
	next uint64
}

type held struct {
	token    uint64
	outbound bool
	p        *fabric.Packet
}

func (m *meddler) Outbound(now clock.Time, h *fabric.Host, p *fabric.Packet) fabric.Action {
	return m.pass(now, h, p, true)
}

func (m *meddler) Inbound(now clock.Time, h *fabric.Host, p *fabric.Packet) fabric.Action {
	return m.pass(now, h, p, false)
}

func (m *meddler) pass(now clock.Time, h *fabric.Host, p *fabric.Packet, outbound bool) fabric.Action {
	switch h.Rand().IntN(6) {
	case 0:
		return fabric.Drop
	case 1:
		m.next++
		m.held = append(m.held, held{m.next, outbound, p})
		h.Wake(now.Add(clock.Duration(h.Rand().Int64N(int64(3*clock.Microsecond)))), m.next)
		return fabric.Consume
	case 2:
		made := h.Make(now, fabric.Header{Src: h.ID(), Dst: p.Src, Size: 100, Protocol: fabric.Raw, Flags: fabric.Ranked})
		switch h.Rand().IntN(3) {
		case 0:
			h.Transmit(now, made)
		case 1:
			h.Deliver(now, made)
		default:
			h.Discard(now, made)
		}
	}
	p.DSCP = 7
	return fabric.Forward
}

func (m *meddler) HandleTimer(now clock.Time, h *fabric.Host, token uint64) {
	i := slices.IndexFunc(m.held, func(x held) bool { return x.token == token })
	x := m.held[i]
	m.held = slices.Delete(m.held, i, i+1)
	switch {
	case h.Rand().IntN(5) == 0:
		h.Discard(now, x.p)
	case x.outbound:
		h.Transmit(now, x.p)
	default:
		h.Deliver(now, x.p)
	}
}

// tally counts tap calls by stage, at hosts and at switches.
type tally [2][7]int

func (c *tally) see(at fabric.Point, _ clock.Time, _ *fabric.Packet) {
	if at.Host {
		c[0][at.Stage]++
	} else {
		c[1][at.Stage]++
	}
}

// Every packet ends exactly once and none gets stuck, whatever shims and NICs do.
func TestEveryPacketEndsOnceWithShimsAndNICs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := fabric.Spec{Seed: 9, Topology: topologies(t), Switch: fabric.SwitchSpec{
			Queues: queueSpecs(t, true), Buffer: fabric.BufferSpec{Bytes: 60_000},
			Recirculation: fabric.RecirculationSpec{Rate: clock.Gbps},
		}}
		nics := rapid.Bool().Draw(t, "nics")
		if nics {
			spec.NIC = fabric.NICSpec{Queues: queueSpecs(t, true), Backlog: rapid.IntRange(1, 40).Draw(t, "backlog"),
				Mechanism: func(*fabric.Switch) fabric.Mechanism { return copier{} }}
		}
		n, err := fabric.New(&spec, busy)
		if err != nil {
			t.Fatal(err)
		}
		chatter(t, n)
		for id := range n.Hosts() {
			if !nics || rapid.Bool().Draw(t, "shim") {
				n.Host(fabric.HostID(id)).SetShim(new(meddler))
			}
		}
		var seen tally
		n.SetTap(seen.see)
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		c := n.Total()
		if c.Sent+c.Copied != c.Delivered+c.Dropped || n.InFlight() != 0 {
			t.Errorf("%+v, %d in flight", c, n.InFlight())
		}
		h := seen[0]
		if int(c.Sent) != h[fabric.Egress] || int(c.Delivered) != h[fabric.Ingress] ||
			int(c.Dropped) != h[fabric.Dropped]+seen[1][fabric.Dropped] {
			t.Errorf("%+v, taps %v", c, seen)
		}
	})
}

// An endless stack is not polled while the shim keeps its packets.
func TestAShimThatKeepsEverythingDoesNotDrainAnEndlessStack(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2}, NIC: fabric.NICSpec{Backlog: 5}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Host(0).Attach(&source{to: 1, size: 1500, left: 1 << 60})
	k := &keeper{}
	n.Host(0).SetShim(k)
	if err := n.Run(clock.Time(clock.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if len(k.kept) != 5 {
		t.Errorf("%d packets kept, want the backlog of 5", len(k.kept))
	}
	for range 3 {
		h := n.Host(0)
		h.Transmit(n.Now(), k.kept[0])
		k.kept = k.kept[1:]
		if err := n.Run(n.Now().Add(clock.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	if c := n.Total(); c.Sent != 8 || c.Delivered != 3 {
		t.Errorf("%+v", c)
	}
}

// keeper is a shim that keeps sent packets.
type keeper struct {
	glass
	kept []*fabric.Packet
}

func (k *keeper) Outbound(_ clock.Time, _ *fabric.Host, p *fabric.Packet) fabric.Action {
	k.kept = append(k.kept, p)
	return fabric.Consume
}
