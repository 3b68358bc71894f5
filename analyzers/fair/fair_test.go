package fair

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
	"candela.dev/candela/runtimetest"
)

func TestEveryRuleHasCausesWithSentences(t *testing.T) { causetest.Table(t, Rules(), Causes()) }

const (
	ms   = clock.Millisecond
	us   = clock.Microsecond
	gbps = 1_000_000_000
)

// ideal are settings of a tree with three tenants, of hosts 1 to 4, of hosts 5 and 6, and of the others.
func ideal() fair.Settings {
	return fair.Settings{Scheme: fair.HCSFQ, Phi: 0.985, MinFactor: 0.75, KF: 20 * us, Packets: 320,
		Nodes: []fair.Node{{Parent: -1, Weight: 1}, {Parent: 0, Weight: 1}, {Parent: 0, Weight: 1}, {Parent: 0, Weight: 2}},
		Members: []fair.Member{{Hosts: [][2]int64{{1, 4}}, Node: 1, Weight: 1}, {Hosts: [][2]int64{{5, 6}}, Node: 2,
			Weight: 1},
			{Node: 3, Weight: 2}}}
}

func dataplane() fair.Settings {
	s := ideal()
	s.Mode, s.AverageShift, s.DropBits, s.Decrease, s.Increase = fair.Dataplane, 3, 7, 128, 4096
	s.Recirculation = 500 * clock.Nanosecond
	return s
}

// loads are eight flows that offer twice what the link carries.
func loads(lasts clock.Duration) (list []source) {
	for i := range 8 {
		list = append(list, source{host: uint32(i + 1), flow: uint32(i), bps: (4 + float64(i)) * gbps / 4, size: 1500,
			stop:   lasts,
			jitter: 0.05})
	}
	return list
}

func base(set fair.Settings, lasts clock.Duration) *setup {
	return &setup{set: set, link: 10 * gbps, framing: 20, lasts: lasts, sources: loads(lasts), seed: 1}
}

func violations(r *analyzers.Result) (first map[string]string) {
	first = make(map[string]string)
	for _, f := range r.Findings {
		if f.Severity != analyzers.Note && first[f.Rule] == "" {
			first[f.Rule] = f.Headline
		}
	}
	return first
}

// Compliant switches are not blamed in any mode, with records and without, at edges and in cores.
func TestCompliantSwitchesAreNotBlamed(t *testing.T) {
	for mode, set := range map[string]fair.Settings{"ideal": ideal(), "dataplane": dataplane()} {
		for _, records := range []bool{false, true} {
			for place, change := range map[string]func(*setup){"only": func(*setup) {},
				"edge": func(s *setup) { s.onward = true },
				"core": func(s *setup) { s.upstream = true }} {
				s := base(set, 40*ms)
				s.records = records
				change(s)
				r, _ := s.run(t)
				if v := violations(&r); len(v) > 0 || r.Coverage["draws"] < 1000 || mode == "ideal" && r.Coverage["steady"] < 5 {
					t.Errorf("%s, %s, records %v: %v, %v", mode, place, records, v, r.Coverage)
				}
			}
		}
	}
}

// Whoever follows the specification is not blamed, whichever way he reads what it leaves open; nor is a switch whose
// clock has ticks, if it says so. Who reads it now so, now otherwise is.
func TestReadingsOfTheSpecification(t *testing.T) {
	for n, c := range []struct {
		reads  string
		tick   clock.Duration
		mode   fair.Settings
		blamed bool
	}{
		{reads: readsBefore, mode: ideal()},
		{reads: changesAtOnce, mode: ideal()},
		{reads: looksAtOnce, mode: ideal()},
		{reads: readsBefore + changesAtOnce + looksAtOnce, mode: ideal()},
		{reads: readsBefore + changesAtOnce + looksAtOnce, mode: dataplane()},
		{tick: clock.Nanosecond, mode: ideal()},
		{tick: us, reads: changesAtOnce, mode: ideal()},
		{tick: us, reads: changesAtOnce, mode: dataplane()},
		{reads: readsInTurns, mode: ideal(), blamed: true},
	} {
		for i := range 6 {
			if !runtimetest.Sampled(6*n + i) {
				continue
			}
			s := base(c.mode, 8*ms)
			if c.blamed {
				s = base(c.mode, 20*ms)
			}
			s.set.Recirculation, s.set.Tick = 0, c.tick
			s.records, s.onward = i%3 == 1, i%3 == 2
			if i < 3 { // packets come K_c after others
				for k := range s.sources {
					s.sources[k].jitter, s.sources[k].bps = 0, 12160/float64(2+k/2)*1e6
				}
			}
			s.fault = make(map[string]bool)
			for _, f := range []string{readsBefore, changesAtOnce, looksAtOnce, readsInTurns} {
				s.fault[f] = strings.Contains(c.reads, f)
			}
			if r, _ := s.run(t); c.blamed && i%3 > 0 != (len(violations(&r)) > 0) || !c.blamed && len(violations(&r)) > 0 ||
				r.Coverage["draws"] < 3000 {
				t.Errorf("%s, clock of %v, %v, %d: %v, %v", c.reads, c.tick, c.mode.Mode, i, violations(&r), r.Coverage)
			}
		}
	}
}

