package analyzers_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/rp"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/analyzers/trim"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

// everyAnalyzer returns a fresh set.
func everyAnalyzer(meta trace.Meta) []analyzers.Analyzer {
	return []analyzers.Analyzer{
		gbn.New(meta, gbn.Config{}), retrans.New(meta, retrans.Config{}), cnp.New(meta, cnp.Config{}),
		rp.New(meta, rp.Config{}),
		fields.New(meta, fields.Config{}), trim.New(meta, trim.Config{}), counters.New(meta, counters.Input{}),
	}
}

func documentOf(t interface{ Fatal(...any) }, c *trace.Checked, workers int) []byte {
	doc, err := analyzers.RunParallel(context.Background(), c, workers, everyAnalyzer(c.Meta())...)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := doc.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// damage changes a share of the records at random, as broken devices and injectors do, so that every rule reports
// something.
func damage(records []trace.Record, rng *rand.Rand, share float64, connections int) []trace.Record {
	out := make([]trace.Record, 0, len(records))
	for i := range records {
		r := records[i]
		if rng.Float64() >= share {
			out = append(out, r)
			continue
		}
		switch rng.IntN(9) {
		case 0:
			continue
		case 1:
			out = append(out, r)
		case 2:
			r.PSN = r.PSN.Add(rng.IntN(7) - 3)
		case 3:
			r.Flow = trace.NoFlow
		case 4:
			r.ICRC = packet.ICRCInvalid
		case 5:
			r.Event = trace.EventType(rng.IntN(int(trace.MaxEventType) + 1))
		case 6:
			r.PKey, r.SrcPort, r.Reserved = uint16(0x8000+rng.IntN(3)), uint16(rng.IntN(3)), uint16(rng.IntN(2))
		case 7:
			r.Opcode = packet.Opcode(rng.IntN(32))
		case 8: // rewritten: sent as it was, passed as something else, maybe for another connection
			r.Event = trace.EventRewrite
			sent := r
			sent.Flags &^= trace.Passed
			r.Flags &^= trace.Sent
			r.PSN = r.PSN.Add(rng.IntN(2))
			if rng.IntN(2) == 0 {
				r.Flow = trace.NewFlowID(1+rng.IntN(connections), r.Flow.Reverse())
			}
			out = append(out, sent)
		}
		out = append(out, r)
	}
	return out
}

// TestAnyNumberOfWorkersFindsTheSame compares whole documents of compliant and broken sessions of many connections.
func TestAnyNumberOfWorkersFindsTheSame(t *testing.T) {
	found, longest := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		sc := tracetest.Scenario{
			Seed: rapid.Uint64().Draw(t, "seed"), Connections: rapid.SampledFrom([]int{1, 2, 7, 30}).Draw(t, "connections"),
			Messages: rapid.SampledFrom([]int{1, 10, 30}).Draw(t, "messages"), Packets: 10, Depth: 2,
			Reads: rapid.Bool().Draw(t, "reads"), DelayMin: 500, DelayMax: 5000,
			Loss:     rapid.SampledFrom([]float64{0, 0.001, 0.02}).Draw(t, "loss"),
			Mark:     rapid.SampledFrom([]float64{0, 0.01}).Draw(t, "marks"),
			NotReady: 0.001, Timeout: 4096 << 8, CNPInterval: 4000, Bug: tracetest.Bug(rapid.IntRange(0, 6).Draw(t, "bug")),
		}
		records, _ := tracetest.Simulate(sc)
		share := rapid.SampledFrom([]float64{0, 0.0005, 0.02}).Draw(t, "share")
		records = damage(records, rand.New(rand.NewPCG(sc.Seed, 1)), share, sc.Connections)
		meta := trace.Meta{Connections: tracetest.Connections(sc.Connections, true), ICRCCheckable: true}
		meta.Kind = rapid.SampledFrom([]trace.Kind{trace.KindMirror, trace.KindPlain, trace.KindPair}).Draw(t, "kind")
		for i := range records {
			records[i].ID = uint64(i + 1)
		}
		c := trace.CheckedRecords(meta, records)
		alone := documentOf(t, c, 1)
		found += bytes.Count(alone, []byte(`"severity"`))
		longest = max(longest, len(records))
		workers := rapid.IntRange(2, 8).Draw(t, "workers")
		if together := documentOf(t, c, workers); !bytes.Equal(alone, together) {
			t.Fatalf("%d records: %d workers find something else than one: %d bytes and %d", len(records), workers,
				len(together), len(alone))
		}
	})
	if found < 500 || longest <= 8192 && !testing.Short() {
		t.Errorf("%d findings, and %d records at most: the test compares next to nothing", found, longest)
	}
}

// TestWorkersEndWhenTheTraceDoes includes traces that cannot be read to the end, and callers that cancel.
func TestWorkersEndWhenTheTraceDoes(t *testing.T) {
	const records, workers = 80_000, 2 // more records than the workers may have under way
	before := runtime.NumGoroutine()
	c := trace.CheckedRecords(trace.Meta{Connections: tracetest.Connections(4, true)}, make([]trace.Record, records))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	_, err := analyzers.RunParallel(ctx, c, workers, &canceller{after: 1, cancel: func() { cancel(cause) }})
	if !errors.Is(err, cause) {
		t.Errorf("error %v, want one that gives the cause", err)
	}
	runtimetest.GoroutinesEnd(t, before)
}

// canceller gives up after some packets.
type canceller struct {
	scripted
	after  int
	cancel func()
}

func (c *canceller) Packet(r *trace.Record) {
	if c.scripted.Packet(r); c.packets == c.after {
		c.cancel()
	}
}
