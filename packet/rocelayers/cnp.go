package rocelayers

import (
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet"
)

// CNP is what follows the BTH of a congestion notification packet: 16 reserved bytes, sent as zero and ignored by
// receivers (annex A17.9.3).
type CNP struct {
	layers.BaseLayer
	Reserved [packet.CNPPayloadLen]byte
}

// LayerType returns LayerTypeCNP.
func (l *CNP) LayerType() gopacket.LayerType { return LayerTypeCNP }

// CanDecode returns LayerTypeCNP.
func (l *CNP) CanDecode() gopacket.LayerClass { return LayerTypeCNP }

// NextLayerType returns gopacket's payload for bytes after the reserved ones.
func (l *CNP) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

// DecodeFromBytes decodes the payload of a BTH layer.
func (l *CNP) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < packet.CNPPayloadLen {
		df.SetTruncated()
		return fmt.Errorf("CNP: %d reserved bytes, want %d", len(data), packet.CNPPayloadLen)
	}
	l.BaseLayer = layers.BaseLayer{Contents: data[:packet.CNPPayloadLen], Payload: data[packet.CNPPayloadLen:]}
	copy(l.Reserved[:], data)
	return nil
}

// SerializeTo puts the reserved bytes before what b holds.
func (l *CNP) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(l.Reserved))
	if err != nil {
		return err
	}
	copy(bytes, l.Reserved[:])
	return nil
}

func decodeCNP(data []byte, p gopacket.PacketBuilder) error {
	l := &CNP{}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return p.NextDecoder(l.NextLayerType())
}
