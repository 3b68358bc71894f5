package switchtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
)

func rejudge(t rapid.TB, dir string) *orchestrator.Outcome {
	t.Helper()
	opened, err := orchestrator.OpenRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	rejudged, err := switchtest.Analyze(opened, orchestrator.AnalyzeOptions{Trace: dir, Config: configOptions()})
	if err != nil {
		t.Fatal(err)
	}
	return rejudged
}

// violations returns the violated NDP rules and the flows that violated them.
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

// leafSpine is a network of several switches with enough hosts for the tests of provoke.
const leafSpine = "kind: leaf-spine, leaves: 3, spines: 2, hosts-per-leaf: 3, routing: spray"

// dumbbell connects all hosts of provoke to its left switch; the receiver is among the senders.
const dumbbell = "kind: dumbbell, hosts: 18"

// elsewhere changes the topology of a test of provoke.
func elsewhere(t *testing.T, text, network string) string {
	t.Helper()
	if strings.Contains(text, "path-penalty") {
		network = strings.Replace(network, "routing: spray", "routing: path", 1)
	}
	moved := strings.Replace(text, "kind: single-switch, hosts: 9", network, 1)
	if moved == text {
		t.Fatalf("the test is not of nine hosts at one switch:\n%s", text)
	}
	return moved
}

// The recorded findings of NDP's analyzer are deleted; the captures yield them again.
func TestTheCapturesAloneConvictHostsWithABugAndNoOthers(t *testing.T) {
	for i, bug := range ndp.Catalogue() {
		if fewBugs(i) {
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text := provoke(bug.Bug, bug.Name)
			convict(t, text, bug.Rule)
			if fair := sound(text, bug.Name); isFirst(t, fair) {
				convict(t, fair, "")
			}
			for k, network := range []string{leafSpine, dumbbell} {
				if silence() || i%2 == k {
					convict(t, elsewhere(t, text, network), bug.Rule)
				}
			}
		})
	}
}

func TestTheCapturesOfSeveralSwitchesAcquitSoundHosts(t *testing.T) {
	for _, network := range []string{leafSpine, dumbbell, "kind: fat-tree, k: 4, routing: spray"} {
		text := provoke(ndp.BugEchoesIncast, "none")
		convict(t, sound(elsewhere(t, text, network), "none"), "")
	}
}

// tested has the texts that tests have seen, with their names.
var tested sync.Map

// isFirst reports whether a test has not seen a text before: without their bugs many texts are the same.
func isFirst(t *testing.T, text string) bool {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	_, seen := tested.LoadOrStore(test+text, true)
	return !seen
}

// sound removes the bug from a test of provoke.
func sound(text, bug string) string { return strings.Replace(text, ", bugs: ["+bug+"]", "", 1) }

// convict runs a test, deletes its findings, and checks that the captures yield them again.
func convict(t *testing.T, text, rule string) {
	t.Helper()
	o := run(t, parse(t, text+captured)[0])
	want, _ := violations(o)
	forgotten := `{"schema":"candela.analysis/v1","verdict":"pass","findings":[],"metrics":[],"coverage":{}}`
	if err := os.WriteFile(filepath.Join(o.Dir, "analysis", "ndp.json"), []byte(forgotten), 0o666); err != nil {
		t.Fatal(err)
	}
	rejudged := rejudge(t, o.Dir)
	got, flows := violations(rejudged)
	if slices.Contains(want, rule) && !slices.Contains(got, rule) || len(want) == 0 && len(got) > 0 || rule == "" &&
		len(want) > 0 {
		t.Errorf("the run found %v, its captures %v", want, got)
	}
	for _, flow := range flows {
		if flow < 0 || flow > 8 {
			t.Errorf("a finding is about flow %d of 8", flow)
		}
	}
	if rejudged.Verdict.Exit != o.Verdict.Exit || rejudged.Report.Packets != o.Report.Packets {
		t.Errorf("run: status %d, %d packets; rejudged: status %d, %d packets", o.Verdict.Exit, o.Report.Packets,
			rejudged.Verdict.Exit, rejudged.Report.Packets)
	}
	if notes := strings.Join(rejudged.Report.Notes, "\n"); !strings.Contains(notes, "ndp is judged again") {
		t.Error(notes)
	}
}

func TestWhatIsNotRejudgedIsSaid(t *testing.T) {
	const few = "topology: {kind: single-switch, hosts: 5}\nswitch-under-test: {model: ndp-ideal}\nhosts: {transport: " +
		"ndp}\nworkload: [incast: {senders: 4, packets: 20}]\n"
	several := strings.Replace(few, "kind: single-switch, hosts: 5", "kind: dumbbell, hosts: 6", 1) + captured
	change := func(t *testing.T, dir string, f func(string) string) {
		file := filepath.Join(dir, "taps", "before.ports.csv")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(f(string(data))), 0o666); err != nil {
			t.Fatal(err)
		}
	}
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
		{"several switches", several, "ndp is judged again from taps/before.pcap", nil},
		{"the list of ports is cut off", several, "ndp is not judged again: taps/before.ports.csv: ends after 40 frames",
			func(t *testing.T, dir string) {
				change(t, dir, func(text string) string { return strings.Join(strings.SplitAfter(text, "\n")[:41], "") })
			}},
		{"the list of ports names no switch", several, `line 2: the topology has no switch "middle"`,
			func(t *testing.T, dir string) {
				change(t, dir, func(text string) string {
					return strings.Replace(strings.Replace(text, "left", "middle", 1), "right", "middle", 1)
				})
			}},
		{"the list of ports is something else", several, `does not begin with "frame,switch,port"`,
			func(t *testing.T, dir string) {
				change(t, dir, func(string) string { return "t_ns,name,value\n" })
			}},
		{"the switch", few + captured, "what the run found stands for switch", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := run(t, parse(t, c.text)[0])
			if c.harm != nil {
				c.harm(t, o.Dir)
			}
			if notes := strings.Join(rejudge(t, o.Dir).Report.Notes, "\n"); !strings.Contains(notes, c.want) {
				t.Errorf("want %q in\n%s", c.want, notes)
			}
		})
	}
}

// Findings of NDP's analyzer give flow numbers of the test, not connections in order of appearance.
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
