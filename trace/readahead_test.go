package trace

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestReadingAheadChangesNothing: the same frames, and the same error where a file is cut short.
func TestReadingAheadChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := drawnCapture(t)
		data = data[:rapid.IntRange(min(len(data), pcapHeaderLen), len(data)).Draw(t, "length")]
		src := memorySource("drawn.pcap", data)
		want, wantErr := allFrames(src)
		src.ahead = true
		got, err := allFrames(src)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if errorText(err) != errorText(wantErr) {
			t.Errorf("error %v, want %v", err, wantErr)
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func allFrames(src Source) (list []Frame, err error) {
	err = src.ForEachFrame(context.Background(), func(f *Frame) error {
		g := *f
		g.Data = bytes.Clone(f.Data)
		list = append(list, g)
		return nil
	})
	return list, err
}

// TestTheReaderEndsWithItsUser: when the capture ends, when its user has had enough, and when the context ends.
func TestTheReaderEndsWithItsUser(t *testing.T) {
	data, _ := benchTrace(t, 30_000)
	src := memorySource("bench.pcap", data)
	src.ahead = true
	enough := errors.New("enough")
	before := runtime.NumGoroutine()
	for _, stopAt := range []uint64{1, 500, 29_999, 40_000} {
		err := src.ForEachFrame(t.Context(), func(f *Frame) error {
			if f.Number == stopAt {
				return enough
			}
			return nil
		})
		if want := stopAt < 40_000; errors.Is(err, enough) != want {
			t.Errorf("stopped at %d: %v", stopAt, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := src.ForEachFrame(ctx, func(f *Frame) error {
		if f.Number == 10 {
			cancel(enough)
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause of the end of the context", err)
	}
	for tries := 0; runtime.NumGoroutine() > before; tries++ {
		if tries == 10_000_000 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}
