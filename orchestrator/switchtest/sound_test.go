package switchtest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// With compliant hosts and switches, findings may only report that the network lost packets.
func TestSoundHostsAndSwitchesAreNeverBlamed(t *testing.T) {
	out := t.TempDir()
	lost, trimmed, late, runs := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		text := drawTest(rt)
		recorded := rapid.Bool().Draw(rt, "recorded")
		if recorded {
			text += captured
		}
		tests, err := config.ParseSwitchTests("f.yml", []byte(text), configOptions())
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		p, err := switchtest.New(tests[0])
		if err != nil {
			rt.Skip(err.Error())
		}
		o := options(out)
		r, err := switchtest.Run(t.Context(), p, o)
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		defer func() { _ = os.RemoveAll(r.Dir) }() // captures of thousands of networks would fill the disk
		drops := counter(rt, r.Dir, "*.dropped-*") + counter(rt, r.Dir, "*.trims-lost")
		lost += drops
		trimmed += counter(rt, r.Dir, "total.trims")
		for _, m := range r.Analysis.Metrics {
			if m.Name == "flows.timeouts" {
				late += int(m.Sum)
			}
		}
		found := r.Analysis.Findings
		if recorded {
			found = append(found, rejudge(rt, r.Dir).Analysis.Findings...)
		}
		for _, f := range found {
			if f.Severity != "violation" || f.Rule == "ndp.silent-loss" && drops > 0 {
				continue
			}
			rt.Fatalf("%s t=%dns %s; expected %s\n%s", f.Rule, f.TimeNS, f.Message, f.Expected, text)
		}
		if len(r.Verdict.Reasons) > 0 && strings.HasPrefix(r.Verdict.Reasons[0], "integrity") {
			rt.Fatalf("%v\n%s", r.Verdict.Reasons, text)
		}
		runs++
	})
	const many = 50 // a few networks may have no switch that trims or loses packets
	if lost+trimmed+late == 0 || runs >= many && (lost == 0 || trimmed == 0 || late == 0) {
		t.Errorf("of %d runs nothing was lost (%d), trimmed (%d) or retransmitted by a timer (%d)", runs, lost, trimmed, late)
	}
}

// counter returns the sum of the counters of a run whose names match.
func counter(t rapid.TB, dir, name string) int {
	var doc switchtest.CountersDocument
	data, err := os.ReadFile(filepath.Join(dir, "switch-counters.json"))
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	n, _ := config.CounterValue(name, doc.Counters)
	return int(n)
}

// Each timer retransmits one packet, even if several timers of a connection expire together.
func TestTimeoutsThatRunOutTogetherBlameNobody(t *testing.T) {
	o := judge(t, parse(t, `
topology: {kind: single-switch, hosts: 17}
switch-under-test: {model: droptail, data-queue-bytes: 300000}
hosts: {transport: ndp, initial-window: 30}
workload: [incast: {senders: 16, packets: 100}]
expect: {timeouts: {max: 30, mean: {min: 5}}}
`)[0])
	for _, f := range o.Analysis.Findings {
		if f.Rule != "ndp.silent-loss" {
			t.Errorf("%s: %s", f.Rule, f.Message)
		}
	}
	if len(o.Verdict.Reasons) > 0 && strings.HasPrefix(o.Verdict.Reasons[0], "expect") {
		t.Error(o.Verdict.Reasons)
	}
}

// drawTest draws a topology, a model with small queues, hosts, and traffic in all directions, so that data, headers and
// responses are lost.
func drawTest(rt *rapid.T) string {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(rt, name) }
	word := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, name) }
	topology, hosts := drawTopology(rt, number, word)
	var b strings.Builder
	fmt.Fprintf(&b, "name: x\nseed: %d\n%s\nswitch-under-test: %s\n", number("seed", 0, 1<<20), topology,
		drawModel(number, word))
	fmt.Fprintf(&b, "hosts: {transport: ndp, initial-window: %s, rto-us: %s, paths: %d, pull-rate: %s, packet-size: %s}\n",
		word("window", "1", "2", "7", "30", "100", "400"), word("rto", "0", "10", "30", "200", "1000", "1000", "5000"),
		number("paths", 1, 4),
		word("pull rate", "1", "1", "0.99", "0.5"), word("size", "1500", "1500", "9000", "300"))
	deadline := 5000 // a network that trims and times out until then takes ten times as long as most
	if silence() {
		deadline = 20_000
	}
	fmt.Fprintf(&b, "deadline-us: %d\nworkload:\n", deadline)
	for range number("items", 1, 4) {
		extent := fmt.Sprintf("packets: %d", number("packets", 1, 150))
		if number("odd", 0, 3) == 0 {
			extent = fmt.Sprintf("bytes: %d", number("bytes", 1, 100_000))
		}
		start := fmt.Sprintf("start-us: %d, stagger-us: %s", number("start", 0, 100), word("stagger", "0", "0", "0.3", "20"))
		switch word("workload", "incast", "incast", "permutation", "flow", "requests") {
		case "incast":
			fmt.Fprintf(&b, "  - incast: {senders: %d, %s, %s}\n", number("senders", 1, hosts-1), extent, start)
		case "permutation":
			fmt.Fprintf(&b, "  - permutation: {%s, %s}\n", extent, start)
		case "requests":
			fmt.Fprintf(&b, "  - requests: {clients: [1], server: 0, count: %d, request-bytes: %d, response-bytes: %d}\n",
				number("count", 1, 20),
				number("request", 1, 5000), number("response", 1, 50_000))
		default:
			src := number("src", 0, hosts-1)
			fmt.Fprintf(&b, "  - flow: {src: %d, dst: %d, count: %d, %s, %s}\n", src, (src+number("dst", 1, hosts-1))%hosts,
				number("flows", 1, 3), extent, start)
		}
	}
	return b.String()
}

