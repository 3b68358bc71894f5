package switchtest_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// ranked is a port, and one towards another host, at which flows of different sizes compete.
const ranked = `
topology: {kind: single-switch, hosts: 6, link: {gbps: 10, delay-ns: 500}}
switch-under-test: {%s}
hosts: {transport: %s}
taps: {decisions: csv}
deadline-us: 200000
workload:
  - incast: {senders: 4, bytes: 120000, stagger-us: 7, RANK}
  - flow: {src: 5, dst: 0, bytes: 700000, weight: 2.5, RANK}
  - flow: {src: 1, dst: 0, count: 20, bytes: 9000, stagger-us: 31, weight: 3, RANK}
  - flow: {src: 2, dst: 5, count: 10, bytes: 30000, stagger-us: 20, weight: 0.75, RANK}
  - flow: {src: 3, dst: 5, bytes: 300000, RANK}
`

// models lists those of the family with names that match.
func rankModels(match func(string) bool) (list []parameter.Model) {
	for _, m := range configOptions().Switches {
		if match(m.Name) {
			list = append(list, m)
		}
	}
	return list
}

func ofRanks(name string) bool {
	return slices.Contains([]string{"aifo", "sp-pifo", "afq", "stfq-pifo", "stfq-aifo", "stfq-sp-pifo", "pieo",
		"stfq-pieo", "hpifo"}, name)
}

// rankRules returns the violated rules in a run, and how many packets the judge repeated.
func rankRules(t *testing.T, text string) (rules []string, repeated int64) {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
	if err != nil {
		t.Fatal(err)
	}
	o := judge(t, tests[0])
	if o.Analysis == nil {
		t.Fatalf("%v", o.Verdict.Reasons)
	}
	found := make(map[string]bool)
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation {
			found[f.Rule] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), o.Analysis.Coverage["rank"]["packets"]
}

func rankText(settings, transport string) string {
	rank := "rank: remaining"
	if transport == "pfabric" { // it ranks by itself
		rank = "start-us: 1"
	}
	return strings.ReplaceAll(fmt.Sprintf(ranked, settings, transport), "RANK", rank)
}

// Each seeded bug of the models that schedule by rank violates its rule; the same switch without it violates none.
func TestSeededBugsOfRanksAreCaughtByTheirRule(t *testing.T) {
	runtimetest.SkipRace(t)
	settings := map[string]string{"aifo": "target-packets: 20, room-packets: 14, window: 8, sample: 1", "stfq-aifo": "target-packets: 20, room-packets: 14, window: 8, sample: 1",
		"sp-pifo": "priorities: 4, packets-per-queue: 5", "stfq-sp-pifo": "priorities: 4, packets-per-queue: 5",
		"stfq-pifo": "queue-packets: 20", "pieo": "queue-packets: 20, pace-mbps: 4000",
		"stfq-pieo": "queue-packets: 20, pace-mbps: 4000", "afq": "rounds: 200",
		"hpifo": "queue-packets: 20, tree: [{weight: 3}, {parent: 1, hosts: [1, 2]}, {parent: 1, weight: 2, hosts: [3]}, {hosts: [4]}]"}
	const pipeline = "mode: dataplane, target-cells: 380, window: 8, sample: 1, multiplier: 24"
	ofPipeline := map[string]string{"rounds-multiplier": pipeline, "partial-cells": pipeline, "counts-departing": pipeline,
		"sees-at-once": pipeline + ", loop-ns: 5000", "sees-late": pipeline + ", loop-ns: 5000"}
	bugs := 0
	for _, m := range rankModels(ofRanks) {
		for _, b := range slices.Concat([]parameter.Bug{{Name: ""}}, m.Bugs) {
			if bugs++; fewBugs(bugs - 1) {
				continue
			}
			t.Run(m.Name+" "+b.Name, func(t *testing.T) {
				t.Parallel()
				set := settings[m.Name]
				if own := ofPipeline[b.Name]; own != "" {
					set = own
					if rules, _ := rankRules(t, rankText(fmt.Sprintf("model: %s, %s", m.Name, set), "tcp")); len(rules) > 0 {
						t.Errorf("without it %v are violated", rules)
					}
				}
				rules, repeated := rankRules(t, rankText(fmt.Sprintf("model: %s, %s, bugs: [%s]", m.Name, set, b.Name), "tcp"))
				if repeated < 800 || b.Name == "" && len(rules) > 0 || b.Name != "" && !slices.Contains(rules, b.Rule) {
					t.Errorf("violated are %v, want %q; %d packets were repeated", rules, b.Rule, repeated)
				}
			})
		}
	}
	if bugs < 20 {
		t.Errorf("%d bugs", bugs)
	}
}

