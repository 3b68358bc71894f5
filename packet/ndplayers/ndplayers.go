// Package ndplayers adds NDP to gopacket: a layer with the header, whose payload is what trimming has left. It decodes
// and serialises with package packet/ndp.
//
// gopacket keeps layer types and UDP ports in process-wide tables. The layer type is registered when this package is
// initialised, with a number from the range for applications. [Register] adds the UDP port; a program calls it once
// before it decodes, so that an import alone does not change how packets decode.
package ndplayers

import (
	"fmt"
	"sync"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet/ndp"
)

// LayerTypeNDP is the type of layer NDP. gopacket uses 0 to 999; numbers up to 1999 are array look-ups.
var LayerTypeNDP = gopacket.RegisterLayerType(1793,
	gopacket.LayerTypeMetadata{Name: "NDP", Decoder: gopacket.DecodeFunc(decode)})

var registerOnce sync.Once

// Register makes gopacket decode the payload of UDP datagrams to or from the NDP port as NDP, in the whole process.
// gopacket's table has no lock: call Register before the first goroutine decodes. Further calls do nothing.
func Register() {
	registerOnce.Do(func() { layers.RegisterUDPPortLayerType(ndp.Port, LayerTypeNDP) })
}

// NDP is the header of an NDP packet. Contents and Payload alias the decoded data.
type NDP struct {
	layers.BaseLayer
	ndp.Header
}

// Interfaces that gopacket looks for.
var (
	_ gopacket.DecodingLayer     = (*NDP)(nil)
	_ gopacket.SerializableLayer = (*NDP)(nil)
)

// LayerType returns LayerTypeNDP.
func (l *NDP) LayerType() gopacket.LayerType { return LayerTypeNDP }

// CanDecode returns LayerTypeNDP.
func (l *NDP) CanDecode() gopacket.LayerClass { return LayerTypeNDP }

// NextLayerType returns gopacket's payload, or nothing if there is none: in control packets, and in headers cut right
// after this one.
func (l *NDP) NextLayerType() gopacket.LayerType {
	if len(l.Payload) == 0 {
		return gopacket.LayerTypeZero
	}
	return gopacket.LayerTypePayload
}

// DecodeFromBytes decodes a UDP payload. It doesn't allocate. Payload ends where Header.Length says, or earlier if it
// was trimmed.
func (l *NDP) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := l.Parse(data); err != nil {
		if len(data) < ndp.Size {
			df.SetTruncated()
		}
		return fmt.Errorf("NDP layer: %w", err)
	}
	rest := data[ndp.Size:]
	l.BaseLayer = layers.BaseLayer{Contents: data[:ndp.Size], Payload: rest[:min(len(rest), int(l.Length))]}
	return nil
}

// Trimmed reports whether payload is missing.
func (l *NDP) Trimmed() bool { return l.Header.Trimmed(ndp.Size + len(l.Payload)) }

// SerializeTo puts the header before the contents of b. With FixLengths a data packet's Length becomes the length of b,
// unless the packet is marked trimmed: then Length is the size before.
func (l *NDP) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	h := l.Header
	if opts.FixLengths && h.Kind == ndp.Data && h.Flags&ndp.FlagTrimmed == 0 {
		n := len(b.Bytes())
		if n > 0xffff {
			return fmt.Errorf("NDP layer: payload of %d bytes: the length field holds at most 65535", n)
		}
		h.Length = uint16(n)
	}
	out, err := b.PrependBytes(ndp.Size)
	if err != nil {
		return fmt.Errorf("NDP layer: %w", err)
	}
	h.AppendTo(out[:0])
	return nil
}

func decode(data []byte, p gopacket.PacketBuilder) error {
	l := &NDP{}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	if next := l.NextLayerType(); next != gopacket.LayerTypeZero {
		return p.NextDecoder(next)
	}
	return nil
}
