package switchtest_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/config"
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
  - flow: {src: 5, dst: 0, bytes: 700000, RANK}
  - flow: {src: 1, dst: 0, count: 20, bytes: 9000, stagger-us: 31, RANK}
  - flow: {src: 2, dst: 5, count: 10, bytes: 30000, stagger-us: 20, RANK}
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
		"stfq-pieo"}, name)
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
	settings := map[string]string{"aifo": "target-packets: 20, room-packets: 14, window: 8, sample: 1", "stfq-aifo": "target-packets: 20, room-packets: 14, window: 8, sample: 1",
		"sp-pifo": "priorities: 4, packets-per-queue: 5", "stfq-sp-pifo": "priorities: 4, packets-per-queue: 5",
		"stfq-pifo": "queue-packets: 20", "pieo": "queue-packets: 20, pace-mbps: 4000",
		"stfq-pieo": "queue-packets: 20, pace-mbps: 4000", "afq": "rounds: 200"}
	bugs := 0
	for _, m := range rankModels(ofRanks) {
		for _, b := range slices.Concat([]parameter.Bug{{Name: ""}}, m.Bugs) {
			bugs++
			t.Run(m.Name+" "+b.Name, func(t *testing.T) {
				t.Parallel()
				rules, repeated := rankRules(t, rankText(fmt.Sprintf("model: %s, %s, bugs: [%s]", m.Name, settings[m.Name], b.Name), "tcp"))
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

// rankNetwork draws a network whose switches, or NICs, schedule by rank.
func (d networkDraw) rankNetwork() (text string, recorded bool) {
	if text, recorded = d.wideNetwork(); d.IntN(3) == 0 {
		text = d.tcpNetwork("droptail")
		recorded = false
	}
	model := d.of("aifo", "aifo", "sp-pifo", "afq", "stfq-pifo", "stfq-aifo", "stfq-sp-pifo",
		"pieo", "pieo", "stfq-pieo")
	settings := "model: " + model
	number := func(name string, most float64) {
		if d.IntN(3) > 0 {
			settings += fmt.Sprintf(", %s: %d", name, int(d.magnitude(1, most)))
		}
	}
	switch strings.TrimPrefix(model, "stfq-") {
	case "aifo":
		number("target-packets", 500)
		number("room-packets", 500)
		number("window", 300)
		number("sample", 30)
		settings += ", headroom: " + d.of("0", "0.1", "0.333333", "0.9") + ", update: " + d.of("before", "after") + ", compare: " +
			d.of("at-most", "below")
		if d.IntN(3) == 0 {
			settings += ", mode: dataplane, loop-ns: " + d.of("0", "200", "20000")
		}
	case "sp-pifo":
		settings += fmt.Sprintf(", priorities: %d, push-down: %s, push-up: %s", d.between(1, 64),
			d.of("true", "false"), d.of("true", "true", "false"))
		number("packets-per-queue", 100)
	case "afq":
		number("rounds", 1000)
		number("round-bytes", 10000)
		number("queue-packets", 500)
	case "pieo":
		number("pace-mbps", 20000)
		number("queue-packets", 500)
	case "pifo":
		number("queue-packets", 500)
		number("queue-bytes", 500000)
	}
	if strings.HasPrefix(model, "stfq-") {
		settings += ", undo-drops: " + d.of("true", "false")
	}
	if d.IntN(3) == 0 {
		text += "taps: {decisions: csv}\n"
	}
	text = modelSettings.ReplaceAllString(text, "switch-under-test: {"+settings+"}")
	if d.IntN(3) == 0 {
		text = strings.Replace(text, "hosts: {", "hosts: {nic: {"+settings+"}, ", 1)
	}
	return text, recorded
}

var modelSettings = regexp.MustCompile(`(?m)^switch-under-test: .*$`)

// Correct switches and NICs that schedule by rank, and hosts behind them, are not blamed.
func TestSwitchesThatScheduleByRankAreNotBlamed(t *testing.T) {
	first, count := wideNetworks(t, 60)
	const parts = 4
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			refused, ran := 0, 0
			for seed := first + part; seed < first+count; seed += parts {
				text, recorded := newNetworkDraw(uint64(seed), 900).rankNetwork()
				if recorded {
					text += captured
				}
				ran++
				if !blamesNobody(t, fmt.Sprintf("# %d\n", seed)+text, recorded) {
					refused++
				}
			}
			if 2*refused > ran+1 {
				t.Errorf("%d of %d networks were refused", refused, ran)
			}
		})
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
