package switchtest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// slowTrunk is a permutation on a network of which one trunk is ten times slower than the others.
func slowTrunk(topology, trunk, hosts string) string {
	return fmt.Sprintf(`
topology: {%s, routing: path, link: {gbps: 100, delay-ns: 500}, trunks: [{%s, gbps: 10}]}
switch-under-test: {model: ndp-ideal}
hosts: {transport: ndp, initial-window: 60, paths: 4%s}
workload: [permutation: {bytes: 3000000}]
`, topology, trunk, hosts)
}

const fourSpines, toSpine = "kind: leaf-spine, leaves: 4, spines: 4, hosts-per-leaf: 4", "from: leaf-0, to: spine-0"

// With a scoreboard, flows of 10 MB come near what the links allow: the three other trunks of leaf-0 and the slow one
// take the packets of its four hosts in 1078 us, as do those of a pod of the fat tree. Without, the slowest flow takes
// twice as long.
func TestTheScoreboardTakesTrafficOffASlowTrunk(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, c := range []struct {
		topology, trunk, hosts string
		want                   orchestrator.Exit
	}{
		{fourSpines, toSpine, "", orchestrator.ExitFail},
		{fourSpines, toSpine, ", path-penalty: true", orchestrator.ExitPass},
		{"kind: fat-tree, k: 4", "from: aggregation-0, to: core-0", "", orchestrator.ExitFail},
		{"kind: fat-tree, k: 4", "from: aggregation-0, to: core-0", ", path-penalty: true", orchestrator.ExitPass},
	} {
		text := slowTrunk(c.topology, c.trunk, c.hosts) + "judge: off\nexpect: {fct-us: {max: 1300}}\n"
		p, err := switchtest.New(parse(t, strings.Replace(text, "3000000", "10000000", 1))[0])
		if err != nil {
			t.Fatal(err)
		}
		o, err := switchtest.Run(t.Context(), p, options(t.TempDir()))
		if err != nil || o.Verdict.Exit != c.want {
			t.Errorf("%s, hosts%s: error %v, %v", c.topology, c.hosts, err, o.Verdict.Reasons)
		}
	}
}

func TestSeededBugsOfTheScoreboardAreCaught(t *testing.T) {
	runtimetest.SkipRace(t)
	for bug, rule := range map[string]string{
		"ignores-scoreboard": "ndp.path-excluded", "excludes-without-cause": "ndp.path-unused",
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			text := slowTrunk(fourSpines, toSpine, ", path-penalty: true, penalty-answers: 16, bugs: ["+bug+"]")
			found, captures, _, _ := findings(t, text+captured, true)
			for _, list := range [][]analyzers.Finding{found, captures} {
				if !slices.ContainsFunc(list, func(f analyzers.Finding) bool { return f.Rule == rule }) {
					t.Errorf("want %s, got %d other findings", rule, len(list))
				}
			}
		})
	}
}

func TestPathsThatSendersDoNotChooseAreNotExcluded(t *testing.T) {
	for change, want := range map[[2]string]string{
		{"paths: 4", "paths: 1"}:            "set paths to 2 or more",
		{"routing: path", "routing: spray"}: "set topology.routing to path or ecmp",
	} {
		text := strings.Replace(slowTrunk(fourSpines, toSpine, ", path-penalty: true"), change[0], change[1], 1)
		p, err := switchtest.New(parse(t, text)[0])
		if err == nil {
			_, err = switchtest.Run(t.Context(), p, options(t.TempDir()))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// pathNetwork draws NDP hosts that keep a scoreboard, on networks with degraded and failed trunks. Periods are short:
// many of them are decided.
func (d networkDraw) pathNetwork(model string) string {
	spines, leaves := d.between(2, 5), d.between(2, 4)
	shape := fmt.Sprintf("kind: leaf-spine, leaves: %d, spines: %d, hosts-per-leaf: %d", leaves, spines, d.between(1, 4))
	hosts := leaves // at least
	trunks := []string{
		fmt.Sprintf("{from: leaf-0, to: spine-0, gbps: %s}", d.of("1", "5", "10", "40")),
		fmt.Sprintf("{from: leaf-1, to: spine-%d, %s}", spines-1, d.of("failed: true", "gbps: 10", "gbps: 2")),
	}
	if d.one(3) {
		shape, hosts = "kind: fat-tree, k: 4", 16
		trunks = []string{
			"{from: aggregation-0, to: core-0, gbps: " + d.of("1", "10", "40") + "}",
			"{from: edge-1, to: aggregation-1, " + d.of("failed: true", "gbps: 10") + "}",
		}
	}
	text := fmt.Sprintf("topology: {%s, routing: %s, link: {gbps: 100, delay-ns: %s}, trunks: [%s]}\nswitch-under-test: %s\n",
		shape, d.of("path", "path", "ecmp"), d.of("100", "500", "5000"), strings.Join(trunks[:d.between(1, 2)], ", "),
		d.model(model, ""))
	text += fmt.Sprintf("hosts: {transport: ndp, initial-window: %s, rto-us: %s, paths: %d, path-penalty: true, "+
		"penalty-answers: %s, penalty-share-percent: %s, penalty-factor-percent: %s, penalty-periods: %s}\nworkload:\n",
		d.of("1", "7", "30", "100"), d.of("0", "50", "200", "1000"), d.between(2, 6), d.of("1", "2", "4", "16"),
		d.of("1", "10", "25"), d.of("100", "150", "200"), d.of("1", "2", "8"))
	text += fmt.Sprintf("  - permutation: {packets: %d, stagger-us: %s}\n", d.between(50, 200), d.of("0", "0.3", "5"))
	if d.one(2) {
		text += fmt.Sprintf("  - incast: {senders: %d, packets: %d}\n", hosts-1, d.between(20, 60))
	}
	return text + fmt.Sprintf("seed: %d\ndeadline-us: 3000\n", d.IntN(1<<30))
}

// Hosts that keep a scoreboard are blamed neither in the run nor from its captures.
func TestScoreboardsOfCompliantHostsAreNotBlamed(t *testing.T) {
	for i, model := range []string{"ndp-ideal", "tofino", "droptail"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			for seed := range seedsOfModel(t, 3) {
				if text := newNetworkDraw(uint64(seed), uint64(300+i)).pathNetwork(model); !blamesNobody(t, text+captured, true) {
					t.Log("refused: network " + strconv.Itoa(seed))
				}
			}
		})
	}
}
