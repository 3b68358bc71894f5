package cnp_test

import (
	"testing"

	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/runtimetest"
)

func workload() tracetest.Scenario {
	return tracetest.Scenario{
		Seed: 5, Connections: 8, Messages: 200, Packets: 20, Depth: 2, DelayMin: 500, DelayMax: 700, Loss: 0.001, Mark: 0.05,
		Timeout: 4096 << 14, CNPInterval: 4000,
	}
}

// nacks has the costlier path: NAKs are triggers.
func nacks() cnp.Config {
	np := cnp.NotificationPoint{Known: true, Enabled: true, MinTimeNS: 4000, Mode: cnp.PerPort, WithNack: true}
	return cnp.Config{Requester: np, Responder: np}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	records, _ := tracetest.Simulate(workload())
	a := cnp.New(tracetest.Meta(tracetest.Connections(8, false)), nacks())
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
	for _, c := range []struct {
		name string
		cfg  cnp.Config
	}{{"marks", cnp.Config{}}, {"marks and NAKs", nacks()}} {
		b.Run(c.name, func(b *testing.B) {
			records, _ := tracetest.Simulate(workload())
			meta := tracetest.Meta(tracetest.Connections(8, false))
			a := cnp.New(meta, c.cfg)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				a.Packet(&records[i])
				if i++; i == len(records) {
					i, a = 0, cnp.New(meta, c.cfg)
				}
			}
		})
	}
}

// FuzzPacket feeds any records: an analyzer must survive them and keep its findings bounded.
func FuzzPacket(f *testing.F) {
	records, _ := tracetest.Simulate(tracetest.Scenario{
		Seed: 1, Connections: 2, Messages: 2, Packets: 8, Depth: 2, DelayMin: 500, DelayMax: 700, Loss: 0.1, Mark: 0.3,
		Timeout: 4096 << 14, CNPInterval: 1000,
	})
	f.Add(tracetest.Bytes(records), true)
	f.Add(tracetest.Bytes(records), false)
	f.Fuzz(func(t *testing.T, data []byte, known bool) {
		cfg := cnp.Config{}
		if known {
			cfg = nacks()
		}
		a := cnp.New(tracetest.Meta(tracetest.Connections(2, false)), cfg)
		for _, r := range tracetest.Records(data) {
			a.Packet(&r)
		}
		if n := len(a.Finish().Findings); n > 3*len(cnp.Rules())*8 {
			t.Errorf("%d findings", n)
		}
	})
}
