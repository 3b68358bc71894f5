package sonic

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"candela.dev/candela/sai"
)

const pollInterval = 200 * time.Millisecond

// settling calls settle while a counter grows by 1 every 100 ms, up to most. Each reading takes one of the durations
// and then sees the counter; the last duration is that of all later readings. It returns the value at which the counter
// settled.
func settling(ctx context.Context, most int, takes ...time.Duration) (int, error) {
	start, n := time.Now(), 0
	got, err := settle(ctx, pollInterval, func() (sai.Snapshot, error) {
		took := takes[min(n, len(takes)-1)]
		n++
		select {
		case <-ctx.Done():
			return sai.Snapshot{}, ctx.Err()
		case <-time.After(took):
		}
		value := sai.Count(min(most, int(time.Since(start)/(100*time.Millisecond))))
		return sai.Snapshot{Ports: []sai.Port{{Name: "Ethernet0", Queues: []sai.Queue{{Trim: value}}}}}, nil
	})
	if err != nil {
		return 0, err
	}
	return int(got.Ports[0].Queues[0].Trim), nil
}

func TestSettledWaitsUntilCountersRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got, err := settling(t.Context(), 5, 0); err != nil || got != 5 {
			t.Errorf("settled at %v, %v; want 5", got, err)
		}
	})
}

// A reading as long as a poll interval must not be followed at once by another, which would see the counters of the
// same poll.
func TestSettledWaitsAfterASlowReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got, err := settling(t.Context(), 10, 0, 330*time.Millisecond, 0); err != nil || got != 10 {
			t.Errorf("settled at %v, %v; want 10", got, err)
		}
	})
}

func TestSettledSaysWhatStillMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			limit, takes time.Duration
			want         string
		}{
			{1500 * time.Millisecond, 0, "Ethernet0"},
			{299 * time.Millisecond, 0, "one reading only"},
			{299 * time.Millisecond, time.Second, "not one reading"},
		} {
			ctx, stop := context.WithTimeout(t.Context(), c.limit)
			_, err := settling(ctx, 1000, c.takes)
			stop()
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("within %v: %v does not name %q", c.limit, err, c.want)
			}
		}
	})
}

// A connection reports the deadline of its context on its own.
func TestSettledTakesTheDeadlineOfTheConnectionForThatOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[time.Duration]error{50 * time.Millisecond: context.DeadlineExceeded,
			time.Minute: os.ErrDeadlineExceeded} {
			ctx, stop := context.WithTimeout(t.Context(), limit)
			_, err := settle(ctx, pollInterval, func() (sai.Snapshot, error) {
				return sai.Snapshot{}, os.ErrDeadlineExceeded
			})
			stop()
			if !errors.Is(err, want) {
				t.Errorf("%v before the deadline: %v, want %v", limit, err, want)
			}
		}
	})
}
