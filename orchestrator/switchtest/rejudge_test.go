package switchtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
)

// judgeAgain analyses a recorded run.
func judgeAgain(t rapid.TB, dir string) *orchestrator.Outcome {
	t.Helper()
	opened, err := orchestrator.OpenRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	again, err := switchtest.Analyze(opened, orchestrator.AnalyzeOptions{Trace: dir, Config: switchtest.Options()})
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// violations returns the broken rules of NDP and the flows that broke them.
func violations(o *orchestrator.Outcome) (rules []string, flows []int) {
	for _, f := range o.Analysis.Findings {
		if f.Analyzer != "ndp" {
			continue
		}
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
		flows = append(flows, f.Connection)
	}
	slices.Sort(rules)
	return rules, flows
}

const captured = "\ntaps: {capture: true}\n"

// The documents forget what NDP's analyzer found; the captures tell it again.
func TestTheCapturesAloneConvictHostsWithABugAndNoOthers(t *testing.T) {
	for _, bug := range ndp.Catalogue() {
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			for _, text := range []string{provoke(bug.Bug, bug.Name), strings.Replace(provoke(bug.Bug, bug.Name), ", bugs: ["+bug.Name+"]", "", 1)} {
				o := run(t, parse(t, text+captured)[0])
				want, _ := violations(o)
				forgotten := `{"schema":"candela.analysis/v1","verdict":"pass","findings":[],"metrics":[],"coverage":{}}`
				if err := os.WriteFile(filepath.Join(o.Dir, "analysis", "ndp.json"), []byte(forgotten), 0o666); err != nil {
					t.Fatal(err)
				}
				again := judgeAgain(t, o.Dir)
				got, flows := violations(again)
				if len(want) > 0 && !slices.Contains(got, bug.Rule) || len(want) == 0 && len(got) > 0 {
					t.Errorf("the run found %v, its captures %v", want, got)
				}
				for _, flow := range flows {
					if flow < 0 || flow > 8 {
						t.Errorf("a finding is about flow %d of 8", flow)
					}
				}
				if again.Verdict.Exit != o.Verdict.Exit || again.Report.Packets != o.Report.Packets {
					t.Errorf("run: status %d, %d packets; again: status %d, %d packets", o.Verdict.Exit, o.Report.Packets, again.Verdict.Exit, again.Report.Packets)
				}
			}
		})
	}
}

func TestWhatIsNotJudgedAgainIsSaid(t *testing.T) {
	const few = "topology: {kind: single-switch, hosts: 5}\nswitch-under-test: {model: ndp-ideal}\nhosts: {transport: ndp}\nworkload: [incast: {senders: 4, packets: 20}]\n"
	cut := func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, "taps", "behind.pcap"), 20_024); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, text, want string
		harm             func(t *testing.T, dir string)
	}{
		{"with captures", few + captured, "ndp is judged again from taps/before.pcap", nil},
		{"without captures", few, "ndp is not judged again: the run has no captures", nil},
		{"a capture is cut off", few + captured, "ndp is not judged again: taps/behind.pcap", cut},
		{"a capture is gone", few + captured, "ndp is not judged again: ", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "taps", "before.pcap")); err != nil {
				t.Fatal(err)
			}
		}},
		{"several switches", strings.Replace(few, "kind: single-switch, hosts: 5", "kind: dumbbell, hosts: 6", 1) + captured, "several switches", nil},
		{"the switch", few + captured, "what the run found stands for switch", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := run(t, parse(t, c.text)[0])
			if c.harm != nil {
				c.harm(t, o.Dir)
			}
			if notes := strings.Join(judgeAgain(t, o.Dir).Report.Notes, "\n"); !strings.Contains(notes, c.want) {
				t.Errorf("want %q in\n%s", c.want, notes)
			}
		})
	}
}

// The findings of NDP's analyzer name the flows of the test, not the connections in the order in which they were seen.
func TestFindingsNameTheFlowsOfTheTest(t *testing.T) {
	for _, bug := range ndp.Catalogue() {
		if bug.Bug != ndp.BugDoublePull && bug.Bug != ndp.BugWastesPull {
			continue
		}
		o := run(t, parse(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 9}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 12000}
hosts: {transport: ndp, initial-window: 4, bugs: [%s]}
workload:
  - flow: {src: 1, dst: 0, packets: 50, start-us: 90, transport: raw}
  - flow: {src: 2, dst: 3, packets: 100, start-us: 50}
  - flow: {src: 4, dst: 6, packets: 100, start-us: 10}
  - flow: {src: 5, dst: 6, packets: 100}
`, bug.Name))[0])
		seen := 0
		for _, f := range o.Analysis.Findings {
			if f.Connection == 0 {
				continue
			}
			seen++
			hosts := o.Report.Tables[0].Rows[f.Connection-1].Cells[1]
			src, dst, _ := strings.Cut(hosts, " → ")
			if !strings.Contains(f.Message, "of host "+src+" to host "+dst+":") {
				t.Errorf("flow %d is %s, but %s", f.Connection, hosts, f.Message)
			}
		}
		if seen == 0 {
			t.Errorf("%s: no finding names a flow: %v", bug.Name, o.Analysis.Findings)
		}
	}
}
