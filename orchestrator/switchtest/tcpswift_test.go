package switchtest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/generator/tcp"
)

// provokeSwift returns a test in which a bug of Swift can occur; false: the bug is another one.
func provokeSwift(bug tcp.Bug, name string) (text string, ok bool) {
	if bug < tcp.BugSwiftIgnoresDelay {
		return "", false
	}
	senders, packets, more := 4, 600, ""
	switch bug {
	case tcp.BugSwiftNoPacing:
		senders, packets, more = 40, 20, ", initial-window: 1"
	case tcp.BugSwiftWholeRTT, tcp.BugSwiftHidesDelay:
		senders, more = 2, ", delayed-ack-us: 60, quick-acks: 0, ack-every: 64, swift-fs-range-us: 0"
	case tcp.BugSwiftDeepDecrease:
		senders, more = 8, ", initial-window: 40"
	}
	if !strings.Contains(more, "delayed-ack-us") {
		more += ", delayed-ack-us: 0"
	}
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 41, link: {gbps: 10, delay-ns: 2000}}
switch-under-test: {model: droptail, data-queue-packets: 2000, data-queue-bytes: 10000000}
hosts: {transport: tcp, congestion-control: swift, min-rto-us: 10000%s, bugs: [%s]}
workload: [incast: {senders: %d, packets: %d}]
deadline-us: 2000000
`, more, name, senders, packets), true
}

// controls matches what a drawn network says of congestion control and ECN.
var controls = regexp.MustCompile(`, (congestion-control|ecn|ecn-everything|dctcp-gain|dctcp-alpha): [^,}\]]*`)

// swiftHosts draws parameters of Swift.
func (d networkDraw) swiftHosts() string {
	text := "transport: tcp, congestion-control: swift"
	draw := func(name string, values ...string) {
		if d.one(2) {
			text += ", " + name + ": " + d.of(values...)
		}
	}
	draw("swift-base-target-us", "5", "20", "50", "1000")
	draw("swift-hop-scale-us", "0", "1", "10")
	draw("swift-fs-range-us", "0", "30", "100", "500")
	draw("swift-fs-min-cwnd", "0.01", "0.1", "1")
	draw("swift-fs-max-cwnd", "10", "100")
	draw("swift-endpoint-target-us", "1", "20", "100", "1000")
	draw("swift-ai", "0.1", "1", "3")
	draw("swift-beta", "0.2", "0.8", "1")
	draw("swift-max-mdf", "0.1", "0.5", "0.9")
	draw("swift-min-cwnd", "0.001", "0.1", "1")
	draw("swift-max-cwnd", "5", "50")
	draw("swift-retx-reset-threshold", "1", "2")
	return text
}

// swiftNetwork draws a network of Swift hosts, behind any switch model.
func swiftNetwork(seed uint64) string {
	d := newNetworkDraw(seed, 77)
	models := forwarders()
	text := controls.ReplaceAllString(d.tcpNetwork(models[d.IntN(len(models))].Name), "")
	if !d.one(5) { // otherwise windows are not judged
		text = regexp.MustCompile(`send-jitter-us: [0-9.]+`).ReplaceAllString(text, "send-jitter-us: 0")
	}
	return strings.Replace(text, "transport: tcp", d.swiftHosts(), 1)
}

// Hosts with Swift are not blamed in drawn networks.
func TestCompliantSwiftHostsAreNotBlamed(t *testing.T) {
	seeds, refused := seedsOfModel(t, 12), 0
	for seed := range seeds {
		text := swiftNetwork(uint64(seed))
		if seed%4 == 0 {
			text += captured
		}
		if !blamesNobody(t, text, seed%4 == 0) {
			refused++
		}
	}
	if 2*refused > seeds {
		t.Errorf("%d of %d networks were refused", refused, seeds)
	}
}

// A note says that Swift's windows are not judged if packets may wait on their way to the NIC.
func TestSwiftIsJudgedByTheDelaysOfTheSender(t *testing.T) {
	text, _ := provokeSwift(tcp.BugSwiftIgnoresDelay, "swift-ignores-delay")
	text = strings.Replace(text, "transport: tcp,", "transport: tcp, send-jitter-us: 1,", 1)
	if found := rulesOf(t, text); !slices.Equal(found, []string{"tcp.swift-unjudged"}) {
		t.Errorf("%v", found)
	}
}

// Faults of Swift are caught in networks of other shapes.
func TestSeededBugsOfSwiftAreCaughtInNetworksOfOtherShapes(t *testing.T) {
	for i, bug := range tcp.Catalogue() {
		if bug.Bug < tcp.BugSwiftIgnoresDelay || fewBugs(i) {
			continue
		}
		for _, shape := range []string{
			"kind: dumbbell, hosts: 82, link: {gbps: 10, delay-ns: 1000}",
			"kind: leaf-spine, leaves: 3, spines: 2, hosts-per-leaf: 14, routing: ecmp, link: {gbps: 10, delay-ns: 500}",
		} {
			text, _ := provokeSwift(bug.Bug, bug.Name)
			text = strings.Replace(text, "kind: single-switch, hosts: 41, link: {gbps: 10, delay-ns: 2000}", shape, 1)
			if found := rulesOf(t, text); !slices.Contains(found, bug.Rule) {
				t.Errorf("%s, %s: want %s, got %v", bug.Name, shape, bug.Rule, found)
			}
			if found := rulesOf(t, sound(text, bug.Name)); len(found) > 0 {
				t.Errorf("%s: hosts without %s break %v", shape, bug.Name, found)
			}
		}
	}
}

// Incasts of many senders end with windows far below one segment.
func TestLargeIncastsOfSwiftBlameNobody(t *testing.T) {
	for _, senders := range []int{64, 200} {
		for _, queue := range []int{20, 2000} {
			blamesNobody(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 201, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: droptail, data-queue-packets: %d, data-queue-bytes: 10000000}
hosts: {transport: tcp, congestion-control: swift, initial-window: 2, min-rto-us: 1000, delayed-ack-us: 0}
workload: [incast: {senders: %s, packets: 20}]
deadline-us: 2000000
`, queue, strconv.Itoa(senders)), false)
		}
	}
}
