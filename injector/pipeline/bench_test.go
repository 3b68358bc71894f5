package pipeline_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
)

const (
	benchFlows  = 4096
	benchEvents = 8192
)

// fullPipeline returns a pipeline with every flow and event that the contract has room for, mirroring to two dumpers.
func fullPipeline(tb testing.TB) *pipeline.Pipeline {
	tb.Helper()
	p := newPipeline(tb, 4)
	for f := range benchFlows {
		mustSet(tb, p, p4.TableConnectionV4, p4.KeyOf(uint64(benchSrc(f)), 0x0a000001, uint64(benchQPN(f))),
			p4.NewAction(p4.ActionSetFlow, uint64(f), 1, 1, 1))
	}
	for e := range benchEvents {
		f := e % benchFlows
		mustSet(tb, p, p4.TableEvent, p4.KeyOf(uint64(f), 0, uint64(1000+e/benchFlows), 1), p4.NewAction(p4.ActionMarkECN))
	}
	openGate(tb, p, 2, 3)
	mustSet(tb, p, p4.TableL2Forward, p4.KeyOf(hostB.Uint48()), p4.NewAction(p4.ActionForward, 1))
	return p
}

func benchSrc(flow int) uint32     { return 0x0a010000 + uint32(flow/64) }
func benchQPN(flow int) packet.QPN { return packet.QPN(0x100 + flow) }
func addr4(v uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, v)))
}
func benchPSN(round int) packet.PSN { return packet.NewPSN(int64(round + 1)) }
func benchOrder(seed uint64) []int  { return rand.New(rand.NewPCG(seed, 0)).Perm(benchFlows) }
func benchPacket(flow int) packet.Packet {
	p := *dataPacket(1)
	p.IP.Src, p.IP.Dst = addr4(benchSrc(flow)), addr4(0x0a000001)
	p.BTH.DestQP = benchQPN(flow)
	return p
}

// BenchmarkProcess decides about parsed packets of 4096 flows in random order with 8192 events programmed. Target: 60
// ns and no allocation per packet.
func BenchmarkProcess(b *testing.B) {
	p := fullPipeline(b)
	packets := make([]packet.Packet, benchFlows)
	for i, f := range benchOrder(1) {
		packets[i] = benchPacket(f)
	}
	var r pipeline.Result
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pk := &packets[i%benchFlows]
		pk.BTH.PSN = benchPSN(i / benchFlows)
		p.Process(int64(i), 0, pk, &r)
	}
}

// BenchmarkBytes parses frames of 1 KB payload, decides, applies the event and serialises them. Target: 150 ns and no
// allocation per packet.
func BenchmarkBytes(b *testing.B) {
	p := fullPipeline(b)
	frames := make([][]byte, benchFlows)
	for i, f := range benchOrder(1) {
		pk := benchPacket(f)
		frames[i] = pk.AppendTo(nil)
	}
	var pk packet.Packet
	var r pipeline.Result
	out := make([]byte, 0, 2048)
	b.SetBytes(int64(len(frames[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := pk.Parse(frames[i%benchFlows]); err != nil {
			b.Fatal(err)
		}
		p.Process(int64(i), 0, &pk, &r)
		r.Apply(&pk)
		out = pk.AppendTo(out[:0])
	}
}

// BenchmarkProcessHits is the worst case of BenchmarkProcess: an event acts on every packet, so no lookup is saved.
func BenchmarkProcessHits(b *testing.B) {
	p := fullPipeline(b)
	packets := make([]packet.Packet, benchFlows)
	for i, f := range benchOrder(1) {
		packets[i] = benchPacket(f)
		for psn := range uint64(2) {
			mustSet(b, p, p4.TableEventAny, p4.KeyOf(uint64(f), 0, psn), p4.NewAction(p4.ActionMarkECN))
		}
	}
	var r pipeline.Result
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pk := &packets[i%benchFlows]
		pk.BTH.PSN = packet.PSN(i / benchFlows & 1)
		p.Process(int64(i), 0, pk, &r)
	}
}
