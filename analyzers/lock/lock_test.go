package lock

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/runtimetest"
)

func TestEveryRuleHasCausesWithSentences(t *testing.T) { causetest.Table(t, Rules(), Causes()) }

// base is a switch with eight locks and a server that owns two.
func base(seed uint64) *setup {
	locks := map[uint32]int{}
	for i := range uint32(6) {
		locks[i] = 16
	}
	return &setup{seed: seed, facts: lock.Switch{Pipeline: 600 * ns, Recirculation: 200 * ns, Dedup: true, TIDCheck: true,
		Placed: true, Slots: 200, Locks: locks, Lease: 10 * ms, Poll: ms, PushRetry: 40 * us}, clients: 12, locks: 8,
		shared: 0.5, most: 1, think: us, wire: 500 * ns, timeout: 400 * us, lasts: 300 * us}
}

// workload draws a compliant one.
func workload(seed uint64) *setup {
	r := rand.New(rand.NewPCG(seed, 1))
	s := base(seed)
	f := &s.facts
	f.Recirculation = []clock.Duration{0, 200 * ns, us, 5 * us, 20 * us}[r.IntN(5)]
	f.Pipeline = clock.Duration(100+r.IntN(900)) * ns
	s.clients, s.locks = 2+r.IntN(15), 1+r.IntN(10)
	s.shared = []float64{0, 0.3, 0.6, 0.9, 1}[r.IntN(5)]
	s.most = 1 + r.IntN(4)
	s.think = clock.Duration(r.IntN(5)) * us
	s.wire = clock.Duration(300+r.IntN(3000)) * ns
	s.timeout = clock.Duration(100+r.IntN(400)) * us
	s.lasts = clock.Duration(100+r.IntN(300)) * us
	s.answers = r.IntN(2) == 0
	clear(f.Locks)
	for i := range uint32(s.locks) {
		if r.IntN(4) > 0 {
			f.Locks[i] = 1 + r.IntN(16)
		}
	}
	switch r.IntN(4) {
	case 0:
		s.loss, s.pushLoss = 0.02, 0.02*float64(r.IntN(2))
	case 1:
		s.kill = 0.02
	case 2:
		if s.tail = 0.01; r.IntN(2) == 0 {
			f.Dedup = false
		}
	}
	if s.loss > 0 || s.kill > 0 || s.tail > 0 {
		f.Lease, f.Poll = clock.Duration(1+r.IntN(3))*ms, clock.Duration(50+r.IntN(200))*us
	} else if r.IntN(2) == 0 {
		f.Lease, f.Poll = 0, 0
	}
	if r.IntN(4) == 0 {
		s.noise = 0.5
	}
	f.Passes = r.IntN(3)
	switch r.IntN(4) {
	case 0:
		f.Priorities = 1 + r.IntN(4)
	case 1:
		s.tenants = 1 + r.IntN(3)
		f.Period, f.Reset = clock.Duration(20+r.IntN(100))*us, clock.Time(clock.Duration(r.IntN(20))*us)
		f.Quota = map[uint16]int64{1: int64(5 + r.IntN(50)), 2: int64(5 + r.IntN(50))}
	}
	if r.IntN(4) == 0 { // the judge knows less
		s.hide = func(n *lock.Network) {
			for i := range n.Switches {
				w := &n.Switches[i]
				switch r.IntN(4) {
				case 0:
					w.Placed, w.Locks = false, nil
				case 1:
					w.PipelineMost, w.RecirculationMost = w.Pipeline+us, w.Recirculation+us
				case 2:
					for k := range w.Ports {
						w.Ports[k].Rate = 0
					}
				case 3:
					w.PushRetry = 0
					n.Uncertainty = w.Pipeline - 50*ns
				}
			}
		}
	}
	return s
}

// failover draws a workload in which the switch stops, and may return; a backup may take over.
func failover(seed uint64) *setup {
	s := workload(seed)
	r := rand.New(rand.NewPCG(seed, 2))
	f := &s.facts
	f.Priorities, f.Period, s.tenants, s.most = 0, 0, 0, 1
	s.stop = clock.Duration(20+r.IntN(100)) * us
	f.Lease, f.Poll = clock.Duration(1+r.IntN(3))*ms, clock.Duration(50+r.IntN(200))*us
	s.backup = r.IntN(2) == 0
	if s.lasts += f.Lease; r.IntN(2) == 0 {
		s.back = s.stop + clock.Duration(1+r.IntN(2000))*us
		s.lasts += f.Lease
	}
	return s
}

