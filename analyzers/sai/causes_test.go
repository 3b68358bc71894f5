package sai_test

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	judge "candela.dev/candela/analyzers/sai"
	"candela.dev/candela/sai"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(judge.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, judge.Rules(), judge.Causes())
}

// lostCopy are the counters of a switch that received packets 1 to 3, sent 1 whole and a copy of 2, and lost the copy
// of 3.
func lostCopy() sai.Snapshot {
	s := snapshot(sai.Queue{Packets: sai.Unavailable, Bytes: sai.Unavailable, DroppedPackets: 2, DroppedBytes: 3000,
		Trim: 2, TxTrim: 1, DroppedTrim: 1})
	for i := range s.Ports {
		for j := range s.Ports[i].Queues {
			s.Ports[i].Queues[j].Bytes = sai.Unavailable
		}
	}
	p := &s.Ports[0]
	p.OutDiscards, p.OutPackets, p.Trim, p.TxTrim, p.DroppedTrim = 2, 2, 2, 1, 1
	s.Ports[1].InPackets = 3
	s.Ports[1].TxTrim, s.Ports[1].DroppedTrim, s.TxTrim, s.DroppedTrim = 0, 0, 1, 1
	s.ACL = []sai.ACL{{Rule: "host", Packets: 0, Bytes: 0}}
	return s
}

func TestEachCounterIsHeldAgainstTheTapsAndTheOthers(t *testing.T) {
	a, b, lost := packet(1, 100), packet(2, 200), packet(3, 300)
	list := []sai.Observation{a, b, at(copied(b, 250), 0, 6), lost, at(whole(a, 400), 0, 1)}
	queue := func(s *sai.Snapshot) *sai.Queue { return &s.Ports[0].Queues[1] }
	for _, c := range []struct {
		name string
		hurt func(*sai.Snapshot)
		want []string
	}{
		{"all are right", func(*sai.Snapshot) {}, nil},
		{"the sum of a queue", func(s *sai.Snapshot) { queue(s).DroppedTrim = 0 },
			[]string{"sai.conservation", "sai.port-sum", "sai.silent-loss"}},
		{"the sum of a port", func(s *sai.Snapshot) { s.Ports[0].Trim = 3 }, []string{"sai.port-sum"}},
		{"the sum of the switch", func(s *sai.Snapshot) { s.TxTrim = 3 }, []string{"sai.switch-sum"}},
		{"fewer dropped than trimmed", func(s *sai.Snapshot) { queue(s).DroppedPackets = 1 },
			[]string{"sai.counter-dropped"}},
		{"bytes dropped", func(s *sai.Snapshot) { queue(s).DroppedBytes = 2999 }, []string{"sai.counter-dropped"}},
		{"discards of the interface", func(s *sai.Snapshot) { s.Ports[0].OutDiscards = 1 }, []string{"sai.interface"}},
		{"packets out", func(s *sai.Snapshot) { s.Ports[0].OutPackets = 3 }, []string{"sai.interface"}},
		{"packets in", func(s *sai.Snapshot) { s.Ports[1].InPackets = 2 }, []string{"sai.interface"}},
		{"packets of a queue", func(s *sai.Snapshot) { queue(s).Packets = 2 }, []string{"sai.queue-sent"}},
		{"copies on another queue", func(s *sai.Snapshot) {
			q := s.Ports[0].Queues
			q[1].Trim, q[1].TxTrim, q[6].Trim, q[6].TxTrim, q[6].DroppedPackets = 1, 0, 1, 1, 1
		}, []string{"sai.counter-queue"}},
		{"packets of an ACL entry", func(s *sai.Snapshot) { s.ACL[0].Packets = 2 }, []string{"sai.acl-counter"}},
		{"octets in without the FCS, out with it",
			func(s *sai.Snapshot) { s.Ports[1].InOctets, s.Ports[0].OutOctets = 4500, 1756+8 }, []string{"sai.octets"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := lostCopy()
			c.hurt(&s)
			got := violated(newAnalyzer(func(c *judge.Config) {
				c.Strict = false
				c.Settings[0].Settings.Rules = []sai.Rule{{Name: "host", Source: netip.MustParsePrefix("10.0.0.77/32")}}
			}), s, list...)
			if !slices.Equal(got, c.want) {
				t.Errorf("violated %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhatMayNotBeTrimmed(t *testing.T) {
	p := packet(1, 100)
	for _, c := range []struct {
		name   string
		change func(*sai.Settings)
		want   []string
	}{
		{"nothing forbids it", func(*sai.Settings) {}, nil},
		{"a lossless queue", func(s *sai.Settings) { s.Profiles[0].Lossless = true }, []string{"sai.lossless"}},
		{"a packet that an ACL entry exempts",
			func(s *sai.Settings) { s.Rules = []sai.Rule{{Name: "host", Source: netip.PrefixFrom(sender, 32)}} },
			[]string{"sai.acl"}},
	} {
		a := newAnalyzer(func(config *judge.Config) { c.change(&config.Settings[0].Settings) })
		if got := violated(a, sai.Snapshot{}, p, copied(p, 300)); !slices.Equal(got, c.want) {
			t.Errorf("%s: violated %v, want %v", c.name, got, c.want)
		}
	}
	if got := violated(newAnalyzer(nil), sai.Snapshot{}, p, cutTo(whole(p, 300), 1514)); !slices.Equal(got,
		[]string{"sai.whole-unchanged"}) {
		t.Errorf("a whole packet that grew: violated %v", got)
	}
}

func TestNotesSayWhatWasNotJudged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*judge.Config)
		s      sai.Snapshot
	}{
		{"counters of another number of ports", nil, sai.Snapshot{Schema: sai.Schema, Ports: lostCopy().Ports[:1]}},
		{"a switch that may not be drained", func(c *judge.Config) { c.Undrained = true }, lostCopy()},
	} {
		a := newAnalyzer(c.change)
		findings := book.Keep(a.Finish(c.s).Findings)
		if len(findings) != 1 || findings[0].Rule != "sai.not-judged" {
			t.Errorf("%s: %+v", c.name, findings)
		}
	}
}
