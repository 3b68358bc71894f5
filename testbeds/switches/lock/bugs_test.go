package lock_test

import (
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/switches/lock"
)

// trial is a network in which a seeded bug shows.
type trial struct {
	set   func(n *network, cfg *lock.Config) // of the network that plain returns
	slots int
	found func(f faults) int
}

func overlaps(f faults) int   { return f.overlaps }
func duplicates(f faults) int { return f.duplicates }
func ungranted(f faults) int  { return f.ungranted }
func inversions(f faults) int { return f.inversions }

// plain returns a network without losses.
func plain() (*network, lock.Config) {
	n := single(1)
	n.shared, n.locks, n.stop = 0.6, 2, clock.Time(clock.Millisecond/2)
	return n, lock.Config{Processing: lock.ChainLock, TIDCheck: true, Dedup: true}
}

// leases lets packets be lost, clients die, and leases end.
func leases(n *network, cfg *lock.Config) {
	n.loss, n.kill, n.stop = 0.02, 0.01, clock.Time(2*clock.Millisecond)
	n.expiry, n.lease, n.poll = micro(150), micro(200), micro(20)
	cfg.PushTimeout = micro(30)
}

func moves(n *network, _ *lock.Config) { n.moves = micro(20) }

func nothing(*network, *lock.Config) {}

// trials returns those of bugs that a history of a network shows.
func trials() map[lock.Bugs]trial {
	classes := func(n *network, _ *lock.Config) { n.priority, n.think = 3, micro(5) }
	quotas := func(n *network, cfg *lock.Config) {
		n.tenants, n.period, cfg.Quota = 3, micro(20), 4
	}
	restarts := func(n *network, cfg *lock.Config) {
		leases(n, cfg)
		n.loss, n.kill, n.restarts, n.think = 0, 0, micro(400), micro(60)
	}
	backups := func(n *network, cfg *lock.Config) {
		restarts(n, cfg)
		n.backup, n.returns = true, 2*n.lease
	}
	return map[lock.Bugs]trial{
		lock.SharedBesideExclusive: {nothing, 16, overlaps},
		lock.IgnoresTID: {func(n *network, cfg *lock.Config) {
			leases(n, cfg)
			n.think = micro(300)
		}, 16, overlaps},
		lock.GrantsWhileTaking: {moves, 16, overlaps},
		lock.ForgetsOwner:      {moves, 16, overlaps},
		lock.LeavesHolders:     {moves, 16, overlaps},
		lock.NoDedup: {func(n *network, cfg *lock.Config) {
			leases(n, cfg)
			n.shared, n.expiry, n.think, n.loss, n.kill = 1, micro(4), micro(20), 0, 0
		}, 64, duplicates},
		lock.GrantsTwice: {nothing, 16, duplicates},
		lock.DoublePushBack: {func(_ *network, cfg *lock.Config) { cfg.PushTimeout, cfg.Dedup = micro(2), false }, 3,
			duplicates},
		lock.LosesTail:     {nothing, 3, ungranted},
		lock.ForgetsOver:   {nothing, 3, ungranted},
		lock.ChainSkipsOne: {nothing, 16, ungranted},
		lock.ChainStops:    {nothing, 16, ungranted},
		lock.NeverRepeats: {func(n *network, cfg *lock.Config) {
			leases(n, cfg)
			n.loss = 0.05
		}, 2, ungranted},
		lock.KeepsBuffer:        {restarts, 1, duplicates},
		lock.NewestFirst:        {nothing, 16, inversions},
		lock.OvertakesExclusive: {nothing, 16, inversions},
		lock.OverflowOvertakes:  {nothing, 3, inversions},
		lock.PushWhileBusy:      {nothing, 3, func(f faults) int { return f.pushes }},
		lock.PriorityIgnored:    {classes, 36, func(f faults) int { return f.priority }},
		lock.LowestFirst:        {classes, 36, func(f faults) int { return f.priority }},
		lock.BuffersEarly:       {nothing, 3, func(f faults) int { return f.buffering }},
		lock.Aliases: {func(n *network, _ *lock.Config) { n.locks, n.installed = 6, 2 }, 16,
			func(f faults) int { return f.placement }},
		lock.QuotaOffByOne: {quotas, 16, func(f faults) int { return f.quotas }},
		lock.QuotaShared:   {quotas, 16, func(f faults) int { return f.quotas }},
		lock.NeverExpires:  {leases, 16, ungranted},
		lock.ExpiresEarly: {func(n *network, cfg *lock.Config) {
			leases(n, cfg)
			n.think = micro(180)
		}, 16, overlaps},
		lock.ExpiresAnother: {func(n *network, cfg *lock.Config) {
			leases(n, cfg)
			n.shared, n.think, n.poll, n.kill, n.clients, n.locks = 0.97, micro(190), micro(1), 0.1, 30, 1
		}, 64, overlaps},
		lock.GrantsBeforeLease: {restarts, 16, overlaps},
		lock.KeepsServing:      {moves, 16, overlaps},
		lock.KeepsGranting:     {moves, 3, overlaps},
		lock.ForgetsBackup:     {backups, 16, overlaps},
		lock.KeepsYielded:      {backups, 16, overlaps},
		lock.ServerGrantsEarly: {func(n *network, cfg *lock.Config) {
			restarts(n, cfg)
			n.restarts, n.failures = 0, micro(300)
		}, 0, overlaps},
	}
}

