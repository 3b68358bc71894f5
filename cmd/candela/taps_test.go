package main

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace"
)

// TestTapFlagsSayWhichCapturesAreUsed checks the analysed captures and the output for every combination of --tap.
func TestTapFlagsSayWhichCapturesAreUsed(t *testing.T) {
	for _, tc := range []struct {
		flags     []string
		first     string
		second    string
		place     trace.Place
		placement trace.Placement
		several   int    // number of captures of which two are selected later
		note      string // part of the output
		err       string
	}{
		{flags: []string{"requester=a"}, first: "a", place: trace.PlaceRequester},
		{flags: []string{"responder=a"}, first: "a", place: trace.PlaceResponder},
		{flags: []string{"before=a,b"}, first: "a", place: trace.PlaceBefore},
		{flags: []string{"after=a"}, first: "a", place: trace.PlaceAfter},
		{flags: []string{"x=a"}, err: "name the place of a single capture"},
		{flags: []string{"requester=a", "responder=b"}, first: "a", second: "b", placement: trace.PlacementHosts},
		{flags: []string{"after=b", "before=a"}, first: "a", second: "b", placement: trace.PlacementBracket},
		{flags: []string{"requester=a", "after=b"}, first: "a", second: "b", note: "inferred from the packets"},
		{flags: []string{"x=a", "y=b"}, first: "a", second: "b", note: "inferred from the packets"},
		{flags: []string{"x=a", "y=b", "z=c"}, several: 3, note: "inferred from the packets"},
		{
			flags: []string{"before=c", "requester=a", "responder=b", "x=d"}, first: "a", second: "b",
			placement: trace.PlacementHosts,
			note:      "not used: before (c), x (d)",
		},
		{flags: []string{"x=a", "x=b"}, err: "x was named before, as a"},
		{flags: []string{"x="}, err: "want PLACE=FILE or NAME=FILE"},
		{flags: []string{"=a"}, err: "want PLACE=FILE or NAME=FILE"},
		{flags: []string{"x=-", "y=-"}, err: "can be one capture only"},
	} {
		t.Run(strings.Join(tc.flags, " "), func(t *testing.T) {
			var o orchestrator.AnalyzeOptions
			err := chooseTaps(t.Context(), &o, nil, "", tc.flags)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if o.Trace != tc.first || o.Second != tc.second || o.Place != tc.place || o.Placement != tc.placement ||
				len(o.Taps) != tc.several {
				t.Errorf("%+v", o)
			}
			if notes := strings.Join(o.Notes, "\n"); !strings.Contains(notes, tc.note) || tc.note == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, tc.note)
			}
		})
	}
}
