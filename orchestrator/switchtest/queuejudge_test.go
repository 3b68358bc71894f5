package switchtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/queues"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// contended is a network whose ports have several queues, with traffic of three classes and sizes for all of them.
func contended(settings string) string {
	return "topology: {kind: single-switch, hosts: 8, link: {gbps: 10, delay-ns: 300, framing-bytes: 24}}\n" +
		"switch-under-test: {model: droptail, data-queue-bytes: 60000, queues: 3, " + settings + "}\n" +
		"hosts: {transport: raw}\nworkload:\n" +
		"- incast: {senders: 3, packets: 60, packet-size: 1500}\n" +
		"- incast: {senders: 3, packets: 150, packet-size: 700, dscp: 8, start-us: 7}\n" +
		"- incast: {senders: 3, packets: 90, packet-size: 300, dscp: 16, start-us: 3}\n" +
		"- flow: {src: 4, dst: 5, packets: 50, packet-size: 900, dscp: 8}\n"
}

// queueRules returns the rules of the analyzer queue that a test violates, and how many events it judged.
func queueRules(t *testing.T, text string) (rules []string, events int64) {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
	if err != nil {
		t.Fatal(err)
	}
	o := judge(t, tests[0])
	if o.Analysis == nil {
		t.Fatalf("%v", o.Verdict.Reasons)
	}
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation && !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	slices.Sort(rules)
	return rules, o.Analysis.Coverage[queues.Name]["events"]
}

// Each seeded bug of queues, buffer and scheduler violates its rule; the same switch without it violates none.
func TestSeededBugsOfQueuesAreCaughtByTheirRule(t *testing.T) {
	const shared = "buffer-bytes: 50000, buffer-alpha: 1"
	const weighted = "scheduler: dwrr, weights: [4, 2, 1], quantum-bytes: 1500"
	of := map[string]string{
		"overfills-buffer": "buffer-bytes: 50000", "overfills-queue": "per-queue: [{queue: 1, max-bytes: 9000}]",
		"ignores-alpha": shared, "double-alpha": shared, "refuses-with-room": shared, "idles": shared, "sends-early": shared,
		"ignores-priority": "scheduler: strict", "reversed-weights": weighted, "weights-in-packets": weighted,
	}
	models := configOptions().Switches
	bugs := slices.DeleteFunc(slices.Clone(models[0].Bugs), func(b parameter.Bug) bool {
		return !strings.HasPrefix(b.Rule, queues.Name+".")
	})
	if models[0].Name != "droptail" || len(bugs) != len(of) {
		t.Fatalf("%s has %d bugs of queues, tested are %d", models[0].Name, len(bugs), len(of))
	}
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			if rules, events := queueRules(t, contended(of[b.Name])); len(rules) > 0 || events < 1000 {
				t.Errorf("without it %v are violated in %d events", rules, events)
			}
			if rules, _ := queueRules(t, contended(of[b.Name]+", bugs: ["+b.Name+"]")); !slices.Contains(rules, b.Rule) {
				t.Errorf("violated are %v, want %s", rules, b.Rule)
			}
		})
	}
}

// Correct switches of every model violate no rule about queues, with any number of queues, buffer, weights and trunks.
func TestCorrectQueuesOfEveryModelAreNotBlamed(t *testing.T) {
	draws := 6
	if testing.Short() {
		draws = 2
	}
	for i, m := range configOptions().Switches {
		if m.Parameters.Find("queues") < 0 { // its queues are its own
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range draws {
				text := newNetworkDraw(uint64(seed), uint64(500+i)).queueNetwork(m.Name)
				if rules, events := queueRules(t, text); events == 0 || slices.ContainsFunc(rules, func(r string) bool {
					return strings.HasPrefix(r, "queue.")
				}) {
					t.Errorf("%v are violated in %d events of\n%s", rules, events, text)
				}
			}
		})
	}
}

