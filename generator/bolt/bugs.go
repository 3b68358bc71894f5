package bolt

import "candela.dev/candela/generator/fault"

// Bug is a deliberate fault, which the analyzer must detect.
type Bug uint8

// Bugs is a set of faults. The zero value is empty.
type Bugs = fault.Set[Bug]

// Faults of the sender.
const (
	BugIgnoresSRC Bug = iota
	BugHalvesOnSRC
	BugObeysEverySRC
	BugOverrunsWindow
	BugNoIncrease
	BugIncreasesOnEveryAck
	BugIgnoresInc
	BugGrowsWithoutInc
	BugKeepsWindow
	BugNeverLast
	BugNeverFirst
	BugAlwaysInc
	BugStaleTime
	BugEarlyTimeout
	BugNoTimeout
	BugRetransmitsAcknowledged
	BugSkipsPacket
	// Faults of the receiver.
	BugForgetsAck
	BugAcksNext
	BugAcksBeyond
	BugForgetsFlags
	BugOwnTime
)

var catalogue = fault.Catalogue[Bug]{
	BugIgnoresSRC: {Name: "ignores-src", Rule: "bolt.window", What: "SRC packets leave the window as it is"},
	BugHalvesOnSRC: {Name: "halves-on-src", Rule: "bolt.send-missing",
		What: "an SRC packet that is obeyed halves the window"},
	BugObeysEverySRC: {Name: "obeys-every-src", Rule: "bolt.send-missing",
		What: "every SRC packet takes a packet from the window, however shortly after the last"},
	BugOverrunsWindow: {Name: "overruns-window", Rule: "bolt.window", What: "twice the window is in flight"},
	BugNoIncrease: {Name: "no-increase", Rule: "bolt.send-missing",
		What: "the window does not grow by a packet a round trip"},
	BugIncreasesOnEveryAck: {Name: "increases-on-every-ack", Rule: "bolt.window",
		What: "every ACK adds what a round trip may"},
	BugIgnoresInc: {Name: "ignores-inc", Rule: "bolt.send-missing", What: "ACKs with INC do not open the window"},
	BugGrowsWithoutInc: {Name: "grows-without-inc", Rule: "bolt.window",
		What: "ACKs without INC open the window, too"},
	BugKeepsWindow: {Name: "keeps-window", Rule: "bolt.window", What: "a loss leaves the window as it is"},
	BugNeverLast:   {Name: "never-last", Rule: "bolt.flags", What: "no packet has LAST"},
	BugNeverFirst:  {Name: "never-first", Rule: "bolt.flags", What: "no packet has FIRST"},
	BugAlwaysInc: {Name: "always-inc", Rule: "bolt.flags",
		What: "packets of the first and of the last window have INC"},
	BugStaleTime: {Name: "stale-time", Rule: "bolt.time",
		What: "retransmissions, and every 8th packet, have a time of sending 1 us too early"},
	BugEarlyTimeout: {Name: "early-timeout", Rule: "bolt.retransmit-early",
		What: "the timer runs out after half of its time"},
	BugNoTimeout: {Name: "no-timeout", Rule: "bolt.send-missing", What: "the timer never runs out"},
	BugRetransmitsAcknowledged: {Name: "retransmits-acknowledged", Rule: "bolt.retransmit-acknowledged",
		What: "after a timeout the first packet of the flow is retransmitted, though it was acknowledged"},
	BugSkipsPacket: {Name: "skips-packet", Rule: "bolt.sequence",
		What: "every 16th new packet is left out until it counts as lost"},
	BugForgetsAck: {Name: "forgets-ack", Rule: "bolt.ack-missing", What: "every 8th packet is not acknowledged"},
	BugAcksNext: {Name: "acks-next", Rule: "bolt.ack-false",
		What: "every 8th acknowledgement is for the packet after the one that arrived"},
	BugAcksBeyond: {Name: "acks-beyond", Rule: "bolt.ack-false",
		What: "what arrived after a gap is acknowledged as if the gap were filled"},
	BugForgetsFlags: {Name: "forgets-flags", Rule: "bolt.ack-content", What: "ACKs do not repeat INC and DEC"},
	BugOwnTime: {Name: "own-time", Rule: "bolt.ack-content",
		What: "ACKs have their own time of sending instead of that of the data"},
}

// Catalogue returns every fault, in numerical order.
func Catalogue() []fault.Info[Bug] { return catalogue.List() }

// ParseBugs returns the set of the named faults. The error for an unknown name lists the known ones.
func ParseBugs(names []string) (Bugs, error) { return catalogue.Parse(names) }
