package encapsulation

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
)

// captures calls fn for frames of the captures that scapy, tcpdump and the kernel made.
func captures(t testing.TB, perFile int, fn func(name string, link Link, frame []byte)) {
	t.Helper()
	files, err := filepath.Glob("../../trace/testdata/encapsulation/*.pcap.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		link := Link(binary.LittleEndian.Uint32(b[20:]))
		for i, at := 0, 24; at < len(b) && i < perFile; i++ {
			n := int(binary.LittleEndian.Uint32(b[at+8:]))
			fn(filepath.Base(name), link, b[at+16:at+16+n])
			at += 16 + n
		}
	}
}

// innermost returns the last UDP payload to port 4791 that gopacket finds, or nil.
func innermost(link Link, frame []byte) []byte {
	first := map[Link]gopacket.LayerType{
		LinkEthernet: layers.LayerTypeEthernet, LinkCooked: layers.LayerTypeLinuxSLL, LinkRaw: layers.LayerTypeIPv4,
		LinkNull: layers.LayerTypeLoopback,
	}[link]
	if first == 0 {
		return nil
	}
	var payload []byte
	for _, l := range gopacket.NewPacket(frame, first, gopacket.NoCopy).Layers() {
		if udp, ok := l.(*layers.UDP); ok && udp.DstPort == portRoCE {
			payload = udp.Payload
		}
	}
	return payload
}

// gopacket decodes most of these headers, too, at fifty times the cost and with allocations. If it finds a RoCE packet,
// it finds the same one.
func TestGopacketFindsTheSamePackets(t *testing.T) {
	var u Unwrapper
	compared := map[string]bool{}
	captures(t, 50, func(name string, link Link, frame []byte) {
		want := innermost(link, frame)
		if want == nil {
			return
		}
		compared[name] = true
		out, ok := u.Unwrap(link, frame)
		if !ok || !bytes.HasSuffix(out.Data, want) {
			t.Errorf("%s: found %v, and not the bytes that gopacket finds", name, ok)
		}
	})
	for _, name := range []string{"qinq", "sll", "any-sll", "vxlan-kernel", "geneve", "gre-ip", "gretap", "erspan2",
		"mpls", "raw", "null"} {
		if !compared[name+".pcap.gz"] {
			t.Errorf("gopacket found no RoCE packet in %s", name)
		}
	}
}

func TestUnwrapAllocatesNothing(t *testing.T) {
	var u Unwrapper
	captures(t, 3, func(name string, link Link, frame []byte) {
		u.Unwrap(link, frame)
		if n := runtimetest.FewestAllocs(0, func() { u.Unwrap(link, frame) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	})
}

// A single damaged byte of a RoCEv1 packet makes the invariant CRC of the RoCEv2 packet wrong, unless it is in a field
// that may change on the way.
func TestTheCRCOfARoCEv1PacketIsChecked(t *testing.T) {
	var u Unwrapper
	captures(t, 2, func(name string, link Link, frame []byte) {
		if name != "rocev1.pcap.gz" {
			return
		}
		for at := ethernetLen; at < len(frame); at++ {
			damaged := bytes.Clone(frame)
			damaged[at] ^= 1
			out, ok := u.Unwrap(link, damaged)
			if !ok {
				continue // no RoCE packet any more
			}
			grh := at - ethernetLen
			variant := grh <= 3 || grh == 7 || grh == ipv6Len+4
			if grh == 4 || grh == 5 {
				continue // another length: cut short, or not whole
			}
			var p packet.Packet
			if err := p.Parse(out.Data); err != nil {
				continue
			}
			want := packet.ICRCInvalid
			if variant {
				want = packet.ICRCValid
			}
			if got := packet.CheckICRC(out.Data, &p); got != want {
				t.Fatalf("byte %d of the GRH: iCRC is %v, want %v", grh, got, want)
			}
		}
	})
}

// FuzzUnwrap takes any frame: no input panics, the result is a RoCE packet in a plain frame, and unwrapping it again
// changes nothing.
func FuzzUnwrap(f *testing.F) {
	captures(f, 2, func(_ string, link Link, frame []byte) { f.Add(uint16(link), frame[:min(len(frame), 200)]) })
	f.Fuzz(func(t *testing.T, link uint16, frame []byte) {
		var u, inner Unwrapper
		before := bytes.Clone(frame)
		out, ok := u.Unwrap(Link(link), frame)
		if !bytes.Equal(before, frame) {
			t.Fatal("the input was written to")
		}
		if out.Cut < 0 || out.Cut > len(frame) || len(out.Data) > len(frame)-out.Cut+out.Added {
			t.Fatalf("%d bytes cut from %d, %d added, %d returned", out.Cut, len(frame), out.Added, len(out.Data))
		}
		if !ok {
			return
		}
		var p packet.Packet
		if err := p.Parse(out.Data); err != nil {
			return // announced lengths that do not fit
		}
		second, ok := inner.Unwrap(LinkEthernet, out.Data)
		if !ok || !bytes.Equal(second.Data, out.Data) || second.Layers != 0 {
			t.Fatalf("again: found %v, layers %v\n% x\n% x", ok, second.Layers, out.Data, second.Data)
		}
	})
}