// queueNetwork draws queues, buffer, scheduler and trunks of a model, and traffic of several classes.
func (d networkDraw) queueNetwork(model string) string {
	n := d.between(2, 5)
	parts := []string{"model: " + model}
	if model == "sai" {
		parts = append(parts, d.profiles()...)
	} else {
		parts = append(parts, fmt.Sprintf("queues: %d", n))
		if d.one(2) {
			parts = append(parts, fmt.Sprintf("buffer-bytes: %d, buffer-alpha: %s", int(d.magnitude(20_000, 400_000)),
				d.of("0", "0.25", "1", "4")))
		}
		if kind := d.of("strict", "wrr", "dwrr"); kind != "strict" {
			var weights []string
			for range n {
				weights = append(weights, d.of("1", "2", "5", "0"))
			}
			parts = append(parts, fmt.Sprintf("scheduler: %s, weights: [%s], quantum-bytes: %s", kind,
				strings.Join(weights, ", "), d.of("1", "700", "1500", "9000")))
		}
		if d.one(3) {
			parts = append(parts, fmt.Sprintf("per-queue: [{queue: 1, max-bytes: %d}]", int(d.magnitude(3000, 60_000))))
		}
	}
	text := fmt.Sprintf("topology: {kind: leaf-spine, leaves: 3, spines: 3, hosts-per-leaf: 4, routing: %s, "+
		"link: {gbps: %s, framing-bytes: %s}, trunks: [{from: leaf-0, to: spine-1, failed: true}, "+
		"{from: leaf-1, to: spine-2, gbps: %s}]}\nswitch-under-test: {%s}\nhosts: {transport: raw}\nworkload:\n",
		d.of("ecmp", "spray", "spray-round-robin"), d.of("100", "40", "7"), d.of("0", "24"), d.of("1", "10", "33"),
		strings.Join(parts, ", "))
	rank := ""
	if model == "pifo" || model == "pieo" {
		rank = ", rank: remaining"
	}
	for i := range n {
		text += fmt.Sprintf("- incast: {senders: %d, packets: %d, packet-size: %d, dscp: %d, start-us: %d%s}\n",
			d.between(2, 11), d.between(20, 60), d.between(100, 3000), 8*i, d.between(0, 9), rank)
	}
	return text + "deadline-us: 20000\n"
}

// Nothing crosses a failed trunk, and its neighbours take the traffic; a degraded one keeps to its rate.
func TestFailedAndDegradedTrunks(t *testing.T) {
	const text = "topology: {kind: leaf-spine, leaves: 2, spines: 3, hosts-per-leaf: 4, routing: %s,\n" +
		"  trunks: [{from: spine-1, to: leaf-0, failed: true}, {from: leaf-0, to: spine-2, gbps: 10}]}\n" +
		"switch-under-test: {model: droptail, data-queue-bytes: 1000000}\nhosts: {transport: raw}\n" +
		"workload: [flow: {src: 0, dst: 4, packets: 200}, flow: {src: 1, dst: 5, packets: 200},\n" +
		"  flow: {src: 6, dst: 2, packets: 200}, flow: {src: 7, dst: 3, packets: 200}]\nexpect: {drops: 0}\n"
	for _, routing := range []string{"ecmp", "spray", "spray-round-robin"} {
		tests := parse(t, fmt.Sprintf(text, routing))
		p, err := switchtest.New(tests[0])
		if err != nil {
			t.Fatal(err)
		}
		used := usage(t, p)
		if used["leaf-0 to spine-1"]+used["spine-1 to leaf-0"] != 0 {
			t.Errorf("%s: packets over the failed trunk: %v", routing, used)
		}
		if routing != "ecmp" && (used["leaf-0 to spine-0"] == 0 || used["leaf-0 to spine-2"] == 0 ||
			used["spine-2 to leaf-0"] == 0) {
			t.Errorf("%s: trunks that are up are not used: %v", routing, used)
		}
	}
}
