package switchtest_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/runtimetest"
)

// tcpFindings returns the findings of TCP's analyzer, by time, without texts, which contain times. Unless exact, it
// returns one finding per rule and connection: IPv6 frames lack packet numbers, and coinciding times may excuse one of
// many packets.
func tcpFindings(o *orchestrator.Outcome, exact bool) (list []analyzers.Finding) {
	for _, f := range o.Analysis.Findings {
		if f.Analyzer == "tcp" {
			f.Expected, f.Actual, f.Message, f.Headline = "", "", "", ""
			// The packet may have reached the host in the nanosecond of its response.
			if f.Severity == analyzers.Warning || !exact {
				f.TimeNS, f.Packets = 0, nil
				if slices.ContainsFunc(list, func(g analyzers.Finding) bool {
					return g.Rule == f.Rule &&
						g.Connection == f.Connection
				}) {
					continue
				}
			}
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b analyzers.Finding) int {
		return cmp.Or(cmp.Compare(a.TimeNS, b.TimeNS), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Connection, b.Connection))
	})
	return list
}

// tell deletes the findings of TCP's analyzer and checks that the captures yield the same.
func tell(t rapid.TB, o *orchestrator.Outcome, exact bool) {
	t.Helper()
	want := tcpFindings(o, exact)
	forgotten := `{"schema":"candela.analysis/v1","verdict":"pass","findings":[],"metrics":[],"coverage":{}}`
	if err := os.WriteFile(filepath.Join(o.Dir, "analysis", "tcp.json"), []byte(forgotten), 0o666); err != nil {
		t.Fatal(err)
	}
	rejudged := rejudge(t, o.Dir)
	if notes := strings.Join(rejudged.Report.Notes, "\n"); !strings.Contains(notes, "tcp is judged again") {
		t.Fatal(notes)
	}
	// captures have a resolution of 1 ns, and a link has two ends
	near := gocmp.Comparer(func(a, b int64) bool { return max(a, b)-min(a, b) <= 3 })
	if diff := gocmp.Diff(want, tcpFindings(rejudged, exact), near, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the run and its captures differ:\n%s", diff)
	}
	if rejudged.Verdict.Exit != o.Verdict.Exit {
		t.Errorf("run: status %d; again: %d", o.Verdict.Exit, rejudged.Verdict.Exit)
	}
	for name, count := range o.Analysis.Coverage["tcp"] {
		// Captures lack frames in transit at the end, and the order of events within a nanosecond.
		if got := rejudged.Analysis.Coverage["tcp"][name]; max(got, count)-min(got, count) > 5+count/100 {
			t.Errorf("%s: the run counts %d, its captures %d", name, count, got)
		}
	}
}

func TestTheCapturesOfTCPHostsTellWhatTheRunFound(t *testing.T) {
	runtimetest.SkipRace(t)
	const single = "kind: single-switch, hosts: 14"
	for i, bug := range withoutECN() {
		if fewBugs(i) {
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text := provokeTCP(bug.Bug, bug.Name) + captured
			tell(t, run(t, parse(t, text)[0]), true)
			tell(t, run(t, parse(t, strings.Replace(text, single,
				"kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 7, routing: spray", 1))[0]), true)
			if fair := sound(text, bug.Name); isFirst(t, fair) {
				tell(t, run(t, parse(t, fair)[0]), true)
			}
		})
	}
}

func TestCapturesOfOddNetworksTellWhatTheRunOfTCPHostsFound(t *testing.T) {
	for name, text := range map[string]string{
		"IPv6, slow links, other protocols": `
topology: {kind: dumbbell, hosts: 6, link: {gbps: 25, delay-ns: 700, framing-bytes: 24}, links: [{host: 2, gbps: 7,
  delay-ns: 3000}]}
switch-under-test: {model: droptail, data-queue-bytes: 30000, latency-ns: 450}
hosts: {transport: tcp, min-rto-us: 500, bugs: [hasty]}
workload:
  - flow: {src: 2, dst: 5, packets: 500, ip: 6}
  - flow: {src: 1, dst: 5, packets: 500, ip: 6, count: 2}
  - flow: {src: 0, dst: 4, packets: 900, transport: raw}
  - ping: {src: 3, dst: 0, count: 5}
`,
		"trimmed and returned": `
topology: {kind: single-switch, hosts: 6, link: {gbps: 40, delay-ns: 100}}
switch-under-test: {model: sfc, data-queue-bytes: 30000}
hosts: {transport: tcp, min-rto-us: 500, bugs: [resends-sacked]}
workload: [incast: {senders: 5, packets: 300}]
`,
		"cut off": `
topology: {kind: single-switch, hosts: 6, link: {gbps: 40, delay-ns: 1000}}
switch-under-test: {model: droptail, data-queue-bytes: 30000}
hosts: {transport: tcp, min-rto-us: 500, bugs: [overruns-window]}
workload: [incast: {senders: 5}]
duration-us: 731
`,
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, parse(t, text+captured)[0])
			tell(t, o, false)
			if len(tcpFindings(o, false)) == 0 {
				t.Error("the bug did not show")
			}
		})
	}
}

func TestCapturesThatDoNotTellEnoughOfTCPAreNotJudged(t *testing.T) {
	const few = "topology: {kind: single-switch, hosts: 5}\nswitch-under-test: {model: droptail%s}\nhosts: {transport: " +
		"tcp}\nworkload: [incast: {senders: 4, packets: 20}]\n"
	for more, want := range map[string]string{
		captured:               "tcp is judged again from taps/before.pcap",
		"":                     "tcp is not judged again: the run has no captures",
		"pfc" + captured:       "tcp is not judged again: flow control may have kept packets",
		"cut" + captured + " ": "tcp is not judged again: taps/behind.pcap",
	} {
		pfc := ""
		if strings.HasPrefix(more, "pfc") {
			pfc = ", pfc-classes: [0]"
		}
		o := run(t, parse(t, fmt.Sprintf(few, pfc)+strings.TrimLeft(more, "pfcut"))[0])
		if strings.HasPrefix(more, "cut") {
			if err := os.Truncate(filepath.Join(o.Dir, "taps", "behind.pcap"), 20_024); err != nil {
				t.Fatal(err)
			}
		}
		if notes := strings.Join(rejudge(t, o.Dir).Report.Notes, "\n"); !strings.Contains(notes, want) {
			t.Errorf("want %q in\n%s", want, notes)
		}
	}
}
