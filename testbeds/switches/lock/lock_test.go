package lock_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/switches/lock"
)

func micro(us float64) clock.Duration { return clock.Duration(us * float64(clock.Microsecond)) }

// single is the workload of section 5.2: 12 closed-loop clients and one lock.
func single(recirculate float64) *network {
	return &network{least: micro(0.5), most: micro(3), recirculate: micro(recirculate), clients: 12, locks: 1, shared: 0.9,
		think: micro(1), stop: clock.Time(20 * clock.Millisecond)}
}

// The algorithm as printed grants twice, the artefact's loses requests when slots are used again before a chain has
// passed them, and chainlock does neither (section 5.2).
func TestThePrintedAlgorithmGrantsTwiceAndTheArtefactLosesRequests(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, c := range []struct {
		processing  lock.Processing
		recirculate float64 // us
		slots       int
		guilty      bool
	}{
		{lock.Listing, 1, 64, true},
		{lock.Snapshot, 0.2, 64, false}, {lock.Snapshot, 1, 64, false}, {lock.Snapshot, 20, 64, true},
		{lock.Snapshot, 1, 12, true},
		{lock.ChainLock, 0.2, 64, false}, {lock.ChainLock, 1, 12, false}, {lock.ChainLock, 5, 64, false},
		{lock.ChainLock, 20, 12, false}, {lock.ChainLock, 20, 64, false}, {lock.ChainLock, 1, 3, false},
	} {
		var sum faults
		requests := 0
		for seed := range uint64(3) {
			n := single(c.recirculate)
			if c.processing == lock.Listing { // which does not end what it has begun twice
				n.stop /= 10
			}
			n.run(seed, lock.Config{Processing: c.processing}, c.slots)
			f := n.judge(true)
			requests += n.requests
			sum.overlaps += f.overlaps
			sum.duplicates += f.duplicates
			sum.ungranted += f.ungranted
			sum.inversions += f.inversions
		}
		t.Logf("%v, recirculation %g us, %d slots: %d requests, %v", c.processing, c.recirculate, c.slots, requests, sum)
		switch {
		case !c.guilty && c.processing == lock.ChainLock && sum != faults{}:
			t.Errorf("%v is at fault: %v", c.processing, sum)
		case !c.guilty && sum.overlaps+sum.duplicates+sum.ungranted > 0: // snapshot may invert
			t.Errorf("%v is at fault: %v", c.processing, sum)
		case c.guilty && c.processing == lock.Listing && sum.duplicates < requests/10:
			t.Errorf("the listing grants twice %d times in %d requests, want over a tenth", sum.duplicates, requests)
		case c.guilty && c.processing == lock.Snapshot && sum.ungranted == 0:
			t.Errorf("snapshot loses nothing")
		}
	}
}

// Whatever the delays, slots, losses of packets and deaths of clients, chainlock excludes, and grants all, once and in
// order.
func TestChainLockIsFreeOfFaults(t *testing.T) {
	runtimetest.SkipRace(t)
	rapid.Check(t, func(t *rapid.T) {
		n := &network{least: micro(0.3), most: micro(rapid.Float64Range(0.3, 5).Draw(t, "delay")),
			recirculate: micro(rapid.SampledFrom([]float64{0.1, 0.2, 1, 5, 20}).Draw(t, "recirculation")),
			clients:     rapid.IntRange(1, 16).Draw(t, "clients"), locks: rapid.Uint32Range(1, 3).Draw(t, "locks"),
			shared: rapid.SampledFrom([]float64{0, 0.5, 0.9, 1}).Draw(t, "shared"),
			think:  micro(rapid.Float64Range(0, 10).Draw(t, "think")), stop: clock.Time(clock.Millisecond / 2)}
		cfg := lock.Config{Processing: lock.ChainLock, TIDCheck: rapid.Bool().Draw(t, "check")}
		faulty := rapid.Bool().Draw(t, "faulty")
		if faulty {
			n.loss, n.kill = rapid.SampledFrom([]float64{0, 0.02}).Draw(t, "loss"),
				rapid.SampledFrom([]float64{0, 0.01}).Draw(t, "kill")
			n.expiry, n.lease, n.poll = micro(150), micro(200), micro(20)
			cfg.TIDCheck, cfg.Dedup, cfg.PushTimeout = true, true, micro(30)
		}
		n.run(rapid.Uint64().Draw(t, "seed"), cfg, rapid.SampledFrom([]int{0, 1, 2, 3, 5, 16}).Draw(t, "slots"))
		if f := n.judge(!faulty); f != (faults{}) {
			t.Fatalf("%v in %d requests", f, n.requests)
		}
		if n.requests < n.clients {
			t.Fatalf("%d requests", n.requests)
		}
	})
}

// What the control plane reads shows how many slots a lock needs, also if most of its requests were buffered.
func TestDemandsCountBufferedRequests(t *testing.T) {
	d := lock.New(lock.Config{Processing: lock.ChainLock})
	for id, slots := range []int{2, 8} {
		if err := d.Install(uint32(id), slots); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint32(5) {
		d.Acquire(0, lock.Request{Lock: 0, Transaction: i, Mode: netlock.Exclusive})
	}
	if queued, slots, buffered := d.Occupancy(0); queued != 2 || slots != 2 || buffered != 3 {
		t.Errorf("%d of %d slots and %d buffered, want 2 of 2 and 3", queued, slots, buffered)
	}
	want := []lock.Demand{{Lock: 0, Requests: 5, Contention: 5}, {Lock: 1}}
	if diff := cmp.Diff(want, d.Demands()); diff != "" {
		t.Error(diff)
	}
	want = []lock.Demand{{Lock: 0, Contention: 5}, {Lock: 1}}
	if diff := cmp.Diff(want, d.Demands()); diff != "" {
		t.Error(diff)
	}
	if err := d.Install(1, 4); err == nil {
		t.Error("a lock is installed twice")
	}
	if err := d.Install(2, 0); err == nil {
		t.Error("a lock is installed without slots")
	}
}
