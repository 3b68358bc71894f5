package trace

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// meteredFile counts the bytes that are read of a file.
type meteredFile struct {
	*os.File
	n *int
}

func (c meteredFile) Read(b []byte) (int, error) {
	n, err := c.File.Read(b)
	*c.n += n
	return n, err
}

// A few payloads read by their places in the file, from memory and from disk, are the same as by reading all of it.
func TestPayloadsAreReadByTheirPlaces(t *testing.T) {
	_, connections := benchTrace(t, 1)
	path := filepath.Join(t.TempDir(), "drawn.pcap")
	rapid.Check(t, func(t *rapid.T) {
		data := drawnCapture(t)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		format := rapid.SampledFrom([]Format{FormatMirror, FormatPlain}).Draw(t, "format")
		index := &fileIndex{stride: int64(rapid.IntRange(1, 500).Draw(t, "stride")),
			limit: rapid.IntRange(2, 40).Draw(t, "limit")}
		s := newScan(memorySource("drawn.pcap", data), Options{Format: format, Connections: connections})
		s.recording, s.index = &recording{limit: recordingLimit}, index
		if err := s.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.recording.finish(s.dec, connections)
		meta := Meta{Connections: connections, ICRCCheckable: true}
		all := records(t, s.stream(meta))
		var list []Sighting
		for range rapid.IntRange(1, 8).Draw(t, "sightings") {
			if len(all) > 0 {
				r := &all[rapid.IntRange(0, len(all)-1).Draw(t, "record")]
				list = append(list, Sighting{Flow: r.Flow, PSN: r.PSN, TimeNS: r.TimeNS})
			}
		}
		read := func(src Source, x *fileIndex) []Payload {
			s.src, s.index = src, x
			c := &Checked{meta: meta, payloads: s.payloads(meta)}
			found, err := c.Payloads(context.Background(), list)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		want := read(memorySource("drawn.pcap", data), nil)
		if diff := cmp.Diff(want, read(memorySource("drawn.pcap", data), index)); diff != "" {
			t.Error("memory:", diff)
		}
		if diff := cmp.Diff(want, read(FileSource(path), index)); diff != "" {
			t.Error("file:", diff)
		}
		ahead := FileSource(path)
		ahead.ahead = true
		if diff := cmp.Diff(want, read(ahead, index)); diff != "" {
			t.Error("file, read ahead:", diff)
		}
		pipe := Source{Name: "pipe", Open: func() (io.ReadCloser,
			error) {
			return io.NopCloser(bytes.NewBuffer(bytes.Clone(data))), nil
		}}
		if diff := cmp.Diff(want, read(pipe, index)); diff != "" {
			t.Error("a source that can't be read from anywhere but its start:", diff)
		}
	})
}

func TestFewPayloadsCostNoWholePass(t *testing.T) {
	const n = 50_000
	data, connections := benchTrace(t, n)
	path := filepath.Join(t.TempDir(), "bench.pcap")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	read := 0
	src := Source{Name: path, Open: func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		return meteredFile{f, &read}, err
	}}
	checked, _, err := Check(t.Context(), src, Options{Format: FormatMirror, Connections: connections})
	if err != nil {
		t.Fatal(err)
	}
	var list []Sighting
	i := 0
	err = checked.ForEach(t.Context(), func(r *Record) error {
		if i++; i%(n/5) == 7 {
			list = append(list, Sighting{Flow: r.Flow, PSN: r.PSN, TimeNS: r.TimeNS})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	read = 0
	found, err := checked.Payloads(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range found {
		if p.ID == 0 || p.Hash == 0 {
			t.Errorf("payload %d was not found: %+v", i, p)
		}
	}
	// The reader fills its first buffer before it seeks.
	if len(list) == 0 || read > readBufferLen+len(list)*4*shortestPiece {
		t.Errorf("%d payloads took %d bytes of %d", len(list), read, len(data))
	}
}