func drawTopology(_ *rapid.T, number func(string, int, int) int, word func(string, ...string) string) (text string,
	hosts int) {
	link := fmt.Sprintf("link: {gbps: %s, delay-ns: %s}", word("rate", "100", "100", "25", "10"),
		word("delay", "0", "500", "500", "5000"))
	routing := word("routing", "ecmp", "spray", "spray-round-robin", "path")
	switch word("topology", "single-switch", "single-switch", "dumbbell", "leaf-spine", "fat-tree") {
	case "single-switch":
		hosts = number("hosts", 2, 20)
		return fmt.Sprintf("topology: {kind: single-switch, hosts: %d, %s}", hosts, link), hosts
	case "dumbbell":
		hosts = 2 * number("hosts", 1, 6)
		return fmt.Sprintf("topology: {kind: dumbbell, hosts: %d, %s}", hosts, link), hosts
	case "leaf-spine":
		leaves, per := number("leaves", 2, 3), number("hosts", 1, 4)
		return fmt.Sprintf("topology: {kind: leaf-spine, leaves: %d, spines: %d, hosts-per-leaf: %d, routing: %s, %s}",
			leaves, number("spines", 1, 3), per,
			routing, link), leaves * per
	default:
		return fmt.Sprintf("topology: {kind: fat-tree, k: 4, routing: %s, %s}", routing, link), 16
	}
}

func drawModel(number func(string, int, int) int, word func(string, ...string) string) string {
	model := word("model", "droptail", "droptail", "cp", "ndp-ideal", "ndp-ideal", "sfc", "mod", "dod", "tofino",
		"tofino2", "sai")
	data := number("data queue", 1, 30) * 1500
	headers := word("header queue", "64", "200", "640", "2000", "10000", "1000000")
	scheduler := fmt.Sprintf("scheduler: %s, header-weight: %d", word("scheduler", "wrr", "dwrr", "strict"),
		number("weight", 1, 20))
	switch model {
	case "droptail":
		return fmt.Sprintf("{model: droptail, data-queue-bytes: %s}", word("queue", "3000", "9000", "30000", "300000"))
	case "cp":
		return fmt.Sprintf("{model: cp, data-queue-bytes: %d, watermark-bytes: %d}", data+number("room", 0, 20)*100, data)
	case "ndp-ideal":
		return fmt.Sprintf("{model: ndp-ideal, data-queue-bytes: %d, header-queue-bytes: %s, %s, return-to-sender: %s, "+
			"trim-last-percent: %d}", data, headers,
			scheduler, word("return", "true", "false"), number("last", 0, 100))
	case "sfc":
		return fmt.Sprintf("{model: sfc, data-queue-bytes: %d, threshold-bytes: %d, header-queue-bytes: %s, %s}", 2*data,
			data, headers, scheduler)
	case "mod":
		return fmt.Sprintf("{model: mod, data-queue-bytes: %d, header-queue-bytes: %s, %s, to-sender: %s, "+
			"ports-per-pipeline: %d}", data, headers, scheduler,
			word("to sender", "true", "false"), number("pipeline", 1, 16))
	case "sai":
		return fmt.Sprintf("{model: sai, trim-size: %d, trim-dscp: 48, trim-queue: 6, profiles: [{queues: [0], action: %s, "+
			"limit-bytes: %d}, {queues: [6], "+
			"limit-bytes: %s}]}", number("trim", 84, 256), word("action", "trim", "trim", "drop"), data, headers)
	default:
		return fmt.Sprintf("{model: %s, data-queue-bytes: %d, header-queue-bytes: %s, %s, ports-per-pipeline: %d}", model,
			data, headers, scheduler,
			number("pipeline", 1, 16))
	}
}
