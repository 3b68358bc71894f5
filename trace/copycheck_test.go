package trace

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/packet"
)

// TestWhatADecoderHasSeenDoesNotChangeWhatItSees compares a decoder that has the frame's template with a new one, for
// every flipped bit of the headers.
func TestWhatADecoderHasSeenDoesNotChangeWhatItSees(t *testing.T) {
	v6 := testPacket(packet.WriteMiddle, 17, 5, 64)
	v6.Eth.Type, v6.IP.Version = packet.EtherTypeIPv6, 6
	v6.IP.Src, v6.IP.Dst = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	for _, p := range []*packet.Packet{testPacket(packet.WriteMiddle, 17, 5, 64), v6} {
		frame := p.AppendTo(nil)
		list := []Connection{{Index: 1, MTU: 1024, Requester: Side{p.IP.Src, 16, 0}, Responder: Side{p.IP.Dst, 17, 0}}}
		connections, err := NewConnections(list)
		if err != nil {
			t.Fatal(err)
		}
		known := NewDecoder(FormatPlain, connections, true)
		var r Record
		if err := known.Decode(&Frame{Number: 1, Data: frame}, &r); err != nil {
			t.Fatal(err)
		}
		for bit := range 8 * 80 {
			frame[bit/8] ^= 1 << (bit % 8)
			var want Record
			wanted := NewDecoder(FormatPlain, connections, true).Decode(&Frame{Number: 1, Data: frame}, &want)
			got := known.Decode(&Frame{Number: 1, Data: frame}, &r)
			if (got == nil) != (wanted == nil) || got == nil && r != want {
				t.Errorf("IPv%d byte %d bit %d: %v, want %v\n%s", p.IP.Version, bit/8, bit%8, got, wanted, cmp.Diff(want, r))
			}
			frame[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// damagedFile is a mirror trace of ten copies, the sixth of them changed.
func damagedFile(t *testing.T, change func(frame []byte)) Source {
	t.Helper()
	file := mirrorFile(t, counted(10, 1, 0))
	err := memorySource("mirror.pcap", file).ForEachFrame(context.Background(), func(f *Frame) error {
		if f.Number == 6 {
			const header = 16
			change(file[f.Offset+header : f.Offset+header+int64(len(f.Data))])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return memorySource("mirror.pcap", file)
}

func TestADamagedCopyIsDistinguishedFromWhatADeviceSends(t *testing.T) {
	const ip, udp = packet.EthernetLen, packet.EthernetLen + packet.IPv4Len
	bth := udp + packet.UDPLen
	flip := func(at, bit int) func([]byte) {
		return func(f []byte) {
			if at < 0 {
				at += len(f)
			}
			f[at] ^= 1 << bit
		}
	}
	for name, tt := range map[string]struct {
		change   func([]byte)
		vouched  bool
		violated bool
		device   bool // a wrong iCRC is left to analyzers
	}{
		"a type of service":  {change: flip(ip+1, 0), violated: true},
		"an IP checksum":     {change: flip(ip+10, 7), violated: true},
		"an event":           {change: flip(ip+8, 0), violated: true},
		"a UDP length, up":   {change: flip(udp+4, 1), violated: true},
		"a UDP length, down": {change: flip(udp+5, 3), violated: true},
		"a UDP length of a copy that is vouched for": {change: flip(udp+5, 3), vouched: true, violated: true},
		"a UDP source port":                          {change: flip(udp, 2), violated: true},
		"a queue pair":                               {change: flip(bth+7, 0), violated: true},
		"a PSN":                                      {change: flip(bth+11, 6), violated: true},
		"a payload":                                  {change: flip(bth+40, 6), violated: true},
		"an iCRC":                                    {change: flip(-1, 6), violated: true},
		"an iCRC that its sender made so":            {change: flip(-1, 6), vouched: true, device: true},
		"an iCRC of a sender that calculates none": {change: func(f []byte) { copy(f[len(f)-4:], "none") }, device: true},
		"an event of a copy that is vouched for":   {change: flip(ip+8, 0), vouched: true, violated: true},
	} {
		checked, report, err := Check(context.Background(), damagedFile(t, tt.change),
			Options{Format: FormatMirror, Vouched: tt.vouched})
		var incomplete *IntegrityError
		if tt.violated != errors.As(err, &incomplete) || !tt.violated && err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c := report.Condition(ConditionCopies); tt.violated &&
			(c.Status != StatusViolated || c.DamagedCount != 1 || len(c.Damaged) != 1) {
			t.Errorf("%s: %+v", name, c)
		}
		if !tt.device {
			continue
		}
		bad := 0
		if err := checked.ForEach(context.Background(), func(r *Record) error {
			if r.ICRC == packet.ICRCInvalid {
				bad++
			}
			return nil
		}); err != nil || bad != 1 {
			t.Errorf("%s: %d packets with a wrong iCRC, %v", name, bad, err)
		}
	}
}