// deep is a tree of three layers with the link, each of whose nodes wants more than its share: two tenants, of
// weights 1 and 3, of which each has two parts with a flow or two.
func deep() *setup {
	set := ideal()
	set.Nodes = []fair.Node{{Parent: -1, Weight: 1}, {Parent: 0, Weight: 1}, {Parent: 0, Weight: 3}, {Parent: 1,
		Weight: 1},
		{Parent: 1, Weight: 2}, {Parent: 2, Weight: 1}, {Parent: 2, Weight: 1}}
	set.Members = nil
	s := base(set, 20*ms)
	s.framing, s.sources = 0, nil
	for i, node := range []int{3, 4, 4, 5, 5, 6, 6} {
		s.sources = append(s.sources, source{host: uint32(i + 1), flow: uint32(i), size: 1500, stop: s.lasts, jitter: 0.05,
			bps: []float64{4, 3, 5, 0.8, 1.2, 4, 6}[i] * gbps})
		s.set.Members = append(s.set.Members, fair.Member{Hosts: [][2]int64{{int64(i + 1), int64(i + 1)}}, Node: node,
			Weight: 1})
	}
	s.set.Members = append(s.set.Members, fair.Member{Node: 6, Weight: 1})
	return s
}

// With three layers the loops of nodes in series act on each other, although K_c is twice K_alpha: shares of the very
// algorithm are wrong by more than a tenth, for long. The switch is not at fault.
func TestSharesOfThreeLayersAreNotBlamed(t *testing.T) {
	s := deep()
	r, m := s.run(t)
	if v := violations(&r); len(v) > 0 || r.Coverage["draws"] < 1000 {
		t.Errorf("%v, %v, %v", v, r.Coverage, m.got)
	}
}

// Every fault is found by its rule.
func TestFaultsAreFoundByTheirRule(t *testing.T) {
	for i, c := range []struct {
		fault, rule string
		change      func(*setup)
	}{
		{"reorders", ruleFIFO, nil},
		{"mild-drops", ruleTest, nil},
		{"never-drops", ruleTest, nil},
		{"even-draws", ruleTest, func(s *setup) { s.records = true }},
		{"keeps-label", ruleLabel, nil},
		{"no-relabel", ruleLabel, func(s *setup) { s.onward = true }},
		{"no-weights", ruleLabel, func(s *setup) { s.onward = true }},
		{"no-weights", ruleTest, func(s *setup) {
			s.set.Members = append([]fair.Member{{Hosts: [][2]int64{{4, 4}}, Node: 1, Weight: 3}}, s.set.Members...)
		}},
		{"no-weights", ruleShares, func(s *setup) { s.set.Members[0].Hosts, s.set.Members[2].Node = [][2]int64{{1, 2}}, 1 }},
		{"sign", ruleEstimator, func(s *setup) { s.records = true }},
		{"lies-of-F", ruleEstimator, func(s *setup) { s.records = true }},
		{"hasty", rulePacing, func(s *setup) { s.records = true }},
		{"miscounts", ruleState, nil},
		{"counts-no-flow", ruleState, nil},
		{"counts-no-update", ruleState, func(s *setup) { s.records = true }},
		{"inflates-alpha", ruleAlpha, func(s *setup) { s.records = true }},
		{"ignores-floor", ruleAlpha, func(s *setup) {
			s.records, s.set.AlphaFloor, s.sources = true, 0.5, s.sources[:3] // 3.75 of 10 Gb/s
		}},
		{"ignores-floor", ruleUnder, func(s *setup) {
			s.set.AlphaFloor = 0.5
			s.sources = []source{{host: 1, bps: gbps / 2, size: 1500, stop: s.lasts, jitter: 0.9}}
		}},
		{"slow-label", ruleExcess, func(s *setup) {
			s.set.Nodes[3].Parent = 2
			s.sources = append(s.sources, source{host: 1, flow: 77, bps: 8 * gbps, size: 1500, start: 20 * ms, stop: 60 * ms})
		}},
		{"one-too-many", ruleTail, func(s *setup) { s.set.Phi, s.set.Packets = 1, 40 }},
		{"full-too-soon", ruleTail, func(s *setup) { s.set.Phi, s.set.Packets = 1, 40 }},
		{"never-drops", ruleTail, func(s *setup) {
			s.set.Nodes, s.set.Members = s.set.Nodes[:1],
				[]fair.Member{{Weight: 1}}
		}},
	} {
		if !runtimetest.Sampled(i) {
			continue
		}
		t.Run(c.fault+"/"+c.rule, func(t *testing.T) {
			s := base(ideal(), 60*ms)
			if c.change != nil {
				c.change(s)
			}
			s.fault = map[string]bool{c.fault: true}
			r, _ := s.run(t)
			v := violations(&r)
			if v[c.rule] == "" {
				t.Errorf("violated are %v, %v", v, r.Coverage)
			}
			causetest.Declared(t, Causes(), r.Findings)
		})
	}
}

