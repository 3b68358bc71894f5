package orchestrator_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// scenarios is how many random scenarios `go test` tries; CANDELA_SCENARIOS asks for more.
const scenarios = 150

// TestUnbrokenNICIsNeverBlamed runs random traffic with random losses, marks and corruption of data and control packets on
// the NIC model that follows the specification. Whatever happens, nothing may be said against it.
func TestUnbrokenNICIsNeverBlamed(t *testing.T) {
	n := scenarios
	if s := os.Getenv("CANDELA_SCENARIOS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CANDELA_SCENARIOS: %v", err)
		}
	}
	start := 0
	if s := os.Getenv("CANDELA_SCENARIO"); s != "" { // one scenario again
		var err error
		if start, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CANDELA_SCENARIO: %v", err)
		}
		n = 1
	}
	fired, failures := 0, 0
	for i := start; i < start+n && failures < 5; i++ {
		text := scenario(uint64(i))
		outcome := runScenario(t, text, distances(uint64(i)))
		for _, e := range outcome.Report.Events {
			fired += int(min(e.Hits, 1))
		}
		if problem := blamed(outcome); problem != "" {
			failures++
			t.Errorf("scenario %d: %s\n%s", i, problem, text)
		}
	}
	if n > 10 && fired < n/2 {
		t.Errorf("only %d events fired in %d scenarios: they test nothing", fired, n)
	}
}

// blamed returns what the outcome holds against the device, or "".
func blamed(o *orchestrator.Outcome) string {
	if o.Verdict.Exit != orchestrator.ExitPass && o.Verdict.Exit != orchestrator.ExitInvalid {
		return fmt.Sprintf("exit %d: %v %v", o.Verdict.Exit, o.Verdict.Reasons, complaints(o))
	}
	if o.Analysis == nil {
		return fmt.Sprintf("not analysed: %v", o.Verdict.Reasons)
	}
	if c := complaints(o); len(c) > 0 {
		return fmt.Sprint(c)
	}
	return ""
}

func complaints(o *orchestrator.Outcome) []string {
	var list []string
	if o.Analysis == nil {
		return nil
	}
	for _, f := range o.Analysis.Findings {
		if f.Severity != analyzers.Note {
			list = append(list, fmt.Sprintf("\n%s %s #%v psn %d: want %s, got %s", f.Severity, f.Rule, f.Packets, f.PSN, f.Expected, f.Actual))
		}
	}
	return list
}

// distances are the propagation delays of both hosts' links.
type distances uint64

// apply draws them for every other scenario: up to 10 ms a side, so that packets cross in every way. The local ACK timeout
// stays above the round trip; a shorter one would exhaust the retries of any NIC.
func (d distances) apply(test *config.Test) {
	if d%2 == 0 {
		return
	}
	r := rand.New(rand.NewPCG(uint64(d), 0xd157))
	const longest = int64(10 * clock.Millisecond)
	bed := *test.Testbed
	bed.Requester.Propagation = clock.Duration(r.Int64N(longest))
	bed.Responder.Propagation = clock.Duration(r.Int64N(longest))
	test.Testbed = &bed
	test.Traffic.AckTimeout = 14
}

