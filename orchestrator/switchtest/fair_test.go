package switchtest_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/fair"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// fairNetworks are networks in which bugs of core-stateless fair queueing show. K_alpha is 50 us, so that a window of
// 20 K_c has 2 ms.
var fairNetworks = map[string]string{
	// small and large flows with weights; one comes late, as fast as its link
	"flat": `
topology: {kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 1000, framing-bytes: 20}}
switch-under-test: {k-alpha-us: 50, flows: [{hosts: [2], weight: 2}], %s}
hosts: {transport: raw}
duration-us: 16000
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 1, jitter: 0.05}
  - cbr: {src: 1, dst: 4, count: 3, rate-gbps: 3, jitter: 0.05}
  - cbr: {src: 2, dst: 4, rate-gbps: 9, jitter: 0.05}
  - cbr: {src: 3, dst: 4, rate-gbps: 9.9, start-us: 9000}
`,
	// a tree over two switches, the second of which reads labels
	"tree": `
topology: {kind: dumbbell, hosts: 8, link: {gbps: 40, delay-ns: 1000, framing-bytes: 20},
  trunk: {gbps: 10, delay-ns: 1000, framing-bytes: 20}, links: [{host: 5, gbps: 2}]}
switch-under-test: {k-alpha-us: 50, tree: [{weight: 2}, {parent: 1, hosts: [0]}, {parent: 1, hosts: [1], weight: 2}, {hosts: [2]}],
  flows: [{hosts: [2], numbers: [7], weight: 3}], %s}
hosts: {transport: raw}
duration-us: 16000
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 6, jitter: 0.05}
  - cbr: {src: 1, dst: 5, count: 3, rate-gbps: 3, jitter: 0.05}
  - cbr: {src: 2, dst: 6, rate-gbps: 0.5, jitter: 0.05}
  - cbr: {src: 2, dst: 6, count: 2, rate-gbps: 3, jitter: 0.05}
  - cbr: {src: 3, dst: 7, rate-gbps: 1, jitter: 0.05, start-us: 8000}
`,
	// two tenants, in one of which a flow comes late
	"tenants": `
topology: {kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 1000, framing-bytes: 20}}
switch-under-test: {k-alpha-us: 50, tree: [{hosts: [0, 3]}, {hosts: [1, 2], weight: 2}], %s}
hosts: {transport: raw}
duration-us: 32000
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 9, jitter: 0.05}
  - cbr: {src: 1, dst: 4, count: 2, rate-gbps: 4, jitter: 0.05}
  - cbr: {src: 2, dst: 4, rate-gbps: 3, jitter: 0.05}
  - cbr: {src: 3, dst: 4, rate-gbps: 9, jitter: 0.05, start-us: 15000}
`,
	// two tenants, in one of which a flow comes late that takes its share from the other
	"siblings": `
topology: {kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 1000, framing-bytes: 20}}
switch-under-test: {k-alpha-us: 50, tree: [{hosts: [0, 3]}, {hosts: [1, 2]}], %s}
hosts: {transport: raw}
duration-us: 24000
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 2, jitter: 0.05}
  - cbr: {src: 1, dst: 4, count: 2, rate-gbps: 4, jitter: 0.05}
  - cbr: {src: 2, dst: 4, rate-gbps: 3, jitter: 0.05}
  - cbr: {src: 3, dst: 4, rate-gbps: 9, jitter: 0.05, start-us: 11000}
`,
	// flows of which the first packets overflow the FIFO for long
	"crowd": `
topology: {kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {%s}
hosts: {transport: raw}
duration-us: 3000
workload: [cbr: {src: 0..3, dst: 4, rate-gbps: 9.9, jitter: 0.05}]
`,
	// flows that fit; the label of one is alpha
	"fits": `
topology: {kind: single-switch, hosts: 3, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {%s}
hosts: {transport: raw}
duration-us: 8000
workload: [cbr: {src: 0, dst: 1, rate-gbps: 3}, cbr: {src: 2, dst: 1, rate-gbps: 1.7, jitter: 0.9}]
`,
	// a flow that takes the whole link as soon as another has gone
	"leaves": `
topology: {kind: single-switch, hosts: 3, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {%s}
hosts: {transport: raw}
duration-us: 8000
workload:
  - cbr: {src: 0, dst: 2, rate-gbps: 9.95, jitter: 0.05}
  - cbr: {src: 1, dst: 2, rate-gbps: 9.95, on-us: 2000, off-us: 2000}
`,
	// the capacity of the link is changed
	"changes": `
topology: {kind: single-switch, hosts: 4, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {k-alpha-us: 50, %s}
hosts: {transport: raw}
duration-us: 16000
changes: [{at-us: 5000, set: {phi: 0.6}}]
workload:
  - cbr: {src: 0, dst: 3, rate-gbps: 8, jitter: 0.05}
  - cbr: {src: 1, dst: 3, count: 2, rate-gbps: 4, jitter: 0.05}
`,
	// packets of several hosts come at one instant
	"instants": `
topology: {kind: single-switch, hosts: 4, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {%s}
hosts: {transport: raw}
duration-us: 4000
workload:
  - cbr: {src: 0, dst: 3, rate-gbps: 5}
  - cbr: {src: 1, dst: 3, rate-gbps: 5}
  - cbr: {src: 2, dst: 3, rate-gbps: 5}
`,
}

