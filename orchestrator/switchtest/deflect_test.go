package switchtest_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/deflect"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// deflectBugs is a network in which bugs of switches that deflect, and of their hosts, show: two incasts at once.
const deflectBugs = `
topology: {kind: leaf-spine, leaves: 3, spines: 3, hosts-per-leaf: 4,
  link: {gbps: 1, delay-ns: 1000, framing-bytes: 24}, trunk: {gbps: 1, delay-ns: 5000, framing-bytes: 24}}
switch-under-test: {queue-bytes: 20000, %s}
hosts: {transport: tcp, congestion-control: dctcp, min-rto-us: 10000, initial-window: 10}
workload:
  - incast: {senders: 10, packets: 40%s}
  - incast: {senders: 4, receivers: 1, first-receiver: 5, first-sender: 8, packets: 40%s}
  - flow: {src: 1, dst: 9, packets: 200%s}
duration-us: 100000
taps: {decisions: csv}
`

// deflectMore is what a bug needs to show.
var deflectMore = map[string]string{"longer-path": ", forwarding: power-of-two",
	"sprays":       ", forwarding: routes",
	"sees-late":    ", information: snapshot, information-ns: 20000",
	"sees-at-once": ", information: snapshot, information-ns: 20000"}

// deflectRun returns the first finding of each rule that is violated.
func deflectRun(t *testing.T, text string) (rules map[string]string, coverage map[string]int64, ran bool) {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	p, err := switchtest.New(tests[0])
	if err != nil {
		t.Logf("%v\n%s", err, text)
		return nil, nil, false
	}
	o, err := switchtest.Run(t.Context(), p, unwritten())
	if err != nil || o.Analysis == nil {
		t.Fatalf("%v, %+v\n%s", err, o, text)
	}
	rules = make(map[string]string)
	var own []analyzers.Finding
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation && rules[f.Rule] == "" {
			rules[f.Rule] = f.Headline
		}
		if f.Analyzer == deflect.Name {
			own = append(own, f)
		}
	}
	causetest.Declared(t, deflect.Causes(), own)
	return rules, o.Analysis.Coverage[deflect.Name], true
}

// Each seeded bug violates its rule; the same switch without it violates none.
func TestSeededBugsOfDeflectionAreCaughtByTheirRule(t *testing.T) {
	runtimetest.SkipRace(t)
	seen := map[string]bool{}
	for _, m := range configOptions().Switches {
		rank := ""
		switch m.Name {
		case "ecmp", "naive-deflection", "dibs", "sd":
		case "vertigo", "pd":
			rank = ", rank: remaining"
		default:
			continue
		}
		model := "model: " + m.Name
		if m.Name == "pd" {
			model += ", alpha: 0.4, sample: 3"
		}
		text := func(more string) string { return fmt.Sprintf(deflectBugs, model+more, rank, rank, rank) }
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if rules, coverage, _ := deflectRun(t, text("")); len(rules) > 0 || coverage["decisions"] < 3000 {
				t.Errorf("without a bug %v are violated, %v", rules, coverage)
			}
		})
		for _, b := range m.Bugs {
			if seen[b.Name] && m.Name != "vertigo" { // is the same as that of another model
				continue
			}
			seen[b.Name] = true
			t.Run(m.Name+"/"+b.Name, func(t *testing.T) {
				t.Parallel()
				with := text(deflectMore[b.Name] + ", bugs: [" + b.Name + "]")
				if b.Name == "hides-made" { // a bug of what switches make
					with = overBolt(t, with)
				}
				rules, coverage, _ := deflectRun(t, with)
				if rules[b.Rule] == "" {
					t.Errorf("violated are %v, want %s; %v", rules, b.Rule, coverage)
				}
			})
		}
	}
}

// overBolt has the hosts of deflectBugs speak Bolt, which switches answer.
func overBolt(t *testing.T, text string) string {
	t.Helper()
	const tcp = "{transport: tcp, congestion-control: dctcp, min-rto-us: 10000, initial-window: 10}"
	if !strings.Contains(text, tcp) {
		t.Fatalf("hosts are not as expected in %s", text)
	}
	text = strings.Replace(text, tcp, "{transport: bolt, rto-us: 10000, initial-window: 40}", 1)
	return strings.Replace(text, "{queue-bytes", "{bolt-src: true, bolt-threshold-bytes: 6000, queue-bytes", 1)
}

