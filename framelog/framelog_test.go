package framelog_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/framelog"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// snap is the number of bytes that copies keep.
const snap = 128

// wire has a test's two hosts and the switch between them, with their logs.
type wire struct {
	sent, received [2]*framelog.Log
	copies         [][]byte
	v6             bool
}

func newWire(v6 bool) *wire {
	w := &wire{v6: v6}
	for i := range w.sent {
		w.sent[i], w.received[i] = framelog.NewLog(snap), framelog.NewLog(snap)
	}
	return w
}

func (w *wire) address(host int) netip.Addr {
	if w.v6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", 2-host))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", 2-host))
}

// packet returns the n-th frame of a host.
func (w *wire) packet(from, n int) *packet.Packet {
	p := &packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH, Payload: bytes.Repeat([]byte{byte(n)}, 256),
		Eth: packet.Ethernet{Src: packet.MAC{2, byte(from)}, Dst: packet.MAC{2, byte(1 - from)}, Type: packet.EtherTypeIPv4},
		IP: packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP, Src: w.address(from), Dst: w.address(1 - from),
			TOS: 2},
		UDP: packet.UDP{SrcPort: 50000, DstPort: packet.Port},
		BTH: packet.BTH{Opcode: packet.WriteMiddle, DestQP: packet.QPN(0x11 + from), PSN: packet.PSN(n), PKey: 0xffff},
	}
	if w.v6 {
		p.Eth.Type, p.IP.Version = packet.EtherTypeIPv6, 6
	}
	return p
}

// cable returns the frames that arrive for a frame sent.
type cable func(frame []byte) [][]byte

func sound(frame []byte) [][]byte { return [][]byte{frame} }

// send passes a frame over its sender's cable, the switch with its copy, and the receiver's cable.
func (w *wire) send(t *testing.T, from int, p *packet.Packet, event trace.EventType, out, mirror, in cable) {
	t.Helper()
	frame := p.AppendTo(nil)
	w.sent[from].Add(frame)
	for _, f := range out(slices.Clone(frame)) {
		if _, ok := framelog.Destination(f); ok { // others are no longer RoCE
			m := slices.Clone(f)
			meta := trace.MirrorMeta{Event: event, Seq: uint64(len(w.copies) + 1), TimeNS: 1000, UDPDstPort: packet.Port}
			if err := trace.EncodeMirror(m, meta); err != nil {
				t.Fatal(err)
			}
			w.copies = append(w.copies, mirror(m[:min(len(m), snap)])...)
		}
		for _, arrived := range w.after(f, event) {
			for _, x := range in(slices.Clone(arrived)) {
				w.received[1-from].Add(x)
			}
		}
	}
}

// after returns the frames that the switch sends for a frame.
func (w *wire) after(frame []byte, event trace.EventType) [][]byte {
	var p packet.Packet
	switch event {
	case trace.EventDrop:
		return nil
	case trace.EventDuplicate:
		return [][]byte{frame, frame}
	case trace.EventTrim:
		return [][]byte{frame[:80]}
	case trace.EventECN, trace.EventCorrupt:
		if err := p.Parse(slices.Clone(frame)); err != nil {
			return [][]byte{frame}
		}
		if event == trace.EventCorrupt {
			p.Corrupt()
		} else {
			p.SetECN(packet.CE)
		}
		return [][]byte{p.AppendTo(nil)}
	default:
		return [][]byte{frame}
	}
}