// fairBug is where a bug shows.
type fairBug struct {
	network string
	records bool // it shows in records only
	more    string
}

// fairBugs are those that do not show in the network flat without records.
var fairBugs = map[string]fairBug{
	"one-bit-test": {"flat", false, "mode: dataplane"}, "drops-equal": {"fits", true, "mode: dataplane, " +
		"average-shift: 0"},
	"keeps-label": {"tree", false, ""}, "measures-again": {"tree", true, ""}, "hasty": {"flat", true, ""},
	"literal-sign": {"flat", true, ""}, "starts-from-zero": {"flat", true, ""}, "skips-instant": {"instants", true, ""},
	"last-gap": {"flat", true, ""}, "counts-dropped": {"flat", true, ""}, "no-decay": {"tree", true, ""},
	"no-floor": {"flat", true, ""}, "by-arrivals": {"flat", true, ""}, "no-ceiling": {"leaves", true, ""},
	"halves": {"flat", true, "mode: dataplane"}, "last-child": {"fits", true, ""},
	"ignores-floor": {"fits", true, "alpha-floor: 0.5"}, "idles": {"tenants", false, ""},
	"no-framing":       {"flat", true, ""},
	"overflow-ignored": {"flat", true, "overflow-heuristic: true, phi: 1, queue-packets: 40"},
	"core-state":       {"tree", false, ""}, "one-leaf": {"tenants", false, ""}, "even-nodes": {"tenants", false, ""},
	"no-parent": {"tenants", false, ""}, "link-alpha": {"tenants", false, ""}, "every-level": {"tenants", false, ""},
	"link-label": {"tree", false, ""}, "one-start-time": {"tenants", true, ""},
	"ignores-change":     {"changes", true, ""},
	"overflow-unlimited": {"crowd", true, "overflow-heuristic: true, phi: 1, queue-packets: 40"},
	"sibling-alpha":      {"siblings", false, ""}, "one-accepted": {"siblings", false, ""},
	"sibling-arrivals": {"siblings", false, ""},
	"drops-shim":       {"tree", false, "shim: true"}, "stale-shim": {"tree", false, "shim: true"},
	"shim-in-mbps": {"tree", false, "shim: true"}, "no-shim-bytes": {"tree", true, "shim: true"},
}

// fairRun returns the first finding of each rule that is violated.
func fairRun(t *testing.T, network, model, more string, records bool) (rules map[string]string,
	coverage map[string]int64) {
	t.Helper()
	text := fmt.Sprintf(fairNetworks[network], "model: "+model+more)
	if records {
		text += "taps: {decisions: csv}\n"
	}
	p, err := switchtest.New(parse(t, text)[0])
	if err != nil {
		t.Fatal(err)
	}
	o, err := switchtest.Run(t.Context(), p, unwritten())
	if err != nil || o.Analysis == nil {
		t.Fatalf("%v, %+v", err, o)
	}
	rules = make(map[string]string)
	var own []analyzers.Finding
	for _, f := range o.Analysis.Findings {
		if f.Severity != analyzers.Note && rules[f.Rule] == "" {
			rules[f.Rule] = f.Headline
		}
		if f.Analyzer == fair.Name {
			own = append(own, f)
		}
	}
	causetest.Declared(t, fair.Causes(), own)
	return rules, o.Analysis.Coverage[fair.Name]
}