// random draws a switch with its traffic.
func random(seed uint64) *setup {
	d := rand.New(rand.NewPCG(seed, 7))
	set := ideal()
	if d.IntN(3) == 0 {
		set = dataplane()
		set.DropBits = 4 + d.IntN(8)
		set.Additive = d.IntN(2) == 0
		set.Increase = 256 << d.IntN(5)
		set.Decrease = 16 << d.IntN(5)
		set.WindowDivides = false
	}
	set.Nodes = set.Nodes[:1]
	for i := range d.IntN(6) {
		set.Nodes = append(set.Nodes, fair.Node{Parent: d.IntN(i + 1), Weight: 1 + d.IntN(3)})
	}
	set.Members = nil
	for i := range 12 {
		set.Members = append(set.Members, fair.Member{Flows: [][2]int64{{int64(i), int64(i)}}, Node: d.IntN(len(set.Nodes)),
			Weight: 1 + d.IntN(3)})
	}
	set.Phi = []float64{0.985, 0.985, 1, 0.9}[d.IntN(4)]
	if d.IntN(4) == 0 {
		set.Packets = 10 + d.IntN(100)
	}
	s := &setup{set: set, link: []clock.BitRate{gbps, 10 * gbps, 40 * gbps}[d.IntN(3)], framing: 24 * d.IntN(2),
		seed:    seed,
		records: d.IntN(2) == 0, upstream: d.IntN(4) == 0, onward: d.IntN(3) == 0}
	constants := set.At(s.link)
	s.lasts = constants.KC * clock.Duration(100+d.IntN(400))
	if s.link > 10*gbps {
		s.lasts /= 3
	}
	load := 0.3 + 2*d.Float64()
	n := 1 + d.IntN(12)
	for i := range n {
		o := source{host: uint32(i + 1), flow: uint32(i), size: []int{1500, 1500, 600, 64}[d.IntN(4)], stop: s.lasts,
			bps: float64(s.link) * min(1, load*2*d.Float64()/float64(n)), jitter: []float64{0, 0.05, 0.05, 0.9}[d.IntN(4)]}
		o.bps = max(o.bps, float64(s.link)/1000)
		if d.IntN(3) == 0 {
			o.start = clock.Duration(d.Int64N(int64(s.lasts)))
		}
		if d.IntN(3) == 0 {
			o.stop = o.start + clock.Duration(d.Int64N(int64(s.lasts)))
		}
		s.sources = append(s.sources, o)
	}
	if d.IntN(3) == 0 {
		s.set.AlphaFloor = []float64{0.02, 0.1, 0.1, 0.5, 1}[d.IntN(5)]
	}
	return s
}

