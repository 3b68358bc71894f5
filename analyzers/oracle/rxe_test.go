package oracle

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/trace"
)

// rxeRecords reads what two taps around a switch, or the first alone, saw of soft-RoCE in the Linux kernel.
func rxeRecords(t *testing.T, name string, pair bool) ([]trace.Record, *trace.Connections) {
	t.Helper()
	before, after := trace.FileSource(name+".in.pcap"), trace.FileSource(name+".out.pcap")
	var c *trace.Checked
	var err error
	if pair {
		c, _, err = trace.CheckPair(t.Context(), before, after, trace.Options{})
	} else {
		c, _, err = trace.Check(t.Context(), before, trace.Options{Format: trace.FormatPlain})
	}
	if err != nil {
		t.Fatal(err)
	}
	var records []trace.Record
	if err := c.ForEach(context.Background(), func(r *trace.Record) error {
		records = append(records, *r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return records, c.Meta().Connections
}

// TestSoftRoCEIsPossible judges captures of a real stack: whole ones, which came to rest, every prefix of them, and
// windows of twelve packets.
func TestSoftRoCEIsPossible(t *testing.T) {
	files, err := filepath.Glob("../../packet/testdata/rxe/*.in.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	possible := func(t *testing.T, tr *Trace) {
		t.Helper()
		for e := Requester; e <= Responder; e++ {
			if d := Decide(tr, e); d.Verdict != Possible {
				t.Fatalf("%v of %d packets: %v at %d (%d states)\n%v", e, len(tr.Packets), d.Verdict, d.At, d.States, tr)
			}
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".in.pcap")
		for _, pair := range []bool{true, false} {
			kind := map[bool]string{true: "pair", false: "plain"}[pair]
			t.Run(filepath.Base(name)+"/"+kind, func(t *testing.T) {
				records, connections := rxeRecords(t, name, pair)
				for i := range connections.All() {
					view := View{Plain: !pair, Closed: true, Retry: 7, RNRRetry: 7}
					tr := FromRecords(records, &connections.All()[i], view)
					possible(t, tr)
					whole := tr.Packets
					if len(whole) < 20 {
						t.Errorf("only %d packets", len(whole))
					}
					if testing.Short() {
						continue
					}
					tr.View.Closed = false
					for n := 0; n < len(whole); n += 13 {
						tr.Packets = whole[:n]
						possible(t, tr)
					}
					tr.View.MidStream = true
					for n := 0; n+12 <= len(whole); n += 29 {
						tr.Packets = whole[n : n+12]
						possible(t, tr)
					}
				}
			})
		}
	}
}
