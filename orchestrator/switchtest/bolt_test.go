package switchtest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"candela.dev/candela/generator/bolt"
)

const boltSwitches = "bolt-src: true, bolt-pru: true, bolt-sm: true"

// provokeBolt returns a test in which a bug of Bolt hosts can occur.
func provokeBolt(bug bolt.Bug, name string) string {
	queue, more, start := 300, "", 30
	switch bug {
	case bolt.BugKeepsWindow, bolt.BugEarlyTimeout, bolt.BugNoTimeout, bolt.BugRetransmitsAcknowledged,
		bolt.BugAcksBeyond, bolt.BugSkipsPacket, bolt.BugStaleTime:
		queue = 6
	}
	switch bug {
	case bolt.BugEarlyTimeout, bolt.BugNoTimeout, bolt.BugRetransmitsAcknowledged:
		more = ", rto-us: 100, reorder: 0"
	}
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: droptail, data-queue-packets: %d, bolt-src: true, bolt-pru: true, bolt-sm: true}
hosts: {transport: bolt, initial-window: 8%s, bugs: [%s]}
workload:
  - incast: {senders: 3, bytes: 300000}
  - flow: {src: 4, dst: 0, bytes: 100000, start-us: %d}
deadline-us: 50000
`, queue, more, name, start)
}

// silentOnce checks that a network of correct hosts and switches breaks no rule, once for each text.
func silentOnce(t *testing.T, seen *sync.Map, text string) {
	t.Helper()
	if _, again := seen.LoadOrStore(text, true); again {
		return
	}
	if found := rulesOf(t, text); len(found) > 0 {
		t.Errorf("without the bug %v are broken", found)
	}
}

// Where raw traffic shares the NIC, more data comes in than acknowledgements go out, and these wait for long.
func TestReceiversThatSendOtherTrafficTooAreNotBlamed(t *testing.T) {
	if found := rulesOf(t, `
topology: {kind: single-switch, hosts: 7, link: {gbps: 1, delay-ns: 178, framing-bytes: 24}}
switch-under-test: {bolt-pru: true, model: ecmp, queue-bytes: 50192, forwarding: power-of-two}
hosts: {transport: bolt, rto-us: 500, initial-window: 40, reorder: 3, packet-size: 600}
workload:
  - incast: {senders: 6, packets: 85, start-us: 269}
  - flow: {src: 4, dst: 5, count: 4, packets: 74, start-us: 301}
  - incast: {senders: 2, packets: 113, start-us: 282}
  - cbr: {src: 0, dst: 6, rate-gbps: 0.9, transport: raw, stop-us: 3000}
duration-us: 20000
seed: 81798378
`); len(found) > 0 {
		t.Error(found)
	}
}

func TestEverySeededBugOfBoltHostsIsCaught(t *testing.T) {
	var correct sync.Map
	for _, bug := range bolt.Catalogue() {
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text := provokeBolt(bug.Bug, bug.Name)
			found := rulesOf(t, text)
			if !slices.Contains(found, bug.Rule) {
				t.Errorf("want %s, got %v", bug.Rule, found)
			}
			silentOnce(t, &correct, strings.Replace(text, ", bugs: ["+bug.Name+"]", "", 1))
		})
	}
}

func TestEverySeededBugOfBoltInSwitchesIsCaught(t *testing.T) {
	var correct sync.Map
	for bug, rule := range map[string]string{
		"early-src": "src-unfounded", "forgets-src": "src-missing", "doubles-src": "src-twice",
		"ignores-dec": "src-unfounded", "wrong-queue": "src-content", "wrong-rate": "src-content",
		"wrong-time": "src-content", "keeps-inc": "mark", "forgets-dec": "mark", "counts-first": "grant",
		"forgets-pru": "refusal", "spends-no-pru": "grant", "uncapped-sm": "grant", "forgets-demand": "grant",
		"forgets-sm": "refusal",
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			options := boltSwitches
			if strings.HasSuffix(bug, "-pru") || bug == "counts-first" {
				options = "bolt-src: true, bolt-pru: true"
			}
			// Both switches of the dumbbell are congested: the link between by hosts 1 to 3, host 0's by host 5, too.
			text := fmt.Sprintf(`
