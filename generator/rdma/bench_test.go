package rdma

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
)

// pair drives two NICs without delay or serialisation, so that a benchmark measures only the endpoints.
type pair struct {
	nics [2]*NIC
	now  clock.Time
	p    packet.Packet
	wr   generator.WorkRequest
}

func newPair(tb testing.TB, qps int, verb generator.Verb) (*wire, *pair) {
	w := newWire(tb, setup{seed: 7, qps: qps, qp: reliable()})
	return w, &pair{nics: w.nics, wr: generator.WorkRequest{Verb: verb, Length: 10240}}
}

// message posts one message on queue pair i, moves packets until it completes, and returns their number.
func (x *pair) message(tb testing.TB, w *wire, i int) int {
	if x.wr.Verb.ConsumesReceive() {
		if err := w.qps[1][i].PostRecv(x.now, generator.ReceiveRequest{Length: x.wr.Length}); err != nil {
			tb.Fatal(err)
		}
	}
	peer := w.qps[1][i].Region()
	x.wr.RemoteAddr, x.wr.RKey = peer.Base, peer.RKey
	if err := w.qps[0][i].PostSend(x.now, x.wr); err != nil {
		tb.Fatal(err)
	}
	packets := 0
	for {
		moved := false
		for side, n := range x.nics {
			for n.Poll(x.now, &x.p) {
				moved = true
				packets++
				x.nics[side^1].HandlePacket(x.now, &x.p)
			}
		}
		if moved {
			continue
		}
		var c generator.Completion
		for x.nics[0].PollCompletion(&c) {
			if c.Status != generator.Success {
				tb.Fatal(c.Status)
			}
			for x.nics[1].PollCompletion(&c) {
			}
			return packets
		}
		x.now = max(x.now, min(x.nics[0].NextTimer(), x.nics[1].NextTimer()))
	}
}

func benchmarkMessages(b *testing.B, qps int, verb generator.Verb) {
	w, x := newPair(b, qps, verb)
	b.ReportAllocs()
	packets, i := 0, 0
	for b.Loop() {
		packets += x.message(b, w, i)
		i = (i + 1) % qps
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
}

// Ten packets of 1 KB and their ACK. Requester and responder are both measured.
func BenchmarkWriteMessage(b *testing.B)      { benchmarkMessages(b, 1, generator.Write) }
func BenchmarkWriteMessage64QPs(b *testing.B) { benchmarkMessages(b, 64, generator.Write) }
func BenchmarkReadMessage(b *testing.B)       { benchmarkMessages(b, 1, generator.Read) }

// All queue pairs simultaneously, over a wire with delay and line rate.
func BenchmarkWire64QPs(b *testing.B) {
	w := newWire(b, setup{seed: 7, qps: 64, qp: reliable()})
	b.ReportAllocs()
	for b.Loop() {
		w.start(load(100, 10240, 2, generator.Write))
		w.run(1 << 62)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(w.packets), "ns/packet")
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, verb := range allVerbs {
		w, x := newPair(t, 4, verb)
		i := 0
		send := func() {
			for range 100 {
				x.message(t, w, i%4)
				i++
			}
		}
		if n := runtimetest.FewestAllocs(0, send); n != 0 {
			t.Errorf("%s: %v allocations in 100 messages", verb, n)
		}
	}
}
