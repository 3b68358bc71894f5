package trace

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/packet"
)

// wire feeds an inference with packets as a tap sees them.
type wire struct {
	inf *Inference
	n   uint64
}

func newWire() *wire { return &wire{inf: NewInference()} }

// hosts of a wire.
var hostA, hostB = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

// pkt is one packet: to the QP qpn of B, or of A if back.
func (w *wire) pkt(back bool, qpn packet.QPN, op packet.Opcode, psn packet.PSN, payload int) {
	r := Record{ID: w.n, DestQP: qpn, Opcode: op, PSN: psn, PayloadLen: uint16(payload), DMALen: uint32(payload)}
	if op == packet.ReadRequest {
		r.PayloadLen = 0
	}
	w.n++
	src, dst := hostA, hostB
	if back {
		src, dst = dst, src
	}
	w.inf.add(makeFlowKey(src, dst, qpn), &r)
}

// write sends a WRITE of n full packets to B's QP and has A's QP acknowledged.
func (w *wire) write(to, back packet.QPN, psn packet.PSN, n int) {
	for i := range n {
		op := packet.WriteMiddle
		switch {
		case n == 1:
			op = packet.WriteOnly
		case i == 0:
			op = packet.WriteFirst
		case i == n-1:
			op = packet.WriteLast
		}
		w.pkt(false, to, op, psn.Add(i), 1024)
	}
	w.pkt(true, back, packet.Acknowledge, psn.Add(n-1), 0)
}

func (w *wire) result(t *testing.T) (*Connections, string) {
	t.Helper()
	c, notes, err := w.inf.Connections()
	if err != nil {
		t.Fatal(err)
	}
	if !c.Inferred {
		t.Error("not marked as inferred")
	}
	return c, strings.Join(notes, "\n")
}

func conn(index int, verb string, mtu int, a, b Side) Connection {
	return Connection{Index: index, Verb: verb, MTU: mtu, Requester: a, Responder: b}
}

