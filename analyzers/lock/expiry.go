package lock

import (
	"candela.dev/candela/clock"
)

// lease returns for how long a switch, or the server, lets a lock be held, 0: for ever, and how often it looks.
func (j *Judge) lease(sw int32, server bool) (lease, poll clock.Duration) {
	if server && j.facts.ServersLease {
		return j.facts.ServerLease, j.facts.ServerPoll
	}
	d := j.switches[sw]
	return d.Lease, d.Poll
}

// holdsUntil notes when the lease of a holder has ended that is granted the lock now, perhaps again: if its first lease
// may have ended before, as the switch took that for a new request, another one has begun.
func (j *Judge) holdsUntil(r *request, at clock.Time, server bool) {
	lease, poll := j.lease(r.sw, server)
	if lease == 0 {
		r.until = clock.Never
		return
	}
	r.until = max(r.until, at.Add(lease+poll))
	j.clears.push(leased{at: r.until, request: j.place(r), key: r.key, serial: r.serial})
}

// lapses returns from when on the lease of a holder may have ended, and when it has; clock.Never: it does not end.
func (j *Judge) lapses(r *request) (may, has clock.Time) {
	d := j.switches[r.sw]
	lease, _ := j.lease(r.sw, r.server)
	if lease == 0 || r.until == clock.Never {
		return clock.Never, clock.Never
	}
	may = r.earliest()
	switch {
	case r.server: // its lease began when the server decided
		may = max(may, r.decided)
	case r.since != unknown:
		may = max(may, r.since.Add(-d.PipelineMost))
	}
	if may == unknown {
		may = r.at
	}
	if r.vague {
		may = unknown
	}
	return may.Add(lease - j.facts.Uncertainty), r.until
}

// expire ends leases.
func (j *Judge) expire() {
	for e := j.leases.front(); e != nil && e.at <= j.now; e = j.leases.front() {
		if r := &j.requests[e.request]; r.linked && !r.expired && r.key == e.key && r.serial == e.serial {
			j.mayLapse(r)
		}
		j.leases.pop()
	}
	for e := j.clears.front(); e != nil && e.at < j.now; e = j.clears.front() {
		if r := &j.requests[e.request]; r.linked && r.key == e.key && r.serial == e.serial && r.until <= e.at {
			j.lapsed(r)
		}
		j.clears.pop()
	}
}

// mayLapse notes that the lease of a holder may have ended.
func (j *Judge) mayLapse(r *request) {
	r.expired = true
	l := j.of(r)
	l.class(r).dequeues++
	if _, has := j.lapses(r); !r.server {
		l.lapsing = max(l.lapsing, has)
	}
}

// lapsed ends a hold by its lease.
func (j *Judge) lapsed(r *request) {
	l := j.of(r)
	_, at := j.lapses(r)
	j.ends(l, r, at, true)
	if r.server {
		l.serving.ends(r.mode, j.switches[r.sw].dueOf(at, r.out))
	}
	l.lapsed = l.lapsed || r.server
	if r.asks > r.answers {
		r.phase, r.freed = answered, min(at, j.now)
		return
	}
	j.remove(r)
}

// leases are grants in the order in which their leases end. Grants leave in another one: some wait at their ports.
type leases struct {
	ring        []leased
	first, many int
}

type leased struct {
	at      clock.Time
	request int32
	key     key
	serial  uint64
}

func (q *leases) forget() { q.first, q.many = 0, 0 }

func (q *leases) push(e leased) {
	if q.many == len(q.ring) {
		ring := make([]leased, max(64, 2*q.many))
		for i := range q.many {
			ring[i] = q.ring[(q.first+i)%len(q.ring)]
		}
		q.ring, q.first = ring, 0
	}
	i := q.many
	for ; i > 0 && q.at(i-1).at > e.at; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = e
	q.many++
}

func (q *leases) at(i int) *leased { return &q.ring[(q.first+i)%len(q.ring)] }

func (q *leases) front() *leased {
	if q.many == 0 {
		return nil
	}
	return q.at(0)
}

func (q *leases) pop() {
	q.first = (q.first + 1) % len(q.ring)
	q.many--
}
