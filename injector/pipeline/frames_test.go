package pipeline_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// sentFrame is a frame that left a port.
type sentFrame struct {
	port  uint16
	frame string
}

// sentFrames is a sender that notes them.
type sentFrames struct {
	list []sentFrame
}

func (s *sentFrames) Transmit(port uint16, frame []byte) {
	s.list = append(s.list, sentFrame{port, string(frame)})
}
func (s *sentFrames) Room(n int) []byte { return make([]byte, 0, n) }
func (s *sentFrames) Keep(frame []byte) []byte {
	return frame
}

// naive is a simple forwarder: a list of waiting frames that is searched at every arrival.
type naive struct {
	pipe *pipeline.Pipeline
	held []naiveHeld
	sent []sentFrame
}

type naiveHeld struct {
	frame  string
	to     []uint16
	due    int64 // ns
	flow   trace.FlowID
	behind int
}

func (n *naive) send(frame string, to []uint16, times int) {
	for range times {
		for _, port := range to {
			n.sent = append(n.sent, sentFrame{port, frame})
		}
	}
}

// until lets go of what is due by an instant.
func (n *naive) until(ns int64) {
	slices.SortStableFunc(n.held, func(a, b naiveHeld) int { return int(a.due - b.due) })
	for len(n.held) > 0 && n.held[0].due <= ns {
		n.send(n.held[0].frame, n.held[0].to, 1)
		n.held = n.held[1:]
	}
}

func (n *naive) overtaken(flow trace.FlowID) (ready []naiveHeld) {
	if flow == trace.NoFlow {
		return nil
	}
	n.held = slices.DeleteFunc(n.held, func(h naiveHeld) bool {
		ready = append(ready, h)
		if h.flow == flow && h.behind == 1 {
			return true
		}
		ready = ready[:len(ready)-1]
		return false
	})
	for i := range n.held {
		if h := &n.held[i]; h.flow == flow && h.behind > 0 {
			h.behind--
		}
	}
	return ready
}

func (n *naive) arrive(t *rapid.T, ns int64, ingress uint16, frame []byte) bool {
	n.until(ns)
	var pk packet.Packet
	var r pipeline.Result
	parsed := pk.Parse(slices.Clone(frame)) == nil
	n.pipe.Process(ns, ingress, &pk, &r)
	to := slices.Clone(r.Forward.Ports)
	if !r.Forward.Flood {
		to = []uint16{r.Forward.Port}
	}
	overtaken := n.overtaken(r.Flow)
	switch out := string(frame); {
	case r.Forward.Drop:
	case r.Forward.DelayNS > 0:
		n.held = append(n.held, naiveHeld{out, to, ns + r.Forward.DelayNS, r.Flow, 0})
	case r.Forward.Behind > 0:
		n.held = append(n.held, naiveHeld{out, to, ns + 1_000_000, r.Flow, int(r.Forward.Behind)})
	default:
		if parsed && r.Event != trace.EventNone {
			r.Apply(&pk)
			out = string(pk.AppendTo(nil))
		}
		n.send(out, to, 1+int(r.Forward.Copies))
	}
	for _, h := range overtaken {
		n.send(h.frame, h.to, 1)
	}
	if r.Mirror.Active {
		copied := slices.Clone(frame)
		meta := trace.MirrorMeta{Event: r.Event, Seq: r.Mirror.Seq, TimeNS: r.Mirror.TimeNS, UDPDstPort: r.Mirror.UDPDstPort}
		if err := trace.EncodeMirror(copied, meta); err != nil {
			t.Fatal(err)
		}
		if snap := int(r.Mirror.Snap); snap > 0 && snap < len(copied) {
			copied = copied[:snap]
		}
		n.send(string(copied), r.Mirror.Ports, 1)
	}
	return r.RoCE
}

// everyAction has one of each action of events.
func everyAction(t *rapid.T) p4.Action {
	return rapid.SampledFrom([]p4.Action{
		doDrop, doMark, doCorrupt, p4.NewAction(p4.ActionTrim, 64, 8, 7), p4.NewAction(p4.ActionDelay, 700),
		p4.NewAction(p4.ActionDelay, 2500), p4.NewAction(p4.ActionDuplicate, 2), p4.NewAction(p4.ActionReorder, 1),
		p4.NewAction(p4.ActionReorder, 3), p4.NewAction(p4.ActionRewrite, uint64(packet.RewriteDSCP), 46),
		p4.NewAction(p4.ActionCorruptPayload, 3, 0x10),
	}).Draw(t, "action")
}

