package rank

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
)

// Scheme is how a queue chooses what it keeps and what it sends first.
type Scheme uint8

// Schemes.
const (
	PIFO   Scheme = iota // sorted by rank
	AIFO                 // first in, first out; admission by rank
	SPPIFO               // strict priorities between FIFOs, with bounds that follow the ranks
	AFQ                  // calendar of rounds
	PIEO                 // sorted by rank; of the packets that may leave the first leaves
	HPIFO                // a tree of PIFOs
)

// Settings are what a port's queue is set to, in the terms of model and judge.
type Settings struct {
	Scheme Scheme
	Limits // of PIFO, PIEO, HPIFO and AFQ
	// STFQ says that the port ranks packets itself: start-time fair queueing.
	STFQ      bool
	Undo      bool // of STFQ: a packet that is dropped does not move its flow on
	Admission Admission
	Mapping   Mapping
	Pace      clock.BitRate // of PIEO, at which each flow may send; 0: as fast as it likes
	Calendar  Calendar
	Tree      analyzers.Tree // of HPIFO
}

// Admission is AIFO (Yu et al. 2021, algorithm 5). A packet that arrives while c packets wait is admitted if
// c ≤ k C or, of the window, a share of at most (C − c) / (C (1 − k)) has smaller ranks. k is HeadroomPPM / 10^6.
type Admission struct {
	Target      int64 // C, packets
	HeadroomPPM int64 // k, millionths
	Window      int   // ranks
	Sample      int   // one of so many packets enters the window
	UpdateFirst bool  // the packet enters the window before the decision
	Below       bool  // the share must be below, not at most, what is free
	Room        int   // packets that the queue holds at most
	// Cell is the size in bytes of the cells in which Target and Room are given and the queue is counted, each packet by
	// whole cells; 0: packets.
	Cell int
	// Multiplier replaces HeadroomPPM: a packet is admitted if below × Multiplier + c ≤ C, below being how many ranks of
	// the window are smaller. k is 1 − Window × Multiplier / C. 0: it does not.
	Multiplier int64
	// Stale says that the ingress knows the queue only by lengths that packets leave behind as they depart. The window
	// then has all its places from the start, with ranks that are never smaller. Loop is how long such a length takes.
	Stale bool
	Loop  clock.Duration
}

// Mapping is SP-PIFO (Alcoz et al. 2020).
type Mapping struct {
	Queues   int
	Packets  int  // in a queue
	PushUp   bool // the bound of a queue becomes the rank of what joins it
	PushDown bool // inversions lower the bounds of all queues
}

// Calendar is AFQ (Sharma et al. 2018): a flow may send RoundBytes in a round, and be at most Rounds ahead.
type Calendar struct {
	Rounds     int
	RoundBytes int64
}
