package trace

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// The check of copies by their templates has the same result as that of records.
func TestCopiesTakenByTemplatesAreCheckedLikeAnyOther(t *testing.T) {
	_, connections := benchTrace(t, 1)
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		src := memorySource("drawn.pcap", drawnCapture(t))
		check := func(general bool) (*scan, *IntegrityReport) {
			s := newScan(src, Options{Format: FormatMirror, Connections: connections})
			s.recording, s.index, s.general = &recording{limit: recordingLimit}, newFileIndex(), general
			if err := s.run(context.Background()); err != nil {
				t.Fatal(err)
			}
			return s, s.report()
		}
		short, report := check(false)
		long, want := check(true)
		if diff := cmp.Diff(want, report, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		if short.unknown != long.unknown || short.icrc != long.icrc || short.dec.withICRC != long.dec.withICRC ||
			short.dec.clock != long.dec.clock {
			t.Errorf("%+v and %+v", short, long)
		}
		if diff := cmp.Diff(long.index, short.index, cmp.AllowUnexported(fileIndex{}, filePiece{})); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(long.recording.words, short.recording.words); diff != "" {
			t.Error(diff)
		}
		var f Frame
		file, err := src.OpenFrames()
		for err == nil && file.Next(&f) == nil {
			if short.templated(f.Data, f.Number, f.Offset) {
				taken++
			}
		}
	})
	if taken == 0 {
		t.Error("no copy was taken by its template")
	}
}
