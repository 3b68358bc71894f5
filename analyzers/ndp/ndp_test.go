package ndp_test

import (
	stdcmp "cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/clock"
	generator "candela.dev/candela/generator/ndp"
	wire "candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/switches/trimming"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// A scenario is hosts around one ideal trimming switch, and what they send.
type scenario struct {
	hosts, queue, headers, window int
	weight                        int // of headers, to 1 of data; default 10
	delay                         clock.Duration
	bounce                        bool
	rto                           clock.Duration
	bugs                          generator.Bugs
	penalty                       generator.Penalty
	flows                         []generator.Transfer
	seed                          uint64
	nics                          bool // observe at the hosts' NICs instead of at the switch
	until                         clock.Time
	spoil                         func(*trace.Tap) bool // changes observations, or leaves one out
}

const (
	packetSize = 1500
	headerSize = 64
	payload    = packetSize - headerSize
)

var rate = 100 * clock.Gbps

func (s *scenario) run(t testing.TB) analyzers.Result {
	t.Helper()
	spec := &fabric.Spec{Seed: s.seed,
		Topology: fabric.TopologySpec{Hosts: s.hosts, Link: fabric.LinkSpec{Rate: rate, Delay: s.delay}}}
	model := ideal(t)
	v, err := model.Parameters.Values(fmt.Sprintf("data-queue-bytes=%d", s.queue*packetSize),
		fmt.Sprintf("header-queue-bytes=%d", s.headers*headerSize),
		fmt.Sprintf("return-to-sender=%v", s.bounce), "scheduler=wrr",
		fmt.Sprintf("header-weight=%d", stdcmp.Or(s.weight, 10)), "trim-bytes=64")
	if err != nil {
		t.Fatal(err)
	}
	model.Configure(v, &spec.Switch)
	net, err := fabric.New(spec, func(*fabric.Switch) fabric.Mechanism { return model.New(v, nil) })
	if err != nil {
		t.Fatal(err)
	}
	cfg := fabric.NDPConfig{InitialWindow: s.window, PacketSize: packetSize, RTO: s.rto, Bugs: s.bugs, Penalty: s.penalty}
	board := ndp.Scoreboard{Answers: s.penalty.Answers, SharePercent: s.penalty.SharePercent,
		FactorPercent: s.penalty.FactorPercent, Periods: s.penalty.Periods}
	if s.penalty.On {
		cfg.Paths, board.Paths = 4, 4
	}
	s.attach(t, net, cfg)
	a := ndp.New(ndp.Config{
		InitialWindow: s.window, PullGap: cfg.PullGap(rate), RTO: s.rto, RoundTrip: 2*s.delay + 20*clock.Microsecond,
		Drained: true, Scoreboard: board,
	})
	at := 0
	if s.nics {
		at = -1
	}
	net.SetTap(fabric.NDPTaps(at, headerSize, func(o *trace.Tap) {
		if s.spoil == nil || s.spoil(o) {
			a.Observe(o)
		}
	}))
	if s.until == 0 {
		s.until = clock.Time(10 * clock.Second)
	}
	if err := net.Run(s.until); err != nil {
		t.Fatal(err)
	}
	result := a.Finish()
	causetest.Declared(t, ndp.Causes(), result.Findings)
	return result
}

func (s *scenario) attach(t testing.TB, net *fabric.Network, cfg fabric.NDPConfig) {
	t.Helper()
	for i := range s.hosts {
		h, err := net.AttachNDP(fabric.HostID(i), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range s.flows {
			if f.From == generator.Endpoint(i) {
				if _, err := h.Core().Send(f.Flow); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func ideal(t testing.TB) trimming.Model {
	t.Helper()
	for _, m := range trimming.Models() {
		if m.Name == "ndp-ideal" {
			return m
		}
	}
	t.Fatal("there is no model ndp-ideal")
	return trimming.Model{}
}

func incast(senders, packets int) []generator.Transfer {
	list := make([]generator.Endpoint, senders)
	for i := range list {
		list[i] = generator.Endpoint(i + 1)
	}
	return generator.Incast(list, []generator.Endpoint{0}, uint64(packets*payload), 0)
}

func rules(r analyzers.Result) (ids []string) {
	seen := make(map[string]bool)
	for _, f := range r.Findings {
		if !seen[f.Rule] {
			seen[f.Rule] = true
			ids = append(ids, f.Rule)
		}
	}
	return ids
}

func show(r analyzers.Result) string {
	var b strings.Builder
	for i, f := range r.Findings {
		if i == 20 {
			fmt.Fprintf(&b, "and %d more\n", len(r.Findings)-i)
			break
		}
		fmt.Fprintf(&b, "%s t=%dns %v %s; expected %s\n", f.Rule, f.TimeNS, f.Packets, f.Message, f.Expected)
	}
	return b.String()
}

// noisy is a scoreboard on which equal paths are outliers now and then, by chance.
var noisy = generator.Penalty{On: true, Answers: 4, SharePercent: 1, FactorPercent: 100, Periods: 3}

func TestEverySeededBugIsCaughtByItsRule(t *testing.T) {
	for _, bug := range generator.Catalogue() {
		t.Run(bug.Name, func(t *testing.T) {
			s := scenario{hosts: 9, queue: 8, headers: 400, window: 60, delay: 500 * clock.Nanosecond, rto: clock.Millisecond,
				bugs: generator.NewBugs(bug.Bug), flows: incast(8, 300), seed: 1, bounce: true,
				until: clock.Time(20 * clock.Millisecond)}
			switch bug.Bug {
			case generator.BugEchoesIncast, generator.BugIgnoresReturned:
				s.headers, s.weight = 20, 1
			case generator.BugEarlyTimeout:
				s.rto, s.delay = 50*clock.Microsecond, 5*clock.Microsecond
			case generator.BugDoublePull: // shows where first windows don't fill the round trip
				s.window, s.flows = 4, incast(3, 300)
			case generator.BugWastesPull:
				s.window = 4
			case generator.BugPacesSlowly, generator.BugPacesFast, generator.BugUnfairPull:
				s.flows = incast(8, 600)
			case generator.BugIgnoresScoreboard, generator.BugExcludesWithoutCause:
				s.penalty = noisy
			}
			r := s.run(t)
			found := strings.Join(rules(r), " ")
			if !strings.Contains(found+" ", bug.Rule+" ") {
				t.Errorf("want %s, got %q\n%s", bug.Rule, found, show(r))
			}
			t.Log(found)
		})
	}
}

func TestSoundHostsAreNeverBlamed(t *testing.T) {
	covered := make(map[string]int64)
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScenario(rt)
		s.bounce = true
		r := s.run(t)
		if len(r.Findings) > 0 {
			rt.Fatalf("%+v\n%s", s, show(r))
		}
		for name, n := range r.Coverage {
			covered[name] += n
		}
	})
	if testing.Short() {
		return // a fifth of the draws need not show every transition
	}
	for _, name := range []string{"sender: nacked + again -> sent", "receiver: header + nack -> nacked",
		"receiver: whole + ack -> acked",
		"receiver: nacked + whole -> whole"} {
		if covered[name] == 0 {
			t.Errorf("%s was never taken", name)
		}
	}
}

func TestASwitchThatLosesHeadersIsBlamedAndNoHostIs(t *testing.T) {
	// Nine windows of a hundred packets arrive at a queue of four with room for two headers: most are lost.
	crowd := scenario{hosts: 10, queue: 4, headers: 2, weight: 1, window: 100, delay: clock.Microsecond,
		rto: 5 * clock.Millisecond, seed: 1}
	for from := 1; from < crowd.hosts; from++ {
		crowd.flows = append(crowd.flows,
			generator.Transfer{From: generator.Endpoint(from), Flow: generator.Flow{Bytes: 100 * payload}})
	}
	if got := rules(crowd.run(t)); !slices.Equal(got, []string{"ndp.silent-loss"}) {
		t.Errorf("a crowd draws %v, want ndp.silent-loss alone", got)
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScenario(rt)
		s.headers, s.weight = rapid.IntRange(2, 10).Draw(rt, "few headers"), 1
		for _, rule := range rules(s.run(t)) {
			if rule != "ndp.silent-loss" {
				rt.Fatalf("%+v\n%s", s, rule)
			}
		}
	})
}

// drawScenario draws compliant hosts with any traffic.
func drawScenario(rt *rapid.T) scenario {
	s := scenario{
		hosts: rapid.IntRange(2, 10).Draw(rt, "hosts"), queue: rapid.IntRange(2, 20).Draw(rt, "queue"),
		headers: rapid.IntRange(20, 600).Draw(rt, "headers"), weight: rapid.IntRange(1, 10).Draw(rt, "weight"),
		window: rapid.IntRange(1, 100).Draw(rt, "window"),
		delay:  clock.Duration(rapid.IntRange(0, 3000).Draw(rt, "delay")) * clock.Nanosecond,
		rto:    rapid.SampledFrom([]clock.Duration{300 * clock.Microsecond, 5 * clock.Millisecond}).Draw(rt, "rto"),
		seed:   rapid.Uint64().Draw(rt, "seed"), nics: rapid.Bool().Draw(rt, "nics"),
	}
	if rapid.Bool().Draw(rt, "scoreboard") {
		s.penalty = noisy
	}
	for range rapid.IntRange(1, 14).Draw(rt, "flows") {
		from := rapid.IntRange(0, s.hosts-1).Draw(rt, "from")
		to := (from + rapid.IntRange(1, s.hosts-1).Draw(rt, "to")) % s.hosts
		if rapid.Bool().Draw(rt, "incast") && from != 0 {
			to = 0
		}
		s.flows = append(s.flows, generator.Transfer{From: generator.Endpoint(from),
			Flow: generator.Flow{To: generator.Endpoint(to),
				Bytes: uint64(rapid.IntRange(1, 300*payload).Draw(rt, "bytes")),
				Start: clock.Time(clock.Duration(rapid.IntRange(0, 100).Draw(rt, "start")) * clock.Microsecond)}})
	}
	return s
}

func TestFaultsOfTheNetworkAreNamed(t *testing.T) {
	after := func(o *trace.Tap) bool { return o.Point == trace.TapAfter && o.NDP.Kind == wire.Data }
	tests := []struct {
		name, rule string
		spoil      func(o *trace.Tap) bool
	}{
		{"a header that never arrives", "ndp.silent-loss", func(o *trace.Tap) bool { return !after(o) || o.NDP.Seq != 7 }},
		{"a header with another path tag", "ndp.header-changed", func(o *trace.Tap) bool {
			if after(o) && o.Trimmed() {
				o.NDP.Path ^= 1
			}
			return true
		}},
		{"a header with another length", "ndp.header-changed", func(o *trace.Tap) bool {
			if after(o) && o.Trimmed() {
				o.NDP.Length--
			}
			return true
		}},
		{"a header that nobody sent", "ndp.header-changed", func(o *trace.Tap) bool {
			if after(o) && o.NDP.Seq == 3 {
				o.NDP.Counter += 1 << 20
			}
			return true
		}},
		{"a packet that comes out at another host", "ndp.misdelivered", func(o *trace.Tap) bool {
			if after(o) && o.NDP.Seq == 4 {
				o.At = o.Dst + 2
			}
			return true
		}},
		{"a transmission seen twice", "ndp.duplicated", func(o *trace.Tap) bool {
			if after(o) && o.NDP.Seq == 9 {
				o.NDP.Seq, o.NDP.Counter = 8, 8
			}
			return true
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := scenario{hosts: 5, queue: 8, headers: 400, window: 30, delay: 500, rto: clock.Millisecond, bounce: true,
				flows: incast(4, 60),
				spoil: test.spoil, seed: 3}
			if found := rules(s.run(t)); !slices.Contains(found, test.rule) {
				t.Errorf("want %s, got %v", test.rule, found)
			}
		})
	}
}

func TestAnalysisIsTheSameEveryTime(t *testing.T) {
	s := scenario{hosts: 9, queue: 8, headers: 40, weight: 1, window: 60, delay: 500, rto: clock.Millisecond,
		flows: incast(8, 100),
		bugs:  generator.NewBugs(generator.BugForgetsPull, generator.BugForgetsNack, generator.BugPullBackwards), seed: 1}
	if diff := cmp.Diff(s.run(t), s.run(t)); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkObserve measures the analyzer on an incast of 16: one operation is one observation.
func BenchmarkObserve(b *testing.B) {
	s := scenario{hosts: 17, queue: 8, headers: 400, window: 30, delay: 500, bounce: true, flows: incast(16, 500),
		rto: clock.Millisecond}
	var list []trace.Tap
	s.spoil = func(o *trace.Tap) bool { list = append(list, *o); return false }
	s.run(b)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; {
		a := ndp.New(ndp.Config{InitialWindow: 30, PullGap: 120 * clock.Nanosecond, RTO: clock.Millisecond,
			RoundTrip: 30 * clock.Microsecond})
		for j := 0; j < len(list) && i < b.N; j, i = j+1, i+1 {
			a.Observe(&list[j])
		}
	}
}
