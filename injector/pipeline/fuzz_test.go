package pipeline_test

import (
	"bytes"
	"testing"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
)

// FuzzProcess processes arbitrary frames, live and cut, with every kind of event. The packet must not change, and the
// forwarded copy must have the length that was counted.
func FuzzProcess(f *testing.F) {
	for _, p := range []*packet.Packet{dataPacket(ipsn), nak(ipsn, packet.SyndromeNakSequence), rocePacket(packet.CNP, 0),
		rocePacket(packet.CmpSwap, ipsn)} {
		f.Add(p.AppendTo(nil), uint16(64), uint8(7))
		f.Add(p.AppendTo(nil)[:60], uint16(30), uint8(2))
	}
	f.Fuzz(func(t *testing.T, frame []byte, size uint16, flags uint8) {
		for _, a := range []p4.Action{doDrop, doMark, doCorrupt,
			p4.NewAction(p4.ActionTrim, max(1, uint64(size)), 1, uint64(flags))} {
			forwardFrame(t, frame, a)
		}
	})
}

func forwardFrame(t *testing.T, frame []byte, a p4.Action) {
	var pk packet.Packet
	if pk.Parse(frame) != nil {
		return
	}
	p := newPipeline(t, 4)
	openGate(t, p, 2)
	if pk.IP.Src.Is4() {
		mustSet(t, p, p4.TableConnectionV4,
			p4.Key{p4.AddrValue(pk.IP.Src), p4.AddrValue(pk.IP.Dst), p4.Uint(uint64(pk.BTH.DestQP))},
			p4.NewAction(p4.ActionSetFlow, 0, 0, 0, 1))
	}
	mustSet(t, p, p4.TableEventAny, p4.KeyOf(0, uint64(pk.BTH.Opcode.Space()), uint64(pk.BTH.PSN)), a)
	mustSet(t, p, p4.TableEventAny, p4.KeyOf(p4.FlowControlClass, 0, uint64(pk.Class())), a)
	mustSet(t, p, p4.TableL2Forward, p4.KeyOf(pk.Eth.Dst.Uint48()), p4.NewAction(p4.ActionForward, 1))

	var r pipeline.Result
	p.Process(1, 0, &pk, &r)
	if got := pk.AppendTo(nil); !bytes.Equal(got, frame) {
		t.Fatalf("Process changed the packet:\n got %x\nwant %x", got, frame)
	}
	if r.Forward.Drop || r.Forward.Flood || !r.RoCE {
		return
	}
	r.Apply(&pk)
	out := pk.AppendTo(nil)
	if _, bytes := p.Counter(p4.CounterRoCETx, 1); int(bytes) != len(out) {
		t.Errorf("%v: roce_tx counted %d bytes, the frame has %d", r.Event, bytes, len(out))
	}
}
