package lock_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
)

// direct is a switch with a control plane, and a server beside it that answers at once.
type direct struct {
	plane   *lock.DataPlane
	control *lock.Control
	server  *lock.Server
	now     clock.Time
	granted []lock.Request
}

func newDirect(t interface{ Fatal(args ...any) }, cfg lock.Config, control lock.ControlConfig) *direct {
	d := &direct{plane: lock.New(cfg), server: lock.NewServer(cfg.Dedup)}
	c, err := lock.NewControl(0, control, d.plane)
	if err != nil {
		t.Fatal(err)
	}
	d.control = c
	return d
}

func (d *direct) do(list []lock.Output) {
	for _, o := range append([]lock.Output(nil), list...) {
		switch o.Kind {
		case lock.Grant:
			d.granted = append(d.granted, o.Request)
		case lock.Recirculate:
			d.do(d.plane.Resume(d.now, o.Pass))
		case lock.ForwardOwned:
			d.do(d.server.Acquire(d.now, o.Request))
		case lock.ForwardBuffer:
			d.do(d.server.Keep(d.now, o.Request, o.Sent))
		case lock.Emptied:
			d.do(d.plane.PushEmpty(d.now, o.Request.Lock, answer(&o)))
		case lock.PushRequest:
			if o.Mark != netlock.Unmarked {
				d.do(d.server.Handover(d.now, &o))
				continue
			}
			for _, p := range d.server.Push(&o) {
				if p.Empty {
					d.do(d.plane.PushEmpty(d.now, p.Lock, p.Answer))
				} else {
					d.do(d.plane.PushBack(d.now, p.Request, p.Answer))
				}
			}
		}
	}
}

func (d *direct) release(r lock.Request) {
	list := d.plane.Release(d.now, r)
	if len(list) == 1 && list[0].Kind == lock.ForwardOwned {
		list = d.server.Release(d.now, r)
	}
	d.do(list)
}

// releaseAll ends all uses.
func (d *direct) releaseAll() {
	for len(d.granted) > 0 {
		list := d.granted
		d.granted = nil
		for _, r := range list {
			d.now++
			d.release(r)
		}
	}
}

// until lets the control plane do what it does until an instant, and reports how often.
func (d *direct) until(at clock.Time) (times int) {
	for next := d.control.NextTimer(); next <= at; next = d.control.NextTimer() {
		d.now = max(d.now, next)
		d.do(d.control.Timer(d.now))
		times++
	}
	d.now = max(d.now, at)
	return times
}

// Whatever locks were asked for in a period, they get the regions that the allocation says, moving holes together where
// none is large enough, and forget no request on the way.
func TestLocksGetTheRegionsOfTheAllocation(t *testing.T) {
	compacted := 0
	rapid.Check(t, func(t *rapid.T) {
		slots, priorities := rapid.IntRange(1, 30).Draw(t, "slots"), rapid.IntRange(0, 3).Draw(t, "priorities")
		d := newDirect(t, lock.Config{Processing: lock.ChainLock, TIDCheck: true, Slots: slots, Track: 20,
			Priorities: priorities}, lock.ControlConfig{Period: clock.Second, Reaction: 1})
		d.server.Priorities = priorities
		number := uint32(0)
		for period := range rapid.IntRange(1, 6).Draw(t, "periods") {
			asked := 0
			for range rapid.IntRange(1, 12).Draw(t, "locks") {
				id := uint32(rapid.IntRange(0, 12).Draw(t, "lock"))
				for range rapid.IntRange(1, 9).Draw(t, "requests") {
					number++
					asked++
					d.now++
					d.do(d.plane.Acquire(d.now, lock.Request{Lock: id, Transaction: number,
						Priority: uint8(number) % 4, Mode: netlock.Mode(number / 2 % 2)}))
				}
				if rapid.Bool().Draw(t, "release") {
					d.releaseAll()
				}
			}
			d.until(clock.Time(period+1) * clock.Time(clock.Second))
			want := d.control.Target()
			for again := true; again; again = len(d.granted) > 0 { // as locks move, more are granted
				d.releaseAll()
				d.until(d.now.Add(clock.Millisecond))
			}
			if !d.control.Settled() {
				t.Fatalf("locks still move: %v of %v", d.plane.Regions(), want)
			}
			if diff := cmp.Diff(want, d.plane.Installed()); diff != "" {
				t.Fatalf("period %d: %s", period, diff)
			}
			at, holes := 0, 0
			for _, r := range d.plane.Regions() {
				if r.Left < at || r.Right >= slots {
					t.Fatalf("regions %v of %d slots", d.plane.Regions(), slots)
				}
				if r.Left > at {
					holes++
				}
				at = r.Right + 1
				if queued, _, buffered := d.plane.Occupancy(r.Lock); queued+buffered > 0 {
					t.Fatalf("lock %d has %d entries and %d buffered, and nobody uses it", r.Lock, queued, buffered)
				}
			}
			if period > 0 && holes == 0 {
				compacted++
			}
		}
		for id := range uint32(13) { // nobody has any lock: each is granted at once
			number++
			d.granted = nil
			d.do(d.plane.Acquire(d.now, lock.Request{Lock: id, Transaction: number, Mode: netlock.Exclusive}))
			if len(d.granted) != 1 || d.granted[0].Transaction != number {
				t.Fatalf("lock %d: %v is granted", id, d.granted)
			}
			d.releaseAll()
		}
	})
	if compacted == 0 {
		t.Error("no allocation is compact")
	}
}

