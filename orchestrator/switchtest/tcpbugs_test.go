package switchtest_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/generator/tcp"
)

// provokeTCP returns a test that gives a bug of TCP hosts the occasion to show.
func provokeTCP(bug tcp.Bug, name string) string {
	queue, senders, packets, window, receive, rto, first := 20, 2, 600, 10, 6291456, 1000, 0
	control, end := "cubic", "deadline-us: 2000000"
	switch bug {
	case tcp.BugNeverAvoids: // Reno's avoidance is the slower one
		control = "reno"
	case tcp.BugEarlyTimeout, tcp.BugNoBackoff, tcp.BugNoTimeout, tcp.BugHurriedTimeout: // lone segments, of which nobody tells when they are lost
		queue, senders, packets, window = 1, 12, 3, 10
	case tcp.BugKeepsWindow:
		queue, senders, packets, window = 1, 12, 10, 10
	case tcp.BugIgnoresReceiver, tcp.BugOverrunsReceiver:
		queue, packets, receive = 200, 300, 20_000
	case tcp.BugForgetsAck, tcp.BugLateAck:
		queue, senders, packets, rto, end = 200, 1, 41, 1_000_000, "duration-us: 800000"
	case tcp.BugNoDuplicateAck:
		rto = 100_000
	case tcp.BugWrapsBadly:
		first = 1<<32 - 100_000
	}
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 14, link: {gbps: 25, delay-ns: 2000}}
switch-under-test: {model: droptail, data-queue-packets: %d, data-queue-bytes: 10000000}
hosts: {transport: tcp, congestion-control: %s, min-rto-us: %d, delayed-ack-us: 200, initial-window: %d, receive-window-bytes: %d, first-sequence: %d, bugs: [%s]}
workload: [incast: {senders: %d, packets: %d}]
%s
`, queue, control, rto, window, receive, first, name, senders, packets, end)
}

func TestEverySeededBugOfTCPHostsIsCaughtAndSoundHostsAreNot(t *testing.T) {
	for _, bug := range tcp.Catalogue() {
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text := provokeTCP(bug.Bug, bug.Name)
			if found := rulesOf(t, text); !slices.Contains(found, bug.Rule) {
				t.Errorf("want %s, got %v", bug.Rule, found)
			}
			found := rulesOf(t, sound(text, bug.Name))
			if found = slices.DeleteFunc(found, func(rule string) bool { return rule == "tcp.timer-unjudged" }); len(found) > 0 { // a note, of nobody's fault
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
hosts: {transport: tcp, congestion-control: %s, min-rto-us: %d, delayed-ack-us: %d, initial-window: %d, receive-window-bytes: %d, send-jitter-us: %s}
workload:
  - incast: {senders: %d, packets: %d}
  - requests: {clients: 9, server: 1, count: %d, response-bytes: %d}
seed: %d
deadline-us: 400000
`, topology, rapid.SampledFrom([]int{10, 100}).Draw(rt, "gbps"), rapid.IntRange(100, 20_000).Draw(rt, "delay"), model, control,
			rapid.SampledFrom([]int{200, 1000, 10_000}).Draw(rt, "rto"), rapid.SampledFrom([]int{0, 100, 1000}).Draw(rt, "delayed"),
			rapid.IntRange(1, 40).Draw(rt, "window"), rapid.SampledFrom([]int{20_000, 100_000, 6_291_456}).Draw(rt, "receive"),
			rapid.SampledFrom([]string{"0", "0", "0.3", "5", "100"}).Draw(rt, "jitter"),
			rapid.IntRange(1, 8).Draw(rt, "senders"), rapid.IntRange(1, 400).Draw(rt, "packets"), rapid.IntRange(1, 10).Draw(rt, "count"),
			rapid.IntRange(1, 60_000).Draw(rt, "response"), rapid.IntRange(1, 1000).Draw(rt, "seed"))
		for _, rule := range rulesOf(t, text) {
			if strings.HasPrefix(rule, "tcp.") && rule != "tcp.timer-unjudged" {
				rt.Fatalf("%s\n%s", rule, text)
			}
		}
	})
}

// The machines of TCP's analyzer list what the sound hosts of these tests reach of them, and what not.
func TestTheSuiteReachesTheTransitionsOfTCPThatItIsSaidTo(t *testing.T) {
	reached := make(map[string]int64)
	seen := make(map[string]bool)
	for _, bug := range tcp.Catalogue() {
		text := sound(provokeTCP(bug.Bug, bug.Name), bug.Name)
		if seen[text] {
			continue
		}
		seen[text] = true
		for name, count := range run(t, parse(t, text)[0]).Analysis.Coverage["tcp"] {
			reached[name] += count
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		fmt.Fprintf(&b, "%-11s %s\n", map[bool]string{true: "reached", false: "not reached"}[reached[name] > 0], name)
	}
	path := filepath.Join("testdata", "tcp-transitions.txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("%s differs (-update rewrites it):\n%s", path, got)
	}
}

// A NIC that flow control has silenced for longer than any timer sends late, and its packets look as if their timers had not doubled.
func TestPausesExplainLateSegments(t *testing.T) {
	text := `
topology: {kind: dumbbell, hosts: 8, link: {gbps: 10, delay-ns: 1000}, links: [{host: 4, gbps: 0.001}]}
switch-under-test: {model: droptail, pfc-classes: [0], pfc-xoff-bytes: 20000, pfc-headroom-bytes: 60000}
hosts: {transport: tcp, min-rto-us: 400}
workload:
  - flow: {src: 0, dst: 4, packets: 120, transport: raw}
  - flow: {src: 1, dst: 4, packets: 60}
  - flow: {src: 0, dst: 5, packets: 60}
  - flow: {src: 1, dst: 5, packets: 60}
deadline-us: 2000000
`
	o := run(t, parse(t, text)[0])
	for _, f := range o.Analysis.Findings {
		if f.Rule != "tcp.timer-unjudged" {
			t.Errorf("%s t=%dns %s; expected %s", f.Rule, f.TimeNS, f.Message, f.Expected)
		}
	}
	if pauses := counter(t, o.Dir, "*.pauses-sent"); pauses == 0 {
		t.Error("nothing was paused")
	}
}