func TestInference(t *testing.T) {
	for _, tc := range []struct {
		name  string
		play  func(w *wire)
		want  []Connection
		notes []string // each must be part of the notes; none: there must be no note
	}{
		{"one WRITE connection", func(w *wire) { w.write(17, 27, 1000, 5) },
			[]Connection{conn(1, "write", 1024, Side{hostA, 27, 1000}, Side{hostB, 17, 0})}, nil},
		{"the PSN wraps", func(w *wire) { w.write(17, 27, maxUint24-1, 5) },
			[]Connection{conn(1, "write", 1024, Side{hostA, 27, maxUint24 - 1}, Side{hostB, 17, 0})}, nil},
		{"two connections between the same hosts", func(w *wire) { w.write(17, 27, 1000, 5); w.write(18, 28, 500_000, 5) },
			[]Connection{conn(1, "write", 1024, Side{hostA, 27, 1000}, Side{hostB, 17, 0}),
				conn(2, "write", 1024, Side{hostA, 28, 500_000}, Side{hostB, 18, 0})}, nil},
		{"interleaved, with equal QPNs on both sides", func(w *wire) {
			for i := range 3 {
				w.pkt(false, 17, packet.WriteFirst, packet.PSN(1000+2*i), 1024)
				w.pkt(false, 18, packet.WriteFirst, packet.PSN(9000+2*i), 1024)
				w.pkt(false, 18, packet.WriteLast, packet.PSN(9001+2*i), 1024)
				w.pkt(false, 17, packet.WriteLast, packet.PSN(1001+2*i), 1024)
				w.pkt(true, 18, packet.Acknowledge, packet.PSN(9001+2*i), 0)
				w.pkt(true, 17, packet.Acknowledge, packet.PSN(1001+2*i), 0)
			}
		}, []Connection{conn(1, "write", 1024, Side{hostA, 17, 1000}, Side{hostB, 17, 0}),
			conn(2, "write", 1024, Side{hostA, 18, 9000}, Side{hostB, 18, 0})}, nil},
		{"overlapping PSNs are distinguished by what was asked when", func(w *wire) {
			w.write(17, 27, 1000, 3)
			w.write(18, 28, 1000, 7)
			w.write(17, 27, 1003, 3)
			w.write(18, 28, 1007, 7)
		}, []Connection{conn(1, "write", 1024, Side{hostA, 27, 1000}, Side{hostB, 17, 0}),
			conn(2, "write", 1024, Side{hostA, 28, 1000}, Side{hostB, 18, 0})}, nil},
		{"directions that cannot be distinguished are not paired", func(w *wire) {
			for i := range 3 {
				w.pkt(false, 17, packet.WriteFirst, packet.PSN(1000+2*i), 1024)
				w.pkt(false, 18, packet.WriteFirst, packet.PSN(1000+2*i), 1024)
				w.pkt(false, 17, packet.WriteLast, packet.PSN(1001+2*i), 1024)
				w.pkt(false, 18, packet.WriteLast, packet.PSN(1001+2*i), 1024)
				w.pkt(true, 27, packet.Acknowledge, packet.PSN(1001+2*i), 0)
				w.pkt(true, 28, packet.Acknowledge, packet.PSN(1001+2*i), 0)
			}
		}, []Connection{
			conn(1, "write", 1024, Side{hostA, 0, 1000}, Side{hostB, 17, 0}),
			conn(2, "write", 1024, Side{hostA, 0, 1000}, Side{hostB, 18, 0}),
			conn(3, "", 1024, Side{hostA, 27, 1001}, Side{hostB, 0, 0}),
			conn(4, "", 1024, Side{hostA, 28, 1001}, Side{hostB, 0, 0}),
		}, []string{"fit the requests of 2 flows alike: each direction is judged by itself"}},
		{"a request that was lost before the tap rules its flow out no more than others", func(w *wire) {
			w.pkt(false, 17, packet.WriteFirst, 1000, 1024)
			w.pkt(false, 18, packet.WriteMiddle, 1001, 1024) // 1000 was lost
			w.pkt(true, 28, packet.Acknowledge, 1000, 0)     // a NAK
			w.pkt(false, 17, packet.WriteLast, 1001, 1024)
			w.pkt(true, 27, packet.Acknowledge, 1001, 0)
		}, []Connection{
			conn(1, "write", 1024, Side{hostA, 0, 1000}, Side{hostB, 17, 0}),
			conn(2, "write", 1024, Side{hostA, 0, 1001}, Side{hostB, 18, 0}),
			conn(3, "", 1024, Side{hostA, 28, 1000}, Side{hostB, 0, 0}),
			conn(4, "", 1024, Side{hostA, 27, 1001}, Side{hostB, 0, 0}),
		}, []string{"fit the requests of 2 flows alike: each direction is judged by itself"}},
		{"answers to the READs of a queue pair that finished before the capture", func(w *wire) {
			w.pkt(false, 17, packet.ReadRequest, 6, 243)
			w.pkt(true, 27, packet.ReadResponseFirst, 4, 1024)
			w.pkt(true, 27, packet.ReadResponseMiddle, 5, 1024)
			w.pkt(true, 27, packet.ReadResponseMiddle, 6, 1024)
			w.pkt(true, 27, packet.ReadResponseLast, 7, 1024)
			w.pkt(true, 28, packet.ReadResponseOnly, 6, 243)
		}, []Connection{
			conn(1, "read", 1024, Side{hostA, 0, 6}, Side{hostB, 17, 0}),
			conn(2, "", 1024, Side{hostA, 27, 4}, Side{hostB, 0, 0}),
			conn(3, "", 1024, Side{hostA, 28, 6}, Side{hostB, 0, 0}),
		}, []string{"do not fit the requests"}},
		{"a READ response of wrong length, in a capture that has the only connection from its first packet on",
			func(w *wire) {
				w.pkt(false, 17, packet.ReadRequest, 6, 243)
				w.pkt(true, 27, packet.ReadResponseOnly, 6, 240)
			}, []Connection{conn(1, "read", 1024, Side{hostA, 27, 6}, Side{hostB, 17, 0})}, []string{"1024 is assumed"}},
		{"READ only", func(w *wire) {
			for i := range 3 {
				psn := packet.PSN(2000 + 3*i)
				w.pkt(false, 17, packet.ReadRequest, psn, 10_000)
				w.pkt(true, 27, packet.ReadResponseFirst, psn, 4096)
				w.pkt(true, 27, packet.ReadResponseMiddle, psn+1, 4096)
				w.pkt(true, 27, packet.ReadResponseLast, psn+2, 1808)
			}
		}, []Connection{conn(1, "read", 4096, Side{hostA, 27, 2000}, Side{hostB, 17, 0})}, nil},
		{"both sides request", func(w *wire) {
			w.pkt(true, 27, packet.SendOnlyImm, 7_000_000, 512)
			w.pkt(false, 17, packet.WriteFirst, 1000, 1024)
			w.pkt(false, 17, packet.WriteLastImm, 1001, 1024)
			w.pkt(false, 17, packet.Acknowledge, 7_000_000, 0)
			w.pkt(true, 27, packet.Acknowledge, 1001, 0)
		}, []Connection{{Index: 1, Verbs: []string{"write-imm", "send-imm"}, MTU: 1024, Requester: Side{hostB, 17, 7_000_000},
			Responder: Side{hostA, 27, 1000}}}, nil},
		{"the first packet was lost before the tap and comes again", func(w *wire) {
			w.pkt(false, 17, packet.WriteMiddle, 1001, 1024)
			w.pkt(true, 27, packet.Acknowledge, 1000, 0)
			w.pkt(false, 17, packet.WriteFirst, 1000, 1024)
			w.pkt(false, 17, packet.WriteLast, 1001, 1024)
			w.pkt(true, 27, packet.Acknowledge, 1001, 0)
		}, []Connection{conn(1, "write", 1024, Side{hostA, 27, 1000}, Side{hostB, 17, 0})}, nil},
		{"a capture that starts in the middle", func(w *wire) {
			w.pkt(true, 27, packet.Acknowledge, 995, 0)
			w.pkt(false, 17, packet.WriteMiddle, 1000, 1024)
			w.pkt(false, 17, packet.WriteLast, 1001, 1024)
			w.pkt(true, 27, packet.Acknowledge, 1001, 0)
		}, []Connection{conn(1, "write", 1024, Side{hostA, 27, 1000}, Side{hostB, 17, 0})},
			[]string{"the capture starts in the middle"}},
		{"one direction only", func(w *wire) {
			w.pkt(false, 17, packet.SendFirst, 5, 256)
			w.pkt(false, 17, packet.SendLast,
				6, 8)
		},
			[]Connection{conn(1, "send", 256, Side{hostA, 0, 5}, Side{hostB, 17, 0})},
			[]string{"only one direction was captured"}},
		{"nobody answers but a CNP comes", func(w *wire) {
			w.pkt(false, 17, packet.WriteFirst, 5, 1024)
			w.pkt(true, 27, packet.CNP, 0, 16)
		}, []Connection{conn(1, "write", 1024, Side{hostA, 27, 5}, Side{hostB, 17, 0})},
			[]string{"paired only because nothing else was left"}},
		{"no full packet shows the MTU",
			func(w *wire) { w.pkt(false, 17, packet.WriteOnly, 5, 1500); w.pkt(true, 27, packet.Acknowledge, 5, 0) },
			[]Connection{conn(1, "write", 2048, Side{hostA, 27, 5}, Side{hostB, 17, 0})},
			[]string{"no FIRST or MIDDLE packet shows the MTU; 2048 is assumed"}},
		{"other transports are ignored", func(w *wire) { w.pkt(false, 1, 0x64, 5, 256) }, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWire()
			tc.play(w)
			c, notes := w.result(t)
			if diff := cmp.Diff(tc.want, c.All(), addrs); diff != "" && (len(tc.want) > 0 || c.Len() > 0) {
				t.Errorf("%s\nnotes: %s", diff, notes)
			}
			if len(tc.notes) == 0 && notes != "" {
				t.Errorf("unexpected notes: %s", notes)
			}
			for _, n := range tc.notes {
				if !strings.Contains(notes, n) {
					t.Errorf("notes lack %q: %s", n, notes)
				}
			}
		})
	}
}

