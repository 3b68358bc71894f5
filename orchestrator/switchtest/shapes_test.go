package switchtest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"candela.dev/candela/generator/tcp"
)

// A shapeDraw draws networks from other distributions than a [networkDraw], with its own generator and code.
type shapeDraw struct{ *rand.Rand }

func newShapeDraw(seed, model int) shapeDraw {
	var key [32]byte
	copy(key[:], fmt.Sprintf("shape %d of model %d", seed, model))
	return shapeDraw{rand.New(rand.NewChaCha8(key))}
}

func (d shapeDraw) pick(list ...float64) float64 { return list[d.IntN(len(list))] }

// pareto draws a size; most are near least and few far above.
func (d shapeDraw) pareto(least, most int) int {
	return min(most, int(float64(least)/math.Pow(1-d.Float64(), 1/1.2)))
}

// normal draws around a mean; the result is at least 1.
func (d shapeDraw) normal(mean, deviation float64) int {
	return max(1, int(mean+deviation*d.NormFloat64()))
}

// oddSize draws the size of a full packet: an odd number, or one next to a usual size.
func (d shapeDraw) oddSize() int {
	switch d.IntN(4) {
	case 0:
		return 201 + 2*d.IntN(600)
	case 1:
		return []int{575, 577, 1279, 1281, 1499, 1501, 8999, 9001, 9215}[d.IntN(9)]
	default:
		return d.normal(1500, 300) | 1
	}
}

// network draws one of five shapes for a switch model.
func (d shapeDraw) network(model string) string {
	shapes := []func() (topology, hosts, workload string){d.mixedSizes, d.staggered, d.twoBottlenecks, d.tinyWindows,
		d.oddFrames}
	topology, hosts, workload := shapes[d.IntN(len(shapes))]()
	if model == "droptail" && d.IntN(3) > 0 {
		model += fmt.Sprintf(", data-queue-packets: %d", 2+d.IntN(60))
	}
	return fmt.Sprintf("topology: {%s}\nswitch-under-test: {model: %s}\nhosts: {transport: "+
		"tcp%s}\nworkload:\n%sdeadline-us: 60000000\nseed: %d\n",
		topology, model, hosts, workload, d.Uint32())
}

func (d shapeDraw) single(hosts int) string {
	return fmt.Sprintf("kind: single-switch, hosts: %d, link: {gbps: %g, delay-ns: %d}", hosts,
		d.pick(1, 2.5, 10, 50, 100, 200), d.pareto(50, 200_000))
}

// mixedSizes combines short and long flows in one incast.
func (d shapeDraw) mixedSizes() (topology, hosts, workload string) {
	first := 1
	for first < 40 && (first == 1 || d.IntN(6) > 0) {
		senders := 1 + d.IntN(12)
		workload += fmt.Sprintf("  - incast: {senders: %d, first-sender: %d, bytes: %d, start-us: %d}\n", senders, first,
			d.pareto(40, 400_000/senders), d.IntN(2)*d.pareto(1, 900))
		first += senders
	}
	return d.single(first), fmt.Sprintf(", congestion-control: %s", []string{"cubic", "reno"}[d.IntN(2)]), workload
}

// staggered starts senders one after the other, some of them twice.
func (d shapeDraw) staggered() (topology, hosts, workload string) {
	n := 5 + d.IntN(50)
	bytes := d.normal(20_000, 9_000)
	workload = fmt.Sprintf("  - incast: {senders: %d, bytes: %d, stagger-us: %.3f}\n", n, bytes,
		math.Exp(d.NormFloat64()*2+1))
	if d.IntN(2) == 0 {
		workload += fmt.Sprintf("  - incast: {senders: %d, bytes: %d, stagger-us: %.3f, start-us: %d}\n", 1+n/2, bytes/3+1,
			math.Exp(d.NormFloat64()*2), d.pareto(20, 20_000))
	}
	return d.single(n + 1), fmt.Sprintf(", delayed-ack-us: %d", d.IntN(2)*d.pareto(5, 60_000)), workload
}

