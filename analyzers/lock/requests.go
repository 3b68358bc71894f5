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
