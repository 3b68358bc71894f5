package switchtest_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

func TestMain(m *testing.M) {
	if !silence() { // rapid draws 100 networks by default; -rapid.checks still goes first
		if err := flag.Set("rapid.checks", "30"); err != nil {
			panic(err)
		}
	}
	runtimetest.Main(m)
}

// configOptions returns what parsers of tests have to know.
var configOptions = sync.OnceValue(switchtest.Options)

// unwritten are the options of runs of which only verdict and analysis are needed.
func unwritten() orchestrator.Options {
	return orchestrator.Options{Version: "test", Wall: func() time.Time { return time.Unix(0, 0) }, Discard: true}
}

func options(out string) orchestrator.Options {
	return orchestrator.Options{
		Out: out, Version: "test", Command: "candela", Wall: func() time.Time { return time.Unix(0, 0) }, NoReports: true,
	}
}

// parse parses a test; it adds the name to text.
func parse(t rapid.TB, text string) []*config.SwitchTest {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// judge runs a test and judges it, without files.
func judge(t *testing.T, test *config.SwitchTest) *orchestrator.Outcome {
	t.Helper()
	return runWith(t, test, unwritten())
}

// run runs a test without its reports.
func run(t *testing.T, test *config.SwitchTest) *orchestrator.Outcome {
	t.Helper()
	return runWith(t, test, options(t.TempDir()))
}

// reported runs a test with all that a run writes.
func reported(t *testing.T, test *config.SwitchTest) *orchestrator.Outcome {
	t.Helper()
	o := options(t.TempDir())
	o.NoReports = false
	return runWith(t, test, o)
}

func runWith(t *testing.T, test *config.SwitchTest, with orchestrator.Options) *orchestrator.Outcome {
	t.Helper()
	p, err := switchtest.New(test)
	if err != nil {
		t.Fatal(err)
	}
	o, err := switchtest.Run(t.Context(), p, with)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A test of cmd/candela runs the examples of configs/.
func TestEveryExampleOfTrimmingBySAIPasses(t *testing.T) {
	files, err := filepath.Glob("../../configs/sai-trimming/*.yml")
	if err != nil || len(files) < 30 {
		t.Fatalf("found only %d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			tests, err := config.LoadSwitchTests(file, configOptions())
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range tests {
				if o := reported(t, test); o.Verdict.Exit != orchestrator.ExitPass {
					t.Errorf("%s: %s: %v", test.Title(), o.Verdict.Verdict, o.Verdict.Reasons)
				}
			}
		})
	}
}

func TestTheConfigurationsOfThePaperAreSound(t *testing.T) {
	files, err := filepath.Glob("../../configs/trimming/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !config.IsSwitchTest(data) {
			continue
		}
		tests, err := config.LoadSwitchTests(file, configOptions())
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := switchtest.New(tests[0]); err != nil {
			t.Error(err)
		}
	}
}

func TestOneSeedGivesTheSameBytes(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, file := range []string{"switch-incast-ndp.yml", "switch-permutation-fat-tree.yml", "switch-ecn-pfc.yml"} {
		tests, err := config.LoadSwitchTests(filepath.Join("../../configs", file), configOptions())
		if err != nil {
			t.Fatal(err)
		}
		tests[0].Taps.Capture = file == "switch-incast-ndp.yml"
		first, second := reported(t, tests[0]), reported(t, tests[0])
		compared := 0
		err = filepath.WalkDir(first.Dir, func(path string, d os.DirEntry, err error) error {
			name, _ := filepath.Rel(first.Dir, path)
			if err != nil || d.IsDir() || name == "log.jsonl" { // the log has wall-clock times
				return err
			}
			a, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(filepath.Join(second.Dir, name))
			if err != nil {
				return err
			}
			if compared++; !bytes.Equal(bytes.ReplaceAll(a, []byte(first.Dir), nil),
				bytes.ReplaceAll(b, []byte(second.Dir), nil)) {
				t.Errorf("%s: two runs differ in %s", file, name)
			}
			return nil
		})
		if err != nil || compared < 8 {
			t.Errorf("%s: compared %d files, %v", file, compared, err)
		}
	}
}

