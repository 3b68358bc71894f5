package lock_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/switches/lock"
)

// wide returns how many networks to draw: CANDELA_TEST_WIDE, or few.
func wide(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("CANDELA_TEST_WIDE")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("CANDELA_TEST_WIDE=%q: want the number of networks to draw", text)
	}
	return n
}

// check checks a property of so many random networks as CANDELA_TEST_WIDE says, or as rapid does.
func check(t *testing.T, property func(t *rapid.T)) {
	t.Helper()
	runtimetest.SkipRace(t)
	const checks = "rapid.checks"
	if before := flag.Lookup(checks).Value.String(); os.Getenv("CANDELA_TEST_WIDE") != "" {
		if err := flag.Set(checks, strconv.Itoa(wide(t, 0))); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := flag.Set(checks, before); err != nil {
				t.Error(err)
			}
		}()
	}
	rapid.Check(t, property)
}

// drawn returns a network that is correct, with whatever may happen to it.
func drawn(t *rapid.T, faulty bool) (n *network, cfg lock.Config, slots int) {
	n = &network{least: micro(0.3), most: micro(rapid.Float64Range(0.3, 5).Draw(t, "delay")),
		recirculate: micro(rapid.SampledFrom([]float64{0.1, 0.2, 1, 5, 20}).Draw(t, "recirculation")),
		clients:     rapid.IntRange(1, 16).Draw(t, "clients"), locks: rapid.Uint32Range(1, 3).Draw(t, "locks"),
		shared: rapid.SampledFrom([]float64{0, 0.5, 0.9, 1}).Draw(t, "shared"),
		think:  micro(rapid.Float64Range(0, 10).Draw(t, "think")), stop: clock.Time(clock.Millisecond / 2)}
	cfg = lock.Config{Processing: lock.ChainLock, TIDCheck: rapid.Bool().Draw(t, "check")}
	n.moves = micro(rapid.SampledFrom([]float64{0, 5, 50}).Draw(t, "moves"))
	if faulty {
		n.stop *= 4
		n.loss, n.kill = rapid.SampledFrom([]float64{0, 0.02}).Draw(t, "loss"),
			rapid.SampledFrom([]float64{0, 0.01}).Draw(t, "kill")
		n.expiry, n.lease, n.poll = micro(150), micro(200), micro(20)
		n.restarts = micro(rapid.SampledFrom([]float64{0, 500}).Draw(t, "restarts"))
		n.failures = micro(rapid.SampledFrom([]float64{0, 500}).Draw(t, "failures"))
		n.backup, n.returns = rapid.Bool().Draw(t, "backup"), n.lease*
			clock.Duration(rapid.SampledFrom([]int{1, 4, 24}).Draw(t, "returns"))/8
		cfg.TIDCheck, cfg.Dedup = true, true
		cfg.PushTimeout = micro(rapid.SampledFrom([]float64{1, 5, 30, 100}).Draw(t, "push timeout"))
	}
	slots = rapid.SampledFrom([]int{1, 2, 3, 5, 16}).Draw(t, "slots")
	if n.priority = rapid.SampledFrom([]uint8{0, 0, 2, 3}).Draw(t, "priorities"); n.priority > 0 {
		slots = max(slots, int(n.priority))
	}
	if rapid.Bool().Draw(t, "quotas") {
		n.tenants, n.period = rapid.Uint16Range(1, 3).Draw(t, "tenants"), micro(rapid.Float64Range(10, 50).Draw(t, "quota period"))
		cfg.Quota = rapid.IntRange(1, 9).Draw(t, "quota")
	}
	if faulty && rapid.Bool().Draw(t, "control") {
		n.control = lock.ControlConfig{Lease: n.lease, Poll: n.poll, Reaction: micro(1),
			Period: micro(rapid.SampledFrom([]float64{0, 20, 100, 500}).Draw(t, "period"))}
		if rapid.Bool().Draw(t, "random") {
			random := rand.New(rand.NewPCG(1, 1))
			n.control.Allocate = func(demands []lock.Demand, slots int) lock.Allocation {
				return lock.Random(demands, slots, random)
			}
		}
		n.locks = rapid.Uint32Range(1, 8).Draw(t, "more locks")
		cfg.Slots, cfg.Track = slots*rapid.IntRange(1, 4).Draw(t, "pool"), rapid.IntRange(0, 8).Draw(t, "track")
		n.moves, n.control.Quota = 0, n.period
	}
	return n, cfg, slots
}

