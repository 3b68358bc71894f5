package ndp_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/clock"
	wire "candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(ndp.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, ndp.Rules(), ndp.Causes())
}

// A script is what host 1 sends to host 0 and host 0 answers: "us what data/counter", separated by semicolons. send,
// whole, header and back are data: sent, delivered whole or trimmed, and its returned header. ack, nack and pull leave
// host 0; heard-ack, heard-nack and heard-pull reach host 1. The default counter of data is that of its latest
// transmission. Connection 2 has a prefix: "2:send". If paths are judged, the path of data is its number modulo their
// number.
type script string

func (s script) run(t *testing.T, c ndp.Config) (rules []string) {
	t.Helper()
	a := ndp.New(c)
	sent, latest := map[uint32]uint32{}, map[[2]uint32]uint32{}
	for line := range strings.SplitSeq(string(s), ";") {
		var ns float64
		var what string
		var seq, counter uint32
		line, numbered := strings.TrimSpace(line), strings.Contains(line, "/")
		if _, err := fmt.Sscan(strings.Replace(line, "/", " ", 1), &ns, &what, &seq, &counter); err != nil && numbered {
			t.Fatalf("%q: %v", line, err)
		}
		id := uint32(1)
		if rest, ok := strings.CutPrefix(what, "2:"); ok {
			id, what = 2, rest
		}
		now := clock.Time(0).Add(clock.Duration(ns * float64(clock.Microsecond)))
		p := trace.Tap{Time: now, Point: trace.TapBefore, Src: 1, Size: packetSize, Payload: payload,
			NDP: wire.Header{Kind: wire.Data, Connection: id, Seq: seq, Counter: counter, Length: payload}}
		if what == "send" {
			p.NDP.Counter = sent[id]
			latest[[2]uint32{id, seq}] = sent[id]
			sent[id]++
		}
		data := !numbered
		switch what {
		case "send":
		case "whole", "header", "back", "astray":
			p.Point, p.At = trace.TapAfter, 1
			if data {
				p.NDP.Counter = latest[[2]uint32{id, seq}]
			}
			if what == "header" || what == "back" {
				p.NDP.Flags, p.Size, p.Payload = wire.FlagTrimmed, headerSize, 0
			}
			if what == "astray" {
				p.At = 3
			}
			if what == "back" {
				p.NDP.Flags |= wire.FlagReturned
				p.Src, p.Dst, p.At = 0, 1, 2
			}
		default:
			kind, heard := strings.CutPrefix(what, "heard-")
			p.Src, p.Dst, p.Size, p.Payload = 0, 1, headerSize, 0
			if heard {
				p.Point = trace.TapAfter
			}
			p.NDP.Length = 0
			p.NDP.Kind = map[string]wire.Kind{"ack": wire.Ack, "nack": wire.Nack, "pull": wire.Pull}[kind]
			if p.NDP.Kind == wire.Pull {
				p.NDP.Counter, p.NDP.Seq = seq, 0
			}
		}
		if n := c.Scoreboard.Paths; n > 0 {
			p.NDP.Path = uint16(seq) % uint16(n)
		}
		a.Observe(&p)
	}
	a.Drain()
	for _, f := range book.Keep(a.Finish().Findings) {
		rules = append(rules, f.Rule)
		t.Log(f.Headline)
	}
	return rules
}

