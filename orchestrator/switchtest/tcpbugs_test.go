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
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// provokeTCP returns a test in which a bug of TCP hosts can occur.
func provokeTCP(bug tcp.Bug, name string) string {
	if text, ok := provokeECN(bug, name); ok {
		return text
	}
	if text, ok := provokeSwift(bug, name); ok {
		return text
	}
	// The first timeout comes just before its acknowledgement. Bursts are short, as the captures of a switch far from the
	// host tell less exactly in which state it sent them.
	if bug == tcp.BugSamplesRetransmissions {
		return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 2, link: {gbps: 25, delay-ns: 200000}}
switch-under-test: {model: droptail}
hosts: {transport: tcp, min-rto-us: 10, initial-rto-us: 700, initial-window: 2, bugs: [%s]}
workload: [incast: {senders: 1, packets: 100}]
deadline-us: 2000000
`, name)
	}
	queue, senders, packets, window, receive, rto, first, jitter := 20, 2, 600, 10, 6291456, 1000, 0, 0
	control, end, more := "cubic", "deadline-us: 2000000", ""
	switch bug {
	// Without jitter, arrivals repeat their order every round, and one sender gets the whole queue.
	case tcp.BugIgnoresLoss, tcp.BugAcksBackwards, tcp.BugResendsSACKed:
		jitter = 1
	case tcp.BugNeverAvoids: // Reno's congestion avoidance is slower
		control, jitter = "reno", 1
	// single segments, whose loss no later segment indicates
	case tcp.BugEarlyTimeout, tcp.BugNoBackoff, tcp.BugNoTimeout, tcp.BugHurriedTimeout:
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
	case tcp.BugWrongSYNACK, tcp.BugIgnoresSYN, tcp.BugHastyData:
		senders, packets, end, more = 1, 30, "deadline-us: 100000", ", handshake: true"
	// SYNs that arrive at once, of which the queue holds one
	case tcp.BugHastySYN, tcp.BugForgetsSYN, tcp.BugKeepsInitialWindow:
		queue, senders, packets, more = 1, 12, 20, ", handshake: true, initial-rto-us: 5000"
	case tcp.BugLargeInitialWindow:
		queue, senders = 200, 1
	case tcp.BugTransmitsMore, tcp.BugStallsPartialACK, tcp.BugResendsWindow:
		control, rto, jitter, more = "reno", 20_000, 1, ", loss-detection: new-reno"
	case tcp.BugReducesOnce:
		queue, senders, control, rto, more = 4, 12, "reno", 20_000, ", loss-detection: per-packet"
	case tcp.BugFastRetransmits:
		rto, jitter, more = 20_000, 1, ", loss-detection: new-reno, fast-retransmit: false"
	case tcp.BugHastyFirst:
		queue, senders, packets, more = 1, 12, 3, ", initial-rto-us: 10000"
	case tcp.BugIgnoresMaxRTO:
		queue, senders, packets, more = 1, 12, 3, ", max-rto-us: 1000"
	case tcp.BugGivesUpEarly, tcp.BugRetriesForever:
		queue, senders, packets, more = 1, 13, 3, ", max-retries: 2"
	case tcp.BugSlowAck, tcp.BugAcksThird:
		queue, senders, packets, more = 200, 1, 601, ", quick-acks: 0"
	}
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 14, link: {gbps: 25, delay-ns: 2000}}
switch-under-test: {model: droptail, data-queue-packets: %d, data-queue-bytes: 10000000}
hosts: {transport: tcp, congestion-control: %s, min-rto-us: %d, delayed-ack-us: 200, initial-window: %d,
  receive-window-bytes: %d, first-sequence: %d, send-jitter-us: %d%s, bugs: [%s]}
workload: [incast: {senders: %d, packets: %d}]
%s
`, queue, control, rto, window, receive, first, jitter, more, name, senders, packets, end)
}

func TestEverySeededBugOfTCPHostsIsCaughtAndSoundHostsAreNot(t *testing.T) {
	for i, bug := range tcp.Catalogue() {
		if fewBugs(i) {
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text := provokeTCP(bug.Bug, bug.Name)
			if found := rulesOf(t, text); !slices.Contains(found, bug.Rule) {
				t.Errorf("want %s, got %v", bug.Rule, found)
			}
			found := rulesOf(t, sound(text, bug.Name))
			// a note, which blames no device
			if found = slices.DeleteFunc(found, func(rule string) bool { return rule == "tcp.timer-unjudged" }); len(found) > 0 {
				t.Errorf("hosts without the bug break %v", found)
			}
		})
	}
}

