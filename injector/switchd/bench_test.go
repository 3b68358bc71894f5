package switchd_test

import (
	"slices"
	"testing"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sync/errgroup"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/switchd"
)

// BenchmarkSingleWrites inserts and deletes one entry per RPC, over bufconn. Target: 20 k writes/s.
func BenchmarkSingleWrites(b *testing.B) {
	r := start(b, switchd.Config{})
	r.primary(b)
	r.commit(b)
	ops := [2]*p4pb.Update{insertEvent(1), update(remove, tableEntity(eventEntry(1, p4.ActionDrop)))}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := r.write(b, 0, ops[n%2]); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "writes/s")
}

// BenchmarkSerialBatchWrites inserts and deletes entries in batches of 1000, one batch after the other.
func BenchmarkSerialBatchWrites(b *testing.B) {
	r := start(b, switchd.Config{})
	r.primary(b)
	r.commit(b)
	const batch = 1000
	var ops [2][]*p4pb.Update
	for psn := range uint64(batch) {
		ops[0] = append(ops[0], insertEvent(psn))
		ops[1] = append(ops[1], update(remove, tableEntity(eventEntry(psn, p4.ActionDrop))))
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := r.write(b, 0, ops[n%2]...); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(n*batch)/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkBatchWrites fills the event table, 8192 entries in batches of 1000 with two batches in flight, as the client
// of package injector does. Target: 300 k entries/s.
func BenchmarkBatchWrites(b *testing.B) {
	r := start(b, switchd.Config{})
	r.primary(b)
	size := p4.Base().Table(p4.TableEvent).Size
	var updates []*p4pb.Update
	for psn := range uint64(size) {
		updates = append(updates, insertEvent(psn))
	}
	n := 0
	for b.Loop() {
		b.StopTimer()
		r.commit(b)
		b.StartTimer()
		var group errgroup.Group
		group.SetLimit(2)
		for batch := range slices.Chunk(updates, 1000) {
			group.Go(func() error { return r.write(b, 0, batch...) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		n += size
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "entries/s")
}