func runScenario(t *testing.T, text string, far distances) *orchestrator.Outcome {
	t.Helper()
	test, err := config.Parse("scenario.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	far.apply(test)
	p, err := plan.New(test)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	dir := t.TempDir()
	outcome, err := orchestrator.Run(t.Context(), p, func(s testbeds.Spec) (orchestrator.Testbed, error) { return virtual.New(s) },
		orchestrator.Options{Out: dir, Wall: func() time.Time { return time.Unix(0, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, test.Name)); err != nil {
		t.Fatal(err)
	}
	return outcome
}

// scenario draws the i-th test.
func scenario(i uint64) string {
	r := rand.New(rand.NewPCG(i, 0x5ce7a210))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	mtu := []int{256, 1024, 4096}[r.IntN(3)]
	size := []int{0, 1, mtu - 1, mtu, mtu + 1, 3 * mtu, 10*mtu - 3, 20 * mtu}[r.IntN(8)]
	verbs := []string{pick("write", "send", "read", "write-imm", "send-imm", "compare-swap", "fetch-add")}
	if r.IntN(2) == 0 {
		verbs = append(verbs, pick("write", "send", "read", "fetch-add"), pick("write", "read"))
	}
	connections, messages := 1+r.IntN(3), 1+r.IntN(6)
	bidirectional := r.IntN(4) == 0
	var b strings.Builder
	fmt.Fprintf(&b, "name: scenario-%d\nseed: %d\n", i, r.Uint32())
	if r.IntN(4) == 0 {
		b.WriteString("requester: {nic: {ip-list: [fd00::2/64]}}\nresponder: {nic: {ip-list: [fd00::1/64]}}\n")
	}
	fmt.Fprintf(&b, "traffic:\n  num-connections: %d\n  rdma-verb: [%s]\n  num-msgs-per-qp: %d\n  message-size: %d\n  mtu: %d\n",
		connections, strings.Join(verbs, ", "), messages, size, mtu)
	fmt.Fprintf(&b, "  tx-depth: %d\n  bidirectional: %v\n  barrier-sync: %v\n  min-retransmit-timeout: %d\n", 1+r.IntN(6), bidirectional, r.IntN(3) == 0, 8+r.IntN(3))
	if r.IntN(3) == 0 {
		fmt.Fprintf(&b, "  initial-psn: {requester: %d, responder: %d}\n", 1<<24-1-r.IntN(30), 1<<24-1-r.IntN(30))
	}
	perMessage := max(1, (size+mtu-1)/mtu)
	last := messages // every message has a data packet, whatever its verb
	if len(verbs) == 1 && !strings.Contains("compare-swap fetch-add", verbs[0]) {
		last = messages * perMessage
	}
	used := map[string]bool{}
	b.WriteString("  data-pkt-events:\n")
	for range 1 + r.IntN(4) {
		psn, iter := 1+r.IntN(last), 1+r.IntN(3)
		from := "requester"
		if bidirectional && r.IntN(2) == 0 {
			from = "responder"
		}
		qpn := 1 + r.IntN(connections)
		key := fmt.Sprint(qpn, psn, iter, from)
		if used[key] {
			continue
		}
		used[key] = true
		fmt.Fprintf(&b, "    - {qpn: %d, psn: %d, iter: %d, from: %s, type: %s}\n", qpn, psn, iter, from, pick("drop", "drop", "drop", "ecn", "corrupt"))
	}
	b.WriteString("  control-pkt-events:\n")
	for range r.IntN(3) {
		qpn, class, nth := 1+r.IntN(connections), pick("ack", "nak", "read-request", "atomic-ack", "cnp", "rnr"), 1+r.IntN(2)
		key := fmt.Sprint(qpn, class, nth)
		if used[key] || !fits(class, verbs) {
			continue
		}
		used[key] = true
		fmt.Fprintf(&b, "    - {qpn: %d, packet: %s, nth: %d, type: drop}\n", qpn, class, nth)
	}
	return strings.TrimSuffix(b.String(), "  control-pkt-events:\n")
}

// fits reports whether the traffic can have control packets of a class at all; the configuration refuses others.
func fits(class string, verbs []string) bool {
	has := func(words ...string) bool {
		for _, v := range verbs {
			for _, w := range words {
				if v == w {
					return true
				}
			}
		}
		return false
	}
	switch class {
	case "read-request":
		return has("read")
	case "atomic-ack":
		return has("compare-swap", "fetch-add")
	case "rnr":
		return has("send", "send-imm", "write-imm")
	case "ack":
		return has("write", "send", "write-imm", "send-imm")
	}
	return true
}
