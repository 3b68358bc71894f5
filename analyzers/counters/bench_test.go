package counters_test

import (
	"testing"

	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/runtimetest"
)

func workload() tracetest.Scenario {
	return tracetest.Scenario{
		Seed: 5, Connections: 8, Messages: 200, Packets: 20, Depth: 2, DelayMin: 500, DelayMax: 700, Loss: 0.001, Mark: 0.01,
		Timeout: 4096 << 14, CNPInterval: 4000,
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	records, _ := tracetest.Simulate(workload())
	a := counters.New(tracetest.Meta(tracetest.Connections(8, false)), hosts(nil, nil))
	feed := func() {
		for i := range records {
			a.Packet(&records[i])
		}
	}
	feed() // rings grow
	if allocs := runtimetest.FewestAllocs(uint64(len(records)/1000), feed); allocs > uint64(len(records)/1000) {
		t.Errorf("%v allocations for %d records", allocs, len(records))
	}
}

func BenchmarkPacket(b *testing.B) {
	records, _ := tracetest.Simulate(workload())
	meta := tracetest.Meta(tracetest.Connections(8, false))
	a := counters.New(meta, hosts(nil, nil))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		a.Packet(&records[i])
		if i++; i == len(records) {
			i, a = 0, counters.New(meta, hosts(nil, nil))
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
		a := counters.New(tracetest.Meta(tracetest.Connections(2, false)), hosts(nil, nil))
		for _, r := range tracetest.Records(data) {
			a.Packet(&r)
		}
		if n := len(a.Finish().Findings); n > len(counters.Rules())*8 {
			t.Errorf("%d findings", n)
		}
	})
}
