package ndp

import (
	"fmt"
	"strings"
)

// Bug is a deliberate fault, so that the analyzer can prove that it catches it.
type Bug uint8

// Bugs is a set of faults. The zero value is a host without any.
type Bugs uint32

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
	bugCount
)

// BugInfo describes one fault of the catalogue.
type BugInfo struct {
	Name string
	Bug  Bug
	What string // what the host does
	Rule string // id of the analyzer's rule that catches it
}

var catalogue = [bugCount]BugInfo{
	BugSendsWithoutPull:        {Name: "sends-without-pull", What: "every ACK lets one more packet go, besides the PULLs", Rule: "ndp.send-without-pull"},
	BugRetransmitsWithoutPull:  {Name: "retransmits-without-pull", What: "a NACKed packet is sent again at once", Rule: "ndp.send-without-pull"},
	BugForgetsRetransmission:   {Name: "forgets-retransmission", What: "every eighth NACK is ignored", Rule: "ndp.retransmit-first"},
	BugNewDataFirst:            {Name: "new-data-first", What: "retransmissions wait until all new data is sent", Rule: "ndp.retransmit-first"},
	BugRetransmitsAcknowledged: {Name: "retransmits-acknowledged", What: "every 16th PULL is spent on the first packet, acknowledged long ago", Rule: "ndp.retransmit-spurious"},
	BugEarlyTimeout:            {Name: "early-timeout", What: "the RTO runs out after a sixteenth of its time", Rule: "ndp.timeout-early"},
	BugEchoesIncast:            {Name: "echoes-incast", What: "every returned header is sent again at once", Rule: "ndp.return-echo"},
	BugIgnoresReturned:         {Name: "ignores-returned", What: "returned headers are ignored: the RTO has to repair the loss", Rule: "ndp.return-unanswered"},
	BugOverrunsWindow:          {Name: "overruns-window", What: "the first window is twice as large as configured", Rule: "ndp.send-without-pull"},
	BugAcksTrimmed:             {Name: "acks-trimmed", What: "every eighth trimmed header is acknowledged", Rule: "ndp.ack-trimmed"},
	BugForgetsNack:             {Name: "forgets-nack", What: "every eighth trimmed header is not answered", Rule: "ndp.nack-missing"},
	BugForgetsAck:              {Name: "forgets-ack", What: "every eighth whole packet is not answered", Rule: "ndp.ack-missing"},
	BugNacksWhole:              {Name: "nacks-whole", What: "every 16th whole packet is NACKed and not kept", Rule: "ndp.nack-whole"},
	BugDoublePull:              {Name: "double-pull", What: "every packet that arrives is worth two PULLs", Rule: "ndp.pull-excess"},
	BugPullBackwards:           {Name: "pull-backwards", What: "every 16th PULL carries a counter lower than the one before", Rule: "ndp.pull-counter"},
	BugForgetsPull:             {Name: "forgets-pull", What: "every 16th packet that arrives earns no PULL", Rule: "ndp.pull-missing"},
	BugPacesFast:               {Name: "paces-fast", What: "PULLs leave at five quarters of line rate", Rule: "ndp.pull-fast"},
	BugPacesSlowly:             {Name: "paces-slowly", What: "PULLs leave at half of line rate", Rule: "ndp.pull-slow"},
	BugUnfairPull:              {Name: "unfair-pull", What: "a connection is pulled until it has no credit left, then the next", Rule: "ndp.pull-unfair"},
}

// Catalogue returns every fault, in the order of their numbers.
func Catalogue() []BugInfo {
	list := make([]BugInfo, bugCount)
	for i := range list {
		list[i] = catalogue[i]
		list[i].Bug = Bug(i)
	}
	return list
}

// NewBugs returns the set of the given faults.
func NewBugs(list ...Bug) Bugs {
	var s Bugs
	for _, b := range list {
		s |= 1 << b
	}
	return s
}

// Has reports whether b is in the set.
func (s Bugs) Has(b Bug) bool { return s>>b&1 != 0 }

// ParseBugs returns the set of the named faults. The error of an unknown name lists those that exist.
func ParseBugs(names []string) (Bugs, error) {
	var set Bugs
	known := make([]string, 0, bugCount)
	for _, b := range catalogue {
		known = append(known, b.Name)
	}
next:
	for _, name := range names {
		for i, b := range catalogue {
			if b.Name == name {
				set |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("bug %q is unknown (known: %s)", name, strings.Join(known, ", "))
	}
	return set, nil
}

// nth counts occasions of one fault: every n-th is spoilt.
type nth uint32

func (c *nth) due(n uint32) bool {
	*c++
	return uint32(*c)%n == 0
}
