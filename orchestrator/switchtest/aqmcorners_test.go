package switchtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/runtimetest"
)

// aqmOutcome runs a test that violates no rule.
func aqmOutcome(t *testing.T, text string) *orchestrator.Outcome {
	t.Helper()
	o := outcome(t, text)
	if o.Analysis == nil {
		t.Fatalf("%+v", o)
	}
	for _, f := range o.Analysis.Findings {
		if f.Severity != analyzers.Note {
			t.Errorf("%s %s\n%s", f.Rule, f.Headline, text)
		}
	}
	return o
}

// records returns columns of decisions.csv.
func records(t *testing.T, dir string, columns ...string) (rows []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "decisions.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	head := strings.Split(lines[0], ",")
	for _, line := range lines[1:] {
		cells, row := strings.Split(line, ","), []string(nil)
		for _, c := range columns {
			row = append(row, cells[slices.Index(head, c)])
		}
		rows = append(rows, strings.Join(row, " "))
	}
	return rows
}

// Specification, 12: mice that overload the strict queue starve the others; the run passes and reports it.
func TestMiceThatOverloadAPortStarveOtherQueuesAndBlameNobody(t *testing.T) {
	o := aqmOutcome(t, `
topology: {kind: single-switch, hosts: 5, link: {gbps: 10}}
switch-under-test: {model: afd-dpp}
hosts: {transport: raw}
duration-us: 4000
workload:
  - cbr: {src: 1, dst: 0, rate-gbps: 5}
  - flow: {src: 2, dst: 0, count: 40, packets: 80, start-us: 500, stagger-us: 80}
  - flow: {src: 3, dst: 0, count: 40, packets: 80, start-us: 500, stagger-us: 80}
`)
	flows := flowsOf(t, o.Dir).Flows
	sent, mice := flows[0].Sent, int64(0)
	for i := range flows[1:] {
		mice += flows[1+i].Whole
	}
	if got := flows[0].Whole; 3*got > sent || mice < 2500 {
		t.Errorf("%d of %d packets of the normal queue arrived, and %d mice", got, sent, mice)
	}
	if !slices.ContainsFunc(o.Analysis.Findings, func(f analyzers.Finding) bool { return f.Rule == "aqm.starved" }) {
		t.Errorf("nothing says that the normal queue was starved: %+v", o.Analysis.Findings)
	}
}

// 13, 3: drops draw from a stream of their own, so that each scheme sees the same arrivals, to the picosecond.
func TestAllSchemesOfQueueManagementSeeTheSameArrivals(t *testing.T) {
	var first []string
	for _, model := range []string{"afd, " + fast, "afd-dpp, " + fast, "red, min-bytes: 20000, max-bytes: 90000", "tail-shallow"} {
		o := aqmOutcome(t, fmt.Sprintf(aqmOverload, "model: "+model, "not-ect")+"taps: {decisions: csv}\n")
		got := records(t, o.Dir, "t_ps", "packet", "size")
		if first == nil {
			first = got
		} else if !slices.Equal(got, first) {
			t.Errorf("%s: other arrivals than with afd", model)
		}
	}
	if len(first) < 5000 {
		t.Errorf("%d arrivals", len(first))
	}
}

// 13, 7: SYN and ACK count among the first packets of a flow, and either direction is a flow.
func TestHandshakesCountAmongTheFirstPackets(t *testing.T) {
	o := aqmOutcome(t, `
topology: {kind: single-switch, hosts: 2, link: {gbps: 10}}
switch-under-test: {model: dpp, dpp-max-packets: 5}
hosts: {transport: tcp, handshake: true}
workload: [flow: {src: 1, dst: 0, packets: 30}]
taps: {decisions: csv}
`)
	var towards, back []string // sizes of mice
	for _, row := range records(t, o.Dir, "queue", "port", "size") {
		var queue, port int
		var size string
		if _, err := fmt.Sscan(row, &queue, &port, &size); err != nil {
			t.Fatal(err)
		}
		switch {
		case queue == 0:
		case port == 0:
			towards = append(towards, size)
		default:
			back = append(back, size)
		}
	}
	if want := []string{"66", "66", "1500", "1500", "1500"}; !slices.Equal(towards, want) {
		t.Errorf("towards the receiver %v are mice, want %v", towards, want)
	}
	if want := []string{"66", "66", "66", "66", "66"}; !slices.Equal(back, want) {
		t.Errorf("towards the sender %v are mice, want %v", back, want)
	}
}

// 13, 8: a desired depth below C·RTT loses throughput with few flows; one above only adds delay.
func TestADesiredDepthBelowTheBandwidthDelayProductLosesThroughput(t *testing.T) {
	runtimetest.SkipRace(t)
	goodput, depth := map[int]float64{}, map[int]float64{}
	for _, desired := range []int{10_000, 300_000, 900_000} { // C·RTT is about 250 KB
		o := aqmOutcome(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 3, link: {gbps: 10, delay-ns: 50000}}
switch-under-test: {model: afd, queue-desired-bytes: %d, etrap-age-period-us: 1000}
hosts: {transport: tcp, congestion-control: reno, min-rto-us: 10000}
duration-us: 60000
workload: [incast: {senders: 2}]
`, desired))
		for _, f := range flowsOf(t, o.Dir).Flows {
			goodput[desired] += float64(f.GoodputBPS) / 1e9
		}
		for _, m := range o.Analysis.Metrics {
			if m.Name == "flows.queue-mean-bytes" {
				depth[desired] = float64(m.Max)
			}
		}
	}
	if goodput[10_000] > 0.93*goodput[300_000] || goodput[900_000] > 1.1*goodput[300_000] ||
		depth[900_000] < 1.5*depth[300_000] {
		t.Errorf("goodput %v, depth %v", goodput, depth)
	}
}

// 13, 9: behind a deep buffer, a retransmission timeout below the delay of its queue, which is 42 ms here, resends what
// only waits. With a longer one every retransmission has a loss.
func TestTimeoutsBelowTheDelayOfADeepBufferResendWhatIsNotLost(t *testing.T) {
	runtimetest.SkipRace(t)
	for us, needless := range map[int]bool{10_000: true, 200_000: false} {
		o := aqmOutcome(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 4, link: {gbps: 1}}
switch-under-test: {model: tail-deep, port-buffer-bytes: 5200000}
hosts: {transport: tcp, congestion-control: reno, min-rto-us: %d}
duration-us: 1200000
workload:
  - incast: {senders: 2}
  - flow: {src: 3, dst: 0, count: 20, packets: 69, start-us: 300000, stagger-us: 20000}
`, us))
		var timeouts, duplicates int64
		for _, f := range flowsOf(t, o.Dir).Flows[2:] {
			timeouts, duplicates = timeouts+f.Timeouts, duplicates+f.Duplicates
		}
		if (duplicates > 100) != needless || (2*duplicates > timeouts) != needless || !needless && duplicates > 0 {
			t.Errorf("timeout of %d us: %d timeouts, %d packets arrived twice", us, timeouts, duplicates)
		}
	}
}