// What idles or shares wrongly on the NICs of hosts is caught there, and NICs without faults are not blamed.
func TestSeededBugsOfRanksOnNICsAreCaughtByTheirRule(t *testing.T) {
	const text = `
topology: {kind: single-switch, hosts: 4, link: {gbps: 10, delay-ns: 500}}
switch-under-test: {model: droptail}
hosts: {transport: raw, nic: {%s}}
duration-us: 600
expect: {unfinished: {min: 0}}
workload:
  - cbr: {src: 1, dst: 0, rate-gbps: 7, jitter: 0.5, stop-us: 400, weight: 1, rank: 5}
  - cbr: {src: 1, dst: 2, rate-gbps: 4, jitter: 0.5, stop-us: 400, weight: 3, rank: 6}
  - flow: {src: 1, dst: 3, packets: 3, start-us: 100, count: 8, stagger-us: 37, rank: 2}
  - flow: {src: 2, dst: 3, packets: 60, rank: 9}
`
	for _, c := range []struct {
		settings string
		rules    map[string]string // by bug
	}{
		{"model: hpifo, queue-packets: 40, tree: [{weight: 2, hosts: [1]}]", map[string]string{"hesitates": "rank.idle",
			"ignores-flow-weights": "rank.tree", "tail-drops": "rank.tree-drop", "drops-early": "rank.refused"}},
		{"model: pieo, pace-mbps: 3000, queue-packets: 40", map[string]string{"wakes-late": "rank.idle",
			"head-blocks": "rank.idle", "half-pace": "rank.idle", "ignores-pace": "rank.eligible", "drops-first": "rank.drop"}},
		{"model: pieo, queue-packets: 40", map[string]string{"drops-first": "rank.drop"}},
		{"model: stfq-pifo, queue-packets: 40", map[string]string{"ignores-flow-weights": "rank.start"}},
		{"model: afq, round-bytes: 1500", map[string]string{"ignores-flow-weights": "rank.start"}},
		{"model: stfq-aifo", nil}, {"model: pifo", nil}, {"model: sp-pifo", nil}, {"model: aifo", nil},
	} {
		bugs := slices.Sorted(maps.Keys(c.rules))
		for _, bug := range append(bugs, "") {
			t.Run(c.settings+" "+bug, func(t *testing.T) {
				t.Parallel()
				rules, repeated := rankRules(t, fmt.Sprintf(text, c.settings+", bugs: ["+bug+"]"))
				if bug == "" && len(rules) > 0 || bug != "" && !slices.Contains(rules, c.rules[bug]) {
					t.Errorf("violated are %v, want %q; %d packets were repeated", rules, c.rules[bug], repeated)
				}
			})
		}
	}
}

// Without a pace PIEO is PIFO: every packet takes the same way at the same time.
func TestPIEOWithoutAPaceIsPIFO(t *testing.T) {
	var files [2][]byte
	for i, model := range []string{"pifo", "pieo"} {
		text := rankText("model: "+model+", queue-packets: 20", "pfabric")
		text = strings.Replace(text, "taps: {decisions: csv}", "taps: {capture: true}", 1)
		tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
		if err != nil {
			t.Fatal(err)
		}
		o := reported(t, tests[0])
		files[i], err = os.ReadFile(filepath.Join(o.Dir, "taps/behind.pcap"))
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files[0]) < 10000 || !bytes.Equal(files[0], files[1]) {
		t.Errorf("PIFO: %d bytes, PIEO: %d bytes", len(files[0]), len(files[1]))
	}
}

