package lock_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
)

// kinds returns what was done, as one word each.
func kinds(list []lock.Output) (words []string) {
	for _, o := range list {
		words = append(words, o.Kind.String())
	}
	return words
}

func expect(t *testing.T, got []lock.Output, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, kinds(got)); diff != "" {
		t.Errorf("outputs (-want +got): %s", diff)
	}
}

// Requests above a tenant's quota are rejected until the next period, whoever has the lock (section 8.3).
func TestTenantsGetTheirQuotasInEachPeriod(t *testing.T) {
	d := lock.New(lock.Config{Processing: lock.ChainLock, Quota: 3, Quotas: map[uint16]int{7: 5, 8: 0}})
	if err := d.Install(0, 64); err != nil {
		t.Fatal(err)
	}
	number := uint32(0)
	for period := range 3 {
		for _, c := range []struct {
			tenant uint16
			want   int
		}{{0, 3}, {1, 3}, {7, 5}, {8, 9}} {
			accepted := 0
			for i := range uint32(9) { // of an installed lock, and of one that the server owns
				number++
				r := lock.Request{Lock: i % 2, Transaction: number, Tenant: c.tenant}
				switch out := d.Acquire(0, r); out[0].Kind {
				case lock.Rejected:
					if out[0].Request != r {
						t.Errorf("%+v is rejected instead of %+v", out[0].Request, r)
					}
				default:
					accepted++
				}
			}
			if accepted != c.want {
				t.Errorf("period %d: tenant %d gets %d of 9 requests, want %d", period, c.tenant, accepted, c.want)
			}
		}
		d.ResetQuotas()
	}
}

// Only a request that is granted in its own pass reaches the database from the switch (section 5.3).
func TestAGrantAtOnceGoesToTheDatabase(t *testing.T) {
	d := lock.New(lock.Config{Processing: lock.ChainLock})
	if err := d.Install(0, 2); err != nil {
		t.Fatal(err)
	}
	s := lock.NewServer(false)
	request := func(id, lockID uint32, oneRTT bool) lock.Request {
		return lock.Request{Lock: lockID, Transaction: id, Mode: netlock.Exclusive, OneRTT: oneRTT}
	}
	database := func(list []lock.Output) bool {
		t.Helper()
		if len(list) != 1 || list[0].Kind != lock.Grant {
			t.Fatalf("%v, want a grant", kinds(list))
		}
		return list[0].Database
	}
	if !database(d.Acquire(0, request(1, 0, true))) || !database(s.Acquire(0, request(1, 1, true))) {
		t.Error("a grant at once goes to the client")
	}
	d.Acquire(0, request(2, 0, true))
	s.Acquire(0, request(2, 1, true))
	out := d.Release(1, request(1, 0, false))
	expect(t, out, "recirculate")
	if database(d.Resume(2, out[0].Pass)) || database(s.Release(1, request(1, 1, false))) {
		t.Error("a grant after a wait goes to the database, without what it is asked")
	}
	if database(s.Acquire(2, request(1, 2, false))) {
		t.Error("a grant of a plain request goes to the database")
	}
}

// NetChain has no queue, no shared locks, and fewer locks than ids (section 13).
func TestNetChainRejectsWhatItCannotGrant(t *testing.T) {
	n, err := lock.NewNetChain(10, 4)
	if err != nil || n.Coarse() != 3 || n.Locks() != 4 {
		t.Fatalf("%d ids share a lock of %d: %v", n.Coarse(), n.Locks(), err)
	}
	request := func(client, id uint32) lock.Request {
		return lock.Request{Lock: id, Transaction: 1, Client: lock.Client{Host: client}}
	}
	expect(t, n.Acquire(10, request(1, 0)), "grant")
	expect(t, n.Acquire(10, request(1, 2)), "grant")
	expect(t, n.Acquire(10, request(1, 2)), "grant") // it asks again: its grant was lost
	expect(t, n.Acquire(10, request(2, 1)), "rejected")
	expect(t, n.Acquire(10, request(2, 3)), "grant")
	expect(t, n.Acquire(10, request(2, 9)), "grant")
	expect(t, n.Acquire(10, request(2, 10)), "rejected") // there is none, although the last lock has room for more ids
	expect(t, n.Acquire(10, request(2, 12)), "rejected")
	expect(t, n.Release(11, request(2, 0)), "dropped")
	expect(t, n.Release(11, request(1, 0)))
	expect(t, n.Acquire(12, request(2, 0)), "rejected") // its owner still uses 2
	expect(t, n.Release(12, request(1, 2)))
	expect(t, n.Release(12, request(1, 2)), "dropped")
	expect(t, n.Acquire(13, request(2, 0)), "grant")
	n.Expire(14, 3, 0) // never
	expect(t, n.Acquire(14, request(1, 3)), "rejected")
	n.Expire(14, 3, 2)
	n.Expire(14, 0, 2)
	expect(t, n.Acquire(14, request(1, 3)), "grant")    // held since 10
	expect(t, n.Acquire(14, request(1, 0)), "rejected") // held since 13
	for _, c := range []struct {
		ids   uint32
		locks int
	}{{0, 1}, {1, 0}} {
		if _, err := lock.NewNetChain(c.ids, c.locks); err == nil {
			t.Errorf("%d ids and %d locks are accepted", c.ids, c.locks)
		}
	}
}

// Clients that try again always find a holder in time, and no two hold a lock at a time.
func TestNetChainExcludes(t *testing.T) {
	n, err := lock.NewNetChain(8, 3)
	if err != nil {
		t.Fatal(err)
	}
	holders := make(map[uint32]lock.Request)
	grants := 0
	for i := range uint32(10000) {
		r := lock.Request{Lock: i * 2654435761 >> 16 % 8, Transaction: i, Client: lock.Client{Host: i % 5}}
		if n.Acquire(clock.Time(i), r)[0].Kind == lock.Grant {
			grants++
			if h, held := holders[r.Lock/3]; held {
				t.Fatalf("%+v gets the lock of %+v", r, h)
			}
			holders[r.Lock/3] = r
		}
		if h, held := holders[i%3]; held {
			expect(t, n.Release(clock.Time(i), h))
			delete(holders, i%3)
		}
	}
	if grants < 1000 {
		t.Errorf("%d grants", grants)
	}
}