// A hole that is too small becomes larger when the lock next to it moves (section 6.4).
func TestHolesMoveTogether(t *testing.T) {
	d := newDirect(t, lock.Config{Processing: lock.ChainLock, TIDCheck: true, Slots: 8, Track: 9},
		lock.ControlConfig{Period: clock.Second, Reaction: 1})
	ask := func(id uint32, at ...int) {
		for _, n := range at { // at the same time, so many
			for i := range uint32(n) {
				d.now++
				d.do(d.plane.Acquire(d.now, lock.Request{Lock: id, Transaction: id<<16 + uint32(d.now),
					Client: lock.Client{Host: i}, Mode: netlock.Exclusive}))
			}
			d.releaseAll()
		}
	}
	for id := range uint32(4) {
		ask(id, 2)
	}
	d.until(clock.Time(clock.Second))
	want := []lock.Region{{Lock: 0, Left: 0, Right: 1}, {Lock: 1, Left: 2, Right: 3}, {Lock: 2, Left: 4, Right: 5},
		{Lock: 3, Left: 6, Right: 7}}
	if diff := cmp.Diff(want, d.plane.Regions()); diff != "" {
		t.Fatal(diff)
	}
	ask(1, 2, 2)
	ask(3, 2, 2)
	ask(4, 4, 4)
	d.until(clock.Time(2*clock.Second + clock.Millisecond))
	want = []lock.Region{{Lock: 1, Left: 0, Right: 1}, {Lock: 4, Left: 2, Right: 5}, {Lock: 3, Left: 6, Right: 7}}
	if diff := cmp.Diff(want, d.plane.Regions()); diff != "" {
		t.Error(diff)
	}
}

