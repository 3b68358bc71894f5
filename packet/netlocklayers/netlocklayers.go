// Package netlocklayers adds packets of a lock manager (package packet/netlock) to gopacket, as ndplayers does NDP's:
// [Register] adds its UDP ports to gopacket's process-wide table.
package netlocklayers

import (
	"fmt"
	"sync"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet/netlock"
)

// LayerTypeNetLock is the type of layer NetLock. gopacket uses 0 to 999; numbers up to 1999 are array look-ups.
var LayerTypeNetLock = gopacket.RegisterLayerType(1795,
	gopacket.LayerTypeMetadata{Name: "NetLock", Decoder: gopacket.DecodeFunc(decode)})

var registerOnce sync.Once

// Register makes gopacket decode the payload of UDP datagrams to or from netlock.Port and netlock.ReplyPort as layer
// NetLock, in the whole process. gopacket's table has no lock: call Register before the first goroutine decodes.
// Further calls do nothing.
func Register() {
	registerOnce.Do(func() {
		layers.RegisterUDPPortLayerType(netlock.Port, LayerTypeNetLock)
		layers.RegisterUDPPortLayerType(netlock.ReplyPort, LayerTypeNetLock)
	})
}

// NetLock is the header with mark and options. Contents alias the decoded data; there is no payload.
type NetLock struct {
	layers.BaseLayer
	netlock.Header
}

// Interfaces that gopacket looks for.
var (
	_ gopacket.DecodingLayer     = (*NetLock)(nil)
	_ gopacket.SerializableLayer = (*NetLock)(nil)
)

// LayerType returns LayerTypeNetLock.
func (l *NetLock) LayerType() gopacket.LayerType { return LayerTypeNetLock }

// CanDecode returns LayerTypeNetLock.
func (l *NetLock) CanDecode() gopacket.LayerClass { return LayerTypeNetLock }

// NextLayerType returns gopacket.LayerTypeZero: nothing follows.
func (l *NetLock) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// DecodeFromBytes decodes a UDP payload. It does not allocate.
func (l *NetLock) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := l.Parse(data); err != nil {
		if len(data) < netlock.Size {
			df.SetTruncated()
		}
		return fmt.Errorf("NetLock layer: %w", err)
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	return nil
}

// SerializeTo puts the header before the contents of b.
func (l *NetLock) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	var header [netlock.MaxSize]byte
	bytes := l.AppendTo(header[:0])
	out, err := b.PrependBytes(len(bytes))
	if err != nil {
		return fmt.Errorf("NetLock layer: %w", err)
	}
	copy(out, bytes)
	return nil
}

func decode(data []byte, p gopacket.PacketBuilder) error {
	l := &NetLock{}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return nil
}