// compare compares the logs with the copies.
func (w *wire) compare(t *testing.T, ordered bool) *framelog.Outcome {
	t.Helper()
	var file bytes.Buffer
	pcap := trace.NewPcapWriter(&file, "copies", snap)
	for i, c := range w.copies {
		if err := pcap.Write(int64(i), c, len(c)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pcap.Flush(); err != nil {
		t.Fatal(err)
	}
	src := trace.Source{Name: "copies",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }}
	var hosts [2]framelog.Host
	for i, name := range []string{"requester", "responder"} {
		sent, err := framelog.Parse(w.sent[i].Bytes())
		if err != nil {
			t.Fatal(err)
		}
		received, err := framelog.Parse(w.received[i].Bytes())
		if err != nil {
			t.Fatal(err)
		}
		hosts[i] = framelog.Host{Name: name, Port: uint16(i), IPs: []netip.Addr{w.address(i)}, Sent: sent, Received: received,
			Ordered: ordered}
	}
	out, err := framelog.Compare(context.Background(), src, snap, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const frames = 8 // of each host

// traffic sends frames of both hosts alternately. One frame of the requester, the harmed one, passes other cables and
// an event.
func (w *wire) traffic(t *testing.T, event trace.EventType, out, mirror, in cable) {
	t.Helper()
	const harmed = 4
	for n := range frames {
		e, o, m, i := trace.EventNone, cable(sound), cable(sound), cable(sound)
		if n == harmed {
			e, o, m, i = event, out, mirror, in
		}
		w.send(t, 0, w.packet(0, n), e, o, m, i)
		w.send(t, 1, w.packet(1, n), trace.EventNone, sound, sound, sound)
	}
}

func lose([]byte) [][]byte            { return nil }
func duplicate(frame []byte) [][]byte { return [][]byte{frame, frame} }

func flip(bit int) cable {
	return func(frame []byte) [][]byte {
		if bit < 8*len(frame) {
			frame[bit/8] ^= 1 << (bit % 8)
		}
		return [][]byte{frame}
	}
}

func TestSoundCablesAreNotDoubted(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, ordered := range []bool{false, true} {
			for event := trace.EventNone; event <= trace.MaxEventType; event++ {
				w := newWire(v6)
				w.traffic(t, event, sound, sound, sound)
				if out := w.compare(t, ordered); len(out.Faults) > 0 || len(out.Checked) != 2 {
					t.Errorf("v6 %v, ordered %v, event %v: %+v", v6, ordered, event, out)
				}
			}
		}
	}
}

func TestALateFrameIsInItsPlaceWhereTheSwitchHeldIt(t *testing.T) {
	for _, event := range []trace.EventType{trace.EventDelay, trace.EventReorder} {
		w := newWire(false)
		var held []byte
		w.traffic(t, event, sound, sound, func(frame []byte) [][]byte { held = frame; return nil })
		w.received[1].Add(held)
		if out := w.compare(t, true); len(out.Faults) > 0 {
			t.Errorf("%v: %v", event, out.Faults)
		}
	}
	w := newWire(false)
	w.traffic(t, trace.EventDelay, sound, sound, lose)
	if out := w.compare(t, true); len(out.Faults) != 1 || !strings.Contains(out.Faults[0], "1 lost") {
		t.Errorf("a held frame that never came: %v", out.Faults)
	}
}

func TestWhatACableDoesIsFound(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for event := trace.EventNone; event <= trace.EventRewrite; event++ {
			for name, tt := range map[string]struct {
				out, in cable
				want    string
			}{
				"the requester's cable loses": {lose, sound, "cable or port 0 of the requester: the requester sent 8 RoCE " +
					"frames, the trace shows that the switch received 7: 1 lost"},
				"the requester's cable duplicates": {duplicate, sound, "cable or port 0 of the requester: the requester sent 8 " +
					"RoCE frames, the trace shows that the switch received 9: 1 duplicated"},
				"the responder's cable loses": {sound, lose, "cable or port 1 of the responder: the trace shows that the " +
					"switch sent 8 RoCE frames to the responder, which received 7: 1 lost"},
				"the responder's cable duplicates": {sound, duplicate, "cable or port 1 of the responder: the trace shows that " +
					"the switch sent 8 RoCE frames to the responder, which received 9: 1 "},
			} {
				if strings.HasPrefix(name, "the responder") && (event == trace.EventDrop || event == trace.EventDuplicate) {
					continue // any number of received frames is correct
				}
				w := newWire(false)
				w.traffic(t, event, tt.out, sound, tt.in)
				if out := w.compare(t, ordered); len(out.Faults) == 0 || !strings.Contains(out.Faults[0], tt.want) {
					t.Errorf("%s, event %v, ordered %v:\n got %q\nwant %q", name, event, ordered, out.Faults, tt.want)
				}
			}
		}
	}
}

func TestOrderIsLostOnACable(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for _, own := range []bool{false, true} {
			w := newWire(false)
			var held []byte
			swap := func(frame []byte) [][]byte {
				if held == nil {
					held = frame
					return nil
				}
				return [][]byte{frame, held}
			}
			for n := range frames {
				out, in := cable(sound), cable(sound)
				if n == 3 || n == 4 {
					out, in = sound, swap
					if own {
						out, in = swap, sound
					}
				}
				w.send(t, 0, w.packet(0, n), trace.EventNone, out, sound, in)
			}
			want := "cable or port 1 of the responder"
			if own {
				want = "cable or port 0 of the requester"
			}
			out := w.compare(t, ordered)
			if len(out.Faults) != 1 || !strings.Contains(out.Faults[0], want) ||
				!strings.Contains(out.Faults[0], "they are in another order, first at mirror #4") {
				t.Errorf("ordered %v: %q, want %q", ordered, out.Faults, want)
			}
		}
	}
}

