package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name, or rewrites it under -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs (-want +got):\n%s", path, cmp.Diff(string(want), string(got)))
	}
}

// broken is the report of a run with a failed component.
func broken() *Report {
	return &Report{
		Name: "drop", Verdict: analyzers.Invalid, Broken: true, Seed: 1, Testbed: "lab-1",
		Reasons: []string{"responder: agent at 192.0.2.7:9100: the connection was lost"},
	}
}

// fixtures returns reports as runs make them, by the name of their golden files.
func fixtures() map[string]*Report {
	return map[string]*Report{
		"pass":      passing(),
		"fail":      failing(),
		"invalid":   withoutIntegrity(),
		"unfired":   unfired(),
		"broken":    broken(),
		"warnings":  warningsOnly(),
		"bare":      bareCapture(),
		"captures":  twoCaptures(),
		"many":      manyConnections(),
		"hostile":   hostile(),
		"excused":   excused(),
		"nothing":   {},
		"imbalance": manyFindings(),
	}
}

func passing() *Report {
	return &Report{
		Name: "drop-retransmission-twice", File: "configs/listing-5-2.yml", Testbed: "virtual", Seed: 1,
		Verdict: analyzers.Pass, Packets: 234, SpanNS: 412_338, PacketIDs: trace.PacketIDsMirror,
		Connections: []Connection{
			{Index: 1, Traffic: "write 10 × 10240 B, mtu 1024", Requester: "10.0.0.2 qpn 0x0003e9 ipsn 8154291",
				Responder: "10.0.0.1 qpn 0x000411 ipsn 1204", Outcome: "10 of 10 messages complete", OK: true,
				Data: 100, Rounds: 1, Acks: 10, CNPs: 1, Events: 1},
			{Index: 2, Traffic: "write 10 × 10240 B, mtu 1024", Requester: "10.0.0.12 qpn 0x0003ea ipsn 77120",
				Responder: "10.0.0.1 qpn 0x000412 ipsn 99", Outcome: "10 of 10 messages complete", OK: true,
				Data: 111, Resent: 11, Rounds: 3, Acks: 10, Naks: 1, Events: 2, Timeouts: 1},
		},
		Events: []Event{
			{Where: "data-pkt-events[0]", What: "ecn qpn 1 psn 4 iter 1", Hits: 1},
			{Where: "data-pkt-events[1]", What: "drop qpn 2 psn 5 iter 1", Hits: 1},
			{Where: "data-pkt-events[2]", What: "drop qpn 2 psn 5 iter 2", Hits: 1},
		},
		Stories: []string{"#5 qpn 2 data psn 5 iter 1: drop → nak psn 5 → retransmitted"},
		Metrics: []analyzers.Metric{
			metric("retrans.nack-generation", 0, 1104), metric("retrans.nack-generation", 2, 1104),
			metric("retrans.nack-reaction", 0, 2604), metric("retrans.timeout", 0, 67_210_112),
			{Name: "cnp.cnps", Unit: analyzers.UnitCount, Connection: 1, Count: 1, Min: 1, P50: 1, P99: 1, P999: 1, Max: 1,
				Sum: 1},
		},
		Coverage: map[string]map[string]int64{
			"gbn": {"sender: new data": 100, "sender: NAK → resend": 1, "sender: timeout → resend": 1, "receiver: RNR": 0},
		},
		Analyzers: []string{"gbn", "retrans", "cnp", "counters"},
		Sequences: []Sequence{{Connection: 2, Points: resendPoints()}},
		Ladders:   []Ladder{{Connection: 2, Title: "around drop qpn 2 psn 5 iter 1", Steps: resendSteps()}},
		Dir:       "runs/drop-retransmission-twice",
		Next: []string{"candela trace show runs/drop-retransmission-twice --connection 2",
			"candela run configs/listing-5-2.yml --seed 1"},
		Facts: []Fact{{"tool", "candela 1020dfe8a1c4"}, {"requester", "profile spec, 100 Gb/s"}, {"config sha256", "5b2e…"}},
	}
}

func metric(name string, connection int, values ...int64) analyzers.Metric {
	d := analyzers.NewDistribution(name, analyzers.UnitNS, connection)
	for _, v := range values {
		d.Record(v)
	}
	return d.Metric()
}

// resendPoints is a go-back-N recovery: psn 5 lost, NAK, retransmission from 5, lost again, timeout, retransmission.
func resendPoints() []Point {
	var ps []Point
	id, at, iter := uint64(1), int64(5_000), int64(1)
	add := func(psn int64, class packet.Class, e trace.EventType, resent bool) {
		round := iter
		if class != packet.ClassData {
			round = 0
		}
		ps = append(ps, Point{TimeNS: at, PSN: psn, ID: id, Class: class, Event: e, Resent: resent,
			Iter: round, Reverse: class != packet.ClassData})
		id, at = id+1, at+90
	}
	for psn := int64(1); psn <= 10; psn++ {
		e := trace.EventNone
		if psn == 5 {
			e = trace.EventDrop
		}
		add(psn, packet.ClassData, e, false)
		if psn == 8 {
			add(5, packet.ClassNak, trace.EventNone, false)
		}
	}
	for round := range 2 {
		at += []int64{1_500, 67_108_864}[round]
		iter++
		for psn := int64(5); psn <= 10; psn++ {
			e := trace.EventNone
			if psn == 5 && round == 0 {
				e = trace.EventDrop
			}
			add(psn, packet.ClassData, e, true)
		}
	}
	add(10, packet.ClassAck, trace.EventNone, false)
	return ps
}

