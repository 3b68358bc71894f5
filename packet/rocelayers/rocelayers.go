// Package rocelayers adds RoCEv2 to gopacket: a [BTH] layer with its extended headers, pad and iCRC, and a [CNP] layer
// for what a congestion notification carries. Both decode and serialise with package packet and implement gopacket's
// interfaces, so that gopacket's sources, filters and other layers can be used with them.
//
// gopacket keeps layer types and UDP ports in process-wide tables. The two layer types are registered when this package
// is initialised, with numbers from the range for applications. [Register] adds the UDP port; a program calls it once
// before it decodes, so that an import alone does not change how packets decode. A DecodingLayerParser with these
// layers needs the port, too: it asks the UDP layer what comes next.
//
// gopacket chooses the decoder of a UDP payload by port, destination first. RoCE mirrored to random destination ports
// would therefore reach the decoders of DNS, VXLAN and others, and fail there; restore the port of such frames first
// (package trace does) or decode their UDP payload as [LayerTypeBTH].
package rocelayers

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet"
)

// Layer types of this package. gopacket uses 0 to 999; numbers up to 1999 are array look-ups.
var (
	LayerTypeBTH = gopacket.RegisterLayerType(1791,
		gopacket.LayerTypeMetadata{Name: "BTH", Decoder: gopacket.DecodeFunc(decodeBTH)})
	LayerTypeCNP = gopacket.RegisterLayerType(1792,
		gopacket.LayerTypeMetadata{Name: "CNP", Decoder: gopacket.DecodeFunc(decodeCNP)})
)

var registerOnce sync.Once

// Register makes gopacket decode the payload of UDP datagrams to port 4791 as BTH, in the whole process. gopacket's
// table has no lock: call Register before the first goroutine decodes. Further calls do nothing.
func Register() {
	registerOnce.Do(func() { layers.RegisterUDPPortLayerType(packet.Port, LayerTypeBTH) })
}

// BTH is the InfiniBand transport part of a RoCEv2 packet: base transport header, the extended headers that Headers
// names, pad and iCRC. Contents holds the headers, Payload what follows up to the pad; both alias the decoded data.
type BTH struct {
	layers.BaseLayer
	packet.BTH
	Headers      packet.Headers
	RETH         packet.RETH
	AETH         packet.AETH
	AtomicETH    packet.AtomicETH
	AtomicAckETH uint64
	ImmDt        uint32
	IETH         uint32
	Pad          [3]byte
	ICRC         uint32 // as the four wire bytes read little-endian
	// Truncated packets are snapped or trimmed: Payload is all there is, without iCRC.
	Truncated bool

	ip  NetworkLayer
	udp *layers.UDP
}

// NetworkLayer is what the iCRC covers below UDP: gopacket's IPv4 or IPv6 layer.
type NetworkLayer interface {
	gopacket.NetworkLayer
	gopacket.SerializableLayer
}

// Interfaces that gopacket looks for.
var (
	_ gopacket.DecodingLayer     = (*BTH)(nil)
	_ gopacket.SerializableLayer = (*BTH)(nil)
	_ gopacket.DecodingLayer     = (*CNP)(nil)
	_ gopacket.SerializableLayer = (*CNP)(nil)
)

