package switchtest_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// usage runs a plan and returns how many packets each trunk carried, by direction.
func usage(t *testing.T, p *switchtest.Plan) map[string]uint64 {
	t.Helper()
	var net *fabric.Network
	p.Watch = func(n *fabric.Network) { net = n }
	o, err := switchtest.Run(t.Context(), p, options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("%v", o.Verdict.Reasons)
	}
	used := make(map[string]uint64)
	for i := range net.Switches() {
		sw := net.Switch(i)
		for j := range sw.Ports() {
			if peer := sw.Port(j).Peer(); peer != nil {
				used[sw.Name()+" to "+peer.Name()] = sw.Port(j).Counters().Sent
			}
		}
	}
	return used
}

func TestWrongTrunksAreRefused(t *testing.T) {
	const rest = "\nswitch-under-test: {model: droptail}\nhosts: {transport: raw}\n" +
		"workload: [flow: {src: 0, dst: 1, packets: 1}]\n"
	for _, c := range []struct{ name, topology, want string }{
		{"no such trunk", "kind: leaf-spine, leaves: 2, spines: 2, trunks: [{from: leaf-0, to: leaf-1, failed: true}]",
			"there is no trunk between leaf-0 and leaf-1"},
		{"no trunks at all", "kind: single-switch, trunks: [{from: leaf-0, to: leaf-1, gbps: 1}]", "has no trunks"},
		{"given twice, in the other order",
			"kind: dumbbell, trunks: [{from: left, to: right, gbps: 1}, {from: right, to: left, gbps: 2}]", "is given twice"},
		{"nothing changed", "kind: dumbbell, trunks: [{from: left, to: right}]", "changes nothing"},
		{"failed and slow", "kind: dumbbell, trunks: [{from: left, to: right, gbps: 1, failed: true}]",
			"a failed trunk carries nothing"},
		{"the only way", "kind: dumbbell, trunks: [{from: left, to: right, failed: true}]",
			"hosts 0 and 8 have no path between them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\ntopology: {"+c.topology+"}"+rest),
				configOptions())
			if err == nil {
				_, err = switchtest.New(tests[0])
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "f.yml:2:") {
				t.Errorf("error is %v, want %q at line 2", err, c.want)
			}
		})
	}
}

