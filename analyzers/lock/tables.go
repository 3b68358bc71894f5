package lock

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

const (
	none      = int32(-1)
	mostHosts = 1 << 20
	// mostRequests and mostLocks bound memory.
	mostRequests = 1 << 21
	mostLocks    = 1 << 21
)

// tables are requests and locks by name. Both are kept in slices whose free places are used again.
type tables struct {
	byKey     map[key]int32
	requests  []request
	freeReqs  []int32
	byLock    map[lockKey]int32
	locks     []state
	freeLocks []int32
	leases    leases // what may end
	clears    leases // what has ended
	idle      leases // locks
	ghosts    leases // requests that were released, and asked more than once
	departing map[key]departure
}

func newTables() tables {
	return tables{byKey: make(map[key]int32), byLock: make(map[lockKey]int32), departing: make(map[key]departure)}
}

// forget drops all that is known: what comes later is of locks about which there is doubt.
func (t *tables) forget() {
	clear(t.byKey)
	clear(t.byLock)
	clear(t.departing)
	t.requests, t.freeReqs = t.requests[:0], t.freeReqs[:0]
	t.locks, t.freeLocks = t.locks[:0], t.freeLocks[:0]
	t.leases.forget()
	t.clears.forget()
	t.idle.forget()
	t.ghosts.forget()
}

func (t *tables) find(k key) *request {
	if i, ok := t.byKey[k]; ok {
		return &t.requests[i]
	}
	return nil
}

func (t *tables) lockOf(sw int, id uint32) *state {
	if i, ok := t.byLock[lockKey{id, uint8(sw)}]; ok {
		return &t.locks[i]
	}
	return nil
}

// elsewhere returns what another switch has of a request that fits.
func (j *Judge) elsewhere(k key, fits func(*request) bool) *request {
	if len(j.switches) == 1 {
		return nil
	}
	own := k.sw
	for i := range j.switches {
		if k.sw = uint8(i); k.sw != own {
			if r := j.find(k); r != nil && fits(r) {
				return r
			}
		}
	}
	return nil
}

func (t *tables) of(r *request) *state { return &t.locks[r.lock] }

// lock returns the place of the state of a lock at a switch, new if need be.
func (j *Judge) lock(id uint32, sw uint8) int32 {
	if i, ok := j.byLock[lockKey{id, sw}]; ok {
		return i
	}
	var i int32
	if n := len(j.freeLocks); n > 0 {
		i = j.freeLocks[n-1]
		j.freeLocks = j.freeLocks[:n-1]
	} else {
		if len(j.locks) >= mostLocks {
			j.giveUp("there are too many locks")
		}
		i = int32(len(j.locks))
		j.locks = append(j.locks, state{})
	}
	l := &j.locks[i]
	all := l.all[:0]
	*l = state{id: id, sw: sw, used: true, holders: none, doubt: j.gaps > 0, ended: unknown, exclusive: unknown,
		ownedSince: unknown, latest: unknown, cleared: unknown, primary: unknown, stirred: unknown, lapsing: unknown,
		home: j.newHome(j.switches[sw]), serving: newServing()}
	if n := j.switches[sw].Priorities; n > 1 {
		for range n {
			all = append(all, class{event: unknown, backlog: newBacklog()})
		}
	}
	l.all = all
	l.only.event, l.only.backlog = unknown, newBacklog()
	j.byLock[lockKey{id, sw}] = i
	return i
}

func (l *state) class(r *request) *class { return l.classAt(r.class) }

func (l *state) classAt(n uint8) *class {
	if len(l.all) > 0 {
		return &l.all[min(int(n), len(l.all)-1)]
	}
	return &l.only
}

// classes calls f for each class.
func (l *state) classes(f func(*class)) {
	if len(l.all) == 0 {
		f(&l.only)
	}
	for i := range l.all {
		f(&l.all[i])
	}
}

// request returns a new one.
func (j *Judge) request(k key) *request {
	l := j.lock(k.lock, k.sw)
	var i int32
	if n := len(j.freeReqs); n > 0 {
		i = j.freeReqs[n-1]
		j.freeReqs = j.freeReqs[:n-1]
	} else {
		if len(j.requests) >= mostRequests {
			j.giveUp("there are too many requests that nobody answers")
			l = j.lock(k.lock, k.sw)
		}
		i = int32(len(j.requests))
		j.requests = append(j.requests, request{})
	}
	j.requests[i] = request{key: k, self: i, next: none, prev: none, lock: l, sw: int32(k.sw), inserted: unknown,
		arrived: unknown, since: unknown, at: unknown, decided: unknown, back: unknown, due: unknown, out: none}
	j.byKey[k] = i
	j.locks[l].live++
	return &j.requests[i]
}

