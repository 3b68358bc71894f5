package framelog

import (
	"bytes"
	"net/netip"

	"candela.dev/candela/packet"
)

// A Route has the addresses of a probe frame.
type Route struct {
	FromMAC, ToMAC packet.MAC
	From, To       netip.Addr
}

// probeMark is the payload of a probe frame. Its length needs no pad bytes.
var probeMark = []byte("candela cable probe.")

const (
	probePort = 49152 // UDP source
	probeQPN  = 0     // unused by connections
)

// Probe returns a RoCE frame without a connection: switches count it, and hosts ignore it.
func Probe(r Route) []byte {
	p := packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH, Payload: probeMark,
		Eth: packet.Ethernet{Src: r.FromMAC, Dst: r.ToMAC, Type: packet.EtherTypeIPv4},
		IP:  packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP, Src: r.From, Dst: r.To},
		UDP: packet.UDP{SrcPort: probePort, DstPort: packet.Port},
		BTH: packet.BTH{Opcode: packet.SendOnly, DestQP: probeQPN, PKey: 0xffff},
	}
	if r.From.Is6() {
		p.Eth.Type, p.IP.Version = packet.EtherTypeIPv6, 6
	}
	return p.AppendTo(nil)
}

// IsProbe reports whether a frame is a probe.
func IsProbe(frame []byte) bool {
	at, ok := locate(frame)
	if !ok {
		return false
	}
	payload := frame[at.l4+packet.UDPLen+packet.BTHLen:]
	return len(payload) == len(probeMark)+packet.ICRCLen && bytes.HasPrefix(payload, probeMark)
}
