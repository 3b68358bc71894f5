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
	}
	if s.loss > 0 || s.kill > 0 {
		f.Lease, f.Poll = clock.Duration(1+r.IntN(3))*ms, clock.Duration(50+r.IntN(200))*us
	} else if r.IntN(2) == 0 {
		f.Lease, f.Poll = 0, 0
	}
	if r.IntN(4) == 0 {
		s.noise = 0.5
	}
	switch r.IntN(4) {
	case 0:
		f.Priorities = 1 + r.IntN(4)
	case 1:
		s.tenants = 1 + r.IntN(3)
		f.Period, f.Reset = clock.Duration(20+r.IntN(100))*us, clock.Time(clock.Duration(r.IntN(20))*us)
		f.Quota = map[uint16]int64{1: int64(5 + r.IntN(50)), 2: int64(5 + r.IntN(50))}
	}
	return s
}

func wide(few int) int {
	if n, err := strconv.Atoi(os.Getenv("CANDELA_TEST_WIDE")); err == nil && n > 0 {
		return n
	}
	if os.Getenv("CANDELA_TEST_WIDE") != "" {
		return 2000
	}
	return few
}

func TestCompliantSwitchesAreNotBlamed(t *testing.T) {
	grants, unsure := int64(0), int64(0)
	for seed := range uint64(wide(200)) {
		s := workload(seed)
		r, _ := s.run()
		if v := violated(&r); len(v) > 0 {
			t.Errorf("seed %d: %v\n%v", seed, v, describe(&r))
		}
		grants += r.Coverage["grants-switch"] + r.Coverage["grants-server"]
		unsure += r.Coverage["unsure"]
	}
	t.Logf("%d grants, %d unsure", grants, unsure)
	if grants < 10_000 || unsure > 0 {
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
