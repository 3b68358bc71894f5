package switchtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/aqm"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// aqmOverload is a port at which flows of constant rates offer more than it carries, some of them with pauses: small
// byte counts and windows make a short run, of 3 ms, show what elephants and mice do.
const aqmOverload = `
topology: {kind: single-switch, hosts: 7, link: {gbps: 100, framing-bytes: 20}, links: [{host: 6, gbps: 10}]}
switch-under-test: {%s}
hosts: {transport: raw, packet-size: 1500, ecn: %s}
duration-us: 3000
workload:
  - cbr: {src: 0, dst: 6, rate-gbps: 2, jitter: 0.5}
  - cbr: {src: 1, dst: 6, rate-gbps: 4, jitter: 0.5, dscp: 8}
  - cbr: {src: 2, dst: 6, rate-gbps: 6, jitter: 0.5}
  - cbr: {src: 3, dst: 6, rate-gbps: 5, on-us: 900, off-us: 700}
  - cbr: {src: 4, dst: 6, rate-gbps: 3, packet-size: 500, on-us: 300, off-us: 400}
  - cbr: {src: 5, dst: 6, rate-gbps: 0.12}
  - flow: {src: 5, dst: 6, count: 120, packets: 8, packet-size: 700, stagger-us: 35}
`

// aqmSprayed is a network whose flows enter a leaf by two ports.
const aqmSprayed = `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 3, routing: spray, link: {gbps: 10}}
switch-under-test: {%s}
hosts: {transport: raw, packet-size: 1500, ecn: %s}
workload: [flow: {src: 0, dst: 3, packets: 2000}, flow: {src: 1, dst: 3, packets: 2000}]
`

// aqmBacklogged is a port at which two flows offer all that it carries and more, for as long as shares take to show.
const aqmBacklogged = `
topology: {kind: single-switch, hosts: 3, link: {gbps: 100, framing-bytes: 20}, links: [{host: 2, gbps: 10}]}
switch-under-test: {%s}
hosts: {transport: raw, packet-size: 1500, ecn: %s}
duration-us: 12000
workload: [cbr: {src: 0, dst: 2, rate-gbps: 8, jitter: 0.5}, cbr: {src: 1, dst: 2, rate-gbps: 8, jitter: 0.5}]
`

// fast are settings of AFD with which elephants come and go within a millisecond.
const fast = "etrap-byte-count: 20000, etrap-age-period-us: 100, etrap-bandwidth-threshold-bytes: 1500"

// brief are settings of DPP of the same kind.
const brief = "dpp-max-packets: 30, dpp-age-period-us: 500"

// aqmRun returns the findings of the analyzer in a run of aqmOverload of so many microseconds, by rule.
func aqmRun(t *testing.T, model, ecn, more string, us int) (rules map[string]string, coverage map[string]int64) {
	t.Helper()
	network := strings.Replace(aqmOverload, "us: 3000", fmt.Sprint("us: ", us), 1)
	if strings.Contains(model, "etrap-scope") {
		network = aqmSprayed
	} else if strings.Contains(model, "kp: 0.05") {
		network = aqmBacklogged
	}
	p, err := switchtest.New(parse(t, fmt.Sprintf(network, model, ecn)+more)[0])
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
		if f.Analyzer == aqm.Name {
			own = append(own, f)
		}
	}
	causetest.Declared(t, aqm.Causes(), own)
	return rules, o.Analysis.Coverage[aqm.Name]
}