// A control plane without anything to do needs no timer; leases end at the first poll after them.
func TestTheControlPlaneActsWhenSomethingIsDue(t *testing.T) {
	d := newDirect(t, lock.Config{Processing: lock.ChainLock, TIDCheck: true, Slots: 8, Quota: 1},
		lock.ControlConfig{Lease: 10 * clock.Millisecond, Poll: clock.Millisecond, Quota: 50 * clock.Millisecond})
	if err := d.plane.Install(0, 8); err != nil {
		t.Fatal(err)
	}
	at := d.control.NextTimer()
	if at != clock.Never {
		t.Errorf("a timer at %d, want none", at)
	}
	d.now = clock.Time(3*clock.Millisecond) + 1
	expect(t, d.plane.Acquire(d.now, lock.Request{Mode: netlock.Exclusive, Transaction: 1, Tenant: 1}), "grant")
	expect(t, d.plane.Acquire(d.now, lock.Request{Mode: netlock.Exclusive, Transaction: 2, Tenant: 1}), "rejected")
	expect(t, d.plane.Acquire(d.now, lock.Request{Mode: netlock.Exclusive, Transaction: 3, Tenant: 2}))
	if at = d.control.NextTimer(); at != clock.Time(14*clock.Millisecond) {
		t.Errorf("a timer at %d, want that of the poll after the lease", at)
	}
	list := d.control.Timer(at)
	expect(t, list, "recirculate")
	expect(t, d.plane.Resume(at, list[0].Pass), "grant")
	d.plane.Release(at, lock.Request{Transaction: 3})
	if times := d.until(clock.Time(clock.Second)); times != 2 { // a lease in vain, and the quotas
		t.Errorf("%d timers, want 2", times)
	}
	if at = d.control.NextTimer(); at != clock.Never {
		t.Errorf("a timer at %d, want none", at)
	}
	expect(t, d.plane.Acquire(d.now, lock.Request{Mode: netlock.Exclusive, Transaction: 4, Tenant: 1}), "grant")
	for _, c := range []lock.ControlConfig{{Lease: -1}, {Lease: 1}, {Period: -1}, {Quota: -1}} {
		if _, err := lock.NewControl(0, c, d.plane); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if _, err := lock.NewControl(0, lock.ControlConfig{Period: 1}, lock.New(lock.Config{})); err == nil {
		t.Error("an allocation without a pool is accepted")
	}
}

// A new allocation of idle locks takes few steps, however many have to move for it.
func TestManyLocksMoveInFewSteps(t *testing.T) {
	d := newDirect(t, lock.Config{Processing: lock.ChainLock, TIDCheck: true, Slots: 300, Track: 1000},
		lock.ControlConfig{Period: clock.Second})
	number := uint32(0)
	for period := range 4 {
		for id := range uint32(900) {
			for range 1 + (id+uint32(period)*7)%4 {
				number++
				d.now++
				d.do(d.plane.Acquire(d.now, lock.Request{Lock: id, Transaction: number, Mode: netlock.Exclusive}))
			}
			if id%3 == 0 {
				d.releaseAll()
			}
		}
		d.releaseAll()
		const most = 5
		times := d.until(clock.Time(period+1)*clock.Time(clock.Second) + clock.Time(10*clock.Millisecond))
		if times > most || !d.control.Settled() || len(d.plane.Regions()) < 100 {
			t.Errorf("period %d: %d steps, want at most %d, for %d locks; all have moved: %v", period, times, most,
				len(d.plane.Regions()), d.control.Settled())
		}
	}
}

// However many locks are to move and however late servers answer, few push requests are on the way.
func TestMovesAreFewAtATime(t *testing.T) {
	const locks, moves, timeout = 3000, 100, 30 * clock.Microsecond
	d := newDirect(t, lock.Config{Processing: lock.ChainLock, TIDCheck: true, Slots: locks, Track: locks,
		PushTimeout: timeout}, lock.ControlConfig{Period: clock.Second, Moves: moves})
	for id := range uint32(locks) {
		d.now++
		d.do(d.plane.Acquire(d.now, lock.Request{Lock: id, Transaction: 1, Mode: netlock.Exclusive}))
	}
	d.releaseAll()
	asked := 0
	var waiting []lock.Output
	until := func(at clock.Time) {
		for next := min(d.plane.NextTimer(), d.control.NextTimer()); next <= at; {
			d.now = max(d.now, next)
			list := append([]lock.Output(nil), d.plane.Timer(d.now)...)
			if d.control.NextTimer() <= d.now {
				list = append(list, d.control.Timer(d.now)...)
			}
			for _, o := range list {
				if o.Kind == lock.PushRequest {
					asked++
					waiting = append(waiting, o)
				}
			}
			next = min(d.plane.NextTimer(), d.control.NextTimer())
		}
	}
	until(clock.Time(clock.Second + 20*clock.Millisecond))
	const repetitions = 10 // after 1, 2, 4 ... 512 timeouts
	if asked < moves || asked > moves*(1+repetitions) {
		t.Errorf("%d push requests for %d moves at a time without answers", asked, moves)
	}
	for range locks/moves + 1 {
		list := waiting
		waiting = nil
		d.do(list)
		until(d.now.Add(clock.Millisecond))
	}
	if installed := len(d.plane.Installed()); installed != locks || !d.control.Settled() {
		t.Errorf("%d of %d locks have moved", installed, locks)
	}
}

// Where it is known how many clients may need a lock, that is its contention, whatever was measured (section 6.1).
func TestKnownContentionReplacesWhatWasMeasured(t *testing.T) {
	d := newDirect(t, lock.Config{Processing: lock.ChainLock, TIDCheck: true, Slots: 7, Track: 9},
		lock.ControlConfig{Period: clock.Second, Contention: 3})
	for id := range uint32(4) {
		for n := range id + 1 {
			d.now++
			d.do(d.plane.Acquire(d.now, lock.Request{Lock: id, Transaction: n, Mode: netlock.Exclusive}))
			d.releaseAll()
		}
	}
	d.until(clock.Time(clock.Second))
	if diff := cmp.Diff(lock.Allocation{3: 3, 2: 3, 1: 1}, d.control.Target()); diff != "" {
		t.Error(diff)
	}
}
