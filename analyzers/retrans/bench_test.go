package retrans_test

import (
	"testing"

	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/runtimetest"
)

// workload is a long trace with losses in a few of its messages.
func workload() tracetest.Scenario {
	return tracetest.Scenario{
		Seed: 5, Connections: 8, Messages: 200, Packets: 20, Depth: 2, DelayMin: 500, DelayMax: 700, Loss: 0.001,
		Timeout: 4096 << 14, CNPInterval: -1,
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	records, _ := tracetest.Simulate(workload())
	a := retrans.New(tracetest.Meta(tracetest.Connections(8, false)), retrans.Config{Default: simulated})
	feed := func() {
		for i := range records {
			a.Packet(&records[i])
		}
	}
	feed() // rings and distributions grow
	if allocs := runtimetest.FewestAllocs(uint64(len(records)/1000), feed); allocs > uint64(len(records)/1000) {
		t.Errorf("%v allocations for %d records", allocs, len(records))
	}
}

func BenchmarkPacket(b *testing.B) {
	records, _ := tracetest.Simulate(workload())
	meta := tracetest.Meta(tracetest.Connections(8, false))
	a := retrans.New(meta, retrans.Config{Default: simulated})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		a.Packet(&records[i])
		if i++; i == len(records) { // a second pass of the same analyzer would see retransmissions only
			i, a = 0, retrans.New(meta, retrans.Config{Default: simulated})
		}
	}
}

// FuzzPacket feeds any records: an analyzer must survive them and keep its findings bounded.
func FuzzPacket(f *testing.F) {
	records, _ := tracetest.Simulate(tracetest.Scenario{
		Seed: 1, Connections: 2, Messages: 2, Packets: 4, Depth: 2, DelayMin: 500, DelayMax: 700, Loss: 0.2, NotReady: 0.1,
		Timeout: 4096 << 14, CNPInterval: -1,
	})
	f.Add(tracetest.Bytes(records))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := retrans.New(tracetest.Meta(tracetest.Connections(2, false)), retrans.Config{Default: known})
		for _, r := range tracetest.Records(data) {
			a.Packet(&r)
		}
		if n := len(a.Finish().Findings); n > 3*len(retrans.Rules())*8 {
			t.Errorf("%d findings", n)
		}
	})
}
