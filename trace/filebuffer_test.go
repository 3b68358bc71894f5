package trace

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// whole is a file in memory that says so.
type whole struct {
	*bytes.Reader
	data []byte
}

func (w whole) Contents() []byte { return w.data }
func (whole) Close() error       { return nil }

// TestAFileInMemoryReadsLikeAnyOther compares frames and errors of every truncation of a file, and the file afterwards.
func TestAFileInMemoryReadsLikeAnyOther(t *testing.T) {
	var b bytes.Buffer
	w := NewPcapWriter(&b, "x", 0)
	for i := range 5 {
		if err := w.Write(int64(i), bytes.Repeat([]byte{byte(i + 1)}, 40*i), 40*i); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	read := func(open func() (io.ReadCloser, error)) (frames []Frame, text string) {
		err := Source{Name: "x", Open: open}.ForEachFrame(t.Context(), func(f *Frame) error {
			c := *f
			c.Data = bytes.Clone(f.Data)
			frames = append(frames, c)
			return nil
		})
		if err != nil {
			text = err.Error()
		}
		return frames, text
	}
	for n := range b.Len() + 1 {
		data := bytes.Clone(b.Bytes()[:n])
		frames, text := read(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		direct, same := read(func() (io.ReadCloser, error) { return whole{bytes.NewReader(data), data}, nil })
		if diff := cmp.Diff(frames, direct); diff != "" || text != same {
			t.Fatalf("%d bytes: %q and %q, (-read +in place)\n%s", n, text, same, diff)
		}
		if !bytes.Equal(data, b.Bytes()[:n]) {
			t.Fatalf("%d bytes: reading changed the file", n)
		}
	}
}