// TestEveryBitThatACableFlipsIsFound also checks the location, where the logs allow one.
func TestEveryBitThatACableFlipsIsFound(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		length := 8 * len(newWire(v6).packet(0, 0).AppendTo(nil))
		for bit := range length {
			for name, tt := range map[string]struct {
				out, in cable
				want    string
			}{
				"requester": {flip(bit), sound, "port 0 of the requester"},
				"responder": {sound, flip(bit), "port 1 of the responder"},
			} {
				events := []trace.EventType{trace.EventNone, trace.EventECN, trace.EventDelay}
				if bit > 8*80 {
					events = events[:1+bit%2] // all payload bits are alike
				}
				for _, event := range events {
					w := newWire(v6)
					w.traffic(t, event, tt.out, sound, tt.in)
					if out := w.compare(t, true); !strings.Contains(strings.Join(out.Faults, "\n"), tt.want) {
						t.Fatalf("byte %d bit %d, v6 %v, event %v, cable of the %s: %q", bit/8, bit%8, v6, event, name, out.Faults)
					}
				}
			}
		}
	}
}

// TestEveryBitThatADumpersCableFlipsIsFound excludes the fields that the switch writes into the copy: number, time, and
// in IPv6 the event.
func TestEveryBitThatADumpersCableFlipsIsFound(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for bit := 8 * 12; bit < 8*snap; bit++ {
			if v6 && bit/8 == 14+7 {
				continue
			}
			w := newWire(v6)
			w.traffic(t, trace.EventNone, sound, flip(bit), sound)
			out := w.compare(t, true)
			if len(out.Faults) == 0 {
				t.Fatalf("byte %d bit %d, v6 %v: not found", bit/8, bit%8, v6)
			}
			// If a copy still looks like a frame of its flow, the copy must be wrong, because the receiver has the frame.
			if address := bit/8 >= 14+12 && bit/8 < 14+20 && !v6; bit/8 >= 14+48 && !address &&
				!strings.Contains(out.Faults[0], "between switch and dumper") {
				t.Errorf("byte %d bit %d, v6 %v: %q", bit/8, bit%8, v6, out.Faults)
			}
		}
	}
}

func TestACableWithoutRecordsIsTrustedAndSaysSo(t *testing.T) {
	var hosts [2]framelog.Host
	for i, name := range []string{"requester", "responder"} {
		hosts[i] = framelog.Host{Name: name, Trusted: "it keeps no records"}
	}
	var file bytes.Buffer
	pcap := trace.NewPcapWriter(&file, "copies", snap)
	if err := pcap.Flush(); err != nil {
		t.Fatal(err)
	}
	src := trace.Source{Name: "copies",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }}
	out, err := framelog.Compare(context.Background(), src, snap, hosts)
	if err != nil || len(out.Faults) > 0 || len(out.Trusted) != 2 ||
		out.Trusted[0] != "the cable of the requester is trusted: it keeps no records" {
		t.Errorf("%v, %+v", err, out)
	}
}

func TestALogReadsBackAndRefusesWhatIsNone(t *testing.T) {
	w := newWire(false)
	l := framelog.NewLog(snap)
	l.Add(w.packet(0, 1).AppendTo(nil))
	l.Add([]byte("no frame"))
	before := l.Snapshot()
	l.Add(w.packet(0, 2).AppendTo(nil))
	if before.Frames() != 1 || len(before.Bytes()) != framelog.EntryLen || l.Frames() != 2 {
		t.Errorf("%d frames and %d bytes before, %d frames after", before.Frames(), len(before.Bytes()), l.Frames())
	}
	if _, err := framelog.Parse(l.Bytes()[1:]); err == nil {
		t.Error("half an entry was read")
	}
}

func TestProbesAreRoCEAndAreRecognised(t *testing.T) {
	for _, ip := range []string{"10.0.0.1", "2001:db8::1"} {
		from := netip.MustParseAddr(ip)
		frame := framelog.Probe(framelog.Route{FromMAC: packet.MAC{2}, ToMAC: packet.MAC{4}, From: from, To: from.Next()})
		var p packet.Packet
		if err := p.Parse(frame); err != nil || !p.IsRoCE() || p.CheckICRC() != packet.ICRCValid || !framelog.IsProbe(frame) {
			t.Errorf("%s: %v, %+v", ip, err, p)
		}
		if to, ok := framelog.Destination(frame); !ok || to != from.Next() {
			t.Errorf("destination %v", to)
		}
	}
	if framelog.IsProbe(newWire(false).packet(0, 0).AppendTo(nil)) {
		t.Error("a frame of a test is taken for a probe")
	}
}
