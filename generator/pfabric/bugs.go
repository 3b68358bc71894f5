package pfabric

import "candela.dev/candela/generator/fault"

// Bug is a deliberate fault, which the analyzer must detect.
type Bug uint8

// Bugs is a set of faults. The zero value is empty.
type Bugs = fault.Set[Bug]

// Faults of the sender.
const (
	BugOverrunsWindow Bug = iota
	BugKeepsWindow
	BugEarlyTimeout
	BugNoTimeout
	BugRetransmitsAcknowledged
	BugNoProbes
	BugProbesAtOnce
	BugConstantRank
	BugNewestFirst
	BugSkipsPacket
	// Faults of the receiver.
	BugForgetsAck
	BugAcksNext
	BugAcksBeyond
)

var catalogue = fault.Catalogue[Bug]{
	BugOverrunsWindow: {Name: "overruns-window", Rule: "pfabric.window",
		What: "twice the window is in flight"},
	BugKeepsWindow: {Name: "keeps-window", Rule: "pfabric.window",
		What: "a timeout leaves the window as it is"},
	BugEarlyTimeout: {Name: "early-timeout", Rule: "pfabric.retransmit-early",
		What: "the timer runs out after half of its time"},
	BugNoTimeout: {Name: "no-timeout", Rule: "pfabric.send-missing",
		What: "the timer never runs out"},
	BugRetransmitsAcknowledged: {Name: "retransmits-acknowledged", Rule: "pfabric.retransmit-acknowledged",
		What: "after a timeout the first packet of the flow is retransmitted, though it was acknowledged"},
	BugNoProbes: {Name: "no-probes", Rule: "pfabric.probe-missing",
		What: "after any number of timeouts whole packets are retransmitted"},
	BugProbesAtOnce: {Name: "probes-at-once", Rule: "pfabric.probe-early",
		What: "the first timeout already leads to probes"},
	BugConstantRank: {Name: "constant-rank", Rule: "pfabric.rank",
		What: "all packets of a flow have the rank of its first one"},
	BugNewestFirst: {Name: "highest-rank-first", Rule: "pfabric.priority",
		What: "of several flows the one of the highest rank sends first"},
	BugSkipsPacket: {Name: "skips-packet", Rule: "pfabric.sequence",
		What: "every 16th new packet is left out until a timeout"},
	BugForgetsAck: {Name: "forgets-ack", Rule: "pfabric.ack-missing",
		What: "every 8th packet is not acknowledged"},
	BugAcksNext: {Name: "acks-next", Rule: "pfabric.ack-false",
		What: "every 8th acknowledgement is for the packet after the one that arrived"},
	BugAcksBeyond: {Name: "acks-beyond", Rule: "pfabric.ack-false",
		What: "what arrived after a gap is acknowledged as if the gap were filled"},
}

// Catalogue returns every fault, in numerical order.
func Catalogue() []fault.Info[Bug] { return catalogue.List() }

// ParseBugs returns the set of the named faults. The error for an unknown name lists the known ones.
func ParseBugs(names []string) (Bugs, error) { return catalogue.Parse(names) }