// wide is how many workloads are drawn: few, unless CANDELA_TEST_WIDE says how many, or 2,000. The judge has one
// goroutine: the race detector samples.
func wide(few int) int {
	if n, err := strconv.Atoi(os.Getenv("CANDELA_TEST_WIDE")); err == nil && n > 0 {
		return n
	}
	if os.Getenv("CANDELA_TEST_WIDE") != "" {
		return 2000
	}
	if runtimetest.Race {
		return few / 8
	}
	return few
}

func TestCompliantSwitchesAreNotBlamed(t *testing.T) {
	judgeCompliant(t, workload, 200)
}

func TestCompliantFailoversAreNotBlamed(t *testing.T) {
	judgeCompliant(t, failover, 40)
}

func judgeCompliant(t *testing.T, draw func(uint64) *setup, few int) {
	grants, unsure := int64(0), int64(0)
	few = wide(few)
	for seed := range uint64(few) {
		s := draw(seed)
		r, _ := s.run()
		if v := violated(&r); len(v) > 0 {
			t.Errorf("seed %d: %v\n%v", seed, v, describe(&r))
		}
		grants += r.Coverage["grants-switch"] + r.Coverage["grants-server"]
		unsure += r.Coverage["unsure"]
	}
	t.Logf("%d grants, %d unsure", grants, unsure)
	if grants < int64(50*few) || unsure > 0 {
		t.Errorf("%d grants, %d unsure", grants, unsure)
	}
}

func TestTheThreeWaysOfProcessing(t *testing.T) {
	for _, c := range []struct {
		way           lock.Processing
		recirculation clock.Duration
		want          string
	}{
		{lock.ChainLock, us, ""}, {lock.ChainLock, 20 * us, ""}, {lock.Snapshot, 200 * ns, ""},
		{lock.Listing, us, lock.RuleOnce}, {lock.Snapshot, 20 * us, lock.RuleLost},
	} {
		t.Run(fmt.Sprintf("%v/%v", c.way, c.recirculation), func(t *testing.T) {
			s := base(3)
			s.facts.Processing, s.facts.Recirculation = c.way, c.recirculation
			s.facts.TIDCheck, s.facts.Dedup, s.facts.Lease = c.way == lock.ChainLock, c.way == lock.ChainLock, 0
			s.locks, s.shared, s.think, s.lasts, s.timeout = 1, 0.9, 0, 4*ms, 400*us
			s.facts.Locks = map[uint32]int{0: 64}
			if c.recirculation > us {
				s.facts.Locks[0] = 16 // slots are used again while a chain runs
			}
			s.wire = 1500 * ns
			r, _ := s.run()
			v := violated(&r)
			if c.want == "" && len(v) > 0 || c.want != "" && v[c.want] == 0 {
				t.Errorf("violated are %v\n%v", v, describe(&r))
			}
			t.Log(v, r.Coverage)
		})
	}
}

// mutant is a fault of the simulated switch and the rule that finds it.
type mutant struct {
	fault, rule string
	change      func(s *setup)
}

func one(s *setup)       { s.locks = 1 }
func exclusive(s *setup) { s.locks, s.shared = 2, 0 }
func small(s *setup) {
	s.locks, s.shared = 1, 0.3
	s.facts.Locks = map[uint32]int{0: 3}
}

func expiring(s *setup) {
	s.kill, s.locks = 0.02, 2
	s.facts.Lease, s.facts.Poll = ms, 100*us
}

func failing(s *setup) {
	s.backup, s.stop, s.back = true, 100*us, 4*ms
	s.facts.Lease, s.facts.Poll, s.facts.TIDCheck = ms, 100*us, true
	s.locks, s.lasts, s.shared = 2, 7*ms, 0.3
	s.facts.Locks = map[uint32]int{0: 16, 1: 16}
}