// A run of which nothing is written comes to the same.
func TestADiscardedRunIsJudgedAsAnyOther(t *testing.T) {
	test := parse(t, guilty+"taps: {capture: true}\nresults: {flows: csv}\nseries-us: 5\n")[0]
	kept, discarded := run(t, test), judge(t, test)
	if !reflect.DeepEqual(kept.Analysis, discarded.Analysis) || !reflect.DeepEqual(kept.Verdict, discarded.Verdict) ||
		len(kept.Analysis.Findings) == 0 || discarded.Dir != "" || discarded.Report != nil {
		t.Errorf("%+v in %q, discarded %+v in %q", kept.Verdict, kept.Dir, discarded.Verdict, discarded.Dir)
	}
}

const incast = `
topology: {kind: single-switch, hosts: 9}
switch-under-test: {model: ndp-ideal}
workload: [incast: {senders: 8, packets: 60}]
`

func TestExpectationsThatFailSayWhatWasMeasured(t *testing.T) {
	for expect, want := range map[string]string{
		"trims: {max: 3}":          "expect.trims: the value is",
		"goodput-gbps: {min: 99}":  "expect.goodput-gbps: the smallest of 8 values is",
		"fct-us: {mean: {max: 1}}": "expect.fct-us: the mean is",
		"rtt-us: {max: 5}":         "expect.rtt-us: nothing was measured",
		"fct-us: {count: 3}":       "expect.fct-us: 8 values measured, want 3",
		"flows: [{flows: 2..3, retransmissions: {min: 1000}}]": "expect.flows[0].retransmissions: the smallest of 2 values is",
		"counters: {switch.port-0.received: {max: 5}}":         "expect.counters.switch.port-0.received: is",
		"counters: {switch.port-0.recieved: 5}":                "the run has no such counter",
		"relations: [switch.port-0.sent == 0]":                 "switch.port-0.sent == 0 does not hold",
		"relations: [nothing.* == 0]":                          "the run has no counter nothing.*",
		"ndp: fail":                                            "expect.ndp: a violation was expected, there is none",
		"switch: {violations: [switch.packet-changed]}":        "switch.packet-changed was expected and did not fire",
	} {
		o := judge(t, parse(t, incast+"expect: {"+expect+"}\n")[0])
		if o.Verdict.Exit != orchestrator.ExitFail || !strings.Contains(strings.Join(o.Verdict.Reasons, "\n"), want) {
			t.Errorf("%s: %s: %v, want a failure with %q", expect, o.Verdict.Verdict, o.Verdict.Reasons, want)
		}
	}
}

func TestAFlowThatDoesNotFinishFailsUnlessTheTestHasAnEnd(t *testing.T) {
	short := strings.Replace(incast, "packets: 60", "packets: 60000", 1) + "deadline-us: 100\n"
	o := judge(t, parse(t, short)[0])
	if o.Verdict.Exit != orchestrator.ExitFail ||
		!strings.Contains(o.Verdict.Reasons[0], "flow 1 (host 1 to 0) did not finish within 100") {
		t.Errorf("%s: %v", o.Verdict.Verdict, o.Verdict.Reasons)
	}
	if o := judge(t, parse(t, strings.Replace(short, "deadline", "duration",
		1))[0]); o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("%s: %v", o.Verdict.Verdict, o.Verdict.Reasons)
	}
}

const trimming = `
topology: {kind: single-switch, hosts: 5}
switch-under-test:
  model: sai
  trim-size: 256
  trim-dscp: 48
  trim-queue: 6
  profiles: [{queues: [1], action: trim, limit-bytes: 16000}]
%BUGS%
hosts: {transport: raw}
workload: [incast: {senders: 4, packets: 50, dscp: 8}]
`

func TestASeededBugFailsAndTheSoundModelDoesNot(t *testing.T) {
	sound := parse(t, strings.Replace(trimming, "%BUGS%", "", 1))[0]
	if o := judge(t, sound); o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("the sound model: %v", o.Verdict.Reasons)
	}
	var bugs []string
	for _, m := range configOptions().Switches {
		if m.Name == "sai" {
			for _, b := range m.Bugs {
				bugs = append(bugs, b.Name)
			}
		}
	}
	caught := 0
	for _, bug := range bugs {
		if o := judge(t, parse(t, strings.Replace(trimming, "%BUGS%", "  bugs: ["+bug+"]",
			1))[0]); o.Verdict.Exit == orchestrator.ExitFail {
			caught++
		}
	}
	if caught < len(bugs)/2 { // this scenario does not trigger all of them
		t.Errorf("%d of %d seeded bugs are caught", caught, len(bugs))
	}
}

