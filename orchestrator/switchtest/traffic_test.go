package switchtest_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
)

// One receiver at 100 Gb/s, so that every flow has what it offers.
const pacedTest = `
topology: {kind: single-switch, hosts: 5, link: {gbps: 100}}
switch-under-test: {model: droptail}
hosts: {transport: tcp}
duration-us: 4000
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 4, jitter: 0.5, count: 2}
  - cbr: {src: 1, dst: 4, rate-gbps: 8, on-us: 100, off-us: 300}
  - cbr: {src: 2, dst: 4, stop-us: 3000, rates: [{at-us: 0, gbps: 2}, {at-us: 1000, gbps: 0}, {at-us: 2000, gbps: 6}]}
  - cbr: {src: 2, dst: 4, rate-gbps: 1, packets: 20}
  - flow: {src: 3, dst: 4, start-us: 1000, stop-us: 500}
`

// Flows at constant rates offer what they say, in every mode alike, and the run does not blame a sender that leaves.
func TestFlowsAtConstantRatesOfferThem(t *testing.T) {
	var before []switchtest.FlowResult
	for _, judge := range []string{"judge: full", "judge: off\nexpect: {completed-flows: 1}"} {
		o := outcome(t, pacedTest+judge)
		flows := flowsOf(t, o.Dir).Flows
		if o.Verdict.Exit != orchestrator.ExitPass {
			t.Fatalf("%s: %+v", judge, o.Verdict)
		}
		for i, want := range []float64{4, 4, 2, 8.0 / 3} { // frames; 1458 of 1500 bytes are payload
			if got := float64(flows[i].GoodputBPS) / 1e9 * 1500 / 1458; math.Abs(got/want-1) > 0.02 {
				t.Errorf("%s: flow %d has %.3f Gb/s, want %.3f", judge, i+1, got, want)
			}
		}
		// the TCP flow has 500 us at most at 100 Gb/s, and what it has sent arrives
		if f := flows[5]; f.Payload == 0 || f.Payload > 6_250_000 || f.Sent-f.Retransmissions != f.Whole || f.Finished ||
			flows[4].Finished == false {
			t.Errorf("%s: %+v %+v", judge, flows[5], flows[4])
		}
		for i := range before {
			if a, b := before[i], flows[i]; a.Whole != b.Whole || a.Payload != b.Payload || a.Sent != b.Sent ||
				a.GoodputBPS != b.GoodputBPS {
				t.Errorf("flow %d: %+v in full, %+v off", i+1, a, b)
			}
		}
		before = flows
	}
}

// everyKind is an item of each kind of workload.
func everyKind(t *testing.T) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "flows.csv")
	if err := os.WriteFile(file, []byte("start_us,src,dst,bytes\n0,0,1,1000\n7,3,2,20\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"incast": "{senders: 4, bytes: 5000, stagger-us: 3}", "permutation": "{bytes: 5000}",
		"flow": "{src: 0, dst: 5, bytes: 5000}", "ping": "{src: 0, dst: 1}",
		"requests":  "{clients: 0..2, server: 5, count: 3}",
		"poisson":   "{load: 0.3, stop-us: 500, sizes: hadoop, pairs: inter-rack}",
		"queries":   "{servers: 3, load: 0.2, stop-us: 500, service-us: 5, service-deviation-us: 1}",
		"cbr":       "{src: 0..2, shift: 3, rate-gbps: 1, jitter: 0.5, on-us: 5, off-us: 9, on-off: exponential, bytes: 5000}",
		"flow-file": "{file: " + file + "}",
		"locks":     "{clients: 0..2, servers: 5, count: 3}", "tpcc": "{clients: 0..2, servers: 5, count: 3}",
	}
}

// The same seed gives every mechanism and every transport the same arrivals, of every kind of workload.
func TestEveryKindHasTheSameArrivalsForEveryMechanism(t *testing.T) {
	items := everyKind(t)
	for _, k := range workload.Kinds() {
		var want []string
		for _, on := range [][2]string{{"droptail", "ndp"}, {"tofino", "ndp"}, {"sai", "tcp"}, {"ndp-ideal", "tcp"}} {
			p, err := switchtest.New(parse(t, fmt.Sprintf(`
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}}
switch-under-test: {model: %s}
hosts: {transport: %s}
workload: [%s: %s]
`, on[0], on[1], k.Name, items[k.Name]))[0])
			if err != nil {
				t.Fatal(k.Name, err)
			}
			var got []string
			for f := range p.All() {
				of := f.Flow
				text := fmt.Sprintf("%v %v", f.Start, f.Payload)
				if of.Pace != nil {
					text += fmt.Sprintf(" %+v", *of.Pace)
				}
				if l := of.Locks; l != nil {
					text += fmt.Sprintf(" %v %v", l.Servers, l.Draws.New()(nil))
				}
				of.Pace, of.Locks = nil, nil
				got = append(got, fmt.Sprintf("%s %+v", text, of))
			}
			if want == nil {
				want = got
			}
			if len(got) == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s for %v: %v\nwant %v", k.Name, on, got, want)
			}
		}
	}
}

// Flows of every transport leave at their instant: what is left goes to those that stay, no judge blames anybody, and
// nothing is open. Endpoints count what taps see.
func TestFlowsLeaveAtTheirInstant(t *testing.T) {
	for _, transport := range []string{"ndp", "pfabric", "tcp", "raw"} {
		model := map[string]string{"ndp": "ndp-ideal", "pfabric": "pifo"}[transport]
		if model == "" {
			model = "droptail"
		}
		rate := map[string]string{"raw": ", rate-gbps: 4", "pfabric": ", rank: 1"}[transport]
		var counted string
		for _, judge := range []string{"full", "off"} {
			o := outcome(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 4, link: {gbps: 10}}
switch-under-test: {model: %s}
hosts: {transport: %s}
workload:
  - flow: {src: 0, dst: 3%s}
  - flow: {src: 1, dst: 3, stop-us: 1000%s}
  - flow: {src: 2, dst: 3, start-us: 500, stop-us: 1%s}
  - flow: {src: 1, dst: 2, start-us: 1500, bytes: 50000%s}
duration-us: 5000
judge: %s
expect: {unfinished: 0}
`, model, transport, rate, rate, strings.TrimSuffix(rate, ", rank: 1"), rate, judge))
			doc := flowsOf(t, o.Dir)
			f, left := doc.Flows, doc.Statistics.Stopped
			sums := doc.Statistics.Groups[0]
			if got := fmt.Sprint(sums.Sent, sums.Payload, sums.Retransmissions); judge == "full" {
				counted = got
			} else if got != counted {
				t.Errorf("%s: packets sent, bytes, retransmissions are %s, the taps saw %s", transport, got, counted)
			}
			if o.Verdict.Exit != orchestrator.ExitPass || left != 2 || f[0].Stopped || !f[1].Stopped || f[1].Finished ||
				!f[2].Stopped || !f[3].Finished {
				t.Errorf("%s, judge %s: %+v, %d stopped of %+v", transport, judge, o.Verdict, left, f)
				continue
			}
			// The flow that stays has the link alone for 4/5 of the time; with RTTs of few us it takes what is free.
			if least := f[1].Payload * 3; transport != "raw" && f[0].Payload < least || f[1].Payload > 1_300_000 ||
				f[1].Payload < 100_000 || f[2].Payload > 60_000 {
				t.Errorf("%s, judge %s: the flows sent %d, %d and %d bytes", transport, judge, f[0].Payload, f[1].Payload,
					f[2].Payload)
			}
		}
	}
}