// place returns where a request is kept.
func (t *tables) place(r *request) int32 { return r.self }

// remove forgets a request, and its lock if nothing else is known about it.
func (j *Judge) remove(r *request) {
	i := j.place(r)
	l := j.of(r)
	j.unlink(l, r, i)
	j.unpark(l, r, i)
	if r.parks > 0 {
		l.parked -= int32(r.parks)
	}
	l.copies -= j.copies(r)
	delete(j.byKey, r.key)
	l.live--
	*r = request{}
	j.freeReqs = append(j.freeReqs, i)
	j.retire(l)
}

// copies is how many places a request may take.
func (j *Judge) copies(r *request) int32 { return int32(max(1, r.asks)) }

// retire forgets a lock of which nothing is outstanding, once no pass of it can be under way. Those that are installed
// are as few as the facts say, and stay.
func (j *Judge) retire(l *state) {
	if l.live > 0 || l.retiring || !j.forgettable(l) {
		return
	}
	l.retiring = true
	j.idle.push(leased{at: max(l.serving.held, j.now.Add(j.passes(l))), key: key{lock: l.id, sw: l.sw}})
}

func (j *Judge) forgettable(l *state) bool {
	if l.lost > 0 || l.parked > 0 || l.home.away() || l.home.left != unknown {
		return false
	}
	numbered := false
	l.classes(func(c *class) { numbered = numbered || c.index > 0 })
	if numbered {
		return false
	}
	if j.gaps > 0 && !l.doubt && len(j.locks) < mostLocks/2 {
		return false // that it is known was hard to find out
	}
	d := j.switches[l.sw]
	return (!d.Placed || d.Locks[l.id] == 0) && (d.Placed || !l.tainted)
}

// passes bounds how long a chain of a lock may still run.
func (j *Judge) passes(l *state) clock.Duration {
	d := j.switches[l.sw]
	return d.PipelineMost + d.Settled + clock.Duration(l.chained+int64(d.Passes)+1)*d.RecirculationMost +
		j.facts.Uncertainty
}

// retired forgets the locks that are idle.
func (j *Judge) retired() {
	for e := j.idle.front(); e != nil && e.at < j.now; e = j.idle.front() {
		if i, ok := j.byLock[lockKey{e.key.lock, e.key.sw}]; ok {
			if l := &j.locks[i]; l.live > 0 || !j.forgettable(l) {
				l.retiring = false
			} else {
				delete(j.byLock, lockKey{l.id, l.sw})
				l.used = false
				j.freeLocks = append(j.freeLocks, i)
			}
		}
		j.idle.pop()
	}
}

// link adds a holder.
func (j *Judge) link(l *state, r *request) {
	i := j.place(r)
	r.next, r.prev, r.linked = l.holders, none, true
	if l.holders != none {
		j.requests[l.holders].prev = i
	}
	l.holders = i
	l.held++
	if r.mode == netlock.Exclusive {
		l.xs++
	}
}

func (j *Judge) unlink(l *state, r *request, i int32) {
	if !r.linked {
		return
	}
	if r.prev != none {
		j.requests[r.prev].next = r.next
	} else if l.holders == i {
		l.holders = r.next
	}
	if r.next != none {
		j.requests[r.next].prev = r.prev
	}
	r.next, r.prev, r.linked = none, none, false
	l.held--
	if r.mode == netlock.Exclusive {
		l.xs--
	}
}

// park adds a request to those at the server.
func (j *Judge) park(l *state, r *request) {
	i := j.place(r)
	j.unpark(l, r, i)
	c := l.class(r)
	r.next, r.prev, r.queued = none, c.parks[1], true
	if r.prev != none {
		j.requests[r.prev].next = i
	} else {
		c.parks[0] = i
	}
	c.parks[1] = i
}

func (j *Judge) unpark(l *state, r *request, i int32) {
	if !r.queued {
		return
	}
	c := l.class(r)
	if r.prev != none {
		j.requests[r.prev].next = r.next
	} else {
		c.parks[0] = r.next
	}
	if r.next != none {
		j.requests[r.next].prev = r.prev
	} else {
		c.parks[1] = r.prev
	}
	r.next, r.prev, r.queued = none, none, false
}
