package orchestrator_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

// A shot is a frame with its capture time.
type shot struct {
	ns   int64
	data []byte
}

func readShots(t *testing.T, path string) []shot {
	t.Helper()
	var list []shot
	err := trace.FileSource(path).ForEachFrame(t.Context(), func(f *trace.Frame) error {
		list = append(list, shot{f.TimeNS, bytes.Clone(f.Data)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func writeShots(t *testing.T, name string, list []shot) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	var b bytes.Buffer
	w := trace.NewPcapWriter(&b, path, 0)
	for _, s := range list {
		if err := w.Write(s.ns, s.data, len(s.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clocked returns shots as stamped by another clock.
func clocked(list []shot, offsetNS int64, ppm float64) []shot {
	out := slices.Clone(list)
	for i := range out {
		since := float64(out[i].ns - list[0].ns)
		out[i].ns += offsetNS + int64(since*ppm/1e6)
	}
	return out
}

// atHost returns the view of a host from two captures around a switch: the packets that it sends, before the switch,
// and those that it receives, after the switch.
func atHost(before, behind []shot, host [4]byte) []shot {
	source := func(s shot) bool { return len(s.data) > 30 && bytes.Equal(s.data[26:30], host[:]) }
	var out []shot
	for _, s := range before {
		if source(s) {
			out = append(out, s)
		}
	}
	for _, s := range behind {
		if !source(s) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b shot) int { return int(a.ns - b.ns) })
	return out
}

func thinned(list []shot, share float64, r *rand.Rand) []shot {
	return slices.DeleteFunc(slices.Clone(list), func(shot) bool { return r.Float64() < share })
}

func doubled(list []shot, gapNS int64) []shot {
	var out []shot
	for _, s := range list {
		out = append(out, s, shot{s.ns + gapNS, s.data})
	}
	slices.SortStableFunc(out, func(a, b shot) int { return int(a.ns - b.ns) })
	return out
}

var softRoCE = filepath.Join("..", "packet", "testdata", "rxe")

// TestCapturesOfSoftRoCEAreJudgedAlikeWhateverTheTapsClocksAndPlaces varies real captures around a forwarder as users'
// captures vary: second clock, tap places, missing and duplicate frames.
func TestCapturesOfSoftRoCEAreJudgedAlikeWhateverTheTapsClocksAndPlaces(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(softRoCE, "*.in.pcap"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	requester := [4]byte{10, 0, 0, 1}
	for _, in := range files {
		name := strings.TrimSuffix(filepath.Base(in), ".in.pcap")
		before, behind := readShots(t, in), readShots(t, strings.Replace(in, ".in.", ".out.", 1))
		hostA, hostB := atHost(before, behind, requester), atHost(behind, before, requester)

		r := rand.New(rand.NewPCG(1, uint64(len(name))))
		views := 0
		check := func(view string, first, second []shot, o orchestrator.AnalyzeOptions) {
			if views++; !runtimetest.Sampled(views) {
				return
			}
			t.Run(name+"/"+view, func(t *testing.T) {
				o.Trace = writeShots(t, "first.pcap", first)
				if second != nil {
					o.Second = writeShots(t, "second.pcap", second)
				}
				out, err := orchestrator.Analyze(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if out.Verdict.Exit != orchestrator.ExitPass {
					t.Errorf("%v %v\n%s", out.Verdict.Verdict, out.Verdict.Reasons, violations(out.Analysis))
				}
			})
		}
		for _, offset := range []int64{-1e9, -100e3, 1e6} {
			for _, ppm := range []float64{0, -100} {
				view := fmt.Sprintf("%+d ns %+.0f ppm", offset, ppm)
				check("after "+view, before, clocked(behind, offset, ppm), orchestrator.AnalyzeOptions{Ordered: true})
				check("hosts "+view, hostA, clocked(hostB, offset, ppm), orchestrator.AnalyzeOptions{})
				check("named hosts "+view, hostA, clocked(hostB, offset, ppm),
					orchestrator.AnalyzeOptions{Placement: trace.PlacementHosts})
				check("hosts after "+view, hostA, clocked(hostB, offset, ppm), orchestrator.AnalyzeOptions{Ordered: true})
			}
		}
		for i := range 4 {
			view := fmt.Sprintf("thinned %d", i)
			check(view+" before", thinned(before, 0.03, r), nil, orchestrator.AnalyzeOptions{})
			check(view+" behind", thinned(behind, 0.03, r), nil, orchestrator.AnalyzeOptions{})
			check(view+" requester", thinned(hostA, 0.03, r), nil, orchestrator.AnalyzeOptions{})
			check(view+" responder", thinned(hostB, 0.03, r), nil, orchestrator.AnalyzeOptions{})
			check(view+" pair", thinned(before, 0.03, r), thinned(clocked(behind, 5e5, 20), 0.03, r),
				orchestrator.AnalyzeOptions{Ordered: true})
			check(view+" hosts", thinned(hostA, 0.03, r), thinned(clocked(hostB, 5e5, 20), 0.03, r),
				orchestrator.AnalyzeOptions{})
		}
		check("doubled", doubled(before, 700), nil, orchestrator.AnalyzeOptions{})
		check("doubled pair", doubled(before, 700), doubled(clocked(behind, 5e5, 20), 900),
			orchestrator.AnalyzeOptions{Ordered: true})
		check("requester", hostA, nil, orchestrator.AnalyzeOptions{})
		check("responder", hostB, nil, orchestrator.AnalyzeOptions{})
	}
}

func violations(a *analyzers.Analysis) string {
	var b strings.Builder
	for _, f := range a.Findings {
		if f.Severity == analyzers.Violation {
			fmt.Fprintf(&b, "%s psn %d packets %v: expected %s, actual %s\n", f.Rule, f.PSN, f.Packets, f.Expected, f.Actual)
		}
	}
	return b.String()
}
