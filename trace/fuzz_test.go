package trace

import (
	"bytes"
	"os"
	"testing"
)

// FuzzCheck gives any file to every format: the outcome is a checked trace that can be read, or an error, and a report
// that agrees with it.
func FuzzCheck(f *testing.F) {
	f.Add(mirrorFile(f, counted(5, 1, 0)), mirrorFile(f, counted(3, 1, 0)))
	f.Add(luminaFile(f, exchange(3, func(i int) uint64 { return uint64(i + 1) })), []byte{})
	if capture, err := os.ReadFile("../packet/testdata/rxe/write-drop5.in.pcap"); err == nil {
		f.Add(capture[:8000], capture[:6000])
	}
	for _, name := range []string{"any-sll2", "erspan3", "rocev1", "geneve", "erf", "qinq"} {
		if capture, err := readGzip("testdata/encapsulation/" + name + ".pcap.gz"); err == nil {
			f.Add(capture[:6000], capture[:4000])
		}
	}
	f.Fuzz(func(t *testing.T, file, second []byte) {
		src := memorySource("any.pcap", file)
		for _, format := range []Format{FormatAuto, FormatMirror, FormatPlain, FormatLumina} {
			checked, report, err := Check(t.Context(), src, Options{Format: format, KeepTruncated: true})
			if (checked == nil) == (err == nil) {
				t.Fatalf("%v: checked %v with error %v", format, checked, err)
			}
			if err != nil {
				if report != nil && report.Valid && len(report.Violations()) > 0 {
					t.Errorf("%v: report %+v with error %v", format, report, err)
				}
				continue
			}
			readBack(t, checked, report.Packets)
		}
		if checked, report, err := CheckPair(t.Context(), src, memorySource("second.pcap", second),
			Options{KeepTruncated: true}); err == nil {
			readBack(t, checked, report.Sent+report.Passed+report.Missed)
		}
	})
}

func readBack(t *testing.T, checked *Checked, want int64) {
	t.Helper()
	p := NewPrinter(checked.Meta())
	n := int64(0)
	err := checked.ForEach(t.Context(), func(r *Record) error {
		n++
		if conn := r.Flow.Connection(); conn > checked.Meta().Connections.Len() {
			t.Errorf("record %d is of connection %d", r.ID, conn)
		}
		p.AppendLine(nil, r)
		return nil
	})
	if err != nil || n != want {
		t.Errorf("%d records, want %d; %v", n, want, err)
	}
	var b bytes.Buffer
	if err := checked.Meta().Connections.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConnections(&b); err != nil {
		t.Errorf("inferred connections can't be read back: %v\n%s", err, b.Bytes())
	}
}