topology: {kind: dumbbell, hosts: 8, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: droptail, data-queue-packets: 300, %s, bugs: [bolt-%s]}
hosts: {transport: bolt, initial-window: 8}
workload:
  - flow: {src: 0, dst: 4, count: 3, bytes: 60000}
  - flow: {src: 1, dst: 4, bytes: 300000}
  - flow: {src: 2, dst: 4, bytes: 300000}
  - flow: {src: 5, dst: 4, bytes: 200000, start-us: 40}
deadline-us: 50000
`, options, bug)
			if bug == "counts-first" { // flows of one packet beside one that may grow, without congestion
				text = text[:strings.Index(text, "hosts: {")] + `hosts: {transport: bolt, initial-window: 2}
workload:
  - flow: {src: 1, dst: 4, bytes: 300000}
  - flow: {src: 2, dst: 4, count: 8, bytes: 1400, start-us: 30}
deadline-us: 50000
`
			}
			if found := rulesOf(t, text); !slices.Contains(found, "boltswitch."+rule) {
				t.Errorf("want boltswitch.%s, got %v", rule, found)
			}
			silentOnce(t, &correct, strings.Replace(text, ", bugs: [bolt-"+bug+"]", "", 1))
		})
	}
}

// drawBolt returns a random network of Bolt hosts.
func drawBolt(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 0x626f6c74))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	topology := pick("kind: single-switch, hosts: 8", "kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4",
		"kind: dumbbell, hosts: 8", "kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, routing: spray")
	model := pick("droptail", "droptail, data-queue-bytes: 20000", "droptail, data-queue-packets: 5",
		"droptail, queues: 2", "ndp-ideal", "cp", "tofino", "sai", "droptail, latency-ns: 700")
	text := fmt.Sprintf(`
topology: {%s, link: {gbps: %s, delay-ns: %d, framing-bytes: %s}}
switch-under-test: {model: %s, bolt-src: %v, bolt-pru: %v, bolt-sm: %v, bolt-threshold-bytes: %d, bolt-pru-tokens: %d}
hosts: {transport: bolt, packet-size: %s, initial-window: %d, max-window: %d, rto-us: %d, reorder: %s, increase: %s}
deadline-us: 2000000
seed: %d
workload:
`, topology, pick("1", "10", "40", "100"), r.IntN(3000), pick("0", "24"), model, r.IntN(4) > 0, r.IntN(4) > 0,
		r.IntN(4) > 0, 1+r.IntN(9000), 1+r.IntN(40), pick("256", "1500", "1500", "9000"), 1+r.IntN(30), 30+r.IntN(200),
		20+r.IntN(900), pick("3", "3", "0", "1"), pick("1", "1", "0.3", "0"), seed)
	for range 1 + r.IntN(3) {
		text += pick(
			fmt.Sprintf("  - incast: {senders: %d, bytes: %d, start-us: %d}\n", 2+r.IntN(6), 1+r.IntN(200_000), r.IntN(50)),
			fmt.Sprintf("  - permutation: {hosts: 8, bytes: %d}\n", 1+r.IntN(100_000)),
			fmt.Sprintf("  - flow: {src: %d, dst: 7, count: %d, bytes: %d}\n", r.IntN(7), 1+r.IntN(4), 1+r.IntN(90_000)),
			fmt.Sprintf("  - requests: {clients: [0], server: 7, count: 4, request-bytes: %d, response-bytes: %d}\n",
				1+r.IntN(9000), 1+r.IntN(9000)))
	}
	return text
}

// Correct hosts and switches break no rule in random networks.
func TestJudgesAreSilentOnRandomBoltNetworks(t *testing.T) {
	for seed := range uint64(seedsOfModel(t, 6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			text := drawBolt(seed)
			if found := rulesOf(t, text); len(found) > 0 {
				t.Errorf("%v in%s", found, text)
			}
		})
	}
}
