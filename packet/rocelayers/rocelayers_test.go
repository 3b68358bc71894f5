package rocelayers_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"candela.dev/candela/packet"
	"candela.dev/candela/packet/rocelayers"
	"candela.dev/candela/runtimetest"
)

func TestMain(m *testing.M) {
	rocelayers.Register()
	rocelayers.Register() // harmless
	os.Exit(m.Run())
}

// captures lists the soft-RoCE captures and the one that package packet writes with every header.
func captures(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../testdata/rxe/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures found: %v", err)
	}
	return append(files, "../testdata/synthetic.pcap")
}

func forEachFrame(t testing.TB, file string, do func(n int, frame []byte)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(n, frame)
	}
}

// wanted returns the layer that package packet's own decode of the frame amounts to.
func wanted(p *packet.Packet) rocelayers.BTH {
	return rocelayers.BTH{
		BTH: p.BTH, Headers: p.Headers, RETH: p.RETH, AETH: p.AETH, AtomicETH: p.AtomicETH, AtomicAckETH: p.AtomicAckETH,
		ImmDt: p.ImmDt, IETH: p.IETH, Pad: p.Pad, ICRC: p.ICRC, Truncated: p.Truncated(),
		BaseLayer: layers.BaseLayer{Payload: p.Payload},
	}
}

// diffLayer returns how got differs from our own decode. cmp is called only for differences: it is slow.
func diffLayer(p *packet.Packet, got *rocelayers.BTH) string {
	want, have := wanted(p), *got
	have.SetLayersForICRC(nil, nil)
	have.Contents = nil
	if len(want.Payload) == 0 && len(have.Payload) == 0 {
		want.Payload, have.Payload = nil, nil
	}
	if reflect.DeepEqual(want, have) {
		return ""
	}
	return cmp.Diff(want, have, cmpopts.IgnoreUnexported(rocelayers.BTH{}))
}

func TestNewPacketFindsTheLayersOfEveryCapture(t *testing.T) {
	for _, file := range captures(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			roce := 0
			forEachFrame(t, file, func(n int, frame []byte) {
				var p packet.Packet
				if err := p.Parse(frame); err != nil {
					t.Fatalf("frame %d: %v", n, err)
				}
				pkt := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
				if failure := pkt.ErrorLayer(); failure != nil {
					t.Fatalf("frame %d: %v", n, failure.Error())
				}
				layer, ok := pkt.Layer(rocelayers.LayerTypeBTH).(*rocelayers.BTH)
				if ok != p.IsRoCE() {
					t.Fatalf("frame %d: gopacket finds a BTH: %v, we: %v", n, ok, p.IsRoCE())
				}
				if !ok {
					return
				}
				roce++
				if diff := diffLayer(&p, layer); diff != "" {
					t.Fatalf("frame %d (-packet +gopacket):\n%s", n, diff)
				}
				if want := packet.BTHLen + p.Headers.ExtendedLen(); len(layer.Contents) != want {
					t.Fatalf("frame %d: headers of %d bytes, want %d", n, len(layer.Contents), want)
				}
				if isCNP := pkt.Layer(rocelayers.LayerTypeCNP) != nil; isCNP != (p.BTH.Opcode == packet.CNP) {
					t.Fatalf("frame %d: CNP layer %v on %v", n, isCNP, p.BTH.Opcode)
				}
			})
			if roce == 0 {
				t.Error("no RoCE frame")
			}
		})
	}
}

// stack is a DecodingLayerParser with everything that the captures hold.
type stack struct {
	eth     layers.Ethernet
	dot1q   layers.Dot1Q
	ip4     layers.IPv4
	ip6     layers.IPv6
	udp     layers.UDP
	bth     rocelayers.BTH
	cnp     rocelayers.CNP
	payload gopacket.Payload
	parser  *gopacket.DecodingLayerParser
	decoded []gopacket.LayerType
}

func newStack() *stack {
	s := &stack{}
	s.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet,
		&s.eth, &s.dot1q, &s.ip4, &s.ip6, &s.udp, &s.bth, &s.cnp, &s.payload)
	s.parser.IgnoreUnsupported = true
	return s
}

func (s *stack) decode(frame []byte) (roce bool, err error) {
	err = s.parser.DecodeLayers(frame, &s.decoded)
	for _, l := range s.decoded {
		roce = roce || l == rocelayers.LayerTypeBTH
	}
	return roce, err
}

func TestDecodingLayerParserReadsEveryCapture(t *testing.T) {
	for _, file := range captures(t) {
		s := newStack()
		forEachFrame(t, file, func(n int, frame []byte) {
			var p packet.Packet
			if err := p.Parse(frame); err != nil {
				t.Fatal(err)
			}
			roce, err := s.decode(frame)
			if err != nil || roce != p.IsRoCE() {
				t.Fatalf("%s: frame %d: RoCE %v, want %v; error %v", file, n, roce, p.IsRoCE(), err)
			}
			if !roce {
				return
			}
			if diff := diffLayer(&p, &s.bth); diff != "" {
				t.Fatalf("%s: frame %d (-packet +gopacket):\n%s", file, n, diff)
			}
		})
	}
}