// Compliant hosts are never blamed, whatever the network does: neither in the run nor by its captures.
func TestSoundTCPHostsAreNeverBlamed(t *testing.T) {
	out, rejudged := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		text := drawTCP(rt)
		recorded := !strings.Contains(text, "pfc-classes") && rapid.IntRange(0, 3).Draw(rt, "recorded") == 0
		if recorded {
			text += captured
		}
		p, err := switchtest.New(parse(rt, text)[0])
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		o := unwritten()
		if recorded {
			o = options(out)
		}
		r, err := switchtest.Run(t.Context(), p, o)
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		if recorded {
			defer func() { _ = os.RemoveAll(r.Dir) }()
		}
		found := r.Analysis.Findings
		if recorded {
			judged := rejudge(rt, r.Dir)
			if notes := strings.Join(judged.Report.Notes, "\n"); !strings.Contains(notes, "tcp is judged again") {
				rt.Fatalf("%s\n%s", notes, text)
			}
			found = append(found, judged.Analysis.Findings...)
			rejudged++
		}
		for _, f := range found {
			if f.Analyzer == "tcp" && !strings.HasSuffix(f.Rule, "-unjudged") {
				rt.Fatalf("%s t=%dns %s; expected %s\n%s", f.Rule, f.TimeNS, f.Message, f.Expected, text)
			}
		}
	})
	if rejudged == 0 && silence() { // of 30 networks, in one in a thousand runs none is recorded
		t.Error("no captures were judged")
	}
}

// These networks of compliant hosts once caused false findings.
func TestHostsBehindSlowLinksAreNotBlamedForWhatWaits(t *testing.T) {
	for name, text := range map[string]string{
		"many segments acknowledged at once above a low threshold": `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: ecmp, link: {gbps: 10, delay-ns: 103},
  links: [{host: 0, gbps: 0.1, delay-ns: 4}]}
switch-under-test: {model: droptail, data-queue-packets: 10, data-queue-bytes: 10000000}
hosts: {transport: tcp, congestion-control: reno, min-rto-us: 200, delayed-ack-us: 1000, initial-window: 12,
  receive-window-bytes: 100000, send-jitter-us: 100, first-sequence: 4294900000}
workload:
  - incast: {senders: 5, packets: 387, ip: 6}
  - requests: {clients: 9, server: 1, count: 4, response-bytes: 2, ip: 6}
seed: 511
deadline-us: 400000
`,
		"a segment on its way to the NIC when a timer ran out, and acknowledged but for it": `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: spray, link: {gbps: 100,
  delay-ns: 18014}, links: [{host: 1, gbps: 0.1, delay-ns: 8}]}
switch-under-test: {model: droptail, data-queue-packets: 1, data-queue-bytes: 10000000}
hosts: {transport: tcp, congestion-control: cubic, min-rto-us: 200, delayed-ack-us: 1000, initial-window: 30,
  receive-window-bytes: 20000, send-jitter-us: 100, first-sequence: 0}
workload:
  - incast: {senders: 2, packets: 370, ip: 6}
  - requests: {clients: 9, server: 1, count: 1, response-bytes: 12578, ip: 6}
seed: 24
deadline-us: 400000
`,
		"a timeout that looks like the recovery that it came before": `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: ecmp, link: {gbps: 10, delay-ns: 621}}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 3000}
hosts: {transport: tcp, congestion-control: reno, min-rto-us: 200, delayed-ack-us: 0, initial-window: 16,
  receive-window-bytes: 6291456, send-jitter-us: 100, first-sequence: 4294900000}
workload:
  - incast: {senders: 8, packets: 21}
  - requests: {clients: 9, server: 1, count: 4, response-bytes: 888}
  - flow: {src: 1, dst: 0, packets: 189, transport: raw}
seed: 693
deadline-us: 400000
`,
	} {
		o := judge(t, parse(t, text)[0])
		for _, f := range o.Analysis.Findings {
			if f.Rule != "tcp.timer-unjudged" {
				t.Errorf("%s: %s t=%dns %s; expected %s", name, f.Rule, f.TimeNS, f.Message, f.Expected)
			}
		}
	}
}

// Delays before a NIC do not excuse a timer that fails to double.
func TestDelaysBeforeTheNICHideNoTimerThatFailsToDouble(t *testing.T) {
	for _, jitter := range []string{"0", "20", "100"} {
		text := fmt.Sprintf(`
topology: {kind: single-switch, hosts: 14, link: {gbps: 25, delay-ns: 2000}, links: [{host: 0, gbps: 0.05}]}
switch-under-test: {model: droptail, data-queue-packets: 1, data-queue-bytes: 10000000}
hosts: {transport: tcp, min-rto-us: 1000, delayed-ack-us: 200, bugs: [no-backoff], send-jitter-us: %s}
workload: [incast: {senders: 12, packets: 3}]
`, jitter)
		if found := rulesOf(t, text); !slices.Contains(found, "tcp.backoff") {
			t.Errorf("jitter of %s us: want tcp.backoff, got %v", jitter, found)
		}
		if found := rulesOf(t, sound(text, "no-backoff")); slices.ContainsFunc(found,
			func(rule string) bool { return rule != "tcp.timer-unjudged" }) {
			t.Errorf("jitter of %s us: sound hosts break %v", jitter, found)
		}
	}
}