// Locks that move between switch and server are granted once, in order, to one at a time, whatever waits for them.
func TestLocksMoveWithoutFaults(t *testing.T) {
	check(t, func(t *rapid.T) {
		n, cfg, slots := drawn(t, false)
		cfg.PushTimeout = micro(rapid.SampledFrom([]float64{0, 1, 5, 30}).Draw(t, "push timeout"))
		n.run(rapid.Uint64().Draw(t, "seed"), cfg, slots)
		if f := n.judge(true); f != (faults{}) {
			t.Fatalf("%v in %d requests", f, n.requests)
		}
	})
}

// The same with losses of packets, deaths of clients, and failures of the switch, a backup of it, and the server.
func TestNothingIsLostInFailures(t *testing.T) {
	check(t, func(t *rapid.T) {
		n, cfg, slots := drawn(t, true)
		n.run(rapid.Uint64().Draw(t, "seed"), cfg, slots)
		if f := n.judge(false); f != (faults{}) {
			t.Fatalf("%v in %d requests", f, n.requests)
		}
	})
}

// A lock moves to the switch, and the server does not learn of it: PUSH_REQ is lost. What the switch sends it to be
// buffered meanwhile must tell, or the server, which believes that it owns the lock, grants it past what waits in the
// switch, or forgets it when PUSH_REQ comes again.
func TestALostPushRequestOfAMoveKeepsTheOrder(t *testing.T) {
	const id = 1
	for _, had := range []bool{false, true} {
		d := lock.New(lock.Config{Processing: lock.ChainLock, TIDCheck: true, Dedup: true, PushTimeout: micro(30)})
		server, now := lock.NewServer(true), clock.Time(1)
		if had { // the switch had the lock, and has handed it over
			if err := d.Install(id, 1); err != nil {
				t.Fatal(err)
			}
			asked := d.Leave(now, id)
			expect(t, asked, "push-request")
			answered := server.Handover(now, &asked[0])
			expect(t, answered, "emptied")
			d.PushEmpty(now, id, answer(&answered[0]))
		}
		now++
		list, err := d.Take(now, id, 1, lock.FromServer, now)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, list, "push-request") // it is lost
		request := func(n uint32) lock.Request {
			return lock.Request{Lock: id, Transaction: n, Mode: netlock.Exclusive}
		}
		expect(t, d.Acquire(now, request(1)))
		kept := d.Acquire(now, request(2))
		expect(t, kept, "forward-buffer")
		expect(t, server.Keep(now, kept[0].Request, kept[0].Sent), "emptied") // so it has learned, and grants nothing
		now = now.Add(micro(31))
		list = d.Timer(now)
		expect(t, list, "push-request")
		answered := server.Handover(now, &list[0])
		expect(t, answered, "emptied")
		list = d.PushEmpty(now, id, answer(&answered[0]))
		expect(t, list, "recirculate")
		expect(t, d.Resume(now, list[0].Pass), "grant")
		list = d.Release(now, request(1))
		expect(t, list, "push-request")
		pushed := server.Push(&list[0])
		if len(pushed) != 1 || pushed[0].Empty {
			t.Fatalf("had %v: pushed back are %+v, want request 2", had, pushed)
		}
		list = d.PushBack(now, pushed[0].Request, pushed[0].Answer)
		expect(t, list, "grant")
		if list[0].Request.Transaction != 2 {
			t.Errorf("had %v: granted is %v, want request 2", had, list[0].Request)
		}
	}
}

// What a backup has asked may come to the server after the original has the lock again: it changes none of the numbers
// of that.
func TestAQuestionOfTheFormerOwnerIsIgnored(t *testing.T) {
	s := lock.NewServer(true)
	for _, base := range []uint64{100, 200} {
		s.Handover(0, &lock.Output{Kind: lock.PushRequest, Request: lock.Request{Lock: 1}, Sent: base, Index: base,
			Mark: netlock.Failover})
	}
	if got := s.Push(&lock.Output{Request: lock.Request{Lock: 1}, Avail: 4, Sent: 103, Index: 102}); len(got) > 0 {
		t.Errorf("the former owner is answered %+v", got)
	}
	s.Keep(0, lock.Request{Lock: 1, Transaction: 7}, 0)
	got := s.Push(&lock.Output{Request: lock.Request{Lock: 1}, Avail: 4, Sent: 201, Index: 200})
	if len(got) != 1 || got[0].Transaction != 7 || got[0].Received != 201 || got[0].Index != 201 {
		t.Errorf("%+v, want transaction 7 as number 201 of 201", got)
	}
}
