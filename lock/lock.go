// Package lock has what a test sets of switches that are lock managers and what the analyzer must know of them, as
// data, and the names of rules. Models may use it, the analyzer compares, and neither imports the other. Sections (§)
// are those of the reference model (netlock.md).
package lock

import (
	"net/netip"

	"candela.dev/candela/clock"
)

// Rules of the analyzer lock.
const (
	RuleExclusion    = "lock.mutual-exclusion" // N1
	RuleOnce         = "lock.exactly-once"     // N2
	RuleLost         = "lock.lost"             // N3
	RuleOrder        = "lock.order"            // N4
	RuleSingleQueue  = "lock.single-queue"     // N5
	RulePriority     = "lock.priority"         // N6
	RuleBatch        = "lock.batch"            // N7
	RuleDelay        = "lock.delay"            // N8
	RuleOccupancy    = "lock.occupancy"        // N9
	RulePlacement    = "lock.placement"        // N10
	RuleQuota        = "lock.quota"            // N11
	RuleLease        = "lock.lease"            // N12
	RuleFailover     = "lock.failover"         // N13
	RuleAllocation   = "lock.allocation"       // N14
	RuleTransparency = "lock.transparency"     // N15
	RuleOneTrip      = "lock.one-round-trip"   // §5.3
)

// Processing is how a switch processes releases (§5.2).
type Processing uint8

// Ways.
const (
	ChainLock Processing = iota // C: while a chain of grants runs, new requests queue behind it
	Listing                     // A: algorithm 2 as published
	Snapshot                    // B: the tail at the first pass bounds the chain
)

// String returns the name in the words of the reference model.
func (p Processing) String() string {
	if int(p) < len(processings) {
		return processings[p]
	}
	return "unknown"
}

var processings = [...]string{"chainlock", "listing", "snapshot"}

// Port is a port of a switch.
type Port struct {
	// Rate is that of its link, and Framing what a frame takes on it beyond its size. Rate 0: how long a packet waits for
	// the link is not known; when the switch decided is then not judged.
	Rate    clock.BitRate
	Framing int
	Trunk   bool // it leads to another switch of the test: what comes by it has been seen there
	Peer    bool // of a trunk: to the backup, or from it to the original; what leaves by it is for that switch (§9)
}

// Switch is what a test sets of one switch.
type Switch struct {
	Name       string
	Processing Processing
	Ports      []Port

	// Pipeline and PipelineMost bound the time from ingress to egress without recirculation and waiting (§5.2). Most: 0 is
	// the same as the least.
	Pipeline, PipelineMost clock.Duration
	// Recirculation and RecirculationMost bound d_recirc, that of each further pass (§5.1). 0: all happens in one.
	Recirculation, RecirculationMost clock.Duration
	// Passes is how many further passes there are from a release to the first grant, 0: one (§5.1).
	Passes int

	Dedup    bool // an ACQUIRE of whom q1 has is absorbed, or answered again (§7)
	TIDCheck bool // a release of whom does not hold is dropped (§9)
	OneRTT   bool // grants go to the database (§5.3)

	// Placed says that Slots and Locks are known: the size of the pool, and s_i of the locks that are installed (§6.1).
	Placed bool
	Slots  int
	Locks  map[uint32]int
	// Moves says that locks may be paused and moved during the test (§6.4) and that nobody tells when: where a lock is,
	// and how long a request waits for that, is then not judged. Otherwise a change of placement is told, and Settled is
	// how long after it nobody is blamed for what follows the old one.
	Moves   bool
	Settled clock.Duration
	// Reaction is how long the control plane takes at most to go on as a lock that is to move is drained, or has moved; 0:
	// not known.
	Reaction clock.Duration
	// Marks says that such a switch begins without locks and tells servers of moves by PUSH_REQ with a mark, which they
	// answer by PUSH_EMPTY.
	Marks bool

	// Priorities is P, up to 255; 0 and 1: none (§8). Requests without a priority have the lowest.
	Priorities int
	// Period is after what the control plane resets counters of tenants, and Reset the first time (§8); 0: no quotas.
	Period clock.Duration
	Reset  clock.Time
	Quota  map[uint16]int64 // of tenants, per Period; others have none

	// Lease and Poll are T_lease and T_poll (§9); Lease 0: none.
	Lease, Poll clock.Duration
	// PushRetry is how long a switch waits before it repeats a PUSH_REQ (§6.2); 0: not known.
	PushRetry clock.Duration

	Standby bool // it grants only once a switch that is not on standby has stopped (§9)
	Pauses  bool // flow control may keep its ports from sending
}

// Demand is what an allocator is given about a lock (§6.1).
type Demand struct {
	Lock       uint32
	Rate       float64 // r_i
	Contention int     // c_i
}

// Allocation is what a control plane decided (§6.1): what its allocator was given, and which locks got slots.
type Allocation struct {
	At      clock.Time
	Demands []Demand
	Slots   int
	Given   map[uint32]int
	Optimal bool // by algorithm 3, of locks with one queue
}

// Network is what the analyzer may know of a test.
type Network struct {
	Switches []Switch
	// Servers own locks and buffer, Databases answer with OneRTT.
	Servers, Databases []netip.Addr
	// Complete says that each packet at a port, and each that is dropped inside, is shown, but for gaps that are told. If
	// it is not set, nobody is blamed for what an unseen packet explains.
	Complete bool
	// Lossless says that lock servers get all that leaves for them, and that all leaves the switch that they send.
	Lossless bool
	// Joined says that traffic ran before the first packet that is shown.
	Joined bool
	// NotBefore is before when no server grants: all replace servers that have failed (§9). 0: they do not.
	NotBefore clock.Time
	// ServersLease says that lock servers end leases of their own: ServerLease and ServerPoll, as those of switches.
	// Otherwise they have those of the switch.
	ServersLease            bool
	ServerLease, ServerPoll clock.Duration
	// ServersDedup says that lock servers drop requests that they have already.
	ServersDedup bool
	// ServersTimed says that the following are known, and that each server has a port of its own. ServerWay bounds the
	// time from when a packet has left the switch until a server takes it, plus the time from the answer until it comes to
	// the switch, without waiting for others. ServerTakes bounds how long a server takes for a packet, while others wait,
	// and ServerGap the time between two packets that it sends.
	ServersTimed                      bool
	ServerWay, ServerTakes, ServerGap clock.Duration
	// Uncertainty bounds by how much the difference of two time stamps is wrong.
	Uncertainty clock.Duration
	// Demands are what the allocator of each switch was given; nil: not judged. Optimal: it is the optimal one.
	Demands [][]Demand
	Optimal bool
}