// Beside SRC packets of Bolt, which switches queue by themselves, bugs of deflection are caught as ever, and correct
// switches are not blamed; without records they are not judged.
func TestDeflectionIsJudgedBesideSRCPackets(t *testing.T) {
	runtimetest.SkipRace(t)
	for model, bugs := range map[string]string{"ecmp": "reorders", "naive-deflection": "to-hosts", "dibs": "deflects-early",
		"sd": "gives-up", "vertigo": "smallest-victim", "pd": "double-alpha",
		"dibs, information: snapshot, information-ns: 5000":           "sees-at-once",
		"pd, information: control-packets, relative: dist-exact":      "double-alpha",
		"pd, relative: dist-ewma, priority-unit: 1000, alpha: 0.4":    "double-alpha",
		"pd, sample-on: enqueue, sample: 3, eligible: neither":        "counts-equal",
		"sd, information: snapshot, information-ns: 3000, pipes: 2":   "sees-late",
		"vertigo, priority: las, forwarding: routes, hold-us: 100000": "equal-victims",
	} {
		rank := ""
		if strings.HasPrefix(model, "pd") || strings.HasPrefix(model, "vertigo") {
			rank = ", rank: remaining"
		}
		text := func(more string) string {
			return overBolt(t, fmt.Sprintf(deflectBugs, "model: "+model+more, rank, rank, rank))
		}
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			if rules, coverage, _ := deflectRun(t, text("")); len(rules) > 0 || coverage["made"] < 50 {
				t.Errorf("without a bug %v are violated, %v", rules, coverage)
			}
			rules, coverage, _ := deflectRun(t, text(", bugs: ["+bugs+"]"))
			if !slices.ContainsFunc(slices.Collect(maps.Keys(rules)), func(rule string) bool {
				return strings.HasPrefix(rule, deflect.Name+".")
			}) {
				t.Errorf("%s: violated are %v; %v", bugs, rules, coverage)
			}
			bare := strings.Replace(text(""), "taps: {decisions: csv}", "", 1)
			if rules, coverage, _ := deflectRun(t, bare); len(rules) > 0 || coverage["packets"] > 0 {
				t.Errorf("without records %v are violated, %v", rules, coverage)
			}
		})
	}
}

// Correct switches that deflect are not blamed, whatever their scheme, settings, network and traffic.
// CANDELA_TEST_WIDE says how many networks to draw.
func TestCompliantDeflectionIsNotBlamed(t *testing.T) {
	runtimetest.SkipRace(t)
	first, count := wideNetworks(t, 16)
	const parts = 4
	var refused, decisions, deflected atomic.Int64
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+count; seed += parts {
					text := fmt.Sprintf("# %d\n", seed) + newNetworkDraw(uint64(seed), 2100).deflectNetwork()
					rules, coverage, ran := deflectRun(t, text)
					decisions.Add(coverage["decisions"])
					deflected.Add(coverage["deflected"])
					if !ran {
						refused.Add(1)
					}
					if len(rules) > 0 {
						t.Errorf("%v, %v\n%s", rules, coverage, text)
					}
				}
			})
		}
	})
	t.Logf("%d networks, %d refused, %d decisions, %d deflected", count, refused.Load(), decisions.Load(),
		deflected.Load())
	if 10*refused.Load() > int64(count) || decisions.Load() < int64(100*count) || deflected.Load() < int64(count) {
		t.Errorf("%d of %d networks were refused; %d decisions judged, %d deflected", refused.Load(), count,
			decisions.Load(), deflected.Load())
	}
}