// Each seeded bug violates its rule; the same switch without it violates none.
func TestSeededBugsOfCoreStatelessFairQueueingAreCaughtByTheirRule(t *testing.T) {
	runtimetest.SkipRace(t)
	seen := map[string]bool{}
	var clean sync.Map
	for _, m := range configOptions().Switches {
		if m.Name != "csfq" && m.Name != "hcsfq" {
			continue
		}
		for _, b := range m.Bugs {
			where, listed := fairBugs[b.Name]
			if !listed {
				where.network = "flat"
			}
			model := "csfq"
			if strings.Contains("tree tenants siblings", where.network) {
				model = "hcsfq"
			}
			if seen[b.Name] || model != m.Name {
				continue
			}
			seen[b.Name] = true
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				more := ""
				if where.more != "" {
					more = ", " + where.more
				}
				if _, tried := clean.LoadOrStore(fmt.Sprint(where), true); !tried {
					if rules, coverage := fairRun(t, where.network, model, more, where.records); len(rules) > 0 ||
						coverage["packets"] < 1000 {
						t.Errorf("without it %v are violated, %v", rules, coverage)
					}
				}
				rules, coverage := fairRun(t, where.network, model, more+", bugs: ["+b.Name+"]", where.records)
				if rules[b.Rule] == "" {
					t.Errorf("violated are %v, want %s; %v", rules, b.Rule, coverage)
				}
			})
		}
	}
}

// Flows that the workload gives weights get so much of the link, and a switch that ignores them is found.
func TestWeightsOfTheWorkloadReachFairQueueing(t *testing.T) {
	t.Parallel()
	const text = `
topology: {kind: single-switch, hosts: 4, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: csfq, k-alpha-us: 50, flows: [{hosts: [1], weight: 2}]%s}
hosts: {transport: raw}
duration-us: 10000
workload:
  - cbr: {src: 0, dst: 3, rate-gbps: 8, jitter: 0.05}
  - cbr: {src: 1, dst: 3, rate-gbps: 8, jitter: 0.05}
  - cbr: {src: 2, dst: 3, rate-gbps: 8, jitter: 0.05, weight: 3}
expect:
  flows: [{flows: 1, goodput-gbps: {min: 1.4, max: 1.8}}, {flows: 2, goodput-gbps: {min: 2.8, max: 3.6}},
    {flows: 3, goodput-gbps: {min: 4.2, max: 5.4}}]
`
	o := judge(t, parse(t, fmt.Sprintf(text, ""))[0])
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("%v", o.Verdict.Reasons)
	}
	o = judge(t, parse(t, fmt.Sprintf(text, ", bugs: [ignores-weights]"))[0])
	if o.Verdict.Exit != orchestrator.ExitFail {
		t.Errorf("ignored weights: %v", o.Verdict.Reasons)
	}
}

// A last hop that leaves the shim in the packet is found, too.
func TestAShimThatIsKeptIsFound(t *testing.T) {
	t.Parallel()
	rules, _ := fairRun(t, "tree", "hcsfq", ", shim: true, bugs: [keeps-shim]", false)
	if !strings.Contains(rules["fair.label"], "to its host with a label") {
		t.Errorf("%v", rules)
	}
}