// drawTCP draws a network of compliant TCP hosts with queues, other traffic, pauses and NIC delays.
func drawTCP(rt *rapid.T) string {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(rt, name) }
	word := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, name) }
	queue := number("queue", 1, 60)
	receive := word("receive", "20000", "100000", "6291456", "65535, window-scaling: false",
		"10000, window-scaling: false")
	receive += word("handshake", "", ", handshake: true") + word("rto rule", "", ", rto: 3-srtt") +
		word("initial RTO", "", ", initial-rto-us: 20000") + word("max RTO", "", ", max-rto-us: 50000") +
		word("detection", "", ", loss-detection: new-reno", ", loss-detection: new-reno", ", loss-detection: per-packet") +
		word("fast", "", "", ", fast-retransmit: false") + word("limited", "", "", ", limited-transmit: false") +
		word("quick", "", ", quick-acks: 0") + word("every", "", ", ack-every: 1", ", ack-every: 5") +
		word("retries", "", "", ", max-retries: 1", ", max-retries: 3")
	jitter, pauses := word("jitter", "0", "0", "0.3", "5", "100"), ""
	if jitter == "0" {
		pauses = word("pauses", "", "", "", ", pfc-classes: [0], pfc-xoff-bytes: 20000, pfc-headroom-bytes: 300000")
	}
	model := word("model", fmt.Sprintf("model: droptail, data-queue-packets: %d, data-queue-bytes: 10000000", queue),
		fmt.Sprintf("model: ndp-ideal, data-queue-bytes: %d", 1500*queue))
	slow := ""
	if gbps := word("slow", "", "", "", "7", "0.1"); gbps != "" {
		slow = fmt.Sprintf(", links: [{host: %d, gbps: %s, delay-ns: %d}]", number("slow host", 0, 9), gbps,
			number("slow delay", 0, 5000))
	}
	ecn, controls := "", []string{"cubic", "reno"}
	if mark := word("mark", "", "", "1", "5", "20"); mark != "" {
		pauses += ", ecn-threshold-packets: " + mark
		controls = append(controls, "dctcp", "dctcp")
		ecn = word("ecn", "", ", ecn: ect0", ", ecn: ect1", ", ecn: ect0, ecn-everything: true")
	}
	ip := word("ip", "", "", "", ", ip: 6")
	text := fmt.Sprintf(`
topology: {%s, link: {gbps: %s, delay-ns: %d}%s}
switch-under-test: {%s%s}
hosts: {transport: tcp, congestion-control: %s, min-rto-us: %s, delayed-ack-us: %s, initial-window: %d,
  receive-window-bytes: %s, send-jitter-us: %s, first-sequence: %s}
workload:
  - incast: {senders: %d, packets: %d%s}
  - requests: {clients: 9, server: 1, count: %d, response-bytes: %d%s}
`, word("topology", "kind: single-switch, hosts: 10", "kind: dumbbell, hosts: 10",
		"kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: ecmp",
		"kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: spray"),
		word("gbps", "10", "100"), number("delay", 100, 20_000), slow, model, pauses, word("control", controls...)+ecn,
		word("rto", "200", "1000", "10000"),
		word("delayed", "0", "100", "1000"), number("window", 1, 40), receive, jitter,
		word("first", "0", "4294900000"), number("senders", 1, 8), number("packets", 1, 400), ip, number("count", 1, 10),
		number("response", 1, 60_000), ip)
	if number("other traffic", 0, 2) == 0 {
		text += fmt.Sprintf("  - flow: {src: %d, dst: 0, packets: %d, transport: raw}\n", number("src", 1, 9),
			number("raw", 1, 400))
	}
	return text + fmt.Sprintf("seed: %d\ndeadline-us: 400000\n", number("seed", 1, 1000))
}

// A golden file lists the transitions of TCP's analyzer that compliant hosts reach in these tests.
func TestTheSuiteReachesTheTransitionsOfTCPThatItIsSaidTo(t *testing.T) {
	runtimetest.SkipRace(t)
	reached := make(map[string]int64)
	seen := make(map[string]bool)
	for _, bug := range tcp.Catalogue() {
		text := sound(provokeTCP(bug.Bug, bug.Name), bug.Name)
		if seen[text] {
			continue
		}
		seen[text] = true
		for name, count := range judge(t, parse(t, text)[0]).Analysis.Coverage["tcp"] {
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

// If flow control pauses a NIC for longer than any timer, its packets leave late, as if timers had not doubled.
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