// stationary is a port with a load of 2 of packets that all take the same time: theorem 3 says what AIFO does.
func stationary(settings string, load float64, rates ...float64) string {
	text := fmt.Sprintf("topology: {kind: single-switch, hosts: %d, link: {gbps: 1000, delay-ns: 20, framing-bytes: 0},\n"+
		"  links: [{host: 0, gbps: 1}]}\nswitch-under-test: {model: aifo, %s}\n"+
		"hosts: {transport: raw, packet-size: 1000}\nduration-us: 280000\nexpect: {unfinished: {min: 0}}\nworkload:\n",
		len(rates)+1, settings)
	total := 0.0
	for _, r := range rates {
		total += r
	}
	for i, r := range rates {
		text += fmt.Sprintf("  - cbr: {src: %d, dst: 0, rate-gbps: %.6f, jitter: 1, rank: %d}\n", i+1,
			load*r/total, i)
	}
	return text
}

// Whole runs show without records that AIFO serves other ranks, or waits elsewhere, than theorem 3 says.
func TestTheorem3IsJudgedOfRuns(t *testing.T) {
	runtimetest.SkipRace(t)
	equal := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	rising := []float64{1, 1.3, 1.7, 2.2, 2.9, 3.8, 5, 6.5, 8.5, 11}
	const plain = "target-packets: 200, window: 100, sample: 1, headroom: 0.5"
	for _, c := range []struct {
		settings string
		load     float64
		rates    []float64
		want     string // rule of theorem 3; empty: none is violated
	}{
		{plain + ", bugs: [scaled-threshold]", 2, equal, "rank.level"},
		{plain + ", bugs: [no-headroom]", 2, equal, "rank.level"},
		{plain + ", bugs: [aifo-inverted]", 2, equal, "rank.rate"},
		{plain, 2, equal, ""},
		{"target-packets: 100, window: 100, sample: 1, headroom: 0.1", 2, equal, ""},
		{"target-packets: 100, window: 120, sample: 1, headroom: 0.05", 1.7, rising, ""},
		{"target-packets: 120, window: 150, sample: 1, headroom: 0.2", 3, rising, ""},
		{"target-packets: 110, window: 100, sample: 1, compare: below", 1.4, []float64{3, 2, 2, 1, 1}, ""},
		{"target-packets: 130, window: 130, sample: 1, headroom: 0.3, update: before", 2.5, []float64{5, 1, 4, 1, 3, 2}, ""},
	} {
		t.Run(fmt.Sprintf("%s, load %g", c.settings, c.load), func(t *testing.T) {
			t.Parallel()
			tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+stationary(c.settings, c.load, c.rates...)),
				configOptions())
			if err != nil {
				t.Fatal(err)
			}
			o := judge(t, tests[0])
			if o.Analysis == nil {
				t.Fatalf("%v", o.Verdict.Reasons)
			}
			var violated []string
			for _, f := range o.Analysis.Findings {
				if f.Severity == analyzers.Violation {
					violated = append(violated, f.Rule)
				}
			}
			if n := o.Analysis.Coverage["rank"]["ports judged by theorem 3"]; n != 1 {
				t.Errorf("%d ports are judged", n)
			}
			if c.want == "" && len(violated) > 0 || c.want != "" && !slices.Contains(violated, c.want) {
				t.Errorf("violated are %v, want %q", slices.Compact(violated), c.want)
			}
		})
	}
}