// A packet that a trunk takes with it as it fails, before anything else has happened at the switch, had joined its
// queue: with sample-on enqueue it is in the window.
func TestAPacketLostWithItsTrunkHadBeenQueued(t *testing.T) {
	const text = `
topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts-per-leaf: 3,
  link: {gbps: 1, delay-ns: 648, framing-bytes: 24}, trunk: {gbps: 4, delay-ns: 9520, framing-bytes: 24}}
switch-under-test: {model: pd, queue-bytes: 41569, information: snapshot, information-ns: 20000, hold-us: 20,
  alpha: 0.01, window: 100, sample: 1, sample-on: enqueue}
hosts: {transport: tcp, congestion-control: dctcp, min-rto-us: 10000, initial-window: 40, packet-size: 9000,
  handshake: true}
workload:
  - incast: {senders: 4, packets: 15, start-us: 40, rank: remaining}
  - flow: {src: 3, dst: 0, packets: 13, start-us: 178, rank: remaining}
taps: {decisions: csv}
changes: [{at-us: 391, trunk: {from: leaf-0, to: spine-0, failed: true}},
  {at-us: 803, trunk: {from: leaf-0, to: spine-0, failed: false}}]
duration-us: 20000
seed: 842118955
`
	if rules, coverage, _ := deflectRun(t, text); len(rules) > 0 || coverage["decisions"] < 500 {
		t.Errorf("%v, %v", rules, coverage)
	}
}

// deflectNetwork draws a network with switches that deflect, and traffic that overloads some ports.
func (d networkDraw) deflectNetwork() string {
	leaves, spines, per := d.between(2, 4), d.between(1, 4), d.between(1, 4)
	hosts := leaves * per
	shape := fmt.Sprintf("kind: leaf-spine, leaves: %d, spines: %d, hosts-per-leaf: %d, routing: %s", leaves, spines, per,
		d.of("ecmp", "ecmp", "spray", "spray-round-robin"))
	tiers := true
	switch d.IntN(6) {
	case 0:
		hosts = 16
		shape = "kind: fat-tree, k: 4, routing: " + d.of("ecmp", "spray")
	case 1:
		hosts = 2 * d.between(1, 6)
		shape = fmt.Sprintf("kind: dumbbell, hosts: %d", hosts)
	case 2:
		tiers = false
		hosts = d.between(3, 8)
		shape = fmt.Sprintf("kind: single-switch, hosts: %d", hosts)
	}
	trunk := ""
	if tiers {
		trunk = fmt.Sprintf(", trunk: {gbps: %s, delay-ns: %d, framing-bytes: 24}", d.of("0.5", "1", "1", "4"),
			int(d.magnitude(100, 2e4)))
	}
	model, ranked := d.deflectModel()
	rank := ""
	if ranked {
		rank = ", rank: remaining"
	}
	text := fmt.Sprintf("topology: {%s, link: {gbps: %s, delay-ns: %d, framing-bytes: %s}%s}\n", shape,
		d.of("1", "1", "10"), int(d.magnitude(100, 2e4)), d.of("0", "24"), trunk)
	text += "switch-under-test: {" + model + "}\n"
	if d.one(6) {
		text = strings.Replace(text, "{model:", "{"+d.of("", "bolt-pru: true, ", "bolt-sm: true, ", "bolt-src: true, ",
			"bolt-src: true, bolt-pru: true, bolt-sm: true, bolt-threshold-bytes: 10000, ")+"model:", 1)
		text += fmt.Sprintf("hosts: {transport: bolt, rto-us: %s, initial-window: %s, reorder: %s%s}\nworkload:\n",
			d.of("500", "2000"), d.of("4", "40"), d.of("0", "3"), d.of("", ", packet-size: 9000", ", packet-size: 600"))
	} else {
		text += fmt.Sprintf("hosts: {transport: tcp, congestion-control: %s, min-rto-us: %s, initial-window: %s%s}\n"+
			"workload:\n",
			d.of("dctcp", "dctcp", "reno", "cubic", "swift"), d.of("500", "2000", "10000"), d.of("1", "4", "10", "40"),
			d.of("", ", handshake: true", ", packet-size: 9000", ", packet-size: 600", ", packet-size: 9000, handshake: true"))
	}
	for i := range d.between(1, 4) {
		src := d.IntN(hosts)
		start := int(d.Float64() * 500)
		if i == 0 || d.one(2) {
			text += fmt.Sprintf("  - incast: {senders: %d, packets: %d, start-us: %d%s}\n", d.between(1, hosts-1),
				int(d.magnitude(1, 150)), start, rank)
			continue
		}
		text += fmt.Sprintf("  - flow: {src: %d, dst: %d, count: %d, packets: %d, start-us: %d%s}\n", src,
			(src+d.between(1, hosts-1))%hosts, d.between(1, 4), int(d.magnitude(1, 200)), start, rank)
	}
	if !ranked && d.one(3) {
		text += fmt.Sprintf("  - cbr: {src: 0, dst: %d, rate-gbps: 0.9, transport: raw, stop-us: 3000}\n", hosts-1)
	}
	if !d.one(4) {
		text += "taps: {decisions: csv}\n"
	}
	if changes := d.deflectChanges(shape); changes != "" {
		text += changes
	}
	return text + fmt.Sprintf("duration-us: %s\nseed: %d\n", d.of("1500", "20000", "60000"), d.IntN(1<<30))
}

