package switchtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/runtimetest"
)

// provokeECN returns a test in which a bug of ECN can occur; false: the bug is another one.
func provokeECN(bug tcp.Bug, name string) (text string, ok bool) {
	if bug < tcp.BugIgnoresECE || bug >= tcp.BugSwiftIgnoresDelay {
		return "", false
	}
	control, more, queue, delayed := "dctcp", "", 400, 200
	switch bug {
	case tcp.BugIgnoresECE, tcp.BugReducesTwice, tcp.BugNeverCWR, tcp.BugKeepsECE, tcp.BugEchoesOnce:
		control = "reno, ecn: ect0"
	case tcp.BugReducesUnasked: // a mark leaves 0.7
		control = "cubic, ecn: ect1"
	case tcp.BugECTOnRetransmissions:
		queue = 30
	case tcp.BugFrozenAlpha, tcp.BugWrongGain:
		more = ", dctcp-alpha: 0"
	case tcp.BugOffersNoECN, tcp.BugECTUnnegotiated, tcp.BugECTOnSYN:
		more = ", handshake: true"
	case tcp.BugAcceptsUnasked: // without ECN
		control, more = "reno", ", handshake: true"
	}
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 10000}}
switch-under-test: {model: droptail, data-queue-packets: %d, data-queue-bytes: 10000000, ecn-threshold-packets: 20}
hosts: {transport: tcp, congestion-control: %s%s, min-rto-us: 10000, delayed-ack-us: %d, bugs: [%s]}
workload: [incast: {senders: 2, packets: 2000}]
deadline-us: 2000000
`, queue, control, more, delayed, name), true
}

// Rules of ECN hold for every size of window, kind of feedback and observer.
func TestSoundHostsWithECNAreNotBlamed(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, hosts := range []string{
		"congestion-control: reno, ecn: ect0", "congestion-control: cubic, ecn: ect1", "congestion-control: dctcp",
		"congestion-control: dctcp, delayed-ack-us: 0", "congestion-control: dctcp, dctcp-alpha: 0, dctcp-gain: 0.5",
		"congestion-control: dctcp, ecn-everything: true", "congestion-control: dctcp, send-jitter-us: 5",
		"congestion-control: reno, ecn: ect0, send-jitter-us: 5",
	} {
		for _, queue := range []int{30, 400} {
			text := fmt.Sprintf(`
topology: {kind: dumbbell, hosts: 8, link: {gbps: 10, delay-ns: 10000}}
switch-under-test: {model: droptail, data-queue-packets: %d, data-queue-bytes: 10000000, ecn-threshold-packets: 20}
hosts: {transport: tcp, %s, min-rto-us: 1000}
workload:
  - incast: {senders: 4, packets: 500}
  - requests: {clients: [4..7], server: 0, count: 10, response-bytes: 100000}
deadline-us: 2000000
`, queue, hosts)
			for _, f := range judge(t, parse(t, text)[0]).Analysis.Findings {
				if f.Rule != "tcp.timer-unjudged" && f.Rule != "tcp.ecn-unjudged" {
					t.Errorf("%s, %d packets: %s t=%dns %s; expected %s", hosts, queue, f.Rule, f.TimeNS, f.Message, f.Expected)
				}
			}
		}
	}
}

// A note says that DCTCP's reaction is not judged if packets may wait on their way to the NIC.
func TestTheReactionOfDCTCPNeedsTheOrderOfTheSender(t *testing.T) {
	text, _ := provokeECN(tcp.BugZeroAlpha, "")
	if found := rulesOf(t, text); len(found) > 0 {
		t.Errorf("%v", found)
	}
	text = strings.Replace(text, "transport: tcp,", "transport: tcp, send-jitter-us: 1,", 1)
	if found := rulesOf(t, text); !slices.Equal(found, []string{"tcp.ecn-unjudged"}) {
		t.Errorf("%v", found)
	}
}

// What duplicate ACKs add to a window and the end of a recovery takes from it excuses no needless reduction.
func TestReductionsUnaskedAreCaughtWithoutSACK(t *testing.T) {
	for _, bug := range tcp.Catalogue() {
		if bug.Rule != "tcp.ecn-overreaction" {
			continue
		}
		text, _ := provokeECN(bug.Bug, bug.Name)
		text = strings.Replace(text, "transport: tcp,", "transport: tcp, loss-detection: new-reno,", 1)
		if found := rulesOf(t, text); !slices.Contains(found, bug.Rule) {
			t.Errorf("%s: want %s, got %v", bug.Name, bug.Rule, found)
		}
		if found := rulesOf(t, sound(text, bug.Name)); len(found) > 0 {
			t.Errorf("hosts without %s break %v", bug.Name, found)
		}
	}
}

// withoutECN returns the bugs that show without ECN and Swift.
func withoutECN() []tcp.BugInfo {
	return slices.DeleteFunc(tcp.Catalogue(), func(b tcp.BugInfo) bool { return b.Bug >= tcp.BugIgnoresECE })
}

// Faults of ECN are caught in networks of other shapes, and correct hosts there are not blamed.
func TestSeededBugsOfECNAreCaughtInNetworksOfOtherShapes(t *testing.T) {
	for i, shape := range []string{
		"kind: dumbbell, hosts: 8, link: {gbps: 10, delay-ns: 4000}",
		"kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, routing: ecmp, link: {gbps: 10, delay-ns: 3000}",
	} {
		for _, bug := range tcp.Catalogue() {
			if bug.Bug < tcp.BugIgnoresECE || bug.Bug >= tcp.BugSwiftIgnoresDelay || testing.Short() && int(bug.Bug)%2 != i {
				continue
			}
			t.Run(bug.Name, func(t *testing.T) {
				t.Parallel()
				text, _ := provokeECN(bug.Bug, bug.Name)
				text = strings.Replace(text, "kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 10000}", shape, 1)
				if found := rulesOf(t, text); !slices.Contains(found, bug.Rule) {
					t.Errorf("%s: want %s, got %v", shape, bug.Rule, found)
				}
				if found := rulesOf(t, sound(text, bug.Name)); len(found) > 0 {
					t.Errorf("%s: hosts without the bug break %v", shape, found)
				}
			})
		}
	}
}

// Captures show faults of ECN, too, except those that only the sender's own order shows.
func TestCapturesShowBugsOfECN(t *testing.T) {
	runtimetest.SkipRace(t)
	for i, bug := range tcp.Catalogue() {
		if bug.Bug < tcp.BugIgnoresECE || bug.Bug >= tcp.BugSwiftIgnoresDelay || fewBugs(i) {
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text, _ := provokeECN(bug.Bug, bug.Name)
			rules := func(text string) (list []string) {
				for _, f := range rejudge(t, run(t, parse(t, text+captured)[0]).Dir).Analysis.Findings {
					list = append(list, f.Rule)
				}
				return list
			}
			found, want := rules(text), bug.Rule
			switch bug.Bug {
			case tcp.BugReducesUnasked: // the window is not known, but CWR is seen
				want = "tcp.cwr-unfounded"
			case tcp.BugReducesTwice, tcp.BugFrozenAlpha, tcp.BugZeroAlpha, tcp.BugWrongGain:
				want = "tcp.ecn-unjudged"
			}
			if !slices.Contains(found, want) {
				t.Errorf("want %s, got %v", want, found)
			}
			found = slices.DeleteFunc(rules(sound(text, bug.Name)),
				func(rule string) bool { return strings.HasSuffix(rule, "-unjudged") })
			if len(found) > 0 {
				t.Errorf("hosts without the bug break %v", found)
			}
		})
	}
}
