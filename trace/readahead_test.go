package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/runtimetest"
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

// TestReadingAheadJoinsBlocks has records of all lengths that span blocks.
func TestReadingAheadJoinsBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := NewPcapWriter(&b, "x", 0)
		size := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(headroom-100, headroom+100),
			rapid.IntRange(blockBytes-100, maxCapturedLen))
		sizes := rapid.SliceOfN(size, 1, 30)
		for i, size := range sizes.Draw(t, "sizes") {
			if err := w.Write(int64(i), bytes.Repeat([]byte{byte(i + 1)}, size), size); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		data := b.Bytes()[:b.Len()-rapid.IntRange(0, 20).Draw(t, "cut")]
		pieces := rapid.IntRange(1, 300_000).Draw(t, "read at a time")
		src := Source{Name: "x", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(&pieceReader{bytes.NewReader(data), pieces}), nil
		}}
		want, wantErr := allFrames(src)
		src.ahead = true
		got, err := allFrames(src)
		if !reflect.DeepEqual(want, got) || errorText(err) != errorText(wantErr) {
			t.Errorf("%d frames and error %v, want %d and %v", len(got), err, len(want), wantErr)
		}
	})
}

// pieceReader returns at most n bytes at a time.
type pieceReader struct {
	src io.Reader
	n   int
}

func (r *pieceReader) Read(b []byte) (int, error) { return r.src.Read(b[:min(len(b), r.n)]) }

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

// TestTheReaderEndsWithItsUser: when the capture ends, when its user stops, and when the context ends.
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
	runtimetest.GoroutinesEnd(t, before)
}