func TestChangesTakeEffectAtTheirTime(t *testing.T) {
	text := strings.Replace(trimming, "%BUGS%", "",
		1) + "changes: [{at-us: 3, set: {trim-size: 128}}]\nexpect: {header-bytes: {min: 128, max: 256}}\n"
	o := judge(t, parse(t, text)[0])
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Fatalf("%v", o.Verdict.Reasons)
	}
	for _, m := range o.Analysis.Metrics {
		if m.Name == "flows.header-bytes" && (m.Min != 128 || m.Max != 256) {
			t.Errorf("headers have %d to %d bytes, want some of 128 and some of 256", m.Min, m.Max)
		}
	}
}

func TestAChangeThatTheModelCannotMakeIsRefusedBeforeTheRun(t *testing.T) {
	test := parse(t, incast+"changes: [{at-us: 1, set: {trim-bytes: 100}}]\n")[0]
	if _, err := switchtest.New(test); err == nil ||
		!strings.Contains(err.Error(), "changes: the model ndp-ideal can't be changed while it runs") {
		t.Errorf("got %v", err)
	}
}

func TestClosedLoopsAndPingsMeasureRoundTrips(t *testing.T) {
	o := judge(t, parse(t, `
topology: {kind: single-switch, hosts: 4}
switch-under-test: {model: ndp-ideal}
workload:
  - ping: {src: 0, dst: 1, count: 5, packet-size: 100}
  - requests: {clients: [2, 3], server: 1, count: 20}
expect: {rtt-us: {count: 45, min: 2}, flows: [{flows: 1, rtt-us: {min: 2.032, max: 2.2}}]}
`)[0])
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("%v", o.Verdict.Reasons)
	}
}

func TestARecordedRunIsRejudgedByItsDocuments(t *testing.T) {
	o := run(t, parse(t, incast+"expect: {counters: {switch.port-0.dropped: 0}}\n")[0])
	judge := func() *orchestrator.Outcome {
		opened, err := orchestrator.OpenRun(o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		rejudged, err := switchtest.Analyze(opened, orchestrator.AnalyzeOptions{Trace: o.Dir, Config: configOptions()})
		if err != nil {
			t.Fatal(err)
		}
		return rejudged
	}
	if rejudged := judge(); rejudged.Verdict.Exit != orchestrator.ExitPass ||
		len(rejudged.Analysis.Metrics) != len(o.Analysis.Metrics) {
		t.Errorf("%s: %v", rejudged.Verdict.Verdict, rejudged.Verdict.Reasons)
	}
	file := filepath.Join(o.Dir, "switch-counters.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(`"switch.port-0.dropped": 0`), []byte(`"switch.port-0.dropped": 7`), 1)
	if err := os.WriteFile(file, data, 0o666); err != nil {
		t.Fatal(err)
	}
	if rejudged := judge(); rejudged.Verdict.Exit != orchestrator.ExitFail {
		t.Errorf("a counter that breaks an expectation: %s", rejudged.Verdict.Verdict)
	}
}

func TestTheReportNamesFlowsAndSwitches(t *testing.T) {
	o := reported(t, parse(t, incast)[0])
	var b bytes.Buffer
	if err := report.Text(&b, o.Report, report.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PASS     x", "Flows\n", "Switches\n", "goodput", "trimmed", "files  "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
	html, err := os.ReadFile(filepath.Join(o.Dir, "report.html"))
	if err != nil || !bytes.Contains(html, []byte("Flow completion time, cumulative")) ||
		bytes.Contains(html, []byte("NaN")) {
		t.Errorf("report.html lacks its chart, or has a hole in it: %v", err)
	}
}

func TestPlansThatTransportsCannotKeepAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"hosts: {transport: raw}\nworkload: [requests: {clients: 1, server: 0}]\n":       "wait for ever",
		"workload: [incast: {senders: 2, first-sender: 0, hairpin: true, packets: 1}]\n": "can't send to itself",
		"workload: [flow: {src: 0, dst: 1, packets: 1, packet-size: 9000}]\n":            "packet size of hosts",
		"workload: [flow: {src: 0, dst: 1, packets: 1, packet-size: 64, ip: 6}]\n":       "no room for a header of 84",
	} {
		test := parse(t, "topology: {kind: single-switch, hosts: 4}\nswitch-under-test: {model: droptail}\n"+text)[0]
		if _, err := switchtest.New(test); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "f.yml:") {
			t.Errorf("%s: got %v, want something about %q with its place", text, err, want)
		}
	}
}