func TestSnappedFramesAreTruncatedLayers(t *testing.T) {
	forEachFrame(t, "../testdata/rxe/clean-ib_write_bw.in.pcap", func(n int, frame []byte) {
		var p packet.Packet
		if len(frame) <= 128 || p.Parse(frame[:128]) != nil || !p.IsRoCE() {
			return
		}
		s := newStack()
		if roce, err := s.decode(frame[:128]); !roce || err != nil || !s.bth.Truncated {
			t.Fatalf("frame %d: RoCE %v, truncated %v, error %v", n, roce, s.bth.Truncated, err)
		}
		layer, ok := gopacket.NewPacket(frame[:128], layers.LayerTypeEthernet, gopacket.Default).
			Layer(rocelayers.LayerTypeBTH).(*rocelayers.BTH)
		if !ok || !layer.Truncated {
			t.Fatalf("frame %d: through a Packet: BTH %v, truncated %v", n, ok, ok && layer.Truncated)
		}
		if diff := diffLayer(&p, layer); diff != "" {
			t.Fatalf("frame %d:\n%s", n, diff)
		}
	})
}

// toLayers returns serialisable layers for a decoded frame.
func (s *stack) toLayers() []gopacket.SerializableLayer {
	out := []gopacket.SerializableLayer{&s.eth}
	var ip rocelayers.NetworkLayer
	for _, l := range s.decoded {
		switch l {
		case layers.LayerTypeDot1Q:
			out = append(out, &s.dot1q)
		case layers.LayerTypeIPv4:
			ip = &s.ip4
		case layers.LayerTypeIPv6:
			ip = &s.ip6
		}
	}
	s.bth.SetLayersForICRC(ip, &s.udp)
	if err := s.udp.SetNetworkLayerForChecksum(ip); err != nil {
		panic(err)
	}
	return append(out, ip, &s.udp, &s.bth, gopacket.Payload(s.bth.Payload))
}

func TestSerialisingGivesTheFrameBack(t *testing.T) {
	for _, file := range captures(t) {
		s := newStack()
		forEachFrame(t, file, func(n int, frame []byte) {
			if roce, err := s.decode(frame); !roce || err != nil {
				return
			}
			buf := gopacket.NewSerializeBuffer()
			if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, s.toLayers()...); err != nil {
				t.Fatalf("%s: frame %d: %v", file, n, err)
			}
			// gopacket's Ethernet layer pads to 60 bytes.
			want := append(bytes.Clone(frame), make([]byte, max(0, 60-len(frame)))...)
			if got := buf.Bytes(); !bytes.Equal(got, want) {
				t.Fatalf("%s: frame %d:\n got %x\nwant %x", file, n, got, frame)
			}
		})
	}
}

func TestFixedLengthsAndChecksumsAreRight(t *testing.T) {
	all := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	for _, file := range captures(t) {
		s := newStack()
		forEachFrame(t, file, func(n int, frame []byte) {
			if roce, err := s.decode(frame); !roce || err != nil {
				return
			}
			out := s.toLayers()
			s.ip4.Length, s.ip6.Length, s.udp.Length, s.bth.PadCount, s.bth.ICRC = 0, 0, 0, 0, 0
			buf := gopacket.NewSerializeBuffer()
			if err := gopacket.SerializeLayers(buf, all, out...); err != nil {
				t.Fatalf("%s: frame %d: %v", file, n, err)
			}
			var p packet.Packet
			if err := p.Parse(buf.Bytes()); err != nil {
				t.Fatalf("%s: frame %d: %v", file, n, err)
			}
			if status := packet.CheckICRC(buf.Bytes(), &p); status != packet.ICRCValid {
				t.Fatalf("%s: frame %d: iCRC is %v", file, n, status)
			}
			// Compare with our own serialisation; gopacket always sends a UDP checksum when asked to compute checksums.
			p.Derived, p.SumUDP = true, true
			if want := p.AppendTo(nil); !bytes.Equal(buf.Bytes(), want) {
				t.Fatalf("%s: frame %d:\n got %x\nwant %x", file, n, buf.Bytes(), want)
			}
		})
	}
}

func TestICRCNeedsTheLayersBelow(t *testing.T) {
	bth := &rocelayers.BTH{BTH: packet.BTH{Opcode: packet.SendOnly}}
	err := gopacket.SerializeLayers(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{ComputeChecksums: true}, bth)
	if err == nil {
		t.Error("an iCRC without IP and UDP headers")
	}
}