// deflectChanges draws a switch that stops, or a trunk that fails.
func (d networkDraw) deflectChanges(shape string) string {
	at := d.between(50, 900)
	back := at + d.between(1, 500)
	switch {
	case d.one(6):
		return fmt.Sprintf("changes: [{at-us: %d, switch: 0, state: stopped}, {at-us: %d, switch: 0, state: running}]\n", at,
			back)
	case d.one(5) && strings.Contains(shape, "leaf-spine"):
		const trunk = "trunk: {from: leaf-0, to: spine-0, "
		return fmt.Sprintf("changes: [{at-us: %d, %sfailed: true}}, {at-us: %d, %sfailed: false}}]\n", at, trunk, back, trunk)
	}
	return ""
}

// deflectModel draws a model and its settings.
func (d networkDraw) deflectModel() (text string, ranked bool) {
	parts := []string{fmt.Sprintf("queue-bytes: %d", int(d.magnitude(12_000, 80_000)))}
	name := d.of("ecmp", "naive-deflection", "dibs", "dibs", "sd", "sd", "vertigo", "vertigo", "pd", "pd", "pd", "pd")
	maybe := func(n int, format string, words ...string) {
		if d.one(n) {
			parts = append(parts, fmt.Sprintf(format, d.of(words...)))
		}
	}
	maybe(2, "forwarding: %s", "routes", "power-of-two")
	maybe(3, "ecn-threshold-packets: %s", "3", "20")
	maybe(6, "latency-ns: %s", "1", "1000")
	if name != "ecmp" {
		maybe(2, "eligible: %s", "neighbours", "not-ingress", "not-egress", "neither")
	}
	if slices.Contains([]string{"dibs", "sd", "pd"}, name) && d.one(2) {
		maybe(1, "information: %s", "snapshot, information-ns: 1000", "snapshot, information-ns: 20000",
			"snapshot, information-ns: 333", "control-packets", "control-packets, information-ns: 5000")
		maybe(2, "pipes: %s", "2", "3", "5")
	}
	if name == "sd" {
		maybe(3, "position: %s", "up-to-n")
	}
	if name == "pd" || name == "vertigo" {
		maybe(3, "priority: %s", "las")
		maybe(4, "ordering: %s", "false")
		maybe(2, "hold-us: %s, flowlet-gap-us: 50", "20", "100", "1200")
	}
	if name == "pd" {
		switch d.IntN(5) {
		case 0:
			parts = append(parts, fmt.Sprintf("algorithm: probabilistic, min-threshold-bytes: %d", d.between(0, 10_000)))
		case 1:
			parts = append(parts, "algorithm: on-full")
		default:
			maybe(1, "alpha: %s", "0", "0.01", "0.1", "0.3", "0.5", "0.9", "1")
			maybe(4, "equal: %s", "deflects")
		}
		maybe(2, "relative: %s", "quantile", "dist-exact", "dist-ewma, priority-unit: 1000", "dist-ewma, ewma-divisor: 3",
			"oracle")
		maybe(2, "choices: %s", "1", "2", "3", "8")
		maybe(3, "tie: %s", "first")
		maybe(2, "window: %s", "1", "5", "100")
		maybe(1, "sample: %s", "1", "2", "5", "20")
		maybe(4, "sample-on: %s", "enqueue")
		maybe(4, "denominator: %s", "filled")
		maybe(5, "boost: %s", "false")
		if text = strings.Join(parts, ", "); !strings.Contains(text, "priority: las") {
			maybe(5, "priority: class, classes: [{receivers: 0, value: %s}, {senders: 1..3, value: 45}]", "2", "70000")
		}
	}
	return "model: " + name + ", " + strings.Join(parts, ", "), name == "pd" || name == "vertigo"
}