var mutants = []mutant{
	{"shares-exclusive", lock.RuleExclusion, func(s *setup) { one(s); s.every, s.shared = 1, 0.8 }},
	{"admits-shared", lock.RuleExclusion, one},
	{"expires-early", lock.RuleExclusion, func(s *setup) {
		expiring(s)
		s.think, s.timeout, s.lasts = 400*us, 5*ms, 3*ms
	}},
	{"server-shares", lock.RuleExclusion, func(s *setup) { exclusive(s); s.facts.Locks = nil }},
	{"checks-nothing", lock.RuleExclusion, func(s *setup) {
		expiring(s)
		s.kill, s.think, s.timeout, s.lasts, s.shared, s.every = 0, ms, 9*ms, 9*ms, 0, 1
	}},
	{"grants-twice", lock.RuleOnce, nil},
	{"grants-twice", lock.RuleOnce, func(s *setup) { s.facts.Priorities = 3 }},
	{"loses-grant", lock.RuleLost, func(s *setup) { s.patient = true }},
	{"forgets", lock.RuleLost, func(s *setup) { s.patient = true; s.locks = 6 }},
	{"forgets", lock.RuleLost, func(s *setup) { s.locks = 2 }},
	{"drops-foreign", lock.RuleLost, func(s *setup) { s.patient = true }},
	{"ignores-release", lock.RuleLost, func(s *setup) { exclusive(s); s.facts.Lease = 0; s.patient = true }},
	{"never-asks", lock.RuleLost, func(s *setup) { small(s); s.patient = true }},
	{"grants-next", lock.RuleOrder, exclusive},
	{"reverses-run", lock.RuleOrder, one},
	{"overtakes-buffer", lock.RuleSingleQueue, func(s *setup) { small(s); s.every = 40 }},
	{"server-reorders", lock.RuleSingleQueue, small},
	{"asks-early", lock.RuleSingleQueue, small},
	{"lowest-first", lock.RulePriority, func(s *setup) { exclusive(s); s.facts.Priorities = 3 }},
	{"chain-at-once", lock.RuleBatch, one},
	{"skips-pass", lock.RuleBatch, one},
	{"slows-chain", lock.RuleBatch, one},
	{"stops-chain", lock.RuleLost, one},
	{"stops-chain", lock.RuleLost, func(s *setup) { one(s); s.patient = true }},
	{"grants-late", lock.RuleDelay, nil},
	{"too-full", lock.RuleOccupancy, func(s *setup) { small(s); s.every = 1 }},
	{"buffers-early", lock.RuleOccupancy, nil},
	{"grants-foreign", lock.RulePlacement, nil},
	{"sends-away", lock.RulePlacement, nil},
	{"ignores-quota", lock.RuleQuota, metered},
	{"rejects-early", lock.RuleQuota, metered},
	{"never-expires", lock.RuleLease, expiring},
	{"takes-over-early", lock.RuleFailover, func(s *setup) { failing(s); s.every = 1 }},
	{"bypasses-backup", lock.RuleFailover, failing},
	{"wakes-standby", lock.RuleFailover, func(s *setup) { failing(s); s.stop, s.back = 0, 0 }},
	{"changes-others", lock.RuleTransparency, func(s *setup) { s.noise = 1 }},
	{"reorders-others", lock.RuleTransparency, func(s *setup) { s.noise = 1; s.every = 3 }},
}

func metered(s *setup) {
	s.tenants = 2
	s.facts.Period, s.facts.Quota = 50*us, map[uint16]int64{1: 10, 2: 10}
}

func TestFaultsAreFoundByTheirRule(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.fault+" "+m.rule, func(t *testing.T) {
			var last []string
			for seed := range uint64(3) {
				if !runtimetest.Sampled(int(seed)) {
					continue
				}
				s := base(seed)
				s.every = 7
				s.fault = m.fault
				if m.change != nil {
					m.change(s)
				}
				r, sim := s.run()
				if sim.happened == 0 {
					t.Fatalf("seed %d: the fault never happened, %v", seed, r.Coverage)
				}
				causetest.Declared(t, Causes(), r.Findings)
				last = describe(&r)
				if v := violated(&r); v[m.rule] == 0 {
					t.Errorf("seed %d: happened %d, violated are %v\n%v", seed, sim.happened, v, last)
				}
			}
		})
	}
}
