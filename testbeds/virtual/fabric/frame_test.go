package fabric_test

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/echo"
	ndphost "candela.dev/candela/generator/ndp"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// codecs are the codecs of all transports.
var codecs = &wire.Codecs{fabric.Raw: raw.Codec(), fabric.NDP: ndphost.Codec(), fabric.TCP: tcp.Codec(),
	fabric.Echo: echo.Codec()}

// internetSum is a direct implementation of RFC 1071.
func internetSum(parts ...[]byte) uint16 {
	var acc uint32
	for _, b := range parts {
		for i := 0; i < len(b); i += 2 {
			word := uint32(b[i]) << 8
			if i+1 < len(b) {
				word |= uint32(b[i+1])
			}
			if acc += word; acc > 0xffff {
				acc -= 0xffff
			}
		}
	}
	return uint16(acc)
}

// layers splits a frame without VLAN tag into its IP header, the addresses, and the IP payload.
func layers(frame []byte) (header, addresses, rest []byte) {
	l3 := frame[packet.EthernetLen:]
	if l3[0]>>4 == 6 {
		return l3[:packet.IPv6Len], l3[8:40], l3[packet.IPv6Len:]
	}
	return l3[:packet.IPv4Len], l3[12:20], l3[packet.IPv4Len:]
}

func randomPacket(t *rapid.T) *fabric.Packet {
	var p fabric.Packet
	p.Src, p.Dst = fabric.HostID(rapid.IntRange(0, 65535).Draw(t, "src")),
		fabric.HostID(rapid.IntRange(0, 65535).Draw(t, "dst"))
	p.Protocol = rapid.SampledFrom([]fabric.Protocol{fabric.Raw, fabric.NDP, fabric.Echo}).Draw(t, "protocol")
	p.IPv6 = rapid.Bool().Draw(t, "ipv6")
	p.DSCP, p.ECN = uint8(rapid.IntRange(0, 63).Draw(t, "dscp")), packet.ECN(rapid.IntRange(0, 3).Draw(t, "ecn"))
	p.Entropy, p.Flow, p.TTL = rapid.Uint16().Draw(t, "entropy"), rapid.Uint32().Draw(t, "flow"),
		rapid.Uint8().Draw(t, "ttl")
	p.Size = int32(codecs.MinFrame(&p.Header) + rapid.IntRange(0, 9000).Draw(t, "payload"))
	p.Original = p.Size
	if p.Protocol == fabric.NDP {
		p.NDP = ndp.Header{Kind: ndp.Data, Seq: rapid.Uint32().Draw(t, "seq"), Length: uint16(int(p.Size) - codecs.MinFrame(&p.Header))}
	}
	return &p
}

func TestFramesHaveTheirSizeAndValidChecksums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomPacket(t)
		frame := codecs.Append(nil, &p.Header, nil)
		if len(frame) != int(p.Size) {
			t.Fatalf("%d bytes, want %d", len(frame), p.Size)
		}
		header, addresses, rest := layers(frame)
		if !p.IPv6 && internetSum(header) != 0xffff {
			t.Error("IPv4 header checksum is wrong")
		}
		pseudo := binary.BigEndian.AppendUint32(nil, uint32(len(rest)))
		pseudo = append(pseudo, 0, 0, 0, packet.ProtocolUDP)
		switch {
		case p.Protocol == fabric.Echo && !p.IPv6:
			addresses, pseudo = nil, nil
		case p.Protocol == fabric.Echo:
			pseudo[7] = 58
		}
		if internetSum(addresses, pseudo, rest) != 0xffff {
			t.Errorf("transport checksum of %v is wrong", p.Protocol)
		}
		var parsed packet.Packet
		if err := parsed.Parse(frame); err != nil {
			t.Fatal(err)
		}
		src, dst := p.Src.IPv4(), p.Dst.IPv4()
		if p.IPv6 {
			src, dst = p.Src.IPv6(), p.Dst.IPv6()
		}
		if parsed.IP.Src != src || parsed.IP.Dst != dst || parsed.IP.DSCP() != p.DSCP || parsed.IP.ECN() != p.ECN ||
			parsed.IP.TTL != p.TTL {
			t.Errorf("parsed %+v of %+v", parsed.IP, p.Header)
		}
		var h ndp.Header
		if p.Protocol == fabric.NDP && (h.Parse(rest[packet.UDPLen:]) != nil || h != p.NDP) {
			t.Errorf("NDP header %+v, want %+v", h, p.NDP)
		}
	})
}