// settingsOf are those of a model with which its bugs show.
func settingsOf(model, bug string) (text, ecn string) {
	text, ecn = "model: "+model, "not-ect"
	if strings.HasPrefix(model, "afd") {
		text += ", " + fast
	}
	if strings.HasSuffix(model, "dpp") {
		text += ", " + brief
	}
	switch bug {
	case "drops-marked", "recounts-marks":
		return text + ", ecn: true", "ect0"
	case "marks-incapable":
		return text + ", ecn: true", ecn
	case "favours-flows":
		return text + ", kp: 0.05", ecn
	case "double-threshold":
		return text, "ect0"
	case "system-over-interface":
		return text + ", policies: [{port: 6, queue-desired-bytes: 50000}, {queue-desired-bytes: 400000}]", ecn
	case "drops-mice":
		return strings.Replace(text, "20000", "400000", 1), ecn
	case "other-scope":
		return text + ", etrap-scope: port", ecn
	case "whole-port-as-queue":
		return text + ", queues: 2", ecn
	case "no-greatest-fair-rate":
		return text + ", kp: 0, queue-desired-bytes: 2000000", ecn
	case "gives-up":
		return text + ", port-buffer-bytes: 600000", ecn
	case "never-expires", "expires-early": // queues so short that packets leave before the end
		return text + ", port-buffer-bytes: 300000", ecn
	case "saturates":
		return text + ", counter-bits: 12", ecn
	case "overfills-port", "refuses-with-room", "miscounts":
		return text + ", port-buffer-bytes: 140000", ecn
	case "slow-mean", "regular-drops":
		if strings.HasSuffix(model, "red") {
			return text + ", queue-weight: 0.02", ecn
		}
	}
	return text, ecn
}

// withRecords are bugs that the taps alone do not show: what is wrong is a claim.
var withRecords = []string{"stale-rate", "never-evicts", "late-promotion", "evicts-at-threshold", "keeps-bytes",
	"other-scope", "fair-rate-per-packet", "double-ki", "no-greatest-fair-rate", "whole-port-as-queue",
	"system-over-interface", "records-late", "records-tail"}

// Each seeded bug violates its rule; the same switch without it violates none.
func TestSeededBugsOfActiveQueueManagementAreCaughtByTheirRule(t *testing.T) {
	runtimetest.SkipRace(t)
	seen := map[string]bool{}
	var clean sync.Map
	for _, m := range configOptions().Switches {
		if m.Parameters.Find("port-buffer-bytes") < 0 || m.Name == "wred" || m.Name == "tail-deep" {
			continue
		}
		for _, b := range m.Bugs {
			if seen[b.Name] && os.Getenv("CANDELA_TEST_SILENCE") == "" {
				continue
			}
			seen[b.Name] = true
			t.Run(m.Name+"/"+b.Name, func(t *testing.T) {
				t.Parallel()
				text, ecn := settingsOf(m.Name, b.Name)
				records := ""
				if slices.Contains(withRecords, b.Name) {
					records = "taps: {decisions: csv}\n"
				}
				if _, tried := clean.LoadOrStore(text+ecn+records, true); !tried {
					if rules, coverage := aqmRun(t, text, ecn, records, 3000); len(rules) > 0 || coverage["packets"] < 3000 {
						t.Errorf("without it %v are violated, %v", rules, coverage)
					}
				}
				guilty := text + ", bugs: [" + b.Name + "]"
				rules, _ := aqmRun(t, guilty, ecn, records, 500) // most show early
				if rules[b.Rule] == "" || silence() {
					rules, _ = aqmRun(t, guilty, ecn, records, 3000)
				}
				if rules[b.Rule] == "" {
					t.Errorf("violated are %v, want %s", rules, b.Rule)
				}
			})
		}
	}
}

// Correct switches are not blamed, whatever their settings, network and traffic. Half the networks are small and fast,
// half are wide. CANDELA_TEST_WIDE says how many to draw, make silence draws 2000.
func TestCompliantActiveQueueManagementIsNotBlamed(t *testing.T) {
	runtimetest.SkipRace(t)
	first, count := wideNetworks(t, 200)
	if silence() && count == 200 {
		count = 2000
	} else if testing.Short() {
		count = 60
	}
	const parts = 4
	var refused, draws atomic.Int64
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+count; seed += parts {
					d := newNetworkDraw(uint64(seed), 700)
					text := d.aqmNetwork
					if seed/parts%2 == 1 {
						text = d.wideAQM
					}
					ran, judged := aqmBlamesNobody(t, fmt.Sprintf("# %d\n", seed)+text())
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

// These networks once caused findings against correct switches. The first line of each says what the judge took for
// granted.
func TestNetworksThatOnceBlamedCorrectQueueManagementDoNotAnyMore(t *testing.T) {
	files, err := filepath.Glob("testdata/blamed-aqm/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yml"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if ran, _ := aqmBlamesNobody(t, string(text)); !ran {
				t.Error("the test is refused")
			}
		})
	}
}