// Correct switches are not blamed, whatever their tree, settings, network and traffic. CANDELA_TEST_WIDE says how many
// networks to draw, make silence draws 2000.
func TestCompliantCoreStatelessFairQueueingIsNotBlamed(t *testing.T) {
	runtimetest.SkipRace(t)
	first, count := wideNetworks(t, 24)
	if silence() && count == 24 {
		count = 2000
	}
	const parts = 4
	var refused, draws atomic.Int64
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+count; seed += parts {
					ran, judged := fairBlamesNobody(t, fmt.Sprintf("# %d\n", seed)+newNetworkDraw(uint64(seed), 800).fairNetwork())
					draws.Add(judged)
					if !ran {
						refused.Add(1)
					}
				}
			})
		}
	})
	if 20*refused.Load() > int64(count) || draws.Load() < int64(10*count) {
		t.Errorf("%d of %d networks were refused, %d draws judged", refused.Load(), count, draws.Load())
	}
}

// fairBlamesNobody runs a network; ran is false if the test is refused, and draws is how many random drops were judged.
func fairBlamesNobody(t *testing.T, text string) (ran bool, draws int64) {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	p, err := switchtest.New(tests[0])
	if err != nil {
		t.Logf("%v\n%s", err, text)
		return false, 0
	}
	r, err := switchtest.Run(t.Context(), p, unwritten())
	if err != nil || r.Analysis == nil {
		t.Fatalf("%v, %+v\n%s", err, r, text)
	}
	for _, f := range r.Analysis.Findings {
		if f.Severity != analyzers.Note {
			t.Errorf("%s t=%dns %s\n%s", f.Rule, f.TimeNS, f.Headline, text)
			break
		}
	}
	return true, r.Analysis.Coverage[fair.Name]["draws"]
}

// These correct switches were blamed once for what they cannot help.
func TestCoreStatelessFairQueueingIsNotBlamedForItsConvergence(t *testing.T) {
	for name, text := range map[string]string{
		"a FIFO that has filled before overflows while it drains": `
topology: {kind: single-switch, hosts: 6, link: {gbps: 40, delay-ns: 1000}, links: [{host: 5, gbps: 10}]}
switch-under-test: {model: csfq, mode: dataplane, flows: [{hosts: [2], weight: 2}, {weight: 3}]}
hosts: {transport: raw, packet-size: 1500}
duration-us: 12000
seed: 10
workload:
  - cbr: {src: 0, dst: 5, count: 2, rate-gbps: 1.5, jitter: 0.05}
  - cbr: {src: 1, dst: 5, count: 2, rate-gbps: 1.5, jitter: 0.05}
  - cbr: {src: 2, dst: 5, count: 1, rate-gbps: 3, jitter: 0.05}
  - cbr: {src: 3, dst: 5, count: 2, rate-gbps: 3, jitter: 0.05}
  - cbr: {src: 4, dst: 5, count: 2, rate-gbps: 1.5, jitter: 0.05}
`,
		"alpha that has fallen too far comes back by small steps": `
topology: {kind: single-switch, hosts: 5, link: {gbps: 100, delay-ns: 1000}, links: [{host: 4, gbps: 40}]}
switch-under-test: {model: hcsfq, mode: dataplane, window-us: 20, recirculation-ns: 5000, drop-bits: 4,
  window-sample: window, average-shift: 1, uncongested: additive, decrease-divisor: 64, increase-divisor: 1024,
  tree: [{hosts: 0..1}, {hosts: 2..3}]}
hosts: {transport: raw, packet-size: 1500}
duration-us: 6000
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 30, jitter: 0.05}
  - cbr: {src: 1, dst: 4, rate-gbps: 20, jitter: 0.05, start-us: 3000}
  - cbr: {src: 2, dst: 4, rate-gbps: 15, jitter: 0.05}
`,
		"alpha of flows with great weights has far to fall": `
topology: {kind: single-switch, hosts: 4, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: csfq, k-alpha-us: 50, flows: [{weight: 5000}]}
hosts: {transport: raw, packet-size: 1500}
duration-us: 8000
workload:
  - cbr: {src: 0, dst: 3, rate-gbps: 9, jitter: 0.05}
  - cbr: {src: 1, dst: 3, rate-gbps: 8, jitter: 0.05}
  - cbr: {src: 2, dst: 3, rate-gbps: 5, jitter: 0.05}
`,
		"alpha that begins small takes from varying demand": `
topology: {kind: single-switch, hosts: 8, link: {gbps: 40, delay-ns: 1, framing-bytes: 20},
  links: [{host: 0, gbps: 10}]}
switch-under-test: {model: hcsfq, tree: [{hosts: [1]}, {hosts: [2]}, {hosts: [3], weight: 2}], mode: dataplane,
  initial-share: 32, shim: true, recirculation-ns: 0, flows: [{hosts: [2], weight: 3}]}
taps: {decisions: csv}
hosts: {transport: raw, packet-size: 1500}
workload: [cbr: {src: 4, dst: 0, count: 4, rate-gbps: 0.245, packet-size: 200, jitter: 0.05}]
duration-us: 8000
seed: 608049976
`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, draws := fairBlamesNobody(t, text); draws < 100 {
				t.Errorf("%d draws judged", draws)
			}
		})
	}
}

