package trace

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/packet"
)

// labelledFrame is a WRITE of a side with a flow label.
func labelledFrame(t *testing.T, c *Connection, back bool, label uint32, psn int, op packet.Opcode) []byte {
	t.Helper()
	from, to := c.Requester, c.Responder
	if back {
		from, to = to, from
	}
	p := packet.Packet{
		Eth: packet.Ethernet{Type: packet.EtherTypeIPv6}, HasUDP: true, SumUDP: true, Derived: true,
		IP:  packet.IP{Version: 6, TTL: 64, Protocol: packet.ProtocolUDP, FlowLabel: label, Src: from.IP, Dst: to.IP},
		UDP: packet.UDP{SrcPort: 50000, DstPort: packet.Port}, Headers: packet.HasBTH,
		BTH:     packet.BTH{Opcode: op, DestQP: to.QPN, PSN: packet.PSN(psn), PKey: DefaultPKey},
		Payload: make([]byte, 64),
	}
	if op == packet.CNP {
		p.Payload = make([]byte, packet.CNPPayloadLen)
	}
	return p.AppendTo(nil)
}

func TestTheFlowLabelsOfEachFlowAreListedByTheirFirstPacket(t *testing.T) {
	side := func(ip string, qpn packet.QPN) Side { return Side{IP: netip.MustParseAddr(ip), QPN: qpn} }
	connection := Connection{Index: 1, MTU: 1024, Requester: side("fd00::2", 7), Responder: side("fd00::1", 9)}
	connections, err := NewConnections([]Connection{connection})
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{true, false} { // or looked up afterwards
		d := NewDecoder(FormatPlain, connections, false)
		if !known {
			d = NewDecoder(FormatPlain, nil, false)
		}
		number := uint64(0)
		send := func(back bool, label uint32, op packet.Opcode) {
			t.Helper()
			number++
			f := Frame{Number: number, TimeNS: int64(1000 * number),
				Data: labelledFrame(t, &connection, back, label, int(number), op)}
			f.OrigLen = len(f.Data)
			var r Record
			if err := d.Decode(&f, &r); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			send(false, 0x12345, packet.WriteMiddle)
		}
		send(true, 0, packet.WriteMiddle)
		send(false, 0xfffff, packet.CNP) // NICs make them apart from their queue pairs
		send(false, 0x12346, packet.WriteMiddle)
		send(false, 0x12345, packet.WriteMiddle)
		send(false, 0xf2345, packet.WriteMiddle)
		want := []FlowLabel{{0, 0x12345, 1, 1000}, {1, 0, 4, 4000}, {0, 0x12346, 6, 6000}, {0, 0xf2345, 8, 8000}}
		if diff := cmp.Diff(want, d.labels.of(connections)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}