func TestTrimmedFramesKeepTheOriginalsUDPChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomPacket(t)
		p.Protocol = fabric.NDP
		p.NDP = ndp.Header{Kind: ndp.Data, Seq: 7, Length: 1436}
		p.Size = int32(codecs.MinFrame(&p.Header) + 1436)
		p.Original = p.Size
		whole := codecs.Append(nil, &p.Header, nil)
		p.Trim(codecs.MinFrame(&p.Header))
		p.NDP.Flags |= ndp.FlagTrimmed
		p.Flags |= fabric.Flags(rapid.SampledFrom([]int{0, int(fabric.LengthStale), int(fabric.HeaderSumStale)}).Draw(t,
			"stale"))
		cut := codecs.Append(nil, &p.Header, nil)
		if len(cut) != codecs.MinFrame(&p.Header) {
			t.Fatalf("%d bytes, want %d", len(cut), codecs.MinFrame(&p.Header))
		}
		before, _, from := layers(whole)
		after, _, to := layers(cut)
		if !bytes.Equal(from[6:8], to[6:8]) {
			t.Errorf("UDP checksum %x became %x", from[6:8], to[6:8])
		}
		lengths := bytes.Equal(from[4:6], to[4:6])
		if stale := p.Flags&fabric.LengthStale != 0; lengths != stale || bytes.Equal(before[2:6], after[2:6]) != stale {
			t.Errorf("flags %v: UDP length %x became %x, IP %x became %x", p.Flags, from[4:6], to[4:6], before[2:6], after[2:6])
		}
		if valid := internetSum(after) == 0xffff; !p.IPv6 && valid == (p.Flags&fabric.HeaderSumStale != 0) {
			t.Errorf("flags %v: IPv4 header checksum valid: %v", p.Flags, valid)
		}
		var h ndp.Header
		if err := h.Parse(to[packet.UDPLen:]); err != nil || h.Flags != ndp.FlagTrimmed {
			t.Errorf("%v, %v", h.Flags, err)
		}
	})
}

func TestReturnedFramesComeFromTheNDPPort(t *testing.T) {
	var p fabric.Packet
	p.Src, p.Dst, p.Protocol, p.Size, p.Original = 1, 2, fabric.NDP, 64, 64
	p.NDP.Kind = ndp.Data
	_, _, there := layers(codecs.Append(nil, &p.Header, nil))
	p.Return()
	_, addresses, back := layers(codecs.Append(nil, &p.Header, nil))
	if !bytes.Equal(there[0:2], back[2:4]) || !bytes.Equal(there[2:4], back[0:2]) ||
		binary.BigEndian.Uint16(back) != ndp.Port {
		t.Errorf("ports %x became %x", there[:4], back[:4])
	}
	if !bytes.Equal(addresses, []byte{10, 0, 0, 3, 10, 0, 0, 2}) {
		t.Errorf("addresses %x", addresses)
	}
}

func TestTsharkFindsNothingWrongWithACapture(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("SKIP-tool: tshark is not installed")
	}
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 3}, Switch: fabric.SwitchSpec{
		PFC: fabric.PFCSpec{Classes: 1, XOff: 3000}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/tap.pcap"
	var buf bytes.Buffer
	c := fabric.NewCapture(n, &buf, file, nil)
	n.SetTap(c.See)
	n.Host(0).Attach(&source{to: 2, size: 1500, left: 20})
	n.Host(1).Attach(&source{to: 2, size: 300, left: 20, v6: true})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tshark, "-r", "-", "-o", "ip.check_checksum:TRUE", "-o",
		"udp.check_checksum:TRUE",
		"-Y", "ip.checksum.status==0 || udp.checksum.status==0 || _ws.malformed || udp.length.bad || !udp")
	cmd.Stdin = &buf
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if wrong := strings.TrimSpace(string(out)); wrong != "" || c.Packets() != 160 {
		t.Errorf("of %d frames wrong:\n%s", c.Packets(), wrong)
	}
}
