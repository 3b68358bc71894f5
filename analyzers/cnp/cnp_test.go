package cnp_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/trace"
)

func analyse(t *testing.T, meta trace.Meta, cfg cnp.Config, text string) *analyzers.Analysis {
	t.Helper()
	records, err := tracetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	checked := trace.CheckedRecords(meta, records)
	doc, err := analyzers.Run(context.Background(), checked, cnp.New(checked.Meta(), cfg))
	if err != nil {
		t.Fatal(err)
	}
	book.Add(t, doc.Findings)
	return doc
}

// rules lists the rules of all findings with their severities, except the note on fitting modes.
func rules(findings []analyzers.Finding) []string {
	var list []string
	for _, f := range findings {
		if f.Rule != cnp.RuleMode {
			list = append(list, string(f.Severity)+" "+f.Rule)
		}
	}
	return list
}

// fitting returns the modes that the analyzer names.
func fitting(findings []analyzers.Finding) string {
	for _, f := range findings {
		if f.Rule == cnp.RuleMode {
			return f.Actual
		}
	}
	return ""
}

// on is a notification point with a minimum time of 50 us at both sides.
func on(mode cnp.Mode) cnp.Config {
	np := cnp.NotificationPoint{Known: true, Enabled: true, MinTimeNS: 50_000, Mode: mode}
	return cnp.Config{Requester: np, Responder: np, JitterNS: 1000}
}

// The marks of Lumina's table 5-III for ConnectX-5 and the CNPs of table 5-IV, by connection.
const marksCX5 = `
	8 > mid 50 ecn
	17 2> mid 50 ecn
	18 3> mid 50 ecn
	246 > mid 950 ecn
	255 2> mid 950 ecn
	258 3> mid 950 ecn`

// insert puts CNPs one microsecond after the marks of the given connections.
func insert(connections ...string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(marksCX5), "\n") {
		lines = append(lines, line)
		fields := strings.Fields(line)
		if c := strings.TrimSuffix(fields[1], ">"); slices.Contains(connections, "c"+c) {
			lines = append(lines, fields[0]+".6 "+c+"< cnp")
		}
	}
	return strings.Join(lines, "\n")
}

func TestNamesTheModesThatFit(t *testing.T) {
	tests := []struct {
		name, text, want string
		shared           bool // one requester address
	}{
		{name: "2/2/2 from three senders is any mode but per port", text: insert("c", "c2", "c3"),
			want: "destination-ip, ip-pair, qp"},
		{name: "2/0/0 from three senders is per port", text: insert("c"), want: "port"},
		{name: "2/2/2 from one sender is per QP", text: insert("c", "c2", "c3"), shared: true, want: "qp"},
		{name: "2/0/0 from one sender is any mode but per QP", text: insert("c"), shared: true,
			want: "port, destination-ip, ip-pair"},
		{name: "2/2/0 is none", text: insert("c", "c2"), want: "none"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := analyse(t, tracetest.Meta(tracetest.Connections(3, !test.shared)), on(cnp.ModeUnknown), test.text)
			if got := fitting(doc.Findings); got != test.want {
				t.Errorf("modes %q, want %q", got, test.want)
			}
			if findings := rules(doc.Findings); (len(findings) > 0) != (test.want == "none") {
				t.Errorf("findings: %v", findings)
			}
		})
	}
}

func TestTheNoteOnModesSaysWhoSentHowManyForWhichConnections(t *testing.T) {
	for text, want := range map[string]string{
		insert("c", "c2",
			"c3"): "the responder's CNPs fit pacing by destination-ip, ip-pair, qp; it sent 2 on each of qpn 1-3",
		insert("c"):       "the responder's CNPs fit pacing by port; it sent 2 on qpn 1, none on qpn 2-3",
		insert("c", "c2"): "the responder's CNPs fit pacing by no scope; it sent 2 on each of qpn 1-2, none on qpn 3",
		"1 2> mid 1 ecn\n2 2< cnp": "the responder's CNPs fit pacing by any scope: port, destination-ip, ip-pair, qp; " +
			"it sent none on qpn 1, 1 on qpn 2, none on qpn 3",
	} {
		doc := analyse(t, tracetest.Meta(tracetest.Connections(3, true)), on(cnp.ModeUnknown), text)
		said := ""
		for _, f := range doc.Findings {
			if f.Rule == cnp.RuleMode {
				said = f.Message
			}
		}
		if said != want {
			t.Errorf("said %q\nwant %q", said, want)
		}
	}
}