// A run that ends while shims hold packets is whole.
func TestPacketsThatShimsHoldAreWhereTheyAre(t *testing.T) {
	held := 0
	for _, us := range []int{1200, 1900, 2600} {
		for _, judge := range []string{"off", "full"} {
			text := fmt.Sprintf(deflectBugs, "model: pd, hold-us: 1200", ", rank: remaining", ", rank: remaining",
				", rank: remaining")
			text = strings.Replace(text, "duration-us: 100000", fmt.Sprint("duration-us: ", us), 1)
			text = strings.Replace(text, "taps: {decisions: csv}", "judge: "+judge+"\nexpect: {completed-flows: {min: 0}}", 1)
			p, err := switchtest.New(parse(t, text)[0])
			if err != nil {
				t.Fatal(err)
			}
			var net *fabric.Network
			p.Watch = func(n *fabric.Network) { net = n }
			o, err := switchtest.Run(t.Context(), p, unwritten())
			if err != nil || o.Verdict.Exit != orchestrator.ExitPass {
				t.Errorf("judge %s, %d us: %+v, %v", judge, us, o, err)
			}
			for i := range net.Hosts() {
				held += net.Host(fabric.HostID(i)).Shim().(fabric.Holder).Held()
			}
		}
	}
	if held == 0 {
		t.Error("no shim held a packet at the end of any run")
	}
}

// Deflections over time sum up to what the switches count, however long the run is.
func TestDeflectionsOverTimeAreThoseOfTheCounters(t *testing.T) {
	for _, us := range []int{777, 60000} {
		text := fmt.Sprintf(deflectBugs, "model: dibs", "", "", "")
		text = strings.Replace(text, "duration-us: 100000", fmt.Sprint("duration-us: ", us), 1)
		text = strings.Replace(text, "taps: {decisions: csv}", "judge: off\nresults: {deflections: csv}", 1)
		o := outcome(t, text)
		data, err := os.ReadFile(filepath.Join(o.Dir, "deflection-series.csv"))
		if err != nil {
			t.Fatal(err)
		}
		sums, wantEnd := map[string]int64{}, int64(us)*1000
		lastEnd := int64(0)
		for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			cells := strings.Split(line, ",")
			if i == 0 {
				continue
			}
			start, _ := strconv.ParseInt(cells[1], 10, 64)
			end, _ := strconv.ParseInt(cells[2], 10, 64)
			n, err := strconv.ParseInt(cells[3], 10, 64)
			if err != nil || start >= end && end != wantEnd || start != 0 && start != lastEnd {
				t.Fatalf("%d us: %s", us, line)
			}
			lastEnd = end
			sums[cells[0]] += n
		}
		counted := counters(t, o)
		some := int64(0)
		for name, sum := range sums {
			want := int64(0)
			for counter, n := range counted {
				if strings.HasPrefix(counter, name+".port-") && strings.HasSuffix(counter, ".deflected-to") {
					want += n
				}
			}
			if some += sum; sum != want {
				t.Errorf("%d us: %s has deflected %d by time, %d by counters", us, name, sum, want)
			}
		}
		if lastEnd != wantEnd || some == 0 {
			t.Errorf("%d us: ends at %d ns, %d deflections", us, lastEnd, some)
		}
	}
	test := parse(t, "topology: {kind: single-switch, hosts: 3}\nswitch-under-test: {model: droptail}\n"+
		"workload: [incast: {senders: 2, packets: 3}]\nresults: {deflections: csv}\n")[0]
	if _, err := switchtest.New(test); err == nil || !strings.Contains(err.Error(),
		"results.deflections: the model droptail deflects no packets") {
		t.Errorf("a model that deflects nothing: %v", err)
	}
}
