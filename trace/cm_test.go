package trace

import (
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/packet"
)

// manager returns the frame of a connection manager's message from host A to host B, or back.
func manager(back bool, c packet.CM) []byte {
	p := testPacket(packet.UDSendOnly, packet.GSI, 77, 0)
	p.Payload = c.AppendCM(nil)
	if back {
		p.IP.Src, p.IP.Dst = p.IP.Dst, p.IP.Src
	}
	return p.AppendTo(nil)
}

func traffic(back bool, op packet.Opcode, qpn packet.QPN, psn packet.PSN, payload int) []byte {
	p := testPacket(op, qpn, psn, payload)
	if back {
		p.IP.Src, p.IP.Dst = p.IP.Dst, p.IP.Src
	}
	return p.AppendTo(nil)
}

func framesOf(list ...[]byte) []written {
	var out []written
	for i, b := range list {
		out = append(out, written{int64(i+1) * 1000, b, len(b)})
	}
	return out
}

// setUp is the exchange of two connections whose first requests have the same PSN, as if applications choose 0.
func setUp() [][]byte {
	req := func(id uint32, qpn packet.QPN) packet.CM {
		return packet.CM{Attribute: packet.CMConnectRequest, LocalID: id, QPN: qpn, StartingPSN: 700, MTU: 4096, Timeout: 17,
			Retry: 5, RNRRetry: 3}
	}
	rep := func(id, of uint32, qpn packet.QPN) packet.CM {
		return packet.CM{Attribute: packet.CMConnectReply, LocalID: id, RemoteID: of, QPN: qpn, StartingPSN: 0, RNRRetry: 4}
	}
	return [][]byte{
		manager(false, req(1, 101)), manager(false, req(2, 102)), manager(true, rep(8, 2, 202)),
		manager(true, rep(9, 1, 201)),
		manager(false, packet.CM{Attribute: packet.CMReadyToUse, LocalID: 1, RemoteID: 9}),
		manager(false, packet.CM{Attribute: packet.CMReadyToUse, LocalID: 2, RemoteID: 8}),
	}
}

func TestConnectionsAreThoseOfTheConnectionManager(t *testing.T) {
	// Answers are in an order that misleads pairing by order of appearance.
	frames := append(setUp(),
		traffic(false, packet.WriteOnly, 202, 0, 256), traffic(false, packet.WriteOnly, 201, 0, 256),
		traffic(true, packet.Acknowledge, 101, 0, 0), traffic(true, packet.Acknowledge, 102, 0, 0))
	checked, _, err := Check(t.Context(), memorySource("cm.pcap", pcapOf(t, framesOf(frames...))), Options{})
	if err != nil {
		t.Fatal(err)
	}
	meta := checked.Meta()
	if meta.Connections.Len() != 2 {
		t.Fatalf("%d connections", meta.Connections.Len())
	}
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for i, want := range []Connection{
		{Requester: Side{a, 102, 0}, Responder: Side{b, 202, 700}},
		{Requester: Side{a, 101, 0}, Responder: Side{b, 201, 700}},
	} {
		c := meta.Connections.All()[i]
		if c.Requester != want.Requester || c.Responder != want.Responder || c.MTU != 4096 || !c.Exchanged {
			t.Errorf("connection %d: %+v", i+1, c)
		}
		if c.Timeout == nil || *c.Timeout != 17 || *c.Retry != 5 || *c.RNRRetry != 4 {
			t.Errorf("connection %d: settings %+v", i+1, c.Settings)
		}
	}
	if len(meta.Notes) != 0 {
		t.Errorf("notes %q", meta.Notes)
	}
	var text strings.Builder
	if err := Show(t.Context(), checked, &text, ShowOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"#1 ", "CM REQ id 0x00000001 RC qpn 101 psn 700 mtu 4096 timeout 17 retry 5 rnr-retry 3",
		"CM REP id 0x00000008 of 0x00000002 qpn 202 psn 0 rnr-retry 4",
		"CM RTU id 0x00000001 of 0x00000009",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("trace show does not say %q:\n%s", want, text.String())
		}
	}
}

// The starting PSN in a message is that of its receiver: a first request lost before the tap does not change it.
func TestTheFirstRequestOfAConnectionMayBeMissing(t *testing.T) {
	frames := append(setUp(), traffic(false, packet.WriteOnly, 201, 2, 256), traffic(true, packet.Acknowledge, 101, 2, 0))
	checked, _, err := Check(t.Context(), memorySource("cm.pcap", pcapOf(t, framesOf(frames...))), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := checked.Meta().Connections.All()
	if len(c) != 1 || c[0].Requester.IPSN != 0 ||
		!strings.Contains(strings.Join(checked.Meta().Notes, "\n"), "starts at PSN 0, the first request captured is PSN 2") {
		t.Errorf("%+v, notes %q", c, checked.Meta().Notes)
	}
}

// A connection that the other side started is the same connection, seen from its requester.
func TestTheSideThatAnswersTheConnectionManagerMaySendTheRequests(t *testing.T) {
	frames := append(setUp(), traffic(true, packet.WriteOnly, 101, 700, 256),
		traffic(false, packet.Acknowledge, 201, 700, 0))
	checked, _, err := Check(t.Context(), memorySource("cm.pcap", pcapOf(t, framesOf(frames...))), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := checked.Meta().Connections.All()
	if len(c) != 1 || c[0].Requester.QPN != 201 || c[0].Requester.IPSN != 700 || c[0].Responder.QPN != 101 ||
		c[0].Responder.IPSN != 0 {
		t.Errorf("%+v", c)
	}
}

func TestWhatTheConnectionManagerDidNotAgreeUponIsInferred(t *testing.T) {
	rejected := setUp()[:1]
	rejected = append(rejected, manager(true, packet.CM{Attribute: packet.CMReject, LocalID: 5, RemoteID: 1, Reason: 28}),
		manager(true, packet.CM{
			Attribute: packet.CMConnectReply, LocalID: 5, RemoteID: 1, QPN: 201}))
	reused := append(setUp(), setUp()...)
	reused[6] = manager(false, packet.CM{Attribute: packet.CMConnectRequest, LocalID: 1, QPN: 101, StartingPSN: 9,
		MTU: 1024})
	for name, frames := range map[string][][]byte{"rejected": rejected, "used again": reused} {
		frames = append(frames, traffic(false, packet.WriteOnly, 201, 5, 256), traffic(true, packet.Acknowledge, 101, 5, 0))
		checked, _, err := Check(t.Context(), memorySource("cm.pcap", pcapOf(t, framesOf(frames...))), Options{MTU: 2048})
		if err != nil {
			t.Fatal(err)
		}
		if c := checked.Meta().Connections.All(); len(c) != 1 || c[0].Exchanged || c[0].Requester.IPSN != 5 ||
			c[0].MTU != 2048 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