// fairNetwork draws a network with core-stateless fair queueing and traffic that overloads some ports.
func (d networkDraw) fairNetwork() string {
	hosts := d.between(3, 8)
	shape := fmt.Sprintf("kind: single-switch, hosts: %d", hosts)
	trunk := ""
	switch d.IntN(4) {
	case 0:
		hosts = 6
		shape = fmt.Sprintf("kind: leaf-spine, leaves: 2, spines: %d, hosts-per-leaf: 3, routing: %s", d.between(1, 3),
			d.of("ecmp", "ecmp", "spray"))
	case 1:
		hosts = 2 * d.between(2, 4)
		shape = fmt.Sprintf("kind: dumbbell, hosts: %d", hosts)
		trunk = ", trunk: {gbps: " + d.of("1", "10", "40") + "}"
	}
	slow := d.of("1", "10", "10", "40")
	framing := d.of("0", "20", "24")
	rate, _ := strconv.ParseFloat(slow, 64)
	duration := int(60_000/rate) + 2000
	text := fmt.Sprintf("topology: {%s, link: {gbps: %s, delay-ns: %s, framing-bytes: %s}%s, links: [{host: 0, gbps: "+
		"%s}]}\n", shape,
		d.of("10", "40", "100"), d.of("1", "500", "5000", "50000"), framing, trunk, slow)
	transport := d.of("raw", "raw", "raw", "tcp")
	model := d.fairModel(hosts)
	text += "switch-under-test: {" + model + "}\nhosts: {transport: " + transport + ", packet-size: " +
		d.of("1500", "1500", "500", "9000") + "}\nworkload:\n"
	for range d.between(1, 6) {
		src := d.between(1, hosts-1)
		jitter := d.of("0", "0.05", "0.05", "0.9")
		start := d.of("", fmt.Sprintf(", start-us: %d", d.between(0, duration/2)))
		switch {
		case d.one(5):
			text += fmt.Sprintf("  - incast: {senders: %d, packets: %d, start-us: %d}\n", d.between(1, hosts-1),
				d.between(1, 150), d.between(0, 250))
		case d.one(4):
			text += fmt.Sprintf("  - cbr: {src: %d, dst: 0, rate-gbps: %.3f, on-us: %d, off-us: %d}\n", src,
				rate*(0.1+d.Float64()), d.between(20, 3000), d.between(20, 3000))
		case d.one(4):
			text += fmt.Sprintf("  - cbr: {src: %d, dst: 0, count: %d, rate-gbps: %.3f, packet-size: %s, jitter: %s%s}\n", src,
				d.between(1, 5), rate*(0.02+0.1*d.Float64()), d.of("1500", "200", "64"), jitter, start)
		default:
			weight := d.of("", "", ", weight: 2", ", weight: 1.5")
			text += fmt.Sprintf("  - cbr: {src: %d, dst: 0, count: %d, rate-gbps: %.3f, jitter: %s%s%s}\n", src,
				d.between(1, 3), rate*(0.1+d.Float64()), jitter, start, weight)
		}
	}
	if d.one(2) {
		text += "taps: {decisions: csv}\n"
	}
	at := d.between(1, duration-2)
	switch {
	case d.one(6):
		text += fmt.Sprintf("changes: [{at-us: %d, state: stopped}, {at-us: %d, state: running}]\n", at,
			min(duration-1, at+int(d.magnitude(1, 1000))))
	case d.one(6):
		text += fmt.Sprintf("changes: [{at-us: %d, set: {%s}}]\n", at, d.of("phi: 0.7",
			"k-c-us: 300", "k-alpha-us: 80, k-f-us: 5",
			"bypass-bytes: 200", "parent-alpha: before, min-factor: 0.5", "alpha-floor: 0.3", "tail-drops: ignored, phi: 0.9"))
	case trunk != "" && d.one(3):
		text += fmt.Sprintf("changes: [{at-us: %d, trunk: {from: left, to: right, %s}}]\n", at,
			d.of("gbps: 5", "delay-ns: 9", "failed: true"))
	}
	return text + fmt.Sprintf("duration-us: %d\nseed: %d\n", duration, d.IntN(1<<30))
}

