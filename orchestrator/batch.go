package orchestrator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Batch calls do for 0 to n−1 on the given number of workers, numbered from 0. No call starts after ctx ends. Batch
// returns when all calls have ended, with their errors in order of i and that of ctx.
func Batch(ctx context.Context, workers, n int, do func(worker, i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for w := range min(workers, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				errs[i] = do(w, i)
			}
		})
	}
	all.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}