// Errors that only the hosts' models detect are configuration errors, not failures of a component during the run.
func TestPlansThatHostsCannotKeepAreRefused(t *testing.T) {
	const network = "topology: {kind: single-switch, hosts: 4}\nswitch-under-test: {model: droptail%s}\nhosts: " +
		"{%s}\nworkload: [%s]\n"
	const alike = "flow: {src: 0, dst: 1, packets: 9, dscp: 1}}, {flow: {src: 0, dst: 2, packets: 9, dscp: 2}"
	for want, text := range map[string]string{
		"transport tcp: send-jitter-us and pfc-classes: a NIC that is paused": fmt.Sprintf(network, ", pfc-classes: [0]",
			"transport: tcp, send-jitter-us: 5",
			"incast: {senders: 3, packets: 9}"),
		"transport tcp: flows 1 and 2 of host 0 differ in dscp": fmt.Sprintf(network, "", "transport: tcp", "{"+alike+"}"),
		"transport ndp: flows 1 and 2 of host 0 differ in dscp": fmt.Sprintf(network, "", "transport: ndp", "{"+alike+"}"),
	} {
		if _, err := switchtest.New(parse(t, text)[0]); err == nil || !strings.Contains(err.Error(), "hosts: "+want) ||
			!strings.HasPrefix(err.Error(), "f.yml:") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, fine := range []string{", pfc-classes: [0]|transport: tcp", "|transport: tcp, send-jitter-us: 5"} {
		sw, hosts, _ := strings.Cut(fine, "|")
		if _, err := switchtest.New(parse(t,
			fmt.Sprintf(network, sw, hosts, "incast: {senders: 3, packets: 9}"))[0]); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

func TestRulesHaveStatementsAndModelsSoundTables(t *testing.T) {
	for _, r := range switchtest.Rules() {
		if r.Severity == "" {
			t.Errorf("rule %s has no severity", r.ID)
		}
		if r.Severity == analyzers.Note {
			continue // notes explain why something was not judged
		}
		if r.Clause == "" || !strings.HasSuffix(r.Statement, ".") {
			t.Errorf("rule %s: clause %q, statement %q: want a clause and a sentence", r.ID, r.Clause, r.Statement)
		}
	}
	o := switchtest.Options()
	models := o.Switches
	for _, tr := range o.Transports {
		models = append(models, tr.Model)
	}
	for _, m := range models {
		if err := m.Parameters.Check(); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// A packet of 1564 bytes at 100 Gb/s over two 1 us links arrives after 2 × (125.12 + 1000) ns; its ACK of 64 bytes
// takes 2 × (5.12 + 1000) ns. csg-htsim prints the sum as "finished at".
func TestTheSenderOfAFlowKnowsHalfARoundTripAfterTheReceiver(t *testing.T) {
	test := parse(t, `
topology: {kind: single-switch, hosts: 2, link: {gbps: 100, delay-ns: 1000, framing-bytes: 0}}
switch-under-test: {model: ndp-ideal}
hosts: {transport: ndp, packet-size: 1564}
workload: [{incast: {senders: 1, packets: 1}}]
expect: {fct-us: {min: 2.25, max: 2.251}, sender-fct-us: {min: 4.26, max: 4.261}}
`)[0]
	if o := judge(t, test); o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("%s: %v", o.Verdict.Verdict, o.Verdict.Reasons)
	}
}
