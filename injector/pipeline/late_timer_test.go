package pipeline_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
)

// sentPSNs is an outlet that notes the order in which frames leave.
type sentPSNs []packet.PSN

func (s *sentPSNs) Transmit(_ uint16, frame []byte) {
	var p packet.Packet
	if p.Parse(frame) == nil {
		*s = append(*s, p.BTH.PSN)
	}
}
func (*sentPSNs) Room(n int) []byte        { return make([]byte, 0, n) }
func (*sentPSNs) Keep(frame []byte) []byte { return frame }

// heldPacket is one that arrives, and what holds it back.
type heldPacket struct {
	at     int64 // ns
	action p4.Action
}

// leaving returns the order in which packets leave a switch whose timer is punctual, or which serves held packets only
// when a packet arrives.
func leaving(t *rapid.T, packets []heldPacket, prompt bool) []packet.PSN {
	p, err := pipeline.New(pipeline.Config{Ports: 2})
	if err != nil {
		t.Fatal(err)
	}
	set := func(table uint32, k p4.Key, a p4.Action) {
		if err := p.Set(table, k, a); err != nil {
			t.Fatal(err)
		}
	}
	set(p4.TableConnectionV4, p4.Key{p4.AddrValue(ipA), p4.AddrValue(ipB), p4.Uint(qpnB)},
		p4.NewAction(p4.ActionSetFlow, 0, ipsn, 5000, 1))
	set(p4.TableL2Forward, p4.KeyOf(hostB.Uint48()), p4.NewAction(p4.ActionForward, 1))
	for i, x := range packets {
		if x.action.ID != 0 {
			set(p4.TableEvent, p4.KeyOf(0, 0, ipsn+uint64(i), 1), x.action)
		}
	}
	var out sentPSNs
	f := pipeline.NewWire(p, &out)
	at := func(ns int64) clock.Time { return clock.Time(0).Add(clock.Duration(ns) * clock.Nanosecond) }
	for i, x := range packets {
		for prompt && f.Next() <= at(x.at) {
			f.Release(f.Next())
		}
		if _, err := f.Forward(at(x.at), 0, dataPacket(packet.PSN(ipsn).Add(i)).AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
	}
	f.Release(clock.Never - 1)
	return out
}

func TestALateTimerChangesNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var packets []heldPacket
		now := int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "packets") {
			now += rapid.Int64Range(0, 5000).Draw(t, "gap")
			x := heldPacket{at: now}
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				x.action = p4.NewAction(p4.ActionDelay, rapid.Uint64Range(1, 20000).Draw(t, "delay"))
			case 1:
				x.action = p4.NewAction(p4.ActionReorder, rapid.Uint64Range(1, 4).Draw(t, "by"))
			}
			packets = append(packets, x)
		}
		want, got := leaving(t, packets, true), leaving(t, packets, false)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("prompt timer -, late timer +:\n%s", diff)
		}
		if len(got) != len(packets) {
			t.Errorf("%d packets of %d left", len(got), len(packets))
		}
	})
}
