package analyzers

import (
	"context"
	"sync"
	"sync/atomic"

	"candela.dev/candela/trace"
)

// feed passes the records of a trace through a crew.
type feed struct {
	crew       *crew
	partitions trace.Partitions
	began      bool
}

// prepare makes a batch of records that were just read ready for the crew.
func (f *feed) prepare(b *batch) {
	b.sort(&f.partitions)
	if !f.began {
		f.began = true
		f.crew.begin(&b.records[0])
	}
}

// alone feeds the crew by one goroutine, the caller's.
func (f *feed) alone(ctx context.Context, c *trace.Checked) error {
	b := &batch{}
	return c.ForEachBatch(ctx, func() []trace.Record { return b.records[:] }, func(records []trace.Record) error {
		b.n = len(records)
		f.prepare(b)
		f.crew.part(b, 0, 1)
		f.crew.follow(b)
		f.crew.order(b)
		return nil
	})
}

// batchesPerWorker bounds the batches in flight, which is how far ahead a goroutine can be.
const batchesPerWorker = 3

// together feeds the crew by several goroutines, of which at most workers run at a time. The caller's goroutine reads;
// each of the others has its own analyzers, or its own connections of an analyzer. All see the same batches in the same
// order, so that the results do not depend on workers.
func (f *feed) together(ctx context.Context, c *trace.Checked, workers int) error {
	jobs := []func(*batch){f.crew.follow, f.crew.order}
	for k := range workers {
		jobs = append(jobs, func(b *batch) { f.crew.part(b, k, workers) })
	}
	total := batchesPerWorker * workers
	free := make(chan *batch, total)
	for range total {
		free <- &batch{}
	}
	running := make(chan struct{}, workers)
	queues := make([]chan *batch, len(jobs))
	var all sync.WaitGroup
	for i, job := range jobs {
		queues[i] = make(chan *batch, total)
		all.Go(func() {
			for b := range queues[i] {
				running <- struct{}{}
				job(b)
				<-running
				if atomic.AddInt32(&b.users, -1) == 0 {
					free <- b
				}
			}
		})
	}
	var b *batch
	running <- struct{}{}
	err := c.ForEachBatch(ctx, func() []trace.Record {
		<-running
		b = <-free // the others always finish
		running <- struct{}{}
		return b.records[:]
	}, func(records []trace.Record) error {
		b.n, b.users = len(records), int32(len(jobs))
		f.prepare(b)
		for _, q := range queues {
			q <- b
		}
		return nil
	})
	<-running
	for _, q := range queues {
		close(q)
	}
	all.Wait()
	return err
}