// aqmBlamesNobody runs a network; ran is false if the test is refused, and draws is how many random drops were judged.
func aqmBlamesNobody(t *testing.T, text string) (ran bool, draws int64) {
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
	return true, r.Analysis.Coverage[aqm.Name]["draws"]
}

// aqmNetwork draws a network with active queue management and traffic that overloads some ports.
func (d networkDraw) aqmNetwork() string {
	hosts := d.between(3, 7)
	shape := fmt.Sprintf("kind: single-switch, hosts: %d", hosts)
	if d.one(4) {
		hosts = 6
		shape = fmt.Sprintf("kind: leaf-spine, leaves: 2, spines: %d, hosts-per-leaf: 3, routing: %s", d.between(1, 3),
			d.of("ecmp", "spray"))
	}
	slow := d.of("1", "2.5", "10", "40")
	text := fmt.Sprintf("topology: {%s, link: {gbps: %s, delay-ns: %s, framing-bytes: %s}, "+
		"links: [{host: 0, gbps: %s}]}\n",
		shape, d.of("10", "40", "100"), d.of("1", "500", "5000", "50000"), d.of("0", "20", "24"), slow)
	model, queues := d.aqmModel()
	ecn := d.of("not-ect", "not-ect", "ect0")
	transport := d.of("raw", "raw", "tcp")
	text += "switch-under-test: {" + model + "}\nhosts: {transport: " + transport + ", packet-size: " +
		d.of("1500", "1500", "500", "9000") + ", ecn: " + ecn + "}\nworkload:\n"
	rate, _ := strconv.ParseFloat(slow, 64)
	incasts := 8 * d.IntN(queues) // all flows of a TCP host are of one class
	for range d.between(1, 5) {
		class := 8 * d.IntN(queues)
		src := d.between(1, hosts-1)
		switch {
		case d.one(3):
			text += fmt.Sprintf("  - incast: {senders: %d, packets: %d, dscp: %d, start-us: %d}\n", d.between(1, hosts-1),
				d.between(1, 150), incasts, d.between(0, 250))
		case d.one(2):
			text += fmt.Sprintf("  - cbr: {src: %d, dst: 0, rate-gbps: %.3f, jitter: %s, dscp: %d}\n", src,
				rate*(0.1+d.Float64()), d.of("0", "0.5", "0.9"), class)
		default:
			text += fmt.Sprintf("  - cbr: {src: %d, dst: 0, rate-gbps: %.3f, on-us: %d, off-us: %d, dscp: %d}\n", src,
				rate*(0.3+d.Float64()), d.between(20, 600), d.between(20, 600), class)
		}
	}
	if d.one(2) {
		text += "taps: {decisions: csv}\n"
	}
	return text + fmt.Sprintf("duration-us: %d\nseed: %d\n", int(20_000/rate)+300, d.IntN(1<<30))
}

