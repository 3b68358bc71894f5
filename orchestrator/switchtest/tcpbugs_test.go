package switchtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/generator/tcp"
)

// provokeTCP returns a test that gives a bug of TCP hosts the occasion to show.
func provokeTCP(bug tcp.Bug, name string) string {
	queue, senders, packets, window, receive, rto := 20, 2, 600, 10, 6291456, 1000
	end := "deadline-us: 2000000"
	switch bug {
	case tcp.BugEarlyTimeout, tcp.BugNoBackoff, tcp.BugNoTimeout: // lone segments, of which nobody tells when they are lost
		queue, senders, packets, window = 1, 12, 3, 10
	case tcp.BugIgnoresReceiver:
		queue, packets, receive = 200, 300, 20_000
	case tcp.BugForgetsAck:
		queue, senders, packets, rto, end = 200, 1, 41, 1_000_000, "duration-us: 700000"
	}
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 14, link: {gbps: 25, delay-ns: 2000}}
switch-under-test: {model: droptail, data-queue-packets: %d, data-queue-bytes: 10000000}
hosts: {transport: tcp, min-rto-us: %d, delayed-ack-us: 200, initial-window: %d, receive-window-bytes: %d, bugs: [%s]}
workload: [incast: {senders: %d, packets: %d}]
%s
`, queue, rto, window, receive, name, senders, packets, end)
}

func TestEverySeededBugOfTCPHostsIsCaughtAndSoundHostsAreNot(t *testing.T) {
	for _, bug := range tcp.Catalogue() {
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text := provokeTCP(bug.Bug, bug.Name)
			if found := rulesOf(t, text); !slices.Contains(found, bug.Rule) {
				t.Errorf("want %s, got %v", bug.Rule, found)
			}
			if found := rulesOf(t, sound(text, bug.Name)); len(found) > 0 {
				t.Errorf("hosts without the bug break %v", found)
			}
		})
	}
}

// Whatever the network does to them, sound hosts are blamed for nothing.
func TestSoundTCPHostsAreNeverBlamed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		topology := rapid.SampledFrom([]string{
			"kind: single-switch, hosts: 10", "kind: dumbbell, hosts: 10", "kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: ecmp",
			"kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: spray",
		}).Draw(rt, "topology")
		queue := rapid.IntRange(1, 60).Draw(rt, "queue")
		model := rapid.SampledFrom([]string{
			fmt.Sprintf("model: droptail, data-queue-packets: %d, data-queue-bytes: 10000000", queue), fmt.Sprintf("model: ndp-ideal, data-queue-bytes: %d", 1500*queue),
		}).Draw(rt, "model")
		control := rapid.SampledFrom([]string{"cubic", "reno"}).Draw(rt, "control")
		text := fmt.Sprintf(`
topology: {%s, link: {gbps: %d, delay-ns: %d}}
switch-under-test: {%s}
hosts: {transport: tcp, congestion-control: %s, min-rto-us: %d, delayed-ack-us: %d, initial-window: %d, receive-window-bytes: %d}
workload:
  - incast: {senders: %d, packets: %d}
  - requests: {clients: 9, server: 1, count: %d, response-bytes: %d}
seed: %d
deadline-us: 400000
`, topology, rapid.SampledFrom([]int{10, 100}).Draw(rt, "gbps"), rapid.IntRange(100, 20_000).Draw(rt, "delay"), model, control,
			rapid.SampledFrom([]int{200, 1000, 10_000}).Draw(rt, "rto"), rapid.SampledFrom([]int{0, 100, 1000}).Draw(rt, "delayed"),
			rapid.IntRange(1, 40).Draw(rt, "window"), rapid.SampledFrom([]int{20_000, 100_000, 6_291_456}).Draw(rt, "receive"),
			rapid.IntRange(1, 8).Draw(rt, "senders"), rapid.IntRange(1, 400).Draw(rt, "packets"), rapid.IntRange(1, 10).Draw(rt, "count"),
			rapid.IntRange(1, 60_000).Draw(rt, "response"), rapid.IntRange(1, 1000).Draw(rt, "seed"))
		for _, rule := range rulesOf(t, text) {
			if strings.HasPrefix(rule, "tcp.") {
				rt.Fatalf("%s\n%s", rule, text)
			}
		}
	})
}