func TestThousandConnectionsAreInferredInTime(t *testing.T) {
	w := newWire()
	const n = 1000
	for round := range 3 {
		for i := range n {
			w.write(packet.QPN(1000+i), packet.QPN(5000+i), packet.PSN(i*12345+round*4), 4)
		}
	}
	c, notes := w.result(t)
	if c.Len() != n || notes != "" {
		t.Fatalf("%d connections, notes %.200s", c.Len(), notes)
	}
	for i, got := range c.All() {
		if got.Responder.QPN != packet.QPN(1000+i) || got.Requester.QPN != packet.QPN(5000+i) {
			t.Fatalf("connection %d: %+v", i+1, got)
		}
	}
}

// rxeCaptures lists what every capture of soft-RoCE holds.
var rxeCaptures = []struct {
	name, verb string
	sent       int // RoCE packets in the .in capture
	passed     int
	frame      uint64 // of the event in the .in capture
	event      EventType
}{
	{"clean-ib_write_bw", "write", 110, 110, 0, EventNone},
	{"clean-ib_send_bw", "send", 110, 110, 0, EventNone},
	{"clean-ib_read_bw", "read", 110, 110, 0, EventNone},
	{"write-drop5", "write", 116, 115, 27, EventDrop},
	{"send-drop5", "send", 207, 206, 26, EventDrop},
	{"read-drop5resp", "read", 128, 127, 27, EventDrop},
	{"write-droptail", "write", 129, 128, 128, EventDrop},
	{"write-corrupt5", "write", 117, 117, 24, EventCorrupt},
	{"write-ce5-ect", "write", 110, 110, 26, EventECN},
}

