package trace

import (
	"bytes"
	"testing"

	"candela.dev/candela/packet"
)

// burst is ten requests, an ACK for each pair of them, and the copies that copies makes.
func burst(t *testing.T, copies func(at int64, frame []byte, request bool) []written) Source {
	t.Helper()
	var list []written
	for i := range 40 {
		at := int64(i+1) * 2000
		p := data(i)
		list = append(list, copies(at, p.AppendTo(nil), true)...)
		if i%2 == 1 {
			ack := testPacket(packet.Acknowledge, 27, packet.PSN(i), 0)
			ack.IP.Src, ack.IP.Dst = ack.IP.Dst, ack.IP.Src
			ack.AETH.MSN = uint32(i)
			list = append(list, copies(at+1000, ack.AppendTo(nil), false)...)
		}
	}
	return memorySource("tap.pcap", pcapOf(t, list))
}

func TestFramesThatACaptureHoldsTwiceAreLeftOut(t *testing.T) {
	for name, tc := range map[string]struct {
		copies func(at int64, frame []byte, request bool) []written
		twice  bool
	}{
		"a SPAN port of both directions": {twice: true, copies: func(at int64, f []byte, _ bool) []written {
			return []written{{at, f, len(f)}, {at + 300, f, len(f)}}
		}},
		"both sides of a router": {twice: true, copies: func(at int64, f []byte, _ bool) []written {
			routed := bytes.Clone(f)
			setTTL(routed[packet.EthernetLen:], routed[packet.EthernetLen+8]-1)
			routed[0] ^= 1
			return []written{{at, f, len(f)}, {at + 900, routed, len(routed)}}
		}},
		"every request is retransmitted at once, and responses are not": {copies: func(at int64, f []byte,
			request bool) []written {
			if !request {
				return []written{{at, f, len(f)}}
			}
			return []written{{at, f, len(f)}, {at + 300, f, len(f)}}
		}},
		"nothing is repeated": {copies: func(at int64, f []byte, _ bool) []written { return []written{{at, f, len(f)}} }},
	} {
		t.Run(name, func(t *testing.T) {
			src := burst(t, tc.copies)
			once, note, err := src.withoutTwins(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			frames, all := 0, 0
			for _, c := range []struct {
				src Source
				n   *int
			}{{once, &frames}, {src, &all}} {
				if err := c.src.ForEachFrame(t.Context(), func(*Frame) error { *c.n++; return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if tc.twice != (note != "") || tc.twice && 2*frames != all || !tc.twice && frames != all {
				t.Errorf("%d of %d frames are left, note %q", frames, all, note)
			}
		})
	}
}

// TestMarksOfFramesThatAreLeftOut checks marks that are made between the two places, which only second copies show.
func TestMarksOfFramesThatAreLeftOut(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second bool
	}{"none": {}, "at the second place": {second: true}, "before both": {true, true}} {
		src := burst(t, func(at int64, f []byte, request bool) []written {
			copies := [2][]byte{bytes.Clone(f), bytes.Clone(f)}
			for i, marked := range [2]bool{tc.first, tc.second} {
				if marked && request {
					setCE(copies[i][packet.EthernetLen:])
				}
			}
			return []written{{at, copies[0], len(f)}, {at + 300, copies[1], len(f)}}
		})
		checked, _, err := Check(t.Context(), src, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if meta := checked.Meta(); meta.MarkedLater != (tc.second && !tc.first) || meta.Packets != 60 {
			t.Errorf("%s: marked later %t, %d packets", name, meta.MarkedLater, meta.Packets)
		}
	}
}
