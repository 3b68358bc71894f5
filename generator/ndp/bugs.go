package ndp

import "candela.dev/candela/generator/fault"

// Bug is a deliberate fault, which the analyzer must detect.
type Bug uint8

// Bugs is a set of faults. The zero value is empty.
type Bugs = fault.Set[Bug]

// Faults of the sender.
const (
	BugSendsWithoutPull Bug = iota
	BugRetransmitsWithoutPull
	BugForgetsRetransmission
	BugNewDataFirst
	BugRetransmitsAcknowledged
	BugEarlyTimeout
	BugEchoesIncast
	BugIgnoresReturned
	BugOverrunsWindow
	// Faults of the receiver.
	BugAcksTrimmed
	BugForgetsNack
	BugForgetsAck
	BugNacksWhole
	BugDoublePull
	BugPullBackwards
	BugForgetsPull
	BugPacesFast
	BugPacesSlowly
	BugUnfairPull
	// More faults of the sender.
	BugWastesPull
	BugIgnoresScoreboard
	BugExcludesWithoutCause
)

// BugInfo describes one fault of the catalogue.
type BugInfo = fault.Info[Bug]

var catalogue = fault.Catalogue[Bug]{
	BugSendsWithoutPull: {Name: "sends-without-pull", Rule: "ndp.send-without-pull",
		What: "every ACK lets one more packet go, besides the PULLs"},
	BugRetransmitsWithoutPull: {Name: "retransmits-without-pull", Rule: "ndp.send-without-pull",
		What: "a NACKed packet is retransmitted at once"},
	BugForgetsRetransmission: {Name: "forgets-retransmission", Rule: "ndp.retransmit-first",
		What: "every eighth NACK is ignored"},
	BugNewDataFirst: {Name: "new-data-first", Rule: "ndp.retransmit-first",
		What: "retransmissions wait until all new data is sent"},
	BugRetransmitsAcknowledged: {Name: "retransmits-acknowledged", Rule: "ndp.retransmit-spurious",
		What: "every 16th PULL is spent on the first packet, acknowledged long ago"},
	BugEarlyTimeout: {Name: "early-timeout", Rule: "ndp.timeout-early",
		What: "the RTO runs out after a sixteenth of its time"},
	BugEchoesIncast: {Name: "echoes-incast", Rule: "ndp.return-echo",
		What: "every returned header is retransmitted at once"},
	BugIgnoresReturned: {Name: "ignores-returned", Rule: "ndp.return-unanswered",
		What: "returned headers are ignored: the RTO has to repair the loss"},
	BugOverrunsWindow: {Name: "overruns-window", Rule: "ndp.send-without-pull",
		What: "the first window is twice as large as configured"},
	BugAcksTrimmed: {Name: "acks-trimmed", Rule: "ndp.ack-trimmed",
		What: "every eighth trimmed header is acknowledged"},
	BugForgetsNack: {Name: "forgets-nack", Rule: "ndp.nack-missing",
		What: "every eighth trimmed header is not answered"},
	BugForgetsAck: {Name: "forgets-ack", Rule: "ndp.ack-missing",
		What: "every eighth whole packet is not answered"},
	BugNacksWhole: {Name: "nacks-whole", Rule: "ndp.nack-whole",
		What: "every 16th whole packet is NACKed and not kept"},
	BugDoublePull: {Name: "double-pull", Rule: "ndp.pull-excess",
		What: "every packet that arrives is worth two PULLs"},
	BugPullBackwards: {Name: "pull-backwards", Rule: "ndp.pull-counter",
		What: "every 16th PULL carries a counter lower than the one before"},
	BugForgetsPull: {Name: "forgets-pull", Rule: "ndp.pull-missing",
		What: "every 16th packet that arrives earns no PULL"},
	BugPacesFast: {Name: "paces-fast", Rule: "ndp.pull-fast",
		What: "PULLs leave at five quarters of line rate"},
	BugPacesSlowly: {Name: "paces-slowly", What: "PULLs leave at half of line rate", Rule: "ndp.pull-slow"},
	BugUnfairPull: {Name: "unfair-pull", Rule: "ndp.pull-unfair",
		What: "a connection is pulled until it has no credit left, then the next"},
	BugWastesPull: {Name: "wastes-pull", Rule: "ndp.pull-unanswered",
		What: "every 16th PULL is not answered with a packet"},
	BugIgnoresScoreboard: {Name: "ignores-scoreboard", Rule: "ndp.path-excluded",
		What: "packets still take the paths that the scoreboard excludes (path-penalty)"},
	BugExcludesWithoutCause: {Name: "excludes-without-cause", Rule: "ndp.path-unused",
		What: "path 0 is excluded after each period, whatever was heard of it (path-penalty)"},
}

// Catalogue returns every fault, in numerical order.
func Catalogue() []BugInfo { return catalogue.List() }

// NewBugs returns the set of the given faults.
func NewBugs(list ...Bug) Bugs { return fault.NewSet(list...) }

// ParseBugs returns the set of the named faults. The error for an unknown name lists the known ones.
func ParseBugs(names []string) (Bugs, error) { return catalogue.Parse(names) }

// nth counts occasions of one fault, which affects every n-th.
type nth uint32

func (c *nth) due(n uint32) bool {
	*c++
	return uint32(*c)%n == 0
}
