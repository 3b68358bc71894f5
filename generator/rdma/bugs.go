package rdma

import (
	"fmt"
	"strings"
)

// Bugs is a set of deliberate faults that can be switched on in any profile, so that each analyzer can prove that it catches
// them. The zero value is a NIC without faults.
type Bugs uint64

// Seeded faults.
const (
	BugNackPSNPlusOne Bugs = 1 << iota
	BugNoNack
	BugDoubleNack
	BugAckBeyond
	BugRetransmitSkipsFirst
	BugNackDuplicates
	BugCNPUnprovoked
	BugStuckPacketSeqErr
	BugEarlyTimeout
	BugMSNStuck
	BugReadReplayFromStart
	BugAcceptBadICRC
)

// Bug describes one fault of the catalogue.
type Bug struct {
	Name        string // in configurations: bugs: [name]
	Description string
	Bug         Bugs
}

var catalogue = []Bug{
	{"nack-psn-plus-one", "a sequence NAK names the PSN after the missing one", BugNackPSNPlusOne},
	{"no-nack", "out-of-sequence requests are dropped without a NAK", BugNoNack},
	{"double-nack", "every sequence NAK is sent twice", BugDoubleNack},
	{"ack-beyond", "an out-of-sequence request is acknowledged instead of NAKed", BugAckBeyond},
	{"retransmit-skips-first", "after a NAK retransmission starts one packet too late", BugRetransmitSkipsFirst},
	{"nack-duplicates", "a duplicate SEND or WRITE is answered with a sequence NAK", BugNackDuplicates},
	{"cnp-unprovoked", "a CNP is sent for every 16th data packet, marked or not", BugCNPUnprovoked},
	{"stuck-packet-seq-err-counter", "packet_seq_err never counts", BugStuckPacketSeqErr},
	{"early-timeout", "the local ACK timeout fires after a quarter of its time", BugEarlyTimeout},
	{"msn-stuck", "the MSN stays zero", BugMSNStuck},
	{"read-replay-from-start-wrong", "a repeated READ request is answered from the original's first PSN on", BugReadReplayFromStart},
	{"accept-bad-icrc", "packets with a wrong iCRC are accepted", BugAcceptBadICRC},
}

// Catalogue returns all seeded faults in the order of their introduction.
func Catalogue() []Bug { return append([]Bug(nil), catalogue...) }

// ParseBugs returns the set of the named faults. The error of an unknown name lists those that exist.
func ParseBugs(names []string) (Bugs, error) {
	var set Bugs
	for _, name := range names {
		b, ok := findBug(name)
		if !ok {
			return 0, fmt.Errorf("bug %q is unknown (known: %s)", name, strings.Join(bugNames(), ", "))
		}
		set |= b
	}
	return set, nil
}

func findBug(name string) (Bugs, bool) {
	for _, b := range catalogue {
		if b.Name == name {
			return b.Bug, true
		}
	}
	return 0, false
}

func bugNames() []string {
	names := make([]string, len(catalogue))
	for i, b := range catalogue {
		names[i] = b.Name
	}
	return names
}

// Has reports whether any of faults b is switched on.
func (s Bugs) Has(b Bugs) bool { return s&b != 0 }

// Names returns the names of the faults that are switched on, in catalogue order.
func (s Bugs) Names() []string {
	var names []string
	for _, b := range catalogue {
		if s.Has(b.Bug) {
			names = append(names, b.Name)
		}
	}
	return names
}