func TestWrongChangesOfTrunksAreRefused(t *testing.T) {
	const base = "name: x\ntopology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 2}\n" +
		"switch-under-test: {model: droptail}\nhosts: {transport: raw}\n" +
		"workload: [flow: {src: 0, dst: 3, packets: 1}]\ndeadline-us: 1000\nchanges:\n"
	const trunk = "trunk: {from: leaf-0, to: spine-1, "
	for _, c := range []struct{ name, changes, want string }{
		{"no such trunk", "- {at-us: 1, trunk: {from: leaf-0, to: leaf-1, failed: true}}",
			"changes[0].trunk.to: there is no trunk between leaf-0 and leaf-1"},
		{"fails twice", "- {at-us: 9, " + trunk + "failed: true}}\n- {at-us: 3, " + trunk + "failed: true}}",
			"changes[0].trunk.failed: the trunk has failed already"},
		{"comes back without having failed", "- {at-us: 1, " + trunk + "failed: false}}",
			"the trunk has not failed at that time"},
		{"slower while it is down", "- {at-us: 1, " + trunk + "failed: true}}\n- {at-us: 3, " + trunk + "gbps: 1}}",
			"changes[1].trunk: the trunk is down at that time"},
		{"fails and slows down", "- {at-us: 1, " + trunk + "failed: true, gbps: 1}}", "a failed trunk carries nothing"},
		{"nothing", "- {at-us: 1, trunk: {from: leaf-0, to: spine-1}}", "it takes failed, gbps or delay-ns"},
		{"two at once", "- {at-us: 1, " + trunk + "gbps: 1}}\n- {at-us: 1, trunk: {from: spine-1, to: leaf-0, gbps: 2}}",
			"changes[1].trunk: the trunk has another change at that time"},
		{"of a switch, too", "- {at-us: 1, switch: 0, " + trunk + "gbps: 1}}", "is given together with switch, set or state"},
		{"after the end", "- {at-us: 1000, " + trunk + "gbps: 1}}", "changes[0].at-us: is past the end of the test"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := config.ParseSwitchTests("f.yml", []byte(base+c.changes+"\n"), switchtest.Options())
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "f.yml:") {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// Of two equal trunks one fails: what gets through halves. It comes back, and all gets through again.
func TestHalfTheTrunksCarryHalfTheTraffic(t *testing.T) {
	const text = "topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, routing: spray-round-robin, " +
		"link: {gbps: 10}, reroute-us: 5}\n" +
		"switch-under-test: {model: droptail, data-queue-bytes: 15000}\nhosts: {transport: raw}\nworkload:\n" +
		"- cbr: {src: 0, dst: 4, rate-gbps: 5, stop-us: 3000}\n- cbr: {src: 1, dst: 5, rate-gbps: 5, stop-us: 3000}\n" +
		"- cbr: {src: 2, dst: 6, rate-gbps: 5, stop-us: 3000}\n- cbr: {src: 3, dst: 7, rate-gbps: 5, stop-us: 3000}\n" +
		"changes:\n- {at-us: 1000, trunk: {from: leaf-0, to: spine-1, failed: true}}\n" +
		"- {at-us: 2000, trunk: {from: leaf-0, to: spine-1, failed: false}}\nduration-us: 4000\n"
	p, err := switchtest.New(parse(t, text)[0])
	if err != nil {
		t.Fatal(err)
	}
	var bytes [4]float64 // that reach hosts, in each ms
	p.Watch = func(n *fabric.Network) {
		n.TapHosts(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			if at.Stage == fabric.Ingress {
				bytes[min(3, int(now/clock.Time(clock.Millisecond)))] += float64(p.Size)
			}
		})
	}
	o, err := switchtest.Run(t.Context(), p, options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	for ms, want := range []float64{20, 10, 20} {
		if got := bytes[ms] * 8 / 1e6; math.Abs(got-want) > want/100 {
			t.Errorf("in ms %d hosts got %.2f Gb/s, want %.0f", ms, got, want)
		}
	}
	var facts []string
	for _, f := range o.Report.Facts {
		facts = append(facts, f.Value)
	}
	for _, want := range []string{"the trunk between leaf-0 and spine-1 fails at 1 ms", "comes back at 2 ms",
		"packets lost: ", " on trunks that failed", "towards trunks that were down"} {
		if text := strings.Join(facts, "\n"); !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

// Packets of 1500 bytes at 20 Gb/s are sprayed in turn over n trunks. One fails: until routes follow, each n-th packet
// is lost, 20e9/12000 · reroute/n in all.
func TestAnOutageLosesWhatIsRoutedToItsTrunk(t *testing.T) {
	for _, c := range []struct {
		spines, reroute int // us
	}{{2, 30}, {2, 300}, {3, 300}, {4, 120}} {
		o := run(t, parse(t, fmt.Sprintf("topology: {kind: leaf-spine, leaves: 2, spines: %d, hosts-per-leaf: 4, routing: "+
			"spray-round-robin, link: {gbps: 10}, reroute-us: %d}\n"+
			"switch-under-test: {model: droptail}\nhosts: {transport: raw}\nworkload:\n"+
			"- cbr: {src: 0, dst: 4, rate-gbps: 5, stop-us: 900}\n- cbr: {src: 1, dst: 5, rate-gbps: 5, stop-us: 900}\n"+
			"- cbr: {src: 2, dst: 6, rate-gbps: 5, stop-us: 900}\n- cbr: {src: 3, dst: 7, rate-gbps: 5, stop-us: 900}\n"+
			"changes:\n- {at-us: 400, trunk: {from: leaf-0, to: spine-1, failed: true}}\nduration-us: 1000\n",
			c.spines, c.reroute))[0])
		lost := float64(counter(t, o.Dir, "leaf-0.dropped-trunk-down"))
		if want := 20e9 / 12000 * float64(c.reroute) / 1e6 / float64(c.spines); math.Abs(lost-want) > 2 {
			t.Errorf("%d spines, %d us: %g packets are lost, want %.1f", c.spines, c.reroute, lost, want)
		}
	}
}

// A trunk that becomes longer by 10 us adds 20 us to round trips, and its hosts have no path while it is down.
func TestALongerTrunkShowsInRoundTrips(t *testing.T) {
	const text = "topology: {kind: dumbbell, hosts: 2}\nswitch-under-test: {model: droptail}\nhosts: {transport: raw}\n" +
		"workload: [ping: {src: 0, dst: 1, count: 20}]\ndeadline-us: 100000\nchanges:\n"
	rtt := func(changes string) (least, most int64) {
		o := run(t, parse(t, text+changes)[0])
		flows := flowsOf(t, o.Dir)
		if trips := flows.Flows[0].Trips; trips != nil {
			return trips.Min, trips.Max
		}
		return 0, 0
	}
	least, most := rtt("- {at-us: 20, trunk: {from: left, to: right, delay-ns: 500}}\n")
	if least != most {
		t.Fatalf("round trips of an idle network take %d to %d ns", least, most)
	}
	shortest, longest := rtt("- {at-us: 20, trunk: {from: left, to: right, delay-ns: 10500}}\n")
	if shortest != least || longest != least+20_000 {
		t.Errorf("%d to %d ns, want %d to %d", shortest, longest, least, least+20_000)
	}
	p, err := switchtest.New(parse(t, text+"- {at-us: 20, trunk: {from: left, to: right, failed: true}}\n")[0])
	if err != nil {
		t.Fatal(err)
	}
	var explained strings.Builder
	if err := p.Explain(&explained); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"at 20 us  the trunk between left and right fails", "hosts 0 and 1 have no path",
		"do not finish"} {
		if !strings.Contains(explained.String(), want) {
			t.Errorf("want %q in\n%s", want, explained.String())
		}
	}
}

// Each seeded bug of routes violates its rule beside a trunk that fails and comes back, with packets and with flows
// spread over paths; the same switch without it violates none.
func TestSeededBugsOfRoutesAreCaughtByTheirRule(t *testing.T) {
	text := func(routing, bugs string) string {
		return "topology: {kind: leaf-spine, leaves: 3, spines: 2, hosts-per-leaf: 4, routing: " + routing +
			", link: {gbps: 10}, reroute-us: 5}\n" +
			"switch-under-test: {model: droptail, bugs: [" + bugs + "]}\nhosts: {transport: raw}\nworkload:\n" +
			"- poisson: {flows-per-s: 400000, size-bytes: 3000, stop-us: 1400}\n" +
			"changes:\n- {at-us: 300, trunk: {from: leaf-0, to: spine-1, failed: true}}\n" +
			"- {at-us: 600, trunk: {from: leaf-0, to: spine-1, failed: false}}\nduration-us: 1500\n"
	}
	bugs := slices.DeleteFunc(slices.Clone(configOptions().Switches[0].Bugs), func(b parameter.Bug) bool {
		return !strings.HasPrefix(b.Rule, forwarding.Name+".")
	})
	if len(bugs) < 4 {
		t.Fatalf("bugs of routes are %v", bugs)
	}
	for i, routing := range []string{"ecmp", "spray", "spray-round-robin"} {
		if fewBugs(i) {
			continue
		}
		t.Run(routing, func(t *testing.T) {
			t.Parallel()
			if rules, _ := queueRules(t, text(routing, "")); len(rules) > 0 {
				t.Errorf("without a bug %v are violated", rules)
			}
			for _, b := range bugs {
				if rules, _ := queueRules(t, text(routing, b.Name)); !slices.Contains(rules, b.Rule) {
					t.Errorf("%s: violated are %v, want %s", b.Name, rules, b.Rule)
				}
			}
		})
	}
}

// Trunks of a fat tree and of a leaf-spine fail at once, one of them again before routes know that it was back, and a
// switch is stopped meanwhile: correct switches violate nothing, whatever the routing.
func TestCorrectSwitchesAreNotBlamedForSeveralOutages(t *testing.T) {
	for _, c := range []struct{ shape, a, b string }{
		{"kind: leaf-spine, leaves: 3, spines: 3, hosts-per-leaf: 4", "from: leaf-0, to: spine-1", "from: leaf-1, to: spine-2"},
		{"kind: fat-tree, k: 4", "from: edge-0, to: aggregation-1", "from: aggregation-0, to: core-0"},
	} {
		for _, routing := range []string{"ecmp", "spray", "spray-round-robin", "path"} {
			text := "topology: {" + c.shape + ", routing: " + routing + ", link: {gbps: 10}, reroute-us: 50}\n" +
				"switch-under-test: {model: droptail}\nhosts: {transport: raw}\nworkload:\n" +
				"- cbr: {src: 0..3, dst: 8, rate-gbps: 2, stop-us: 2000}\n- cbr: {src: 8..11, dst: 1, rate-gbps: 2, stop-us: 2000}\n" +
				"changes:\n- {at-us: 300, trunk: {" + c.a + ", failed: true}}\n- {at-us: 300, trunk: {" + c.b + ", failed: true}}\n" +
				"- {at-us: 400, switch: 0, state: stopped}\n- {at-us: 500, switch: 0, state: running}\n" +
				"- {at-us: 800, trunk: {" + c.a + ", failed: false}}\n- {at-us: 820, trunk: {" + c.a + ", failed: true}}\n" +
				"- {at-us: 1200, trunk: {" + c.a + ", failed: false}}\n- {at-us: 1230, trunk: {" + c.b + ", failed: false}}\n" +
				"duration-us: 2100\n"
			if !blamesNobody(t, text, false) {
				t.Errorf("refused:\n%s", text)
			}
		}
	}
}
