package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"candela.dev/candela/orchestrator"
)

func TestABatchCallsEachOnceAndReturnsErrorsInOrder(t *testing.T) {
	for _, workers := range []int{1, 3, 50} {
		var calls [20]atomic.Int32
		var busy [50]atomic.Int32
		err := orchestrator.Batch(t.Context(), workers, len(calls), func(worker, i int) error {
			if busy[worker].Add(1) != 1 {
				t.Errorf("worker %d has two calls at once", worker)
			}
			defer busy[worker].Add(-1)
			calls[i].Add(1)
			if i%7 == 0 {
				return fmt.Errorf("error %d", i)
			}
			return nil
		})
		if want := "error 0\nerror 7\nerror 14"; err == nil || err.Error() != want {
			t.Errorf("%d workers: %v, want %s", workers, err, want)
		}
		for i := range calls {
			if n := calls[i].Load(); n != 1 {
				t.Errorf("%d workers: %d calls for %d", workers, n, i)
			}
		}
	}
}

func TestABatchBeginsNoCallAfterItsContextEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := orchestrator.Batch(ctx, 1, 10, func(int, int) error {
		if calls++; calls == 3 {
			cancel()
		}
		return nil
	})
	if calls != 3 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d calls, %v", calls, err)
	}
}