func TestJudges(t *testing.T) {
	withNack := on(cnp.PerQP)
	withNack.Responder.WithNack = true
	off := on(cnp.PerQP)
	off.Responder.Enabled = false
	absent := on(cnp.PerQP)
	absent.Responder = cnp.NotificationPoint{Known: true, Absent: true}
	each := on(cnp.PerQP)
	each.Responder.MinTimeNS = 0
	tests := []struct {
		name, text string
		cfg        cnp.Config
		plain      bool
		complete   bool
		later      bool // marks are made after the tap
		pair       bool
		hosts      bool // of a pair: at the hosts
		want       []string
	}{
		{
			name: "a CNP for a marked packet is right",
			cfg:  on(cnp.PerPort),
			text: "0 > mid 1 ecn\n 1 < cnp",
		},
		{
			name: "a device that declares no notification point owes none",
			cfg:  absent,
			text: "0 > mid 1 ecn",
			want: []string{"note cnp.not-offered"},
		},
		{
			name: "one that does not declare it owes one",
			cfg:  on(cnp.PerQP),
			text: "0 > mid 1 ecn",
			want: []string{"violation cnp.missing"},
		},
		{
			name: "a CNP of a device that declares to send none",
			cfg:  absent,
			text: "0 > mid 1 ecn\n 1 < cnp",
			want: []string{"violation cnp.disabled", "note cnp.not-offered"},
		},
		{
			name: "also one that arrives marked",
			text: "0 > mid 1 ce\n 1 < cnp",
		},
		{
			name: "and one for a marked READ response, to the responder",
			cfg:  on(cnp.PerPort),
			text: "0 > read 1+1\n 1 < resp 1 ecn\n 2 > cnp",
		},
		{
			name: "a CNP for nothing is unprovoked",
			text: "0 > mid 1\n 1 < cnp",
			want: []string{"violation cnp.unprovoked"},
		},
		{
			name: "a second CNP for one mark is unprovoked",
			text: "0 > mid 1 ecn\n 1 < cnp\n 2 < cnp",
			want: []string{"violation cnp.unprovoked"},
		},
		{
			name: "a marked packet that is dropped triggers nothing",
			text: "0 > mid 1 ce drop\n 1 > mid 2\n 2 < cnp\n 3 < cnp",
			// the first may be for the loss: whether losses trigger CNPs is not known
			want: []string{"violation cnp.unprovoked"},
		},
		{
			name: "where losses are known not to be triggers, a CNP for one is unprovoked",
			cfg:  on(cnp.PerQP),
			text: "0 > mid 1 drop\n 1 > mid 2\n 2 < cnp",
			want: []string{"violation cnp.unprovoked", "violation cnp.excess"},
		},
		{
			name: "where NAKs are triggers, a loss yields a CNP",
			cfg:  withNack,
			text: "0 > mid 1 drop\n 1 > mid 2\n 2 < cnp\n 2.1 < nak 1",
		},
		{
			name: "and must",
			cfg:  withNack,
			text: "0 > mid 1 drop\n 1 > mid 2\n 2.1 < nak 1",
			want: []string{"violation cnp.missing"},
		},
		{
			name: "a mark without a CNP is a violation where the notification point is on",
			cfg:  on(cnp.ModeUnknown),
			text: "0 > mid 1 ecn",
			want: []string{"violation cnp.missing"},
		},
		{
			name: "and a note where that is not known",
			text: "0 > mid 1 ecn",
			want: []string{"note cnp.no-response"},
		},
		{
			name: "a CNP from a notification point that is off",
			cfg:  off,
			text: "0 > mid 1 ecn\n 1 < cnp",
			want: []string{"violation cnp.disabled"},
		},
		{
			name: "two CNPs of one group within the minimum time",
			cfg:  on(cnp.PerPort),
			text: "0 > mid 1 ecn\n 1 < cnp\n 30 2> mid 1 ecn\n 31 2< cnp",
			want: []string{"violation cnp.interval", "violation cnp.excess"},
		},
		{
			name: "a trigger at the end of the minimum time may yield one or not",
			cfg:  on(cnp.PerPort),
			text: "0 > mid 1 ecn\n 1 < cnp\n 50.5 > mid 2 ecn\n 51.5 < cnp\n 101 > mid 3 ecn",
		},
		{
			name: "with a minimum time of 0 every trigger yields one",
			cfg:  each,
			text: "0 > mid 1 ecn\n 1 > mid 2 ecn\n 1.5 < cnp",
			want: []string{"violation cnp.missing"},
		},
		{
			name: "a CNP to the wrong connection",
			text: "0 > mid 1 ecn\n 1 2< cnp",
			want: []string{"violation cnp.wrong-qp", "note cnp.no-response"},
		},
		{
			name: "a CNP to a queue pair of no connection",
			text: "0 > mid 1 ecn\n 1 < cnp\n 2 < cnp stray",
			want: []string{"violation cnp.wrong-qp"},
		},
		{
			name: "which is a warning if there is traffic of others",
			text: "0 > mid 1 stray\n 2 < cnp stray",
			want: []string{"warning cnp.wrong-qp"},
		},
		{
			name: "a CNP without BECN",
			text: "0 > mid 1 ecn\n 1 < cnp nobecn",
			want: []string{"violation cnp.format"},
		},
		{
			name: "a marked packet that is dropped provokes none",
			text: "0 > mid 1 ce drop\n 1 < cnp",
			want: []string{"violation cnp.unprovoked"},
		},
		{
			name: "a gap and its NAK provoke one at most",
			text: "0 > mid 1 drop\n 1 > mid 2\n 2 < cnp\n 3 < nak 1\n 4 < cnp",
			want: []string{"violation cnp.unprovoked"},
		},
		{
			name: "a CNP with a PSN",
			text: "0 > mid 1 ecn\n 1 < cnp psn=7",
			want: []string{"violation cnp.format"},
		},
		{
			name: "a CNP with FECN",
			text: "0 > mid 1 ecn\n 1 < cnp fecn",
			want: []string{"violation cnp.format"},
		},
		{
			name: "a CNP that asks for an acknowledgement",
			text: "0 > mid 1 ecn\n 1 < cnp ar",
			want: []string{"violation cnp.format"},
		},
		{
			name: "a CNP with too much payload",
			text: "0 > mid 1 ecn\n 1 < cnp len=20",
			want: []string{"violation cnp.format"},
		},
		{
			name:  "in a capture without any mark an unprovoked CNP is a warning",
			plain: true,
			text:  "0 > mid 1\n 1 < cnp",
			want:  []string{"warning cnp.unprovoked"},
		},
		{
			name:  "marks in one direction do not show that the other one is marked before the tap",
			plain: true,
			text:  "0 > mid 1 ce\n 1 < cnp\n 2 < mid 1\n 3 > cnp",
			want:  []string{"warning cnp.unprovoked"},
		},
		{
			name:  "a marked packet or two may be among those that a capture missed, more are not",
			plain: true,
			text:  "0 > mid 1 ce\n 1 < cnp\n 2 < cnp\n 3 < cnp\n 4 < cnp",
			want:  []string{"warning cnp.unprovoked", "warning cnp.unprovoked", "violation cnp.unprovoked"},
		},
		{
			name:     "none is if the capture is complete",
			complete: true,
			plain:    true,
			text:     "0 > mid 1 ce\n 1 < cnp\n 2 < cnp",
			want:     []string{"violation cnp.unprovoked"},
		},
		{
			name: "after the second of two captures around a switch packets may be marked, too",
			pair: true,
			text: "0 > mid 1\n 1 < cnp",
			want: []string{"warning cnp.unprovoked"},
		},
		{
			name: "not if that is where marks show to be made",
			pair: true, complete: true,
			text: "0 > mid 1 ce\n 1 < cnp\n 2 < cnp",
			want: []string{"violation cnp.unprovoked"},
		},
		{
			name: "captures at the two hosts show all marks",
			pair: true, complete: true, hosts: true,
			text: "0 > mid 1\n 1 < cnp",
			want: []string{"violation cnp.unprovoked"},
		},
		{
			name:  "marks that are made after the tap provoke CNPs, too",
			plain: true,
			later: true,
			text:  "0 > mid 1 ce\n 1 < cnp\n 2 < cnp\n 3 < cnp\n 4 < cnp",
			want:  []string{"warning cnp.unprovoked", "warning cnp.unprovoked", "warning cnp.unprovoked"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			meta := tracetest.Meta(tracetest.Connections(2, true))
			if test.plain {
				meta = trace.Meta{Kind: trace.KindPlain, Connections: meta.Connections, Complete: test.complete,
					MarkedLater: test.later}
			}
			if test.pair {
				meta = trace.Meta{Kind: trace.KindPair, Connections: meta.Connections, Complete: test.complete, AtHosts: test.hosts}
			}
			doc := analyse(t, meta, test.cfg, test.text)
			if diff := cmp.Diff(test.want, rules(doc.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, doc.Findings)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	doc := analyse(t, tracetest.Meta(tracetest.Connections(2, true)), on(cnp.PerQP), `
		0 > mid 1 ecn
		1 < cnp
		2 > mid 2 ecn
		60 > mid 3 ecn
		61.5 < cnp`)
	got := map[string][]int64{}
	for _, m := range doc.Metrics {
		if m.Connection == 1 {
			got[m.Name] = m.Values
		}
	}
	want := map[string][]int64{
		"cnp.count": {2}, "cnp.marked": {3}, "cnp.interval": {60_500}, "cnp.latency": {1000, 1500},
		"cnp.predicted.port": {2, 2}, "cnp.predicted.destination-ip": {2, 2}, "cnp.predicted.ip-pair": {2, 2},
		"cnp.predicted.qp": {2, 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics of connection 1 (-want +got):\n%s", diff)
	}
}

// simulate runs endpoints whose notification point paces per port.
func simulate(sc tracetest.Scenario, mode cnp.Mode) ([]analyzers.Finding, []trace.Record) {
	records, _ := tracetest.Simulate(sc)
	np := cnp.NotificationPoint{Known: true, Enabled: sc.CNPInterval >= 0, MinTimeNS: max(0, sc.CNPInterval), Mode: mode}
	a := cnp.New(tracetest.Meta(tracetest.Connections(sc.Connections, false)), cnp.Config{
		Requester: cnp.NotificationPoint{Known: true}, Responder: np, JitterNS: sc.DelayMax - sc.DelayMin + 2000,
	})
	for i := range records {
		a.Packet(&records[i])
	}
	return a.Finish().Findings, records
}

func TestConformingEndpointsAreNeverConvicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := tracetest.Scenario{
			Seed:        rapid.Uint64().Draw(t, "seed"),
			Connections: rapid.IntRange(1, 4).Draw(t, "connections"),
			Messages:    rapid.IntRange(1, 6).Draw(t, "messages"),
			Packets:     rapid.IntRange(1, 40).Draw(t, "packets"),
			Depth:       rapid.IntRange(1, 3).Draw(t, "depth"),
			DelayMin:    rapid.SampledFrom([]int64{0, 500, 10_000_000}).Draw(t, "delay"),
			Loss:        rapid.SampledFrom([]float64{0, 0.05}).Draw(t, "loss"),
			Mark:        rapid.SampledFrom([]float64{0.02, 0.2, 1}).Draw(t, "mark"),
			Timeout:     4096 << 14,
			CNPInterval: rapid.SampledFrom([]int64{-1, 0, 4000, 50_000}).Draw(t, "interval"),
		}
		sc.DelayMax = sc.DelayMin + rapid.SampledFrom([]int64{0, 300, 5_000}).Draw(t, "jitter")
		mode := rapid.SampledFrom([]cnp.Mode{cnp.ModeUnknown, cnp.PerPort}).Draw(t, "mode")
		findings, records := simulate(sc, mode)
		list := slices.DeleteFunc(rules(findings), func(rule string) bool { return rule == "note "+cnp.RuleNotJudged })
		if len(list) > 0 {
			t.Fatalf("findings %+v in\n%s", findings, tracetest.Format(records, 0))
		}
	})
}

func TestSeededBugsAreConvicted(t *testing.T) {
	for _, test := range []struct {
		name string
		bug  tracetest.Bug
		want string
	}{
		{"a CNP for every mark", tracetest.UnpacedCNP, cnp.RuleInterval},
		{"no CNPs", tracetest.DeafToMarks, cnp.RuleMissing},
		{"a CNP for every 16th packet", tracetest.UnprovokedCNP, cnp.RuleUnprovoked},
		{"CNPs to the next connection", tracetest.MisdirectedCNP, cnp.RuleWrongQP},
	} {
		t.Run(test.name, func(t *testing.T) {
			findings, _ := simulate(tracetest.Scenario{
				Seed: 3, Connections: 2, Messages: 20, Packets: 20, Depth: 2, DelayMin: 500, DelayMax: 600, Mark: 0.02,
				Timeout: 4096 << 14, CNPInterval: 20_000, Bug: test.bug,
			}, cnp.PerPort)
			if !slices.Contains(rules(findings), "violation "+test.want) {
				t.Errorf("findings %v lack %s", rules(findings), test.want)
			}
		})
	}
}

// TestJitterBoundsWhatIntervalsShow: a machine may delay the first of two CNPs; they are too close only if that does
// not explain it.
func TestJitterBoundsWhatIntervalsShow(t *testing.T) {
	const marks = "1 > mid 1 ecn\n"
	for _, tt := range []struct {
		name, text string
		jitterNS   int64
		want       []string
	}{
		{"two CNPs 30 us apart, 25 us of jitter", marks + "2 < cnp\n31 > mid 2 ecn\n32 < cnp", 25_000, nil},
		{"two CNPs 10 us apart, 25 us of jitter", marks + "2 < cnp\n11 > mid 2 ecn\n12 < cnp", 25_000,
			[]string{"violation cnp.interval", "violation cnp.excess"}},
		{"one CNP for two marks 60 us apart, 25 us of jitter", marks + "2 < cnp\n61 > mid 2 ecn", 25_000, nil},
		{"one CNP for two marks 90 us apart, 25 us of jitter", marks + "2 < cnp\n91 > mid 2 ecn", 25_000,
			[]string{"violation cnp.missing"}},
		{"as much jitter as minimum time", marks + "2 < cnp\n3 > mid 2 ecn\n4 < cnp", 50_000,
			[]string{"note cnp.not-judged"}},
		{"as much jitter as minimum time, and no CNP at all", marks, 50_000,
			[]string{"note cnp.not-judged", "violation cnp.missing"}},
	} {
		cfg := on(cnp.PerQP)
		cfg.JitterNS = tt.jitterNS
		got := rules(analyse(t, tracetest.Meta(tracetest.Connections(1, false)), cfg, tt.text).Findings)
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
