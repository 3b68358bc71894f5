package pfabric_test

import (
	"os"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/pfabric"
	"candela.dev/candela/clock"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(pfabric.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, pfabric.Rules(), pfabric.Causes())
}

func us(n int) clock.Time { return clock.Time(0).Add(clock.Duration(n) * clock.Microsecond) }

// step is a packet of a flow from host 1 to host 2, of 3 packets of 1000 bytes unless total says otherwise.
type step struct {
	us         int
	kind       pfabric.Kind // 0: Data
	arrives    bool
	connection uint32
	number     uint32
	total      uint32
	rank       uint64 // 0: as it must be
}

func judge(steps []step, drained bool) (rules []string) {
	a := pfabric.New(pfabric.Config{Payload: 1000, Window: 2, RTO: 45 * clock.Microsecond, ProbeAfter: 2,
		AckLimit: 100 * clock.Microsecond, Idle: true})
	for i, s := range steps {
		o := pfabric.Observation{Time: us(s.us), ID: uint64(i + 1), Sent: !s.arrives, Kind: max(s.kind, pfabric.Data), Src: 1,
			Dst: 2, Connection: s.connection, Number: s.number, Total: s.total, Payload: 1000, Rank: s.rank}
		switch {
		case s.kind == pfabric.Ack:
			o.Src, o.Dst, o.Payload = 2, 1, 0
		case s.total == 0:
			o.Total = 3
		}
		if s.kind != pfabric.Ack && s.rank == 0 {
			o.Rank = uint64(o.Total-s.number) * 1000
		}
		if o.Sent {
			a.Leaves(o.Src, o.Time, clock.Microsecond)
		}
		a.Observe(&o)
	}
	if drained {
		a.Drain()
	}
	end := us(steps[len(steps)-1].us)
	for _, f := range book.Keep(a.Finish(end).Findings) {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

func TestHostsAreJudgedByThePaper(t *testing.T) {
	const none = 1<<32 - 1
	ack := func(at int, number, total uint32) []step {
		return []step{{us: at, kind: pfabric.Ack, number: number, total: total},
			{us: at + 1, kind: pfabric.Ack, number: number, total: total, arrives: true}}
	}
	for _, tt := range []struct {
		name    string
		steps   []step
		drained bool
		want    []string
	}{
		{"a flow of one packet", slices.Concat([]step{{us: 1, total: 1}, {us: 5, total: 1, arrives: true}}, ack(6, 0, 1)), true,
			nil},
		{"a packet beyond the window", []step{{us: 1}, {us: 2, number: 1}, {us: 3, number: 2}}, false,
			[]string{"pfabric.window"}},
		{"a retransmission before the timeout", []step{{us: 0, total: 1}, {us: 20, total: 1}}, false,
			[]string{"pfabric.retransmit-early"}},
		{"a retransmission at the timeout", []step{{us: 0, total: 1}, {us: 45, total: 1}}, false, nil},
		{"a retransmission of what is acknowledged",
			slices.Concat([]step{{us: 0}, {us: 1, number: 1}, {us: 5, arrives: true}}, ack(9, 0, 1), []step{{us: 10, number: 2},
				{us: 50}}), false, []string{"pfabric.retransmit-acknowledged"}},
		{"a packet is left out", []step{{us: 1}, {us: 2, number: 2}}, false, []string{"pfabric.sequence"}},
		{"data instead of a probe", []step{{us: 1, total: 1}, {us: 46, total: 1}, {us: 92, total: 1}}, false,
			[]string{"pfabric.send-missing", "pfabric.probe-missing"}},
		{"a probe after two timeouts",
			slices.Concat([]step{{us: 1, total: 1}, {us: 46, total: 1}, {us: 91, kind: pfabric.Probe, total: 1},
				{us: 94, kind: pfabric.Probe, total: 1, arrives: true}}, ack(95, none, 0), []step{{us: 96, total: 1}}), false, nil},
		{"a probe without a timeout", []step{{us: 1, total: 1}, {us: 2, kind: pfabric.Probe, total: 1}}, false,
			[]string{"pfabric.probe-early"}},
		{"another rank", []step{{us: 0}, {us: 1, number: 1, rank: 5}}, false, []string{"pfabric.rank"}},
		{"the rank of the last packet", []step{{us: 0, total: 1, rank: 7}}, false, []string{"pfabric.rank"}},
		{"a higher rank goes first", []step{{us: 1, connection: 1, total: 2}, {us: 2}}, false,
			[]string{"pfabric.priority"}},
		{"nothing after a timeout", []step{{us: 1, total: 1}, {us: 100, connection: 1, total: 1}}, false,
			[]string{"pfabric.send-missing"}},
		{"no acknowledgement", []step{{us: 5, arrives: true}, {us: 200, arrives: true}}, false,
			[]string{"pfabric.ack-missing"}},
		{"an acknowledgement of another packet",
			[]step{{us: 5, arrives: true}, {us: 6, kind: pfabric.Ack, number: 1}}, false, []string{"pfabric.ack-false"}},
		{"an acknowledgement of what is beyond a gap", []step{{us: 5, number: 1, arrives: true},
			{us: 6, kind: pfabric.Ack, number: 1, total: 2}}, false, []string{"pfabric.ack-false"}},
		{"nothing more happens", []step{{us: 1, total: 1}}, true, []string{"pfabric.send-missing", "pfabric.incomplete"}},
	} {
		if got := judge(tt.steps, tt.drained); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