// A12: a port, or a NIC, with a load above 1 is busy 99 % of the time; one with a load of 0.5 is not. The loads are
// choices: at 1.05 gaps of random arrivals empty a queue of 20 packets, which is then busy for 98.8 %.
func TestAIFOKeepsOverloadedLinksBusy(t *testing.T) {
	const text = `
topology: {kind: single-switch, hosts: 11, link: {gbps: %g, delay-ns: 20, framing-bytes: 0}, links: [{host: 0, gbps: 1}]}
switch-under-test: {%s}
hosts: {%stransport: raw, packet-size: 1000}
duration-us: 20000
expect: {unfinished: {min: 0}}
workload:
`
	for _, settings := range []string{"model: aifo", "model: aifo, target-packets: 100, window: 100, sample: 1",
		"model: aifo, mode: dataplane"} {
		for _, nic := range []bool{false, true} {
			for _, load := range []float64{0.5, 1.2, 2} {
				of := fmt.Sprintf(text, 1000.0, settings, "")
				if nic { // of host 10, which sends to all others
					of = fmt.Sprintf(text, 1.0, "model: droptail", "nic: {"+settings+"}, ")
				}
				for i := range 10 {
					src, dst := i+1, 0
					if nic {
						src, dst = 10, i
					}
					of += fmt.Sprintf("  - cbr: {src: %d, dst: %d, rate-gbps: %.6f, jitter: 1, rank: %d}\n", src, dst, load/10, i)
				}
				p, err := switchtest.New(parse(t, of)[0])
				if err != nil {
					t.Fatal(err)
				}
				var port *fabric.Port
				p.Watch = func(n *fabric.Network) {
					if port = n.Switch(0).Port(0); nic {
						port = n.Host(10).Port()
					}
				}
				o, err := switchtest.Run(t.Context(), p, options(t.TempDir()))
				if err != nil || o.Verdict.Exit != orchestrator.ExitPass {
					t.Fatalf("%v %v", err, o.Verdict)
				}
				busy := float64(port.Counters().Busy) / float64(20*clock.Millisecond)
				if load > 1 && busy < 0.99 || load < 1 && busy > 0.6 {
					t.Errorf("%s, on a NIC: %v, load %g: %.4f busy", settings, nic, load, busy)
				}
			}
		}
	}
}

// Without records nobody can say whether they are right, and run.json tells it.
func TestRecordsOfRanksThatAreMissingAreListed(t *testing.T) {
	for _, c := range []struct {
		model, more string
		listed      bool
	}{
		{"aifo", "", true}, {"stfq-aifo", "", true}, {"aifo", "taps: {decisions: csv}\n", false}, {"sp-pifo", "", true},
		{"pifo", "", true}, {"pieo", "taps: {decisions: csv}\n", false},
	} {
		text := strings.Replace(rankText("model: "+c.model, "tcp"), "taps: {decisions: csv}\n", c.more, 1)
		p, err := switchtest.New(parse(t, text)[0])
		if err != nil {
			t.Fatal(err)
		}
		list := p.NotJudged()
		listed := len(list) == 1 && strings.HasPrefix(list[0], "rank.record: needs decision records")
		if listed != c.listed || !c.listed && len(list) > 0 {
			t.Errorf("%s %s: %v", c.model, c.more, list)
		}
	}
}