// aqmModel draws a model and its settings.
func (d networkDraw) aqmModel() (text string, queues int) {
	model := d.of("afd", "afd", "afd", "afd-dpp", "afd-dpp", "dpp", "red", "wred", "ecn-threshold", "tail-shallow")
	parts := []string{"model: " + model}
	queues = 1
	add := func(often int, format string, args ...any) {
		if d.one(often) {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(1, "port-buffer-bytes: %d", int(d.magnitude(20_000, 400_000)))
	add(4, "counter-bits: %d", d.between(8, 32))
	add(4, "data-queue-bytes: %d", int(d.magnitude(10_000, 200_000)))
	add(8, "buffer-bytes: %d", int(d.magnitude(50_000, 400_000)))
	if d.one(3) {
		queues = d.between(2, 3)
		parts = append(parts, fmt.Sprintf("queues: %d", queues), "scheduler: "+d.of("dwrr", "wrr", "strict"))
	}
	port := d.of("0", "1")
	if strings.HasPrefix(model, "afd") {
		add(1, "etrap-byte-count: %d", int(d.magnitude(1000, 60_000)))
		add(1, "queue-desired-bytes: %d", int(d.magnitude(3000, 60_000)))
		add(2, "etrap-age-period-us: %d", int(d.magnitude(5, 300)))
		add(4, "etrap-profile: %s", d.of("mesh", "burst", "ultra-burst"))
		add(2, "etrap-bandwidth-threshold-bytes: %s", d.of("0", "1500", "3000", "1000"))
		add(3, "etrap-limits: inclusive")
		add(3, "etrap-weight: %s", d.of("0", "0.1", "1"))
		add(3, "etrap-evict-hold-us: %d", int(d.magnitude(1, 1000)))
		add(3, "etrap-mouse-ageing: never")
		add(3, "etrap-scope: switch")
		add(4, "etrap-table-size: %d", d.between(1, 4))
		add(4, "etrap-hash-bits: %d", d.between(1, 3))
		add(3, "kp: %s, ki: %s", d.of("0", "0.1", "0.5"), d.of("0", "0.01", "0.05"))
		add(3, "afd-period-us: %d", int(d.magnitude(1, 100)))
		add(3, "fmin-mbps: %d", int(d.magnitude(1, 5000)))
		add(3, "d-max: %s", d.of("0.1", "0.25", "0"))
		add(3, "drop-function: excess")
		add(3, "ecn: true")
		add(3, "gate: true")
		add(4, "policies: [{port: %s, queue-desired-bytes: %d}, {kp: 0.05}, {port: 1, off: true}]", port,
			int(d.magnitude(3000, 60_000)))
	}
	if strings.HasSuffix(model, "dpp") {
		add(1, "dpp-max-packets: %d", int(d.magnitude(1, 60)))
		add(1, "dpp-age-period-us: %d", int(d.magnitude(1, 500)))
		add(3, "dpp-first: exclusive")
		add(3, "dpp-counts: data")
		add(4, "dpp-class: 0")
		add(3, "dpp-scope: switch")
		add(4, "dpp-hash-bits: %d", d.between(1, 3))
	}
	switch model {
	case "red", "wred":
		low := int(d.magnitude(2000, 30_000))
		add(1, "min-bytes: %d, max-bytes: %d", low, 3*low)
		add(1, "queue-weight: %s", d.of("0.002", "0.05", "1"))
		add(2, "max-probability: %s", d.of("0", "0.02", "1"))
		add(3, "ecn: true")
		add(4, "policies: [{queue: 0, min-bytes: 5000, max-bytes: 9000}, {port: %s, ecn: true}]", port)
	case "ecn-threshold":
		add(1, "threshold-bytes: %d", int(d.magnitude(1000, 60_000)))
		add(3, "attach: interfaces, policies: [{port: %s, threshold-bytes: 5000}]", port)
	}
	add(10, "pfc-classes: [0], pfc-xoff-bytes: 20000")
	add(10, "ecn-threshold-bytes: 30000")
	return strings.Join(parts, ", "), queues
}

// How long mice wait is not judged behind a link that changed, and the run says so; other schemes have no such rule.
func TestMiceBehindLinksThatChangeAreNotJudged(t *testing.T) {
	const network = `
topology: {kind: dumbbell, hosts: 4, link: {gbps: 10}, trunk: {gbps: 10}}
switch-under-test: {model: %s}
hosts: {transport: raw}
duration-us: 50
changes:
  - {at-us: 10, trunk: {from: left, to: right, gbps: 5}}
  - {at-us: 20, trunk: {from: left, to: right, gbps: 2}}
workload: [flow: {src: 0, dst: 2, packets: 20}]
`
	for model, want := range map[string]int{"dpp": 2, "afd-dpp": 2, "afd": 0} { // one for either end
		p, err := switchtest.New(parse(t, fmt.Sprintf(network, model))[0])
		if err != nil {
			t.Fatal(err)
		}
		o, err := switchtest.Run(t.Context(), p, unwritten())
		if err != nil || o.Analysis == nil {
			t.Fatalf("%v, %+v", err, o)
		}
		n := 0
		for _, f := range o.Analysis.Findings {
			if f.Rule == "aqm.not-judged" && strings.Contains(f.Message, "aqm.mice-delay") {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d notes, want %d: %+v", model, n, want, o.Analysis.Findings)
		}
		listed := slices.ContainsFunc(p.NotJudged(), func(s string) bool {
			return strings.HasPrefix(s, "aqm.mice-delay: not judged of a port once its link has changed")
		})
		if listed != (want > 0) {
			t.Errorf("%s: run.json lists %v", model, p.NotJudged())
		}
	}
}

// Without records, run.json lists for each rule of the specification what they would add: only they show the fair rate
// and what ETRAP holds; the other rules are judged from what becomes of packets, and a bug of each is caught so.
func TestWhatRecordsAddToEachRuleOfActiveQueueManagementIsListed(t *testing.T) {
	const whole, part, only = "", "judged from what becomes of packets; ", "needs decision records "
	table := map[string]struct{ rule, want string }{
		"AFD-1": {"aqm.mouse", whole}, "AFD-2": {"aqm.below-fair-rate", whole}, "AFD-3": {"aqm.probability", part},
		"AFD-4": {"aqm.fair-rate", only}, "AFD-5": {"aqm.fairness", whole}, "AFD-6": {"aqm.steady-queue", whole},
		"AFD-7": {"aqm.ecn", whole}, "AFD-8": {"aqm.flow-awareness", whole}, "AFD-9": {"aqm.headroom", whole},
		"ETR-1": {"aqm.etrap", only}, "ETR-2": {"aqm.rate", only}, "DPP-1": {"aqm.mice-group", whole},
		"DPP-2": {"aqm.mice-age", part}, "DPP-3": {"aqm.mice-first", whole}, "DPP-4": {"aqm.mice-order", whole},
		"DPP-5": {"aqm.mice-delay", whole}, "CNT-1": {"aqm.counters", whole}, "BUF-1": {"aqm.buffer", part},
	}
	list := func(more string) []string {
		p, err := switchtest.New(parse(t, fmt.Sprintf(aqmOverload, "model: afd-dpp", "not-ect")+more)[0])
		if err != nil {
			t.Fatal(err)
		}
		return p.NotJudged()
	}
	lacking := list("")
	if with := list("taps: {decisions: csv}\n"); len(with) > 0 || len(lacking) != 7 {
		t.Errorf("with records %v, without %v", with, lacking)
	}
	rules := aqm.Rules()
	fromTaps := map[string]bool{}
	for _, m := range switchtest.Options().Switches {
		for _, b := range m.Bugs {
			fromTaps[b.Rule] = fromTaps[b.Rule] || !slices.Contains(withRecords, b.Name)
		}
	}
	for id, c := range table {
		i := slices.IndexFunc(rules, func(r analyzers.Rule) bool { return strings.HasSuffix(r.Clause, "("+id+")") })
		if i < 0 || rules[i].ID != c.rule {
			t.Errorf("%s: no rule, or another one than %s", id, c.rule)
		}
		at := slices.IndexFunc(lacking, func(s string) bool { return strings.HasPrefix(s, c.rule+": ") })
		if (at >= 0) != (c.want != whole) || at >= 0 && !strings.HasPrefix(lacking[at], c.rule+": "+c.want) {
			t.Errorf("%s: %v lists %s, want %q", id, lacking, c.rule, c.want)
		}
		if fromTaps[c.rule] == (c.want == only) {
			t.Errorf("%s: a bug of %s is caught from taps alone: %v", id, c.rule, fromTaps[c.rule])
		}
	}
	if plain, err := switchtest.New(parse(t, fmt.Sprintf(aqmOverload, "model: tail-shallow", "not-ect"))[0]); err != nil ||
		len(plain.NotJudged()) != 1 || !strings.HasPrefix(plain.NotJudged()[0], "aqm.buffer: "+part) {
		t.Errorf("%v: for tail drop %v is listed, want aqm.buffer only", err, plain.NotJudged())
	}
}