func TestScriptsBreakTheRulesThatTheyAreMadeFor(t *testing.T) {
	const us = clock.Microsecond
	plain := ndp.Config{InitialWindow: 4, RoundTrip: 10 * us}
	rto, unknown := plain, plain
	rto.RTO, unknown.InitialWindow = 100*us, 0
	paced := plain
	paced.PullGap, paced.InitialWindow, paced.Burst = us, 64, 4*us
	paths := plain
	paths.InitialWindow, paths.Scoreboard = 64, ndp.Scoreboard{Paths: 2, Answers: 1, SharePercent: 25, FactorPercent: 200,
		Periods: 2}
	for _, c := range []struct {
		rule string
		cfg  ndp.Config
		s    script
	}{
		{"ndp.silent-loss", plain, "1 send 0; 2 whole 0; 3 ack 0; 4 send 1; 5 pull 1"},
		{"ndp.header-changed", plain, "1 send 0; 2 send 1; 3 whole 1/0"},
		{"ndp.header-changed", plain, "1 send 0; 2 whole 0/7"},
		{"ndp.duplicated", plain, "1 send 0; 2 whole 0; 3 whole 0"},
		{"ndp.misdelivered", plain, "1 send 0; 2 astray 0"},
		{"ndp.send-without-pull", plain, "1 send 0; 2 send 1; 3 send 2; 4 send 3; 5 send 4"},
		{"ndp.return-echo", plain, "1 send 0; 2 send 1; 3 send 2; 4 send 3; 5 back 0; 6 send 0"},
		{"ndp.retransmit-first", plain, "1 send 0; 2 send 1; 3 send 2; 4 send 3; 5 heard-nack 0; 6 heard-pull 1; 20 send 4"},
		{"ndp.return-unanswered", plain, "1 send 0; 2 send 1; 3 send 2; 4 send 3; 5 back 0; 6 heard-pull 1; 20 send 4"},
		{"ndp.retransmit-spurious", plain, "1 send 0; 2 heard-ack 0; 20 send 0"},
		{"ndp.timeout-early", plain, "1 send 0; 6 send 0"},
		{"ndp.timeout-early", rto, "1 send 0; 6 send 0"},
		{"ndp.seq-skip", plain, "1 send 0; 2 send 2"},
		{"ndp.pull-unanswered", rto, "1 send 0; 2 send 1; 3 send 2; 4 send 3; 5 heard-ack 0; 6 heard-pull 2; 200 send 4"},
		{"ndp.ack-trimmed", plain, "1 send 0; 2 header 0; 3 ack 0"},
		{"ndp.ack-unprovoked", plain, "1 send 0; 2 whole 0; 3 ack 0; 4 ack 0"},
		{"ndp.ack-unprovoked", plain, "1 send 0; 2 send 1; 3 whole 0; 4 ack 0/2"},
		{"ndp.ack-missing", plain, "1 send 0; 2 whole 0"},
		{"ndp.nack-whole", plain, "1 send 0; 2 whole 0; 3 nack 0"},
		{"ndp.nack-unprovoked", plain, "1 send 0; 2 header 0; 3 nack 0; 4 nack 0"},
		{"ndp.nack-missing", plain, "1 send 0; 2 header 0"},
		{"ndp.pull-counter", plain, "1 send 0; 2 whole 0; 3 ack 0; 4 pull 1; 5 pull 1"},
		{"ndp.pull-excess", plain, "1 send 0; 2 whole 0; 3 ack 0; 4 pull 2"},
		{"ndp.pull-excess", unknown, "1 send 0; 2 send 1; 3 send 2; 4 send 3; 5 send 4; 6 send 5; 7 whole 0; 8 whole 1; " +
			"9 whole 2; 10 whole 3; 11 whole 4; 12 whole 5; 13 ack 0; 14 pull 6"},
		{"ndp.pull-missing", plain, "1 send 0; 2 send 1; 3 whole 0; 4 whole 1; 5 ack 0; 6 ack 1; 7 pull 1"},
		{"ndp.pull-fast", paced, "1 send 0; 2 send 1; 3 send 2; 4 send 3; 5 whole 0; 6 whole 1; 7 whole 2; 8 whole 3; " +
			"100 pull 1; 100.1 pull 2; 100.2 pull 3; 100.3 pull 4; 100.4 pull 5; 100.5 pull 6; 100.6 pull 7"},
		{"ndp.pull-slow", paced, many("", 20, 1) + pulls(20, 6, 2)},
		{"ndp.path-excluded", paths, badPath + "18 send 3"},
		{"ndp.path-unused", paths, "1 send 0; 2 send 2; 3 send 4; 4 send 6; 5 send 8; 6 send 10"},
		{"ndp.pull-unfair", paced, many("2:", 3, 0.1) + many("", 40, 1) + pulls(30, 9, 1)},
	} {
		if got := c.s.run(t, c.cfg); !strings.Contains(strings.Join(got, " ")+" ", c.rule+" ") {
			t.Errorf("%q breaks %v, not %s", c.s, got, c.rule)
		}
	}
}

// many returns the lines of n packets of a connection that arrive from us on and are acknowledged.
func many(name string, n int, us float64) (s script) {
	for i := range n {
		for _, what := range []string{"send", "whole", "ack"} {
			s += script(fmt.Sprintf("%.2f %s%s %d; ", us, name, what, i))
			us += 0.05
		}
	}
	return s
}

// pulls returns the lines of n PULLs of connection 1.
func pulls(n int, us, gap float64) (s script) {
	for i := range n {
		s += script(fmt.Sprintf("%.2f pull %d; ", us+float64(i)*gap, i+1))
	}
	return s[:len(s)-2]
}

// badPath makes path 1 an outlier at 4 us.
const badPath script = "1 send 0; 2 send 1; 3 heard-ack 0; 4 heard-nack 1; 5 send 2; "

// What a sender may not know, or may count in another period, excuses the path of a packet.
func TestPathsAreJudgedWhereTheScoreboardIsCertain(t *testing.T) {
	const us = clock.Microsecond
	cfg := ndp.Config{InitialWindow: 64, RoundTrip: 10 * us, RTO: 5 * us, Scoreboard: ndp.Scoreboard{Paths: 2, Answers: 1,
		SharePercent: 25, FactorPercent: 200, Periods: 2}}
	for _, c := range []struct {
		why    string
		s      script
		blamed bool
	}{
		{"known for a round trip", badPath + "18 send 3", true},
		{"not known for a round trip", badPath + "13 send 3", false},
		{"a loss of the other path may have counted in the period", "1 send 0; 2 send 1; 3 send 2; 3.1 heard-ack 0; " +
			"4 heard-nack 1; 10 send 2; 18 send 3", false},
		{"a loss long after the period", "1 send 0; 2 send 1; 3 send 2; 3.1 heard-ack 0; 4 heard-nack 1; 18 send 2; " +
			"19 send 3", true},
		{"the exclusion has ended", badPath + "6 heard-ack 2; 7 heard-ack 2; 8 heard-ack 2; 9 heard-ack 2; 30 send 3", false},
		{"the second of its two periods", badPath + "6 heard-ack 2; 7 heard-ack 2; 8 heard-ack 2; 30 send 3", true},
	} {
		if got := c.s.run(t, cfg); strings.Contains(strings.Join(got, " "), "ndp.path") != c.blamed {
			t.Errorf("%s: %v", c.why, got)
		}
	}
}