func TestShortFramesNeitherPanicNorLookWhole(t *testing.T) {
	s := newStack()
	s.parser.IgnorePanic = true // ours would be seen
	forEachFrame(t, "../testdata/synthetic.pcap", func(n int, frame []byte) {
		for size := range len(frame) {
			if roce, err := s.decode(frame[:size]); roce && err == nil && !s.bth.Truncated {
				t.Fatalf("frame %d cut to %d bytes looks whole", n, size)
			}
		}
	})
}

// gopacket selects the decoder by port: do not give it a mirrored frame with a random destination port.
func TestRandomMirrorPortsReachOtherDecoders(t *testing.T) {
	var roce []byte
	forEachFrame(t, "../testdata/rxe/clean-ib_write_bw.in.pcap", func(_ int, frame []byte) {
		var p packet.Packet
		if roce == nil && p.Parse(frame) == nil && p.IsRoCE() {
			roce = bytes.Clone(frame)
		}
	})
	const dstPort = packet.EthernetLen + packet.IPv4Len + 2
	roce[dstPort], roce[dstPort+1] = 0, 53
	pkt := gopacket.NewPacket(roce, layers.LayerTypeEthernet, gopacket.Default)
	if pkt.Layer(rocelayers.LayerTypeBTH) != nil || pkt.Layer(layers.LayerTypeDNS) == nil && pkt.ErrorLayer() == nil {
		t.Fatalf("decoded as %v", pkt)
	}
	payload := pkt.Layer(layers.LayerTypeUDP).LayerPayload()
	direct := gopacket.NewPacket(payload, rocelayers.LayerTypeBTH, gopacket.Default)
	if direct.Layer(rocelayers.LayerTypeBTH) == nil {
		t.Errorf("UDP payload as BTH: %v", direct)
	}
}

func TestDecodingDoesNotAllocate(t *testing.T) {
	s := newStack()
	forEachFrame(t, "../testdata/rxe/clean-ib_write_bw.in.pcap", func(n int, frame []byte) {
		if roce, _ := s.decode(frame); !roce {
			return
		}
		allocs := runtimetest.FewestAllocs(0, func() {
			if err := s.parser.DecodeLayers(frame, &s.decoded); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Fatalf("frame %d: %v allocations", n, allocs)
		}
	})
}

// FuzzLayersAgreeWithPacket: if package packet finds RoCE, gopacket with our layers finds the same or an error.
func FuzzLayersAgreeWithPacket(f *testing.F) {
	n := 0
	for _, file := range captures(f) {
		forEachFrame(f, file, func(_ int, frame []byte) {
			if n++; n%7 == 0 && len(frame) < 200 {
				f.Add(frame)
			}
		})
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var p packet.Packet
		s := newStack()
		roce, err := s.decode(frame)
		if p.Parse(frame) != nil || !p.IsRoCE() || err != nil {
			return
		}
		if !roce {
			t.Fatalf("no BTH in %v", s.decoded)
		}
		if s.bth.Truncated && !p.Truncated() {
			return // the datagram is whole inside an IP packet that is not
		}
		if diff := diffLayer(&p, &s.bth); diff != "" {
			t.Fatalf("(-packet +gopacket):\n%s", diff)
		}
	})
}

func BenchmarkDecodingLayerParser(b *testing.B) {
	s := newStack()
	var roce []byte
	forEachFrame(b, "../testdata/rxe/clean-ib_write_bw.in.pcap", func(_ int, frame []byte) {
		if ok, _ := s.decode(frame); ok && len(frame) > 1000 {
			roce = frame
		}
	})
	b.ReportAllocs()
	b.SetBytes(int64(len(roce)))
	for b.Loop() {
		if err := s.parser.DecodeLayers(roce, &s.decoded); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleRegister() {
	rocelayers.Register()

	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1},
		DstIP: net.IP{10, 0, 0, 2}}
	udp := &layers.UDP{SrcPort: 49152, DstPort: packet.Port}
	bth := &rocelayers.BTH{BTH: packet.BTH{Opcode: packet.SendOnly, PKey: 0xffff, DestQP: 0x11, PSN: 7, AckReq: true}}
	bth.SetLayersForICRC(ip, udp)
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		fmt.Println(err)
	}
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, ip, udp, bth, gopacket.Payload("hello")); err != nil {
		fmt.Println(err)
	}

	decoded := gopacket.NewPacket(buf.Bytes(), layers.LayerTypeIPv4, gopacket.Default)
	got := decoded.Layer(rocelayers.LayerTypeBTH).(*rocelayers.BTH)
	fmt.Printf("%v to QP %v, PSN %v, %d pad bytes: %s\n", got.Opcode, got.DestQP, got.PSN, got.PadCount, got.Payload)
	// Output: SEND_ONLY to QP 0x000011, PSN 7, 3 pad bytes: hello
}
