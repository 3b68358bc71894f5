package datapathtest

import (
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// wideFirst are the first PSNs of requests and responses of a flow of [Wide]; they differ, so that one is not taken for
// the other.
var wideFirst = [2]packet.PSN{ipsn, 0x7ffffd}

// TrimEdges returns trims to sizes at which a header begins or ends, with all flags: a sequence for each version of IP.
func TrimEdges() (list []Sequence) {
	for _, v := range []version{4, 6} {
		s := Sequence{Name: fmt.Sprintf("IPv%d: trims at the edges of headers", v)}
		for _, size := range []int{1, 19, 20, 27, 28, 39, 40, 47, 48, 60} {
			step := Step{Entries: append(connection(v, 0), eventAny(2, trim(size, 5, 7))), In: message(v, 1, 3)}
			step.In = append(step.In, withTag(step.In[1]))
			s.Steps = append(s.Steps, step)
		}
		list = append(list, s)
	}
	return list
}

// Wide returns a sequence that seeks the edges of a flow's state: both PSN spaces with first PSNs of their own, PSNs on
// both sides of them, also half a period away, where signs turn, several events on one packet, epochs that follow one
// another, checksums of UDP at their edges, trims through every header, and floods from both sides. The same seed gives
// the same sequence.
func Wide(seed uint64) Sequence {
	rng := rand.New(rand.NewPCG(seed, 0x51de))
	s := Sequence{Name: fmt.Sprintf("wide sequence, seed %d", seed)}
	for n := range 2 + rng.IntN(3) {
		v := version(4 + 2*rng.IntN(2))
		var options uint64
		if rng.IntN(2) == 0 {
			options = p4.FlowMessageScope
		}
		entries := connection(v, options)
		for i := range entries {
			entries[i].Action.Params = [p4.MaxFields]uint64{entries[i].Action.Params[0], uint64(wideFirst[0]),
				uint64(wideFirst[1]), uint64(epoch + n/2)}
		}
		step := Step{}
		for range 4 + rng.IntN(12) {
			entries = append(entries, wideEntries(rng, options)...)
		}
		step.Entries = entries
		for range 10 + rng.IntN(20) {
			step.In = append(step.In, wideFrame(rng, v))
		}
		s.Steps = append(s.Steps, step)
	}
	return s
}

// widePSN is a PSN near the first one of a space or half a period away.
func widePSN(rng *rand.Rand, space int) packet.PSN {
	const half = 1 << 23
	switch rng.IntN(12) {
	case 0:
		return wideFirst[space].Add(half - 3 + rng.IntN(5))
	case 1:
		return packet.PSN(rng.IntN(1 << 24))
	}
	return wideFirst[space].Add(rng.IntN(7) - 3)
}

// wideEntries are an event, and for some packets another on the same one.
func wideEntries(rng *rand.Rand, options uint64) (list []Entry) {
	actions := []p4.Action{drop, ecn, corrupt, trim(1+rng.IntN(70), rng.IntN(64), packet.TrimFlags(rng.IntN(8)))}
	space := rng.IntN(2)
	of := uint64(flow+rng.IntN(2)) | options
	psn := uint64(widePSN(rng, space))
	for range 1 + rng.IntN(2) {
		a := actions[rng.IntN(len(actions))]
		switch rng.IntN(6) {
		case 0:
			list = append(list, Entry{Table: p4.TableEventAny, Key: p4.KeyOf(of, uint64(space), psn), Action: a})
		case 1:
			class := uint64(packet.ClassAck) + rng.Uint64N(9)
			list = append(list, Entry{Table: p4.TableEventAny, Key: p4.KeyOf(of|p4.FlowControlClass, 0, class), Action: a})
		case 2:
			class := uint64(packet.ClassAck) + rng.Uint64N(9)
			list = append(list, Entry{Table: p4.TableControlEvent, Key: p4.KeyOf(of, class, 1+rng.Uint64N(3)),
				Action: actions[rng.IntN(3)]})
		case 3, 4:
			slot := rng.Uint64N(3)
			nth := 1 + rng.Uint64N(3)
			if rng.IntN(3) == 0 {
				slot, nth = slot|p4.WatchEvery, 0
			}
			class := rng.Uint64N(2) * uint64(packet.ClassAck)
			list = append(list,
				Entry{Table: p4.TableWatch, Key: p4.KeyOf(of, uint64(space), class, psn),
					Action: p4.NewAction(p4.ActionSetWatch, slot)},
				Entry{Table: p4.TableWatchedEvent, Key: p4.KeyOf(slot, nth), Action: a})
		default:
			list = append(list, Entry{Table: p4.TableEvent, Key: p4.KeyOf(of, uint64(space), psn, 1+rng.Uint64N(4)),
				Action: a})
		}
	}
	return list
}

func wideFrame(rng *rand.Rand, v version) Frame {
	opcodes := [2][]packet.Opcode{
		{packet.WriteFirst, packet.WriteMiddle, packet.WriteLast, packet.WriteOnly, packet.SendOnly, packet.ReadRequest},
		{packet.ReadResponseFirst, packet.ReadResponseMiddle, packet.ReadResponseLast, packet.Acknowledge,
			packet.AtomicAcknowledge},
	}
	space, side := rng.IntN(2), rng.IntN(2)
	o := opcodes[space][rng.IntN(len(opcodes[space]))]
	src, dst := v.addresses()
	if side == HostB {
		src, dst = dst, src
	}
	p := frame(v, src, dst)
	p.Eth.Src, p.Eth.Dst = MAC(side), MAC(1-side)
	if rng.IntN(12) == 0 {
		p.Eth.Dst = []packet.MAC{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {2, 2, 2, 2, 2, 2},
			{1, 0x80, 0xc2, 0, 0, byte(rng.IntN(20))}, {0x33, 0x33, 0, 0, 0, 1}}[rng.IntN(4)]
	}
	p.UDP.SrcPort -= uint16(rng.IntN(2))
	p.BTH = packet.BTH{Opcode: o, DestQP: qpn, PSN: widePSN(rng, space), PKey: 0xffff}
	p.Headers = packet.HasBTH | o.Headers()
	p.AETH = packet.AETH{Syndrome: packet.Syndrome(rng.IntN(256))}
	if o.IsData() {
		p.Payload = make([]byte, 4*rng.IntN(40))
	}
	f := Frame{uint16(side), p.AppendTo(nil)}
	if v == 6 {
		sum := []uint16{0, 1, 0xffff, 0xfffe, uint16(rng.IntN(1 << 16))}[rng.IntN(5)]
		at := packet.EthernetLen + packet.IPv6Len + 6
		f.Data[at], f.Data[at+1] = byte(sum>>8), byte(sum)
	}
	if rng.IntN(4) == 0 {
		f = withTag(f)
	}
	return f
}