// In mode dataplane the ingress sees the queue 200 ns late, and decides otherwise than the true queue would about
// at most
// 2 % of the packets; the courses of the port are a file.
func TestAIFOSeesItsQueueALittleLate(t *testing.T) {
	runtimetest.SkipRace(t)
	text := stationary("target-packets: 100, window: 100, sample: 1, mode: dataplane", 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	text = strings.Replace(text, "duration-us: 280000", "duration-us: 80000", 1)
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
	if err != nil {
		t.Fatal(err)
	}
	o := reported(t, tests[0])
	values := make(map[string][2]int64)
	for _, m := range o.Analysis.Metrics {
		values[m.Name] = [2]int64{m.Min, m.Max}
	}
	t.Logf("mismatches, ppm: %d", values["rank.mismatches"])
	if v, known := values["rank.mismatches"]; !known || v[0] <= 0 || v[1] > 20_000 {
		t.Errorf("mismatches, ppm: %v, %v", v, known)
	}
	if v := values["rank.refused-quantile"]; v[0] <= 0 || v[1] > 1_000_000 || v[1] < 800_000 {
		t.Errorf("quantiles of what is dropped: %v", v)
	}
	if v, known := values["rank.late"]; !known || v[1] != 0 {
		t.Errorf("late packets: %v, %v", v, known)
	}
	data, err := os.ReadFile(filepath.Join(o.Dir, "curves.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	points, latest := 0, 0
	for _, l := range lines[1:] {
		cells := strings.Split(l, ",")
		if len(cells) != 3 || !strings.HasSuffix(cells[1], ".rank-gap") {
			continue
		}
		at, err := strconv.Atoi(cells[0])
		if v, wrong := strconv.ParseFloat(cells[2], 64); err != nil || wrong != nil || v < 0 || v > 1 || at <= latest {
			t.Errorf("point %q", l)
		}
		points, latest = points+1, at
	}
	if lines[0] != "t_ns,name,value" || points < 128 || points > 256 {
		t.Errorf("%d points of the gap after %q", points, lines[0])
	}
}

// A port whose link becomes slower, faster, shorter or fails is not blamed for when it sends.
func TestPortsWhoseLinksChangeAreNotBlamedForPauses(t *testing.T) {
	for _, c := range []struct{ model, rank string }{
		{"pieo, pace-mbps: 3000", ", rank: remaining"}, {"aifo", ", rank: remaining"}, {"stfq-pifo", ""},
	} {
		rules, repeated := rankRules(t, strings.ReplaceAll(`
topology: {kind: dumbbell, hosts: 8, link: {gbps: 10, delay-ns: 5000}, trunk: {gbps: 10, delay-ns: 50000}}
switch-under-test: {model: `+c.model+`}
hosts: {transport: raw}
duration-us: 2000
changes:
  - {at-us: 300, trunk: {from: left, to: right, gbps: 1}}
  - {at-us: 600, trunk: {from: left, to: right, gbps: 25, delay-ns: 100}}
  - {at-us: 1000, trunk: {from: left, to: right, failed: true}}
  - {at-us: 1200, trunk: {from: left, to: right, failed: false}}
workload:
  - flow: {src: 0, dst: 4, bytes: 900000RANK}
  - flow: {src: 1, dst: 5, bytes: 600000RANK}
  - flow: {src: 2, dst: 6, bytes: 500000RANK}
  - flow: {src: 3, dst: 6, bytes: 4000RANK, count: 30, stagger-us: 60}
`, "RANK", c.rank))
		if len(rules) > 0 || repeated < 1000 {
			t.Errorf("%s: %v, %d packets", c.model, rules, repeated)
		}
	}
}

// A trunk that becomes slower, or shorter, on the way is not taken for a port that idles, and one that does idle is.
func TestPortsOfTrunksThatChangeAreNotTakenForIdle(t *testing.T) {
	const text = `
topology: {kind: dumbbell, hosts: 6, link: {gbps: 10, delay-ns: 500}, trunk: {gbps: 10, delay-ns: 5000}}
switch-under-test: {%s}
hosts: {transport: raw}
duration-us: 600
changes:
  - {at-us: 100, trunk: {from: left, to: right, gbps: 3}}
  - {at-us: 250, trunk: {from: left, to: right, gbps: 10, delay-ns: 100}}
  - {at-us: 400, trunk: {from: left, to: right, gbps: 1, delay-ns: 9000}}
workload:
  - cbr: {src: 0, dst: 3, rate-gbps: 4, rank: 3}
  - cbr: {src: 1, dst: 4, rate-gbps: 3, jitter: 0.5, rank: 2}
  - cbr: {src: 2, dst: 5, rate-gbps: 2, jitter: 0.5, rank: 1}
`
	for settings, want := range map[string][]string{
		"model: pifo": nil, "model: aifo, sample: 1": nil, "model: pieo, pace-mbps: 2500": nil, "model: hpifo": nil,
		"model: hpifo, bugs: [hesitates]": {"queue.idle", "rank.idle"}, "model: pieo, pace-mbps: 500, bugs: [wakes-late]": {"rank.idle"},
	} {
		if rules, _ := rankRules(t, fmt.Sprintf(text, settings)); !slices.Equal(rules, want) {
			t.Errorf("%s: %v, want %v", settings, rules, want)
		}
	}
}

// What a failed trunk, or a stopped switch, loses is forgotten by HPIFO and by its judge alike.
func TestHPIFOForgetsWhatIsLost(t *testing.T) {
	for _, changes := range []string{
		"{at-us: 200, trunk: {from: left, to: right, failed: true}}, {at-us: 300, trunk: {from: left, to: right, failed: false}}",
		"{at-us: 200, switch: 0, state: stopped}, {at-us: 300, switch: 0, state: running}",
	} {
		rules, repeated := rankRules(t, `
topology: {kind: dumbbell, hosts: 8, link: {gbps: 10, delay-ns: 500}}
switch-under-test: {model: hpifo, queue-packets: 40, tree: [{weight: 2, hosts: [0, 1]}, {parent: 0, weight: 3, hosts: [2]}]}
hosts: {transport: tcp}
duration-us: 3000
changes: [`+changes+`]
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 4}
  - cbr: {src: 1, dst: 5, rate-gbps: 6, jitter: 0.5}
  - cbr: {src: 2, dst: 6, rate-gbps: 5}
  - cbr: {src: 3, dst: 7, rate-gbps: 5, jitter: 0.5}
`)
		if len(rules) > 0 || repeated < 4000 {
			t.Errorf("%s: %v, %d packets", changes, rules, repeated)
		}
	}
}

// Three flows that fill a port share it by their weights.
func TestFlowsShareAPortByTheirWeights(t *testing.T) {
	const text = `
topology: {kind: single-switch, hosts: 4, link: {gbps: 10, delay-ns: 500, framing-bytes: 0}}
switch-under-test: {%s}
hosts: {transport: raw}
duration-us: 6000
expect: {unfinished: {min: 0}}
workload:
  - cbr: {src: 1, dst: 0, rate-gbps: 9, jitter: 0.2, weight: 1}
  - cbr: {src: 2, dst: 0, rate-gbps: 9, jitter: 0.2, weight: 2}
  - cbr: {src: 3, dst: 0, rate-gbps: 9, jitter: 0.2, weight: 3}
`
	for settings, tolerance := range map[string]float64{
		"model: stfq-pifo, queue-packets: 60": 0.02, "model: stfq-pieo, queue-packets: 60": 0.02,
		"model: hpifo, queue-packets: 60":                               0.02,
		"model: afq, round-bytes: 1500":                                 0.02,
		"model: stfq-sp-pifo":                                           0.05,
		"model: stfq-aifo, target-packets: 100, window: 100, sample: 1": 0.05,
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			o := outcome(t, fmt.Sprintf(text, settings))
			if o.Verdict.Exit != orchestrator.ExitPass {
				t.Errorf("%v", o.Verdict)
			}
			total := 0.0
			flows := flowsOf(t, o.Dir).Flows
			for i := range flows {
				total += float64(flows[i].Payload)
			}
			for i := range flows {
				share, want := float64(flows[i].Payload)/total, float64(i+1)/6
				t.Logf("weight %d: %.4f, want %.4f", i+1, share, want)
				if math.Abs(share/want-1) > tolerance {
					t.Errorf("weight %d: %.4f, want %.4f", i+1, share, want)
				}
			}
		})
	}
}