func TestConnectionsOfSoftRoCEAreInferred(t *testing.T) {
	for _, tc := range rxeCaptures {
		for side, packets := range map[string]int{"in": tc.sent, "out": tc.passed} {
			path := filepath.Join("../packet/testdata/rxe", fmt.Sprintf("%s.%s.pcap", tc.name, side))
			checked, report, err := Check(t.Context(), FileSource(path), Options{})
			if err != nil {
				t.Fatal(err)
			}
			meta := checked.Meta()
			if report.Packets != int64(packets) || meta.Kind != KindPlain || meta.EventsKnown || !meta.ICRCCheckable ||
				len(meta.Notes) != 0 {
				t.Errorf("%s: %d packets, meta %+v", path, report.Packets, meta)
			}
			if meta.Connections.Len() != 1 {
				t.Fatalf("%s: connections %+v", path, meta.Connections.All())
			}
			c := meta.Connections.All()[0]
			if c.Verb != tc.verb || c.MTU != 1024 || c.Requester.IP != hostA || c.Responder.IP != hostB ||
				c.Requester.QPN != c.Responder.QPN {
				t.Errorf("%s: %+v", path, c)
			}
			first := true
			err = checked.ForEach(t.Context(), func(r *Record) error {
				if r.Flow == NoFlow {
					t.Errorf("%s: frame %d has no flow", path, r.ID)
				}
				if first && (r.PSN != c.Requester.IPSN || r.Flow != 0) {
					t.Errorf("%s: the first packet has PSN %d on flow %d", path, r.PSN, r.Flow)
				}
				first = false
				if (r.ICRC == packet.ICRCInvalid) != !r.Delivered() {
					t.Errorf("%s: frame %d: iCRC %v, delivered %t", path, r.ID, r.ICRC, r.Delivered())
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestInferenceOverIPv6(t *testing.T) {
	a, b := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00:0:0:1::1")
	inf := NewInference()
	inf.add(makeFlowKey(a, b, 17), &Record{DestQP: 17, Opcode: packet.SendFirst, PSN: 5, PayloadLen: 2048})
	inf.add(makeFlowKey(a, b, 17), &Record{DestQP: 17, Opcode: packet.SendLastInv, PSN: 6, PayloadLen: 1})
	inf.add(makeFlowKey(b, a, 17), &Record{DestQP: 17, Opcode: packet.Acknowledge, PSN: 6})
	c, notes, err := inf.Connections()
	if err != nil || len(notes) != 0 {
		t.Fatalf("%v, notes %v", err, notes)
	}
	if diff := cmp.Diff([]Connection{conn(1, "send-invalidate", 2048, Side{a, 17, 5}, Side{b, 17, 0})}, c.All(),
		addrs); diff != "" {
		t.Error(diff)
	}
	if got := c.Flow(b, a, 17); got != 1 {
		t.Errorf("flow %d", got)
	}
}
