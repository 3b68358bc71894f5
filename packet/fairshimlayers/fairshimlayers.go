// Package fairshimlayers adds labels of core-stateless fair queueing (package packet/fairshim) to gopacket: a layer
// after the IP header, whose payload is the transport. [Register] adds the protocol number to gopacket's process-wide
// table; a program calls it once before it decodes, so that an import alone does not change how packets decode.
package fairshimlayers

import (
	"fmt"
	"sync"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet/fairshim"
)

// LayerTypeLabel is the type of layer Label. gopacket uses 0 to 999; numbers up to 1999 are array look-ups.
var LayerTypeLabel = gopacket.RegisterLayerType(1794,
	gopacket.LayerTypeMetadata{Name: "FairLabel", Decoder: gopacket.DecodeFunc(decode)})

var registerOnce sync.Once

// Register makes gopacket decode what follows an IP header with fairshim.Protocol as a label. gopacket's table has no
// lock: call Register before the first goroutine decodes. Further calls do nothing.
func Register() {
	registerOnce.Do(func() {
		layers.IPProtocolMetadata[fairshim.Protocol] = layers.EnumMetadata{DecodeWith: gopacket.DecodeFunc(decode),
			Name: "FairLabel", LayerType: LayerTypeLabel}
	})
}

// Label is the shim. Contents and Payload alias the decoded data.
type Label struct {
	layers.BaseLayer
	fairshim.Header
}

// Interfaces that gopacket looks for.
var (
	_ gopacket.DecodingLayer     = (*Label)(nil)
	_ gopacket.SerializableLayer = (*Label)(nil)
)

// LayerType returns LayerTypeLabel.
func (l *Label) LayerType() gopacket.LayerType { return LayerTypeLabel }

// CanDecode returns LayerTypeLabel.
func (l *Label) CanDecode() gopacket.LayerClass { return LayerTypeLabel }

// NextLayerType returns the layer of the original protocol.
func (l *Label) NextLayerType() gopacket.LayerType { return layers.IPProtocol(l.Next).LayerType() }

// DecodeFromBytes decodes what follows an IP header. It doesn't allocate.
func (l *Label) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := l.Parse(data); err != nil {
		if len(data) < fairshim.MaxSize {
			df.SetTruncated()
		}
		return fmt.Errorf("label layer: %w", err)
	}
	l.BaseLayer = layers.BaseLayer{Contents: data[:l.Size()], Payload: data[l.Size():]}
	return nil
}

// SerializeTo puts the shim before the contents of b.
func (l *Label) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	out, err := b.PrependBytes(l.Size())
	if err != nil {
		return fmt.Errorf("label layer: %w", err)
	}
	l.AppendTo(out[:0])
	return nil
}

func decode(data []byte, p gopacket.PacketBuilder) error {
	l := &Label{}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return p.NextDecoder(layers.IPProtocol(l.Next))
}
