package switchtest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/pfabric"
	"candela.dev/candela/orchestrator"
)

// provokePFabric returns a test in which a bug of pFabric hosts can occur.
func provokePFabric(bug pfabric.Bug, name string) string {
	bytes, rto, queue := 150_000, 45, 36_000
	switch bug {
	case pfabric.BugNoProbes, pfabric.BugProbesAtOnce: // the longer flows starve for many timeouts
		bytes = 400_000
	case pfabric.BugAcksBeyond:
		queue = 6_000
	}
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: pifo, queue-packets: 0, queue-bytes: %d}
hosts: {transport: pfabric, rto-us: %d, bugs: [%s]}
workload:
  - incast: {senders: 3, bytes: %d}
  - flow: {src: 1, dst: 4, bytes: 70000, start-us: 3}
deadline-us: 20000
`, queue, rto, name, bytes)
}

func TestEverySeededBugOfPFabricHostsIsCaught(t *testing.T) {
	for _, bug := range pfabric.Catalogue() {
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text := provokePFabric(bug.Bug, bug.Name)
			found := rulesOf(t, text)
			if !slices.Contains(found, bug.Rule) {
				t.Errorf("want %s, got %v", bug.Rule, found)
			}
			t.Log(found)
			if correct := rulesOf(t, strings.Replace(text, ", bugs: ["+bug.Name+"]", "", 1)); len(correct) > 0 {
				t.Errorf("hosts without the bug break %v", correct)
			}
		})
	}
}

func TestEverySeededBugOfPIFOIsCaught(t *testing.T) {
	for bug, rule := range map[string]string{"inverts": "rank.order", "tail-drops": "rank.drop", "drops-first": "rank.drop",
		"drops-early": "rank.room", "last-first": "rank.fifo"} {
		t.Run(bug, func(t *testing.T) {
			text := strings.Replace(provokePFabric(0, ""), ", bugs: []", "", 1)
			text = strings.Replace(text, "36000", "36000, bugs: ["+bug+"]", 1)
			if found := rulesOf(t, text); !slices.Contains(found, rule) {
				t.Errorf("want %s, got %v", rule, found)
			}
		})
	}
}

// serviceTimes runs flows of so many full packets to host 0 and returns when each is complete, in units of the time of
// a packet on a link, after the propagation of both links; the packets in flight cover it.
func serviceTimes(t *testing.T, rto int, packets ...int) (times []float64) {
	t.Helper()
	text := fmt.Sprintf(`
topology: {kind: single-switch, hosts: %d, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: pifo}
hosts: {transport: pfabric, rto-us: %d}
workload:
`, len(packets)+1, rto)
	for i, n := range packets {
		text += fmt.Sprintf("  - flow: {src: %d, dst: 0, packets: %d}\n", i+1, n)
	}
	test := parse(t, text)[0]
	o := run(t, test)
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Fatal(o.Verdict)
	}
	link := test.Topology.Link
	each := link.Rate.Serialise(1500 + link.Framing)
	for i := range packets {
		fct := clock.Duration(flowsOf(t, o.Dir).Flows[i].FCTNS) * clock.Nanosecond
		times = append(times, float64(fct-2*link.Delay)/float64(each))
	}
	return times
}

// A flow alone takes its packets at line rate, and one more for the second link. Of two flows the shorter is as if
// alone, but for one packet that was being sent; the longer one waits for exactly its service time.
func TestTheFlowWithFewerBytesLeftGoesFirst(t *testing.T) {
	close := func(got, want, off float64) bool { return got > want-off && got < want+off }
	if got := serviceTimes(t, 45, 100); !close(got[0], 101, 0.001) {
		t.Errorf("a flow of 100 packets alone took %v packet times, want 101", got)
	}
	if got := serviceTimes(t, 10_000, 300, 100); !close(got[0], 401, 0.001) || !close(got[1], 102, 0.001) {
		t.Errorf("flows of 300 and 100 packets took %v packet times, want 401 and 102", got)
	}
	// With a timeout of three round trips the long flow also pays for what it sent twice.
	if got := serviceTimes(t, 45, 300, 100); !close(got[0], 401, 40) || got[0] < 401 || !close(got[1], 102, 0.001) {
		t.Errorf("flows of 300 and 100 packets with timeouts took %v packet times", got)
	}
}

// drawPFabric returns a random network of pFabric hosts.
func drawPFabric(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 0x7066))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	topology := pick("kind: single-switch, hosts: 8", "kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4", "kind: dumbbell, hosts: 8")
	text := fmt.Sprintf(`
topology: {%s, link: {gbps: %s, delay-ns: %d}}
switch-under-test: {model: %s}
hosts: {transport: pfabric, packet-size: %s, initial-window: %d, rto-us: %d, probe-after: %d}
deadline-us: 2000000
seed: %d
workload:
`, topology, pick("1", "10", "40"), r.IntN(3000), pick("pifo", "pifo, queue-packets: 0, queue-bytes: 36000",
		"pifo, queue-packets: 9", "droptail, data-queue-bytes: 20000", "droptail", "ndp-ideal"), pick("256", "1500", "1500", "9000"),
		1+r.IntN(30), 20+r.IntN(300), r.IntN(7), seed)
	for range 1 + r.IntN(3) {
		rank := pick("rank: remaining", "rank: remaining", "rank: 3", "rank: deadline, deadline-us: 500")
		text += pick(
			fmt.Sprintf("  - incast: {senders: %d, bytes: %d, %s, start-us: %d}\n", 2+r.IntN(6), 1+r.IntN(200_000), rank, r.IntN(50)),
			fmt.Sprintf("  - permutation: {hosts: 8, bytes: %d, %s}\n", 1+r.IntN(100_000), rank),
			fmt.Sprintf("  - flow: {src: %d, dst: 7, count: %d, bytes: %d, %s}\n", r.IntN(7), 1+r.IntN(4), 1+r.IntN(90_000), rank),
			fmt.Sprintf("  - requests: {clients: [0], server: 7, count: 4, request-bytes: %d, response-bytes: %d}\n", 1+r.IntN(9000),
				1+r.IntN(9000)))
	}
	return text
}

// Correct hosts and switches break no rule in random networks.
func TestJudgesAreSilentOnRandomPFabricNetworks(t *testing.T) {
	count := uint64(40)
	if testing.Short() {
		count = 12
	}
	for seed := range count {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			text := drawPFabric(seed)
			if found := rulesOf(t, text); len(found) > 0 {
				t.Errorf("%v in%s", found, text)
			}
		})
	}
}