// twoBottlenecks has slow trunks between leaves, a slow link to the receiver, and cross traffic over the trunks.
func (d shapeDraw) twoBottlenecks() (topology, hosts, workload string) {
	leaves, per := 2+d.IntN(3), 4+d.IntN(8)
	all := leaves * per
	topology = fmt.Sprintf("kind: leaf-spine, leaves: %d, spines: %d, hosts-per-leaf: %d, routing: %s, link: {gbps: %g, "+
		"delay-ns: %d}, trunk: {gbps: %g, delay-ns: %d}, "+
		"links: [{host: 0, gbps: %g, delay-ns: %d}]", leaves, 1+d.IntN(2), per, []string{"ecmp", "spray"}[d.IntN(2)],
		d.pick(10, 25, 100), d.pareto(100, 50_000),
		d.pick(1, 5, 10, 40), d.pareto(100, 500_000), d.pick(0.2, 1, 3, 10), d.pareto(100, 100_000))
	n := per + d.IntN(all-per-1)
	workload = fmt.Sprintf("  - incast: {senders: %d, bytes: %d}\n", min(n, all-1), d.pareto(2_000, 60_000))
	for range 1 + d.IntN(4) {
		src := 1 + d.IntN(all-1)
		workload += fmt.Sprintf("  - flow: {src: %d, dst: %d, count: %d, bytes: %d, start-us: %d}\n", src, (src+per)%all,
			1+d.IntN(3), d.pareto(5_000, 200_000), d.IntN(400))
	}
	return topology, "", workload
}

// tinyWindows has initial windows of one or two segments or, in half of the draws, windows limited by a small receive
// window. Timers are near the RTT, and sequence numbers may wrap.
func (d shapeDraw) tinyWindows() (topology, hosts, workload string) {
	n := 2 + d.IntN(30)
	hosts = fmt.Sprintf(", initial-window: %d, receive-window-bytes: %d, packet-size: %d, min-rto-us: %d, "+
		"first-sequence: %d", 1+d.IntN(2)*d.IntN(60),
		10_240+d.IntN(4_000), 600+d.IntN(900), d.pareto(60, 40_000), math.MaxUint32-d.pareto(500, math.MaxUint32))
	return d.single(n + 1), hosts,
		fmt.Sprintf("  - incast: {senders: %d, bytes: %d, stagger-us: %d}\n", n, d.pareto(int(d.pick(300, 15_000)), 60_000),
			d.IntN(5))
}

// oddFrames has an odd packet size, and flows that end a few bytes before or after a full packet.
func (d shapeDraw) oddFrames() (topology, hosts, workload string) {
	first, size := 1, d.oddSize()
	for range 2 + d.IntN(4) {
		senders := 1 + d.IntN(8)
		workload += fmt.Sprintf("  - incast: {senders: %d, first-sender: %d, bytes: %d}\n", senders, first,
			max(1, d.normal(15, 12)*size+d.normal(0, 40)-40))
		first += senders
	}
	return d.single(first), fmt.Sprintf(", packet-size: %d", size), workload
}

// TestTCPNetworksOfOtherShapesBlameNobody draws from distributions that the other tests of compliant hosts do not use.
func TestTCPNetworksOfOtherShapesBlameNobody(t *testing.T) {
	seeds := seedsOfModel(t, 4)
	if testing.Short() {
		seeds = 1
	}
	for i, m := range configOptions().Switches {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				d := newShapeDraw(seed, i)
				text := d.network(m.Name)
				recorded := d.IntN(4) == 0
				if recorded {
					text += captured
				}
				if !blamesNobody(t, text, recorded) {
					t.Errorf("refused:\n%s", text)
				}
			}
		})
	}
}

// TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes checks that rules that excuse compliant hosts do not excuse bugs.
func TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes(t *testing.T) {
	if testing.Short() {
		t.Skip("the networks of the other tests have the same bugs")
	}
	for i, bug := range withoutECN() {
		if fewBugs(i) || bug.Bug == tcp.BugReducesOnce { // none of 108 such networks has an occasion for it
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			caughtIn(t, bug.Rule, false, func(seed, stream uint64, model string) string {
				text := newShapeDraw(int(seed), int(stream)).network(model)
				text = strings.Replace(text, "{transport: tcp", "{transport: tcp"+newNetworkDraw(seed, stream).tcpOptions(), 1)
				return seeded(strings.Replace(text, "{transport: tcp}", "{transport: tcp, ecn-everything: false}", 1), bug)
			})
		})
	}
}