// Each seeded bug breaks what its rule says in some network of its trial, and without the bug no network breaks
// anything.
func TestEachBugShows(t *testing.T) {
	runtimetest.SkipRace(t)
	table := trials()
	table[lock.AllocatesByRate] = trial{} // see TestTheAllocationByRateServesLess
	table[lock.MovesSilently] = trial{}   // see TestALostPushRequestOfAMoveKeepsTheOrder
	for _, b := range []lock.Bugs{lock.GrantsAsShared, lock.ForgetsWaiting, lock.TellsOnce, lock.KeepsReleases,
		lock.CountsNoLosses, lock.ServerForgetsQueue, lock.ServerOneByOne, lock.ServerNoDedup, lock.ServerCountsCopies,
		lock.UsesRemoved, lock.KeepsExclusive, lock.ForwardsTwice, lock.OtherDatabase,
		lock.AsksForFewer, lock.ServerBuffersCopies} {
		table[b] = trial{} // see orchestrator/switchtest/locksbugs_test.go
	}
	for _, b := range []lock.Bugs{lock.QueuesQuery, lock.LosesQuery, lock.AnswersBoth} {
		table[b] = trial{} // see orchestrator/switchtest/lockonetrip_test.go
	}
	for _, b := range lock.Table() {
		c, ok := table[b.Bug]
		switch {
		case !ok:
			t.Errorf("%s has no trial", b.Name)
		case c.set == nil:
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			for seed := range uint64(wide(t, 4)) {
				n, cfg := plain()
				c.set(n, &cfg)
				n.run(seed, cfg, c.slots)
				if f := n.judge(n.loss == 0 && n.lease == 0); f != (faults{}) {
					t.Errorf("seed %d, without the bug: %v", seed, f)
				}
			}
			for seed := range uint64(20) {
				n, cfg := plain()
				c.set(n, &cfg)
				cfg.Bugs = b.Bug
				n.run(seed, cfg, c.slots)
				if c.found(n.judge(n.loss == 0 && n.lease == 0)) > 0 {
					return
				}
			}
			t.Errorf("breaks nothing that %s says", b.Rule)
		})
	}
}

// N14: what the switch is guaranteed to serve is less if slots go to the locks that are asked for most.
func TestTheAllocationByRateServesLess(t *testing.T) {
	served := func(bugs lock.Bugs) float64 {
		d := newDirect(t, lock.Config{Processing: lock.ChainLock, TIDCheck: true, Slots: 4, Track: 4, Bugs: bugs},
			lock.ControlConfig{Period: clock.Second})
		demands := []lock.Demand{{Lock: 0, Requests: 12, Contention: 4}, {Lock: 1, Requests: 8, Contention: 1}}
		for _, demand := range demands {
			for i := range uint32(demand.Requests) {
				d.now++
				d.do(d.plane.Acquire(d.now, lock.Request{Lock: demand.Lock, Transaction: i}))
				if int(i+1)%demand.Contention == 0 {
					d.releaseAll()
				}
			}
		}
		d.until(clock.Time(clock.Second))
		return d.control.Target().Served(demands)
	}
	if good, bad := served(0), served(lock.AllocatesByRate); good != 17 || bad != 12 {
		t.Errorf("serves %g, and %g with the bug, want 17 and 12", good, bad)
	}
}

func TestBugsHaveNames(t *testing.T) {
	var all lock.Bugs
	for _, b := range lock.Table() {
		got, err := lock.ParseBugs(b.Name)
		if err != nil || got != b.Bug || all.Has(got) || b.Doc == "" || !strings.HasPrefix(b.Rule, "N") && b.Rule != "5.3" {
			t.Errorf("%+v is parsed as %d: %v", b, got, err)
		}
		all |= got
	}
	if len(lock.Table()) < 20 {
		t.Errorf("%d bugs, want at least 20", len(lock.Table()))
	}
	if _, err := lock.ParseBugs("no-such-bug"); err == nil || !strings.Contains(err.Error(), "no-such-bug") {
		t.Errorf("%v, want an error with the name", err)
	}
	if both, err := lock.ParseBugs("no-dedup", "aliases"); err != nil || both != lock.NoDedup|lock.Aliases {
		t.Errorf("two bugs are %d: %v", both, err)
	}
}