// program gives a pipeline two flows, events, a mirror session of two ports and possibly a snap length.
func program(t *rapid.T, entries []tableEntry, snap uint64) *pipeline.Pipeline {
	p, err := pipeline.New(pipeline.Config{Ports: 6, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range append(entries,
		tableEntry{p4.TableConnectionV4, p4.Key{p4.AddrValue(ipA), p4.AddrValue(ipB), p4.Uint(qpnB)},
			p4.NewAction(p4.ActionSetFlow, 0, ipsn, 5000, 1)},
		tableEntry{p4.TableConnectionV4, p4.Key{p4.AddrValue(ipA), p4.AddrValue(ipB), p4.Uint(qpnB + 1)},
			p4.NewAction(p4.ActionSetFlow, 2, ipsn, 5000, 1)},
		tableEntry{p4.TableL2Forward, p4.KeyOf(hostB.Uint48()), p4.NewAction(p4.ActionForward, 1)},
		tableEntry{p4.TableMirrorSlot, p4.KeyOf(0), p4.NewAction(p4.ActionSelectSession, 1)},
	) {
		if err := p.Set(e.table, e.key, e.action); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		p.SetCloneSession(1, []uint16{4, 5}), p.SetMulticastGroup(p4.FloodGroup, []uint16{0, 1, 2}),
		p.SetDefault(p4.TableMirror, p4.NewAction(p4.ActionOpen, 1)),
		p.SetDefault(p4.TableMirrorEgress, p4.NewAction(p4.ActionSetSnap, snap)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// TestFramesLeaveAsANaiveForwarderSendsThem sends frames with every kind of event to known and unknown addresses, and
// frames that are not RoCE or malformed.
func TestFramesLeaveAsANaiveForwarderSendsThem(t *testing.T) { rapid.Check(t, leavesAsNaively) }

func leavesAsNaively(t *rapid.T) {
	var entries []tableEntry
	for i := range rapid.IntRange(0, 20).Draw(t, "events") {
		entries = append(entries, tableEntry{p4.TableEvent, p4.KeyOf(uint64(2*(i%2)), 0, uint64(ipsn+i/2), 1),
			everyAction(t)})
	}
	snap := rapid.SampledFrom([]uint64{0, 60, 86, 128, 4000}).Draw(t, "snap")
	want := naive{pipe: program(t, entries, snap)}
	var got sentFrames
	w := pipeline.NewWire(program(t, entries, snap), &got)
	at := func(ns int64) clock.Time { return clock.Time(0).Add(clock.Duration(ns) * clock.Nanosecond) }
	now := int64(5_000_000)
	var next [2]int
	for range rapid.IntRange(1, 40).Draw(t, "frames") {
		now += rapid.SampledFrom([]int64{0, 1, 699, 700, 5000, 1_000_000}).Draw(t, "gap")
		flow, ingress := rapid.IntRange(0, 1).Draw(t, "flow"), uint16(rapid.IntRange(0, 3).Draw(t, "ingress"))
		pk := dataPacket(packet.PSN(ipsn + next[flow]))
		pk.BTH.DestQP += packet.QPN(flow)
		pk.Eth.Dst[5] += byte(rapid.SampledFrom([]int{0, 0, 0, 9}).Draw(t, "unknown address"))
		frame := pk.AppendTo(nil)
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0:
			frame = frame[:rapid.IntRange(14, 50).Draw(t, "cut")]
		case 1:
			frame[12], frame[13] = 0x88, 0xb5
		default:
			next[flow]++
		}
		before := slices.Clone(frame)
		roce, err := w.Forward(at(now), ingress, frame)
		if err != nil {
			t.Fatal(err)
		}
		w.Mirror()
		if expected := want.arrive(t, now, ingress, before); roce != expected {
			t.Fatalf("RoCE: %v, want %v", roce, expected)
		}
		if !bytes.Equal(frame, before) {
			t.Fatal("the frame in hand was changed")
		}
		compareSent(t, want.sent, got.list)
		if due := w.Next(); len(want.held) > 0 {
			want.until(0) // sorts
			if due != at(want.held[0].due).Add(-1) {
				t.Fatalf("the next frame is due at %v, want %d ns", due, want.held[0].due)
			}
		} else if due != clock.Never {
			t.Fatalf("a frame is due at %v, none waits", due)
		}
	}
	w.Release(clock.Never - 1)
	want.until(1 << 62)
	compareSent(t, want.sent, got.list)
}

func compareSent(t *rapid.T, want, got []sentFrame) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) {
			t.Fatalf("%d frames left, want %d", len(got), len(want))
		}
		if want[i] != got[i] {
			t.Fatalf("frame %d left port %d: %x\nwant port %d: %x", i, got[i].port, got[i].frame, want[i].port, want[i].frame)
		}
	}
}

func TestAHeldFrameLastsWhenItsBufferIsReused(t *testing.T) {
	p := newPipeline(t, 4)
	addFlow(t, p, 0, 1)
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 0, ipsn, 1), p4.NewAction(p4.ActionDelay, 10))
	if err := p.SetMulticastGroup(p4.FloodGroup, []uint16{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	var got sentFrames
	w := pipeline.NewWire(p, &got)
	frame := dataPacket(ipsn).AppendTo(nil)
	want := string(frame)
	if _, err := w.Forward(0, 0, frame); err != nil {
		t.Fatal(err)
	}
	clear(frame)
	if err := p.SetMulticastGroup(p4.FloodGroup, nil); err != nil {
		t.Fatal(err)
	}
	w.Release(clock.Time(0).Add(10 * clock.Nanosecond))
	equal(t, "what left", fmt.Sprint(got.list), fmt.Sprint([]sentFrame{{1, want}, {2, want}}))
}

// roomy is a sender that notes for how much it was asked.
type roomy []int

func (*roomy) Transmit(uint16, []byte)  {}
func (*roomy) Keep(frame []byte) []byte { return frame }
func (r *roomy) Room(n int) []byte {
	*r = append(*r, n)
	return make([]byte, 0, n)
}

func TestOnlyTheHeadersOfAFrameAreCopiedForAShortMirror(t *testing.T) {
	frame := dataPacket(ipsn).AppendTo(nil)
	for snap, want := range map[uint64]int{0: len(frame), 60: 86, 100: 100, 4000: len(frame)} {
		p := newPipeline(t, 4)
		openGate(t, p, 3)
		if err := p.SetDefault(p4.TableMirrorEgress, p4.NewAction(p4.ActionSetSnap, snap)); err != nil {
			t.Fatal(err)
		}
		var got roomy
		if _, err := pipeline.NewWire(p, &got).Forward(0, 0, frame); err != nil {
			t.Fatal(err)
		}
		equal(t, fmt.Sprintf("bytes copied for a snap of %d", snap), got, roomy{want})
	}
}