func resendSteps() []Step {
	var steps []Step
	for _, p := range resendPoints() {
		steps = append(steps, Step{Point: p, Accused: p.ID == 12})
	}
	return steps
}

func failing() *Report {
	r := passing()
	r.Name, r.File, r.Dir, r.Repeat = "nak-plus-one", "configs/broken-nic.yml", "runs/nak-plus-one", 2
	r.Verdict, r.Reasons = analyzers.Fail,
		[]string{"1 violation", "expect.retrans.nack-reaction-us: largest of 1 values is 2.604us, want at most 2.000us"}
	r.Findings = []Finding{{
		Finding: analyzers.Finding{
			Analyzer: "gbn", Rule: "gbn.retransmit-first", Clause: "IBTA vol. 1, 9.7.5.2.3", Severity: analyzers.Violation,
			Connection: 2, Packets: []uint64{12, 9}, TimeNS: 7_490, PSN: 6, PSNAbs: 77125,
			Expected: "data psn 5 iter 2, the packet that the NAK asked for", Actual: "data psn 6 iter 2",
			Message:  "After a NAK the first jump is to the PSN that the NAK names.",
			Cause:    "restarted-elsewhere",
			Headline: "Requester of qpn 2 sent psn 6 instead of retransmitting psn 5 after the NAK at 5.72 us.",
		},
		Around: []string{"#9 nak psn 5 t=5.720us", "#10-#11 data psn 9-10 iter 1", "#12 data psn 6 iter 2 t=7.490us"},
	}, {
		Finding: analyzers.Finding{
			Analyzer: "counters", Rule: "counters.unmapped", Severity: analyzers.Note,
			Actual: "rx_weird = 3", Message: "The requester has a counter that no rule knows: rx_weird.",
		},
	}}
	r.Next[0] = "candela trace show runs/nak-plus-one --around 12"
	return r
}

func withoutIntegrity() *Report {
	r := passing()
	r.Name, r.Dir = "pinned-dumper", "runs/pinned-dumper"
	r.Verdict = analyzers.Invalid
	r.Reasons = []string{
		"mirror sequence: 3 numbers are missing: 1184-1186\ndumper 2 lost 3 packets to a full ring",
		"mirrored packets: the switch counts 237, the trace has 234",
	}
	r.Findings, r.Metrics, r.Coverage, r.Sequences, r.Ladders = nil, nil, nil, nil, nil
	r.Analyzers = nil
	return r
}

func unfired() *Report {
	r := passing()
	r.Name = "never-comes"
	r.Verdict = analyzers.Invalid
	r.Events[2].Hits = 0
	r.Events[2].Why = "psn 5 was last seen at iter 1; the flow ended at psn 100 iter 2"
	r.Reasons = []string{"data-pkt-events[2] (drop qpn 2 psn 5 iter 2) never fired: " + r.Events[2].Why}
	return r
}

func warningsOnly() *Report {
	r := passing()
	r.Name = "soft-roce-read"
	r.Connections = r.Connections[:1]
	r.Events = nil
	r.Findings = []Finding{
		{Finding: analyzers.Finding{Analyzer: "gbn", Rule: "gbn.read-replay-opcode", Severity: analyzers.Warning,
			Connection: 1,
			Packets:    []uint64{31}, TimeNS: 21_400, PSN: 7, Clause: "IBTA vol. 1, 9.7.5.1.9", Expected: "READ response first",
			Actual:  "READ response middle",
			Message: "A replayed READ response starts with MIDDLE, as the Linux kernel's does."}},
		{Finding: analyzers.Finding{Analyzer: "retrans", Rule: "retrans.late-timeout", Severity: analyzers.Warning,
			Connection: 1,
			Packets:    []uint64{44}, TimeNS: 90_400, Actual: "timeout after 537.000ms, 8 T"}},
	}
	return r
}

func bareCapture() *Report {
	const epoch = 1_700_000_000_000_000_000
	r := failing()
	r.Name, r.File, r.Testbed, r.Seed, r.Repeat, r.Dir = "capture.pcap", "", "", 0, 0, ""
	r.PacketIDs, r.OriginNS = trace.PacketIDsFrame, epoch
	r.Reasons = r.Reasons[:1]
	for i := range r.Findings {
		r.Findings[i].TimeNS += epoch
	}
	r.Events, r.Facts, r.Sequences, r.Ladders = nil, nil, nil, nil
	r.Next = []string{"candela trace show capture.pcap --around 12"}
	r.Notes = []string{"connections are inferred from the packets: numbers count from the first packet captured",
		"injected events are unknown in a plain capture; --after FILE adds a capture behind the injector"}
	return r
}

