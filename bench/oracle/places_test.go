package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/runtimetest"
)

// TestCompliantSessionsPassWhereTheTapIsAndWhenItStops judges sessions through views that once blamed up to two of
// five: captures without lost frames, taken after the place of the losses; pairs that end in the middle of traffic;
// pairs that miss frames.
func TestCompliantSessionsPassWhereTheTapIsAndWhenItStops(t *testing.T) {
	var out bytes.Buffer
	count := "70"
	if testing.Short() {
		count = "7" // one through each
	}
	args := []string{"check", "-view",
		"counted-behind,at-requester,at-responder,pair-cut,hosts-cut,pair-missing,hosts-missing",
		"-count", count, "-seed", "5600000", "-packets", "300", "-limit", "0"}
	if status := run(args, &out, &out); status != 0 {
		t.Errorf("status %d:\n%s", status, out.String())
	}
}

// TestTheHostAtTheTapIsConvicted has bugs of a host whose own port was captured, by a file without lost frames: nothing
// else explains them. A tap at the other host does not decide.
func TestTheHostAtTheTapIsConvicted(t *testing.T) {
	runtimetest.SkipRace(t)
	b := newBed("../../configs")
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	for _, tc := range []struct{ bug, guilty, other string }{
		{"selective-repeat", "at-requester", "at-responder"},
		{"rnr-no-wait", "at-requester", "at-responder"},
		{"ack-goes-back", "at-responder", "at-requester"},
	} {
		t.Run(tc.bug, func(t *testing.T) {
			for _, bug := range rdma.Catalogue() {
				if bug.Name != tc.bug {
					continue
				}
				at, err := b.through(bug, viewNamed(tc.guilty), false)
				away, failed := b.through(bug, viewNamed(tc.other), false)
				if err := errors.Join(err, failed); err != nil {
					t.Fatal(err)
				}
				if at != byRule && at != byOther || away == byRule {
					t.Errorf("%s through %s: %s, through %s: %s", tc.bug, tc.guilty, at, tc.other, away)
				}
			}
		})
	}
}

// TestOfThreeCapturesTheTwoAtTheHostsAreCompared names three captures without places.
func TestOfThreeCapturesTheTwoAtTheHostsAreCompared(t *testing.T) {
	s := session(rand.New(rand.NewPCG(3, 3)), rand.New(rand.NewPCG(3, 4)), 600, &view{}, false)
	dir := t.TempDir()
	var o orchestrator.AnalyzeOptions
	for i, place := range []traffic.Place{traffic.AtSwitch, traffic.AtRequester, traffic.AtResponder} {
		path := filepath.Join(dir, fmt.Sprintf("%d.pcap", i))
		tap := traffic.Tap{Place: place, OffsetNS: int64(i) * 1e6}
		if err := save(path, func(w io.Writer) error { return s.Write(w, uint64(i), tap) }); err != nil {
			t.Fatal(err)
		}
		o.Taps = append(o.Taps, orchestrator.Tap{Name: string(rune('a' + i)), Files: []string{path}})
	}
	outcome, err := orchestrator.Analyze(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(outcome.Analysis.Notes, "\n")
	for _, want := range []string{"3 captures: b (", "and c (", "not used: a ("} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q:\n%s", want, notes)
		}
	}
	if outcome.Analysis.Verdict != analyzers.Pass {
		t.Errorf("verdict %s: %+v", outcome.Analysis.Verdict, outcome.Analysis.Findings)
	}
}

// TestSessionsThatWereBlamedPass repeats what further draws found.
func TestSessionsThatWereBlamedPass(t *testing.T) {
	for _, tc := range []struct{ source, view, seed string }{
		{"scenarios", "counted", "9101601"}, {"scenarios", "pair-missing", "9102565"},
		{"scenarios", "pair-missing", "9101637"},
		{"endpoints", "mirror", "3400205"},
	} {
		var out bytes.Buffer
		args := []string{"check", "-source", tc.source, "-view", tc.view, "-seed", tc.seed, "-count", "1", "-limit", "0",
			"-configs", "../../configs"}
		if status := run(args, &out, &out); status != 0 {
			t.Errorf("%s through %s, seed %s: status %d:\n%s", tc.source, tc.view, tc.seed, status, out.String())
		}
	}
}
