package lock

import (
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// key names a request.
type key struct {
	lock, tid uint32
	client    uint32
	thread    uint8
	sw        uint8
}

// phase is where a request is.
type phase uint8

const (
	waiting  phase = iota // has come; in the switch, unless a packet shows otherwise
	parked                // at the server, which buffers it
	owned                 // at the server that owns the lock
	holding               // granted
	answered              // has what it asked for; copies of it may still be answered
	gone                  // lost with the registers of the switch
)

// request is one that is outstanding, or holds.
type request struct {
	key        key
	self       int32
	next, prev int32 // holders of the lock, or requests that are parked
	lock       int32
	sw         int32
	port       int32
	out        int32 // to the server
	phase      phase
	was        phase // before it came again
	mode       netlock.Mode
	class      uint8 // by priority, 0 is the highest
	tenant     uint16
	asks       uint16 // ACQUIREs
	answers    uint16
	parks      uint16 // copies at the server
	handed     uint16 // copies that went to a server that owned the lock, and have no answer
	sent       uint16 // copies that went to another switch, or were lost with the registers
	forwards   uint16 // packets to servers about it
	priority   uint8  // as in its packets
	target     uint32 // host that the client asks; 0: not known
	returned   bool   // the server pushed it back
	over       bool   // when it came the server had requests of the lock, or the switch was not known to have all
	counted    bool   // of its quota
	expired    bool   // its lease may have ended
	linked     bool   // among the holders
	vague      bool   // it may have been granted before, unseen
	crowded    bool   // how many releases came before it is not known
	queued     bool   // among those that are parked
	server     bool   // a server granted it
	onWay      bool   // a server's grant has come and not left
	early      bool   // it was released before a grant was known
	sealed     bool   // all copies had left for the server before it was released
	unclear    bool   // which of its copies the server owns, and which it buffers, is not known
	// first and last are the places in the order of arrivals of its first and last copy: which one counts is not known.
	first, last uint64
	behind      uint64     // the packet that was at the server, unasked for, as it came
	epoch       uint64     // of that; 0: none was as one of its loose copies came
	loose       uint16     // copies that came, or came back, and have not been seen to leave
	arrived     clock.Time // the last copy
	came        clock.Time // the first
	inserted    clock.Time // into q1, if it is there
	before      clock.Time // inserted, before it came again
	// buffered is given of its home plus 1 as all copies at the server were sent to be buffered while the lock moved; 0:
	// they were not.
	buffered  uint32
	present   int32      // requests that the lock had when it came
	dequeues  int64      // of its class until then
	given     int64      // grants of the lock until then
	window    int64      // of its quota
	nth       int64      // arrival of its tenant in it
	id, grant uint64     // packets
	stamp     uint64     // the client's time stamp, of the first copy
	serial    uint64     // of its grant
	freed     clock.Time // when it was released
	since     clock.Time // of its grant: the port was busy from then on
	at        clock.Time // of its grant, or when it was last parked
	until     clock.Time // when its lease has ended; clock.Never: it has none
	decided   clock.Time // by a server, to grant it, at the earliest
	back      clock.Time // when the server last returned it
	due       clock.Time // when the server that owns the lock had processed it at the latest, see desk
	stay      stay
	lapses    clock.Time // when the lease of its latest hold may have ended
}

// earliest returns from when on a request may have been in the queue: of copies it is not known which one counts.
func (r *request) earliest() clock.Time {
	if r.asks > 1 {
		return min(r.inserted, r.came)
	}
	return r.inserted
}

// lockKey is a lock at a switch.
type lockKey struct {
	id uint32
	sw uint8
}

// state is what is known of a lock at a switch.
type state struct {
	id         uint32
	sw         uint8
	used       bool
	doubt      bool // packets of it may have been missed
	tainted    bool // what the switch has of it is not what its requests say
	live       int32
	holders    int32 // the first
	held       int32
	xs         int32
	parked     int32      // requests that may be at the server
	copies     int32      // requests in switch and server at most
	lost       int32      // parked ones that were given up
	ownedSince clock.Time // the first grant since the switch took over
	latest     clock.Time // the latest grant
	cleared    clock.Time // when the server said that the switch that has taken over may have it; unknown: it has not
	server     netip.Addr // that owns it
	home       home
	serving    serving
	retiring   bool
	recent     [4]int32 // requests that came last, of captures whose clocks are apart
	turn       uint8
	// Batches are shared runs: a grant of an exclusive lock ends one.
	batch uint64
	only  class // without priorities
	all   []class
	// ended is when the last hold ended, at the latest, exclusive when the last exclusive one did. Leased says that a
	// lease ended it; then it is not exact.
	ended, exclusive             clock.Time
	endedLeased, exclusiveLeased bool
	chain                        int64 // shared grants since then that the chain may have given
	chained                      int64 // those that certainly did
	runs                         bool  // the chain from before it may have run on then
	// The last grant of a switch that had stopped and is not on standby: when it decided, at the earliest, and it left.
	primary, primaryAt clock.Time
	lapsed             bool // a server's grant has
	// With priorities a pass may begin whenever a hold ends or requests come back, and whoever comes meanwhile waits for
	// it: when passes began, and how many there may have been.
	stirred clock.Time
	steps   int64
	// lapsing is until when a lease may end and nothing shows it, but that then passes begin.
	lapsing clock.Time
	given   int64 // grants of the switch
}

// backlog is what is known of the requests of a queue that the server buffers.
type backlog struct {
	parks         [2]int32   // the first and the last that is parked
	requested     clock.Time // the last PUSH_REQ
	decided       clock.Time // when the switch decided to send that, at the earliest; unknown: there is no telling
	requestedBy   uint64     // which packet that was
	sent          uint64     // its number of requests that were sent to be buffered
	began         clock.Time // the first PUSH_REQ with it: what was parked later is not in it
	settled       clock.Time // the last answer that ended one
	settledBefore clock.Time // the one before
	back          clock.Time // the last request that came back
	asked         clock.Time // when the switch decided to ask for more, at the earliest
	askedBy       clock.Time // when at the latest: then it left
	base          uint64     // numbers begin with it: it was told as the lock came to the switch; 0: not known
	parkings      uint64     // BUFFER_ONLY since then
	parkingsAsked uint64     // of these, before the first PUSH_REQ with sent
	// BUFFER_ONLY that ever left, those before the first PUSH_REQ with sent, and those before one that was answered: as
	// packets of a switch stay in order, the server has those.
	everSent, everAsked, everArrived uint64
	guesses                          bool       // the last answer may have counted what was sent later for what was lost
	remain                           bool       // then the server had more
	parkedAt                         clock.Time // the last BUFFER_ONLY
	index                            uint64     // of the last request that came back
	restarted                        bool       // and it is not known
	// ahead is the first BUFFER_ONLY since the last packet from which the switch may know what became of such: when it
	// left, and which it is. unknown: there is none. epoch counts moves and outages, from 1.
	aheadAt   clock.Time
	ahead     uint64
	epoch     uint64
	handed    handover
	emptied   emptied
	none      bool   // the switch has asked for none at all
	questions uint32 // PUSH_REQs that have left
}

func newBacklog() backlog {
	return backlog{parks: [2]int32{none, none}, requested: unknown, decided: unknown, began: unknown, settled: unknown,
		settledBefore: unknown, back: unknown, asked: unknown, parkedAt: unknown,
		aheadAt: unknown, epoch: 1, handed: handover{at: unknown}, emptied: emptied{at: unknown}}
}

// pending reports whether the switch has asked and got no answer since. Without latency it asks again at the instant of
// an answer.
func (b *backlog) pending() bool { return b.requested != unknown && b.requested >= b.settled }

// class is the order of the requests of a lock that have one priority, and what of them the server buffers.
type class struct {
	backlog
	batch    uint64
	before   granted // the latest arrival granted before this batch
	within   granted // and in it
	grants   int64
	dequeues int64
	event    clock.Time // of the latest grant of this class: what allowed it
	eventAt  clock.Time // and when it left
	eventID  uint64
}

// granted is a request that was granted.
type granted struct {
	order   uint64
	arrived clock.Time
	at      clock.Time
	id      uint64
	shared  bool
}

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
