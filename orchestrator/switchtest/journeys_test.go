package switchtest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/trace"
)

const saiOverflow = `
topology: {kind: single-switch, hosts: 3}
switch-under-test: {model: sai, bugs: [wrong-ttl], trim-size: 256, trim-dscp: 48, trim-queue: 6,
  profiles: [{queues: [1], action: trim, limit-bytes: 20000}, {queues: [6], limit-bytes: 200000}]}
hosts: {transport: raw, packet-size: 1024}
workload: [incast: {senders: 2, packets: 60, dscp: 8, ip: 6}]
taps: {capture: true}
`

// A finding of a switch test shows its packets from host to host, and how switches changed them.
func TestFindingsOfSwitchTestsShowTheirPackets(t *testing.T) {
	spray := strings.Replace(ndpIncast("forgets-nack"), "kind: single-switch, hosts: 9",
		"kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: spray-round-robin", 1)
	for _, c := range []struct {
		name, text, rule string
		lanes            string
		accused          string // a hop of an accused packet
	}{
		{"a NACK that is missing", ndpIncast("forgets-nack"), "ndp.nack-missing", ", switch, host 0",
			", cut to 64 B"},
		{"across switches", spray, "ndp.nack-missing", "", "trimmed data "},
		{"a window of TCP", tcpIncast("keeps-window"), "tcp.congestion-window", ", switch, host 0",
			"retransmitted"},
		{"a copy with a wrong TTL", saiOverflow, "sai.headers", ", switch, host 0", "TTL 249 to 247"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := reported(t, parse(t, c.text)[0])
			j := journeyOf(t, o, c.rule)
			if lanes := strings.Join(j.Lanes, ", "); !strings.HasPrefix(lanes, "host ") || !strings.HasSuffix(lanes, c.lanes) {
				t.Errorf("lanes are %s, want a host%s", lanes, c.lanes)
			}
			var accused []string
			for i := range j.Hops {
				if h := &j.Hops[i]; h.Accused {
					accused = append(accused, h.What+", "+h.Fate)
				}
				if i > 0 && j.Hops[i].SentNS < j.Hops[i-1].SentNS {
					t.Errorf("hop %d is before hop %d", i+1, i)
				}
			}
			if !strings.Contains(strings.Join(accused, "; "), c.accused) {
				t.Errorf("hops of the accused packets are %q, want %q among them", accused, c.accused)
			}
			holdToCaptures(t, o.Dir, j)
		})
	}
}

// A rejudged run keeps its drawings.
func TestAnalyzeKeepsThePacketsOfFindings(t *testing.T) {
	o := reported(t, parse(t, saiOverflow)[0])
	want := len(o.Report.Journeys)
	opened, err := orchestrator.OpenRun(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	again, err := switchtest.Analyze(opened, orchestrator.AnalyzeOptions{Trace: o.Dir, Config: configOptions()})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(again.Report.Journeys); want == 0 || got != want {
		t.Errorf("%d findings are drawn, the run drew %d", got, want)
	}
}

func ndpIncast(bug string) string {
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 9, link: {gbps: 100, delay-ns: 500}}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 12000, header-queue-bytes: 25600}
hosts: {transport: ndp, initial-window: 60, rto-us: 1000, bugs: [%s]}
workload: [incast: {senders: 4, packets: 80}]
taps: {capture: true}
`, bug)
}

func tcpIncast(bug string) string {
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 14, link: {gbps: 25, delay-ns: 2000}}
switch-under-test: {model: droptail, data-queue-packets: 1, data-queue-bytes: 10000000}
hosts: {transport: tcp, min-rto-us: 1000, delayed-ack-us: 200, initial-window: 10, bugs: [%s]}
workload: [incast: {senders: 12, packets: 10}]
taps: {capture: true}
deadline-us: 2000000
`, bug)
}

// journeyOf returns the drawing of the first finding of a rule.
func journeyOf(t *testing.T, o *orchestrator.Outcome, rule string) *report.Journey {
	t.Helper()
	for i := range o.Report.Journeys {
		if j := &o.Report.Journeys[i]; o.Report.Findings[j.Finding-1].Rule == rule {
			return j
		}
	}
	t.Fatalf("nothing is drawn of %s: %v, %v", rule, o.Verdict.Reasons, o.Report.Notes)
	return nil
}

// holdToCaptures compares hops, which come from the repeated run, with the frames captured in the run itself.
func holdToCaptures(t *testing.T, dir string, j *report.Journey) {
	t.Helper()
	for _, side := range []struct {
		name string
		at   func(*report.Hop) (frame uint64, ns int64)
	}{
		{switchtest.CaptureNames()[0], func(h *report.Hop) (uint64, int64) { return h.Before, h.ArrivedNS }},
		{switchtest.CaptureNames()[1], func(h *report.Hop) (uint64, int64) { return h.Behind, h.SentNS }},
	} {
		times := frameTimes(t, filepath.Join(dir, side.name))
		for i := range j.Hops {
			n, ns := side.at(&j.Hops[i])
			if n > 0 && times[n] != ns {
				t.Errorf("hop %d: frame %d of %s is at %d ns, the hop at %d ns", i+1, n, side.name, times[n], ns)
			}
		}
	}
	for i := range j.Hops {
		if h := &j.Hops[i]; h.Before+h.Behind == 0 && !h.Lost {
			t.Errorf("hop %d has no frame: %+v", i+1, *h)
		}
	}
}

func frameTimes(t *testing.T, name string) map[uint64]int64 {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	pcap, err := trace.NewPcapReader(file, name)
	if err != nil {
		t.Fatal(err)
	}
	times := map[uint64]int64{}
	var f trace.Frame
	for {
		if err := pcap.Next(&f); errors.Is(err, io.EOF) {
			return times
		} else if err != nil {
			t.Fatal(err)
		}
		times[f.Number] = f.TimeNS
	}
}