func manyConnections() *Report {
	r := passing()
	r.Name = "incast-64"
	r.Connections = nil
	for i := range 64 {
		c := Connection{Index: i + 1, Traffic: "write 100 × 10240 B, mtu 1024", Outcome: "100 of 100 messages complete",
			OK:   true,
			Data: 1000, Rounds: 1, Acks: 100}
		if i == 40 {
			c.Data, c.Resent, c.Rounds, c.Naks = 1010, 10, 2, 1
		}
		if i == 63 {
			c.OK, c.Timeouts = false, 8
			c.Outcome = "message 7 of 100: IBV_WC_RETRY_EXC_ERR after 7 retries; 93 requests flushed (IBV_WC_WR_FLUSH_ERR)"
		}
		r.Connections = append(r.Connections, c)
	}
	return r
}

func manyFindings() *Report {
	r := failing()
	r.Name = "every-nak-wrong"
	first := r.Findings[0]
	r.Findings = nil
	for i := range 25 {
		f := first
		f.Packets = []uint64{uint64(100 + i)}
		f.TimeNS += int64(i) * 1000
		if i%5 == 4 {
			f.Rule = "gbn.single-nak"
		}
		r.Findings = append(r.Findings, f)
	}
	for i := range 12 {
		r.Findings = append(r.Findings, Finding{Finding: analyzers.Finding{Analyzer: "cnp", Rule: "cnp.interval",
			Severity: analyzers.Warning, Connection: 1, Packets: []uint64{uint64(i)},
			Message: "CNP 48.000us after the one before"}})
	}
	r.Reasons = []string{"25 violations"}
	return r
}

func excused() *Report {
	r := failing()
	r.Name = "known-bug"
	r.Verdict, r.Reasons = analyzers.Pass, nil
	r.Findings[0].Waiver = "FW-1234"
	f := r.Findings[0]
	f.Waiver, f.Wanted, f.Rule, f.Packets = "", true, "gbn.single-nak", []uint64{14}
	r.Findings = append(r.Findings, f)
	r.Waived = 1
	return r
}

// twoCaptures is the report of captures before and after a switch.
func twoCaptures() *Report {
	r := warningsOnly()
	r.Name, r.Observation = "before.pcap", &Observation{
		Observer: "taps",
		What:     "Two captures of the same traffic. Comparing them shows what became of each packet in between.",
		Captures: []Capture{{"before", []string{"before.pcap"}, nil},
			{"after", []string{"ring_0.pcapng", "ring_1.pcapng"}, []string{"eth1: Ethernet, 134 frames received, 0 missed"}}},
		Ways: []Way{{"10.0.0.1", "10.0.0.2", "first", "the TTL decreases"},
			{"10.0.0.2", "10.0.0.1", "second", "packets were lost after it"}},
		Clock:   []Fact{{"offset of the second clock", "1.000ms"}, {"drift", "+12.5 ppm"}, {"uncertainty", "3.100us"}},
		Between: []Fact{{"packets at the upstream tap", "116"}, {"dropped in between", "1"}},
		Said:    []string{"said by the tables"},
	}
	r.Notes = []string{"said by the tables", "before.pcap: 40 of 80 frames are second sights and were left out"}
	return r
}

// hostile returns a report whose texts must be escaped for a terminal, an XML parser and a browser.
func hostile() *Report {
	const evil = "\x1b[2J\x00</script><script>alert(1)</script>\"'&]]>\u202e\ufffe\xff\r\nINVALID"
	r := failing()
	r.Name, r.File, r.Testbed, r.Dir, r.Reasons, r.Notes = evil, evil, evil, evil, []string{evil}, []string{evil}
	r.Verdict = analyzers.Verdict(evil)
	c := &r.Connections[0]
	c.Traffic, c.Requester, c.Responder, c.Outcome = evil, evil, evil, evil
	r.Events[0] = Event{Where: evil, What: evil, Why: evil}
	f := &r.Findings[0]
	f.Analyzer, f.Rule, f.Clause, f.Expected, f.Actual, f.Message, f.Waiver = evil, evil, evil, evil, evil, evil, ""
	f.Headline = evil
	f.Around = []string{evil, evil}
	r.Metrics[0].Name, r.Metrics[1].Unit, r.Metrics[0].Unit, r.MetricsNote = evil, evil, evil, evil
	r.Coverage = map[string]map[string]int64{evil: {evil: 1}}
	r.Stories = []string{evil}
	r.Next, r.Facts, r.PacketIDs = []string{evil}, []Fact{{evil, evil}}, evil
	r.Sequences[0].Points[0].Class = 200
	r.Ladders[0].Title = evil
	r.Observation = &Observation{
		Observer: evil, What: evil, Captures: []Capture{{evil, []string{evil}, []string{evil}}},
		Ways:  []Way{{evil, evil, evil, evil}},
		Clock: []Fact{{evil, evil}}, Between: []Fact{{evil, evil}},
	}
	r.Files, r.Apart = []File{{Name: evil, What: evil}}, true
	return r
}
