package pipeline_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

var (
	hostA = packet.MAC{2, 0, 0, 0, 0, 1}
	hostB = packet.MAC{2, 0, 0, 0, 0, 2}
	ipA   = netip.MustParseAddr("10.0.0.2")
	ipB   = netip.MustParseAddr("10.0.0.1")
	ip6A  = netip.MustParseAddr("fd00::2")
	ip6B  = netip.MustParseAddr("fd00::1")
)

const (
	qpnB = 0x22
	ipsn = 100 // of requests on the test's flow
)

func newPipeline(tb testing.TB, ports int) *pipeline.Pipeline {
	tb.Helper()
	p, err := pipeline.New(pipeline.Config{Ports: ports, Seed: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func mustSet(tb testing.TB, p *pipeline.Pipeline, table uint32, k p4.Key, a p4.Action) {
	tb.Helper()
	if err := p.Set(table, k, a); err != nil {
		tb.Fatal(err)
	}
}

// openGate mirrors to ports in turn.
func openGate(tb testing.TB, p *pipeline.Pipeline, ports ...uint16) {
	tb.Helper()
	for i, port := range ports {
		if err := p.SetCloneSession(uint32(i+1), []uint16{port}); err != nil {
			tb.Fatal(err)
		}
		mustSet(tb, p, p4.TableMirrorSlot, p4.KeyOf(uint64(i)), p4.NewAction(p4.ActionSelectSession, uint64(i+1)))
	}
	if err := p.SetDefault(p4.TableMirror, p4.NewAction(p4.ActionOpen, uint64(len(ports)))); err != nil {
		tb.Fatal(err)
	}
}

// addFlow adds the flow of the test's packets, A → B.
func addFlow(tb testing.TB, p *pipeline.Pipeline, id uint64, epoch uint64) {
	tb.Helper()
	mustSet(tb, p, p4.TableConnectionV4, p4.Key{p4.AddrValue(ipA), p4.AddrValue(ipB), p4.Uint(qpnB)},
		p4.NewAction(p4.ActionSetFlow, id, ipsn, 5000, epoch))
}

// dataPacket returns a WRITE packet of the test's flow, derived.
func dataPacket(psn packet.PSN) *packet.Packet { return rocePacket(packet.WriteMiddle, psn) }

func rocePacket(op packet.Opcode, psn packet.PSN) *packet.Packet {
	return &packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH | op.Headers(), Payload: payload,
		Eth: packet.Ethernet{Src: hostA, Dst: hostB, Type: packet.EtherTypeIPv4},
		IP:  packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP, Src: ipA, Dst: ipB},
		UDP: packet.UDP{SrcPort: 50000, DstPort: packet.Port},
		BTH: packet.BTH{Opcode: op, DestQP: qpnB, PSN: psn, PKey: 0xffff},
	}
}

var payload = make([]byte, 1024)

func nak(psn packet.PSN, s packet.Syndrome) *packet.Packet {
	p := rocePacket(packet.Acknowledge, psn)
	p.AETH.Syndrome = s
	p.Payload = nil
	return p
}

// process runs packets through p from port 0 and returns what happened to each.
func process(p *pipeline.Pipeline, packets ...*packet.Packet) []trace.EventType {
	var events []trace.EventType
	var r pipeline.Result
	for i, pk := range packets {
		p.Process(int64(i), 0, pk, &r)
		events = append(events, r.Event)
	}
	return events
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