// responsive draws a switch some of whose sources answer to drops, with round trips from K to 30 K.
func responsive(seed uint64) *setup {
	s := random(seed)
	d := rand.New(rand.NewPCG(seed, 8))
	constants := s.set.At(s.link)
	k := max(constants.K, constants.Window)
	for i := range s.sources {
		if o := &s.sources[i]; d.IntN(3) > 0 {
			o.rtt = clock.Duration(float64(k) * math.Pow(30, d.Float64()))
			o.bps = float64(s.link) * (0.2 + 0.8*d.Float64())
			o.size = max(o.size, 600)
		}
	}
	return s
}

// What TCP gets is judged: most slots in which it is not steady are, and compliant switches are not blamed.
func TestCompliantSwitchesAreNotBlamedForResponsiveTraffic(t *testing.T) {
	slots, steady, varying := int64(0), int64(0), int64(0)
	for seed := range uint64(simulated(t, 10)) {
		s := responsive(seed)
		r, _ := s.run(t)
		slots, steady = slots+r.Coverage["slots"], steady+r.Coverage["steady"]
		varying += r.Coverage["varying"]
		if v := violations(&r); len(v) > 0 {
			t.Errorf("seed %d: %v\n%+v %v %+v", seed, v, s.set, s.link, s.sources)
		}
	}
	t.Logf("of %d slots %d are steady, %d vary and are judged", slots, steady, varying)
	if varying < slots/20 {
		t.Errorf("of %d slots %d vary and are judged", slots, varying)
	}
}

// A slot with flows of 4 and 8 Gb/s and one that sends at 1 and at 12, half of the time each: of 9.85 Gb/s the fair
// rate 3.74 gives 3.74, 3.74 and 2.37. A switch that gives the first much more is blamed if the algorithm would have
// given what the fluid does.
func TestSharesOfVaryingDemandAreThoseOfItsLabels(t *testing.T) {
	for _, c := range []struct {
		got, shadow float64 // of the first flow's share
		blamed      bool
	}{{1, 1, false}, {1.07, 1, false}, {1.3, 1, true}, {0.7, 1, true}, {1.3, 1.2, false}} {
		s := base(ideal(), ms)
		s.set.Nodes, s.set.Members = s.set.Nodes[:1], []fair.Member{{Weight: 1}}
		judge, err := NewJudge(view{s: s})
		if err != nil {
			t.Fatal(err)
		}
		j := judge.(*Judge)
		sh := j.switches[0].ports[0].shares
		v := sh.varying
		slot := seconds(sh.length)
		root := v.nodes[0]
		for i, rates := range [][]float64{{4e9, 4e9}, {8e9, 8e9}, {1e9, 12e9}} {
			sh.list = append(sh.list, &leaf{index: i})
			v.leaves = append(v.leaves, new(varyingChild))
			for _, r := range rates {
				v.leaves[i].takes(r, r*slot/2)
				v.leaves[i].arrived += r * slot / 2
				root.arrived += r * slot / 2
			}
		}
		v.fill(0, sh.p.d.set.Phi*sh.p.link*slot)
		for i, want := range []float64{3.74e9, 3.74e9, 2.37e9} {
			l := v.leaves[i]
			if got := l.share / slot; math.Abs(got/want-1) > 0.016 {
				t.Errorf("flow %d: %.4g, want %.4g", i+1, got, want)
			}
			l.passed, l.expected = l.share, l.share
			root.passed, root.expected = root.passed+l.share, root.expected+l.share
		}
		v.leaves[0].passed *= c.got
		v.leaves[0].expected *= c.shadow
		sh.bits = tallies{packets: 1000, largest: 12_000}
		v.warm = 1
		v.closeSlot(false)
		v.end()
		if found := j.report.Findings(); len(found) > 0 != c.blamed {
			t.Errorf("%+v: %v", c, found)
		}
	}
}

func TestCompliantRandomSwitchesAreNotBlamed(t *testing.T) {
	steady := int64(0)
	for seed := range uint64(simulated(t, 10)) {
		s := random(seed)
		r, _ := s.run(t)
		steady += r.Coverage["steady"]
		if v := violations(&r); len(v) > 0 {
			t.Errorf("seed %d: %v\n%+v %v %+v", seed, v, s.set, s.link, s.sources)
		}
	}
	t.Log(steady, "steady slots")
}

// simulated is how many random switches to simulate: CANDELA_TEST_WIDE, or else few.
func simulated(t *testing.T, few int) int {
	t.Helper()
	if text := os.Getenv("CANDELA_TEST_WIDE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("CANDELA_TEST_WIDE=%q: want how many switches to simulate", text)
		}
		return n
	}
	return few
}