// fairModel draws a model with its tree and settings.
func (d networkDraw) fairModel(hosts int) string {
	model := d.of("csfq", "hcsfq", "hcsfq")
	parts := []string{"model: " + model}
	add := func(often int, format string, args ...any) {
		if d.one(often) {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	if model == "hcsfq" {
		leaves := d.between(1, hosts-1)
		inner := d.IntN(min(leaves, 3) + 1)
		var nodes []string
		node := func(parent int, more string) {
			if d.one(2) {
				more += fmt.Sprintf(", weight: %d", d.between(1, 4))
			}
			if parent > 0 {
				more += fmt.Sprintf(", parent: %d", parent)
			}
			nodes = append(nodes, "{"+strings.TrimPrefix(more, ", ")+"}")
		}
		for i := range inner {
			node(d.IntN(i+1), "")
		}
		for i := range leaves { // the first give each node above a child
			parent := i + 1
			if i >= inner {
				parent = d.IntN(inner + 1)
			}
			node(parent, fmt.Sprintf(", hosts: [%d]", i+1))
		}
		parts = append(parts, "tree: ["+strings.Join(nodes, ", ")+"]")
	}
	overflow := model == "csfq" && d.one(4)
	if overflow { // which data planes do not have
		parts = append(parts, "overflow-heuristic: true")
	}
	add(2, "flows: [{hosts: [%d], weight: %d}]", d.between(1, hosts-1), d.between(1, 4))
	if dataplane := d.one(3); dataplane && !overflow {
		parts = append(parts, "mode: dataplane")
	}
	add(4, "k-alpha-us: %d", int(d.magnitude(10, 500)))
	add(5, "k-us: %d", int(d.magnitude(10, 500)))
	add(6, "k-c-us: %d", int(d.magnitude(10, 500)))
	add(6, "k-f-us: %s", d.of("0", "1", "200"))
	add(4, "phi: %s", d.of("1", "0.9"))
	add(6, "min-factor: %s", d.of("0.1", "0.9"))
	add(6, "initial-share: 32")
	add(4, "alpha-floor: %s", d.of("0.1", "0.1", "0.02", "0.5", "1"))
	add(4, "parent-alpha: before")
	add(4, "tail-drops: ignored")
	add(3, "queue-packets: %d", d.between(5, 400))
	add(8, "queue-bytes: %d", d.between(10_000, 400_000))
	add(4, "bypass-bytes: %s", d.of("125", "600"))
	add(3, "shim: true")
	add(12, "ecn-threshold-bytes: 30000")
	add(6, "clock-ns: %s", d.of("1", "8", "1000"))
	if strings.Contains(strings.Join(parts, " "), "dataplane") {
		add(4, "window-us: %d", int(d.magnitude(10, 500)))
		add(4, "window-sample: window")
		add(4, "average-shift: %d", d.between(0, 5))
		add(3, "drop-bits: %d", d.between(1, 16))
		add(4, "decrease-divisor: %d", int(d.magnitude(4, 1000)))
		add(4, "increase-divisor: %d", int(d.magnitude(100, 10_000)))
		add(3, "uncongested: additive")
		add(3, "recirculation-ns: %s", d.of("0", "200", "5000"))
	}
	return strings.Join(parts, ", ")
}
