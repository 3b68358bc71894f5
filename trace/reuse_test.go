package trace

import (
	"strings"
	"testing"

	"candela.dev/candela/packet"
)

// TestQueuePairsThatAreUsedAgainAreConnectionsOfTheirOwn has requests that jump to PSNs far away. Only where each range
// begins with a message after the one before, and was answered by more than NAKs, it is another use.
func TestQueuePairsThatAreUsedAgainAreConnectionsOfTheirOwn(t *testing.T) {
	const far = 9_000_000
	nak := func(w *wire, psn packet.PSN) {
		w.inf.add(makeFlowKey(hostB, hostA, 27), &Record{DestQP: 27, Opcode: packet.Acknowledge, PSN: psn,
			Syndrome: packet.SyndromeNakSequence, Flags: HasAETH})
	}
	counted := func(psn packet.PSN, msn ...uint32) func(w *wire) {
		return func(w *wire) {
			for i, n := range msn {
				w.pkt(false, 17, packet.WriteOnly, psn.Add(i), 1024)
				w.ack(psn.Add(i), n)
			}
		}
	}
	for _, tc := range []struct {
		name  string
		after func(w *wire)
		want  []packet.PSN // initial PSNs
	}{
		{"used again", func(w *wire) { w.write(17, 27, far, 5) }, []packet.PSN{1000, far}},
		{"used twice more", func(w *wire) { w.write(17, 27, far, 5); w.write(17, 27, 4_000_000, 2) },
			[]packet.PSN{1000, far, 4_000_000}},
		{"just not far enough", func(w *wire) { w.write(17, 27, 1004+midStream, 5) }, []packet.PSN{1000}},
		{"just far enough", func(w *wire) { w.write(17, 27, 1005+midStream, 5) }, []packet.PSN{1000, 1005 + midStream}},
		{"nearby, counted from the start", counted(1005+apart, 3), []packet.PSN{1000, 1005 + apart}},
		{"nearby, counted from the start to the same", counted(5000, 9, 10), []packet.PSN{1000, 5000}},
		{"too near", counted(1004+apart, 3), []packet.PSN{1000}},
		{"duplicates from before the capture", counted(5000, 9, 9), []packet.PSN{1000}},
		{"frames nearby that the capture lacks", counted(5000, 30, 31), []packet.PSN{1000}},
		{"far away, counted to the same", counted(far, 9, 9), []packet.PSN{1000, far}},
		{"frames far away that the capture lacks", counted(far, 10, 11), []packet.PSN{1000}},
		{"answered by a NAK", func(w *wire) { w.pkt(false, 17, packet.WriteOnly, far, 64); nak(w, far) },
			[]packet.PSN{1000}},
		{"a NAK for what comes next", func(w *wire) { w.pkt(false, 17, packet.WriteOnly, far, 64); nak(w, 1005) },
			[]packet.PSN{1000}},
		{"not answered", func(w *wire) { w.pkt(false, 17, packet.WriteOnly, far, 64) }, []packet.PSN{1000}},
		{"the old connection goes on", func(w *wire) { w.write(17, 27, far, 5); w.write(17, 27, 1005, 5) },
			[]packet.PSN{1000}},
		{"in the middle of a message", func(w *wire) {
			w.pkt(false, 17, packet.WriteMiddle, far, 1024)
			w.pkt(true, 27, packet.Acknowledge, far, 0)
		}, []packet.PSN{1000}},
		{"requests of both hosts", func(w *wire) {
			w.write(17, 27, far, 5)
			w.pkt(true, 27, packet.SendOnly, 5, 64)
		}, []packet.PSN{1000}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWire()
			for i := range 5 {
				w.pkt(false, 17, packet.WriteOnly, 1000+packet.PSN(i), 1024)
			}
			w.ack(1004, 9)
			tc.after(w)
			c, notes := w.result(t)
			var got []packet.PSN
			for i, x := range c.All() {
				got = append(got, x.Requester.IPSN)
				if x.Index != i+1 || x.Requester.QPN != 27 || x.Responder.QPN != 17 {
					t.Errorf("connection %+v", x)
				}
			}
			if len(got) != len(tc.want) {
				t.Fatalf("initial PSNs %v, want %v; %s", got, tc.want, notes)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("initial PSNs %v, want %v", got, tc.want)
				}
			}
			if said := strings.Contains(notes, "were used again"); said != (len(got) > 1) {
				t.Errorf("notes: %s", notes)
			}
		})
	}
}

// ack acknowledges a request of connection 1 with an MSN.
func (w *wire) ack(psn packet.PSN, msn uint32) {
	w.inf.add(makeFlowKey(hostB, hostA, 27), &Record{DestQP: 27, Opcode: packet.Acknowledge, PSN: psn, MSN: msn,
		Flags: HasAETH})
}

// TestRecordsBelongToTheUseOfTheirPSN resolves flows of a queue pair that was used three times.
func TestRecordsBelongToTheUseOfTheirPSN(t *testing.T) {
	w := newWire()
	w.write(18, 28, 50, 2)
	w.write(17, 27, 2_000_000, 5)
	w.write(17, 27, 9_000_000, 5)
	w.write(17, 27, maxUint24, 5) // wraps
	c, notes := w.result(t)
	if c.Len() != 4 {
		t.Fatalf("%d connections; %s", c.Len(), notes)
	}
	u := newReused(c)
	for _, tc := range []struct {
		first, want int
		op          packet.Opcode
		psn         packet.PSN
	}{
		{1, 1, packet.WriteOnly, 9_000_000}, {2, 2, packet.CNP, 0}, {2, 2, packet.WriteOnly, 2_000_002},
		{2, 3, packet.WriteOnly, 9_000_004}, {2, 3, packet.CNP, 0}, {2, 3, packet.Acknowledge, 8_999_999},
		{2, 4, packet.WriteOnly, 3}, {2, 4, packet.WriteOnly, maxUint24}, {2, 4, packet.CNP, 0},
		{2, 2, packet.Acknowledge, 2_000_010}, {2, 2, packet.CNP, 0}, {4, 4, packet.WriteOnly, 1002},
	} {
		for _, reverse := range []bool{false, true} {
			r := Record{Flow: NewFlowID(tc.first, reverse), Opcode: tc.op, PSN: tc.psn}
			u.resolve(&r)
			if r.Flow != NewFlowID(tc.want, reverse) {
				t.Errorf("%v at PSN %d of connection %d: %d, want %d", tc.op, tc.psn, tc.first, r.Flow.Connection(), tc.want)
			}
		}
	}
	if newReused(nil) != nil || newReused(&Connections{}) != nil {
		t.Error("connections without such queue pairs are resolved")
	}
}

// TestAQueuePairIsUsedABoundedNumberOfTimes has more ranges of PSNs than are followed.
func TestAQueuePairIsUsedABoundedNumberOfTimes(t *testing.T) {
	w := newWire()
	for i := range maxStrands + 1 {
		w.write(17, 27, packet.PSN(200_000*i), 2)
	}
	if c, _ := w.result(t); c.Len() != 1 {
		t.Errorf("%d connections", c.Len())
	}
}
