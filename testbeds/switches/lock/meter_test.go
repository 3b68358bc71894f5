package lock

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
)

// rack is a data plane and a server that clients use at random. Packets take no time, but come in random order.
type rack struct {
	plane   *DataPlane
	server  *Server
	random  *rand.Rand
	now     clock.Time
	number  uint32
	holders []Request
	passes  []Pass
	pass    func(what string)
	waiting int
}

// turn lets something random happen.
func (k *rack) turn() {
	k.now++
	switch n := k.random.IntN(4); {
	case n == 0 && len(k.passes) > 0:
		i := k.random.IntN(len(k.passes))
		p := k.passes[i]
		k.passes[i] = k.passes[len(k.passes)-1]
		k.passes = k.passes[:len(k.passes)-1]
		k.do(k.plane.Resume(k.now, p), "resume")
	case (n == 1 || k.waiting >= 12) && len(k.holders) > 0:
		i := k.random.IntN(len(k.holders))
		r := k.holders[i]
		k.holders[i] = k.holders[len(k.holders)-1]
		k.holders = k.holders[:len(k.holders)-1]
		k.do(k.plane.Release(k.now, r), "release")
	default:
		k.number++
		k.waiting++
		r := Request{Lock: k.number % 3, Transaction: k.number, Mode: netlock.Mode(k.random.IntN(2))}
		k.do(k.plane.Acquire(k.now, r), "acquire")
	}
}

func (k *rack) do(list []Output, what string) {
	k.pass(what)
	var push Output
	for _, o := range list {
		switch o.Kind {
		case Grant:
			k.holders = append(k.holders, o.Request)
			k.waiting--
		case Recirculate:
			k.passes = append(k.passes, o.Pass)
		case ForwardBuffer:
			if k.random.IntN(4) == 0 { // otherwise it is lost
				k.server.Buffer(o.Request)
			} else {
				k.waiting--
			}
		case PushRequest:
			push = o
		}
	}
	if push.Kind != PushRequest {
		return
	}
	for _, p := range k.server.Push(&push) {
		if p.Empty {
			k.do(k.plane.PushEmpty(k.now, p.Lock, p.Answer), "push-empty")
		} else {
			k.do(k.plane.PushBack(k.now, p.Request, p.Answer), "push-back")
		}
	}
}

// Section 4: a pass accesses each array of registers at most once, in the order of the pipeline. What looks for a
// transaction takes more: a request that is queued after Dedup has looked for it is noted in a second pass, and a
// release of a holder that is not the oldest one exchanges the two in a pass that reads its slot and one that writes
// it.
func TestAPassAccessesEachRegisterOnce(t *testing.T) {
	for _, cfg := range []Config{{Processing: ChainLock}, {Processing: ChainLock, TIDCheck: true, Dedup: true}} {
		k := &rack{plane: New(cfg), server: NewServer(false), random: rand.New(rand.NewPCG(1, 0))}
		for id := range uint32(3) {
			if err := k.plane.Install(id, 4); err != nil {
				t.Fatal(err)
			}
		}
		m := &meter{}
		k.plane.meter = m
		most := make(map[string]meter)
		k.pass = func(what string) {
			all := most[what]
			for i, n := range m.accesses {
				all.accesses[i] = max(all.accesses[i], n)
			}
			all.backwards = max(all.backwards, m.backwards)
			most[what] = all
			*m = meter{}
		}
		for range 20000 {
			k.turn()
		}
		for _, what := range []string{"acquire", "release", "resume", "push-back", "push-empty"} {
			want := meter{}
			for i := range want.accesses {
				want.accesses[i] = 1
			}
			if cfg.TIDCheck {
				switch what {
				case "acquire":
					want.accesses[regIndex], want.backwards = 2, 1
				case "push-back":
					want.backwards = 1 // notes the request: its pass does not look for it
				case "release":
					want.accesses[regSlot], want.backwards = 3, 2
				}
			}
			got, known := most[what]
			if !known || got.backwards > want.backwards {
				t.Errorf("%+v: %s (%v): %d accesses against the order, want at most %d", cfg, what, known, got.backwards,
					want.backwards)
			}
			for i, n := range got.accesses {
				if n > want.accesses[i] {
					t.Errorf("%+v: %s: %d accesses of register %d, want at most %d", cfg, what, n, i, want.accesses[i])
				}
			}
		}
		if got := most["acquire"].accesses; got[regSlot] == 0 || got[regRoom] == 0 || got[regSent] == 0 {
			t.Errorf("the meter counts nothing: %v", got)
		}
	}
}

// pairs lets requests and their releases pass, of one lock after another.
func pairs(d *DataPlane, r *Request, n int) {
	for range n {
		r.Transaction++
		r.Lock = r.Transaction % 1024
		d.Acquire(clock.Time(r.Transaction), *r)
		d.Release(clock.Time(r.Transaction), *r)
	}
}

func benchmarked(t testing.TB, cfg Config) (*DataPlane, *Request) {
	d := New(cfg)
	for id := range uint32(1024) {
		if err := d.Install(id, 16); err != nil {
			t.Fatal(err)
		}
	}
	return d, &Request{Mode: netlock.Exclusive, Client: Client{Host: 7}}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	runtimetest.SkipRace(t)
	cfg := Config{Processing: ChainLock, TIDCheck: true, Dedup: true, Quota: 1 << 40, PushTimeout: 1000}
	d, r := benchmarked(t, cfg)
	if n := runtimetest.FewestAllocs(0, func() { pairs(d, r, 20000) }); n > 0 {
		t.Errorf("%d allocations of requests and releases without contention", n)
	}
	s := NewServer(true)
	serve := func() {
		for range 2000 {
			r.Transaction++
			r.Lock = r.Transaction % 64
			s.Acquire(0, *r)
			if r.Transaction%3 > 0 {
				s.Release(0, *r)
			}
			if r.Transaction%256 == 0 {
				for lock := range uint32(64) {
					s.Expire(1, lock, 1)
				}
			}
		}
	}
	serve()
	if n := runtimetest.FewestAllocs(0, serve); n > 0 {
		t.Errorf("%d allocations of the server", n)
	}
	// With contention and without overflow, whose buffers grow.
	k := &rack{plane: New(cfg), server: NewServer(true), random: rand.New(rand.NewPCG(1, 0)), pass: func(string) {}}
	for id := range uint32(3) {
		if err := k.plane.Install(id, 1<<12); err != nil {
			t.Fatal(err)
		}
	}
	k.holders, k.passes = make([]Request, 0, 1<<16), make([]Pass, 0, 1<<16)
	turns := func() {
		for range 2000 {
			k.turn()
		}
	}
	for range 20 {
		turns()
	}
	if n := runtimetest.FewestAllocs(0, turns); n > 0 {
		t.Errorf("%d allocations of the data plane with contention", n)
	}
}

// Target: 3 million requests a second, each with its release.
func BenchmarkAcquireRelease(b *testing.B) {
	for name, cfg := range map[string]Config{
		"plain": {Processing: ChainLock}, "checked": {Processing: ChainLock, TIDCheck: true, Dedup: true},
		"priorities": {Processing: ChainLock, TIDCheck: true, Dedup: true, Priorities: 4},
	} {
		b.Run(name, func(b *testing.B) {
			d, r := benchmarked(b, cfg)
			b.ReportAllocs()
			for b.Loop() {
				pairs(d, r, 1)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrequests/s")
		})
	}
}