// LayerType returns LayerTypeBTH.
func (l *BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode returns LayerTypeBTH.
func (l *BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType returns LayerTypeCNP for the payload of a congestion notification, else gopacket's payload.
func (l *BTH) NextLayerType() gopacket.LayerType {
	if l.Opcode == packet.CNP && !l.Truncated {
		return LayerTypeCNP
	}
	return gopacket.LayerTypePayload
}

// DecodeFromBytes decodes a UDP payload. df shows whether it is whole: the layers below report a frame that ends early
// to gopacket's parser or packet. It does not allocate.
func (l *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	missing := 0
	if endsEarly(df) {
		missing = 1 // how many more doesn't matter here
	}
	var p packet.Packet
	if err := p.ParseTransport(data, missing); err != nil {
		df.SetTruncated()
		return err
	}
	l.fill(&p, data)
	return nil
}

func (l *BTH) fill(p *packet.Packet, data []byte) {
	headers := packet.BTHLen + p.Headers.ExtendedLen()
	*l = BTH{
		BaseLayer: layers.BaseLayer{Contents: data[:headers], Payload: p.Payload},
		BTH:       p.BTH, Headers: p.Headers, RETH: p.RETH, AETH: p.AETH, AtomicETH: p.AtomicETH,
		AtomicAckETH: p.AtomicAckETH, ImmDt: p.ImmDt, IETH: p.IETH,
		Pad: p.Pad, ICRC: p.ICRC, Truncated: p.Truncated(),
		ip: l.ip, udp: l.udp,
	}
}

// endsEarly reports whether a layer below found the frame shorter than its length field says. Feedback of unknown kinds
// counts as a whole frame.
func endsEarly(df gopacket.DecodeFeedback) bool {
	switch d := df.(type) {
	case *gopacket.DecodingLayerParser:
		return d.Truncated
	case gopacket.Packet:
		return d.Metadata().Truncated
	}
	return false
}

// SetLayersForICRC sets the lower layers, which the iCRC covers. SerializeTo needs them to compute it.
func (l *BTH) SetLayersForICRC(ip NetworkLayer, udp *layers.UDP) { l.ip, l.udp = ip, udp }

var errNoLayersForICRC = errors.New(
	"BTH: the iCRC covers IP and UDP headers: call SetLayersForICRC, or serialise without ComputeChecksums")

// SerializeTo puts the headers before, and pad and iCRC after, the contents of b. With opts.FixLengths the pad is what
// the payload needs, with zero bytes; with opts.ComputeChecksums the iCRC is right, for which the lower layers are
// serialised separately. Unlike gopacket's own layers it does not change l. A Truncated layer ends with its payload.
func (l *BTH) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	p := packet.Packet{
		BTH: l.BTH, Headers: l.Headers | packet.HasBTH, RETH: l.RETH, AETH: l.AETH, AtomicETH: l.AtomicETH,
		AtomicAckETH: l.AtomicAckETH, ImmDt: l.ImmDt, IETH: l.IETH,
	}
	pad := l.Pad
	if opts.FixLengths && !l.Truncated {
		p.BTH.PadCount, pad = uint8(-len(b.Bytes())&3), [3]byte{}
	}
	head, err := b.PrependBytes(packet.BTHLen + p.Headers.ExtendedLen())
	if err != nil {
		return err
	}
	p.AppendTransportHeaders(head[:0])
	if l.Truncated {
		return nil
	}
	tail, err := b.AppendBytes(int(p.BTH.PadCount&3) + packet.ICRCLen)
	if err != nil {
		return err
	}
	icrcAt := copy(tail, pad[:p.BTH.PadCount&3])
	icrc := l.ICRC
	if opts.ComputeChecksums {
		if icrc, err = l.computeICRC(b.Bytes(), opts); err != nil {
			return err
		}
	}
	for i := range packet.ICRCLen {
		tail[icrcAt+i] = byte(icrc >> (8 * i))
	}
	return nil
}

// computeICRC returns the iCRC of a UDP payload whose last four bytes are its place.
func (l *BTH) computeICRC(transport []byte, opts gopacket.SerializeOptions) (uint32, error) {
	if l.ip == nil || l.udp == nil {
		return 0, errNoLayersForICRC
	}
	below := gopacket.NewSerializeBuffer()
	// The UDP checksum is not covered, and needs an iCRC before it can be computed.
	withoutSums := gopacket.SerializeOptions{FixLengths: opts.FixLengths}
	if err := gopacket.SerializeLayers(below, withoutSums, l.ip, l.udp, gopacket.Payload(transport)); err != nil {
		return 0, fmt.Errorf("layers that the iCRC covers: %w", err)
	}
	l3 := below.Bytes()
	return packet.ComputeICRC(l3[:len(l3)-packet.ICRCLen]), nil
}

func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	l := &BTH{}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return p.NextDecoder(l.NextLayerType())
}
