package rdma

import (
	"fmt"
	"strings"

	"candela.dev/candela/clock"
)

// Profile is the behaviour of a NIC model beyond what the specification fixes. Every latency runs from the full arrival
// of the packet (or the posting) that causes an action to the instant at which the caused packet may take the wire.
type Profile struct {
	Name        string
	Description string
	Vendor      string // whose counter names it uses

	SendLatency          clock.Duration // from posting a work request to its first packet
	AckLatency           clock.Duration // from a request to its ACK or atomic ACK
	ReadResponseLatency  clock.Duration // from a READ request to its first response
	NackGeneration       clock.Duration // from the packet after a gap to the NAK; likewise for other NAKs
	NackReaction         clock.Duration // from a NAK to the first retransmitted packet
	ReadRerequestLatency clock.Duration // from a READ response after a gap to the repeated READ request
	TimeoutReaction      clock.Duration // from the expiry of the local ACK timer to the first retransmitted packet
	CNPLatency           clock.Duration // from a marked packet to the CNP

	// NackReactionSpread is added to NackReaction with a uniformly drawn share: firmware is busy with other things, too.
	NackReactionSpread clock.Duration
	// NackBatch is how many out-of-sequence packets of a gap are reported together: the NAK is generated when that many
	// have arrived, or NackBatchTimeout after the first. 0 and 1: each at once.
	NackBatch        int
	NackBatchTimeout clock.Duration

	// PipelineDepth is how many packets the transmit pipeline holds that all queue pairs of the port share. It is filled
	// as long as any of them has something to send; what has entered it leaves in that order, so a retransmission queues
	// behind it. 0: no pipeline, the next packet is chosen when the wire is idle.
	PipelineDepth int
	// SendsOn lets the old round go on while the NIC reacts to a NAK. Without it a NAK stops the queue pair at once.
	SendsOn bool

	// TimeoutFactor scales the local ACK timeout: it is TimeoutFactor · T, T = 4.096 us · 2^t. IBTA 9.7.6.1.3 allows 1 to
	// 4.
	TimeoutFactor float64
	// FirstTimeoutLow and FirstTimeoutHigh are shares of that timeout between which the first timeout after progress is
	// drawn. Both 0: it is like all others.
	FirstTimeoutLow, FirstTimeoutHigh float64

	// AdaptiveSchedule are the timeouts of adaptive retransmission, in units of T, one after the other; the last one
	// repeats. The place in the schedule belongs to the queue pair: it does not start over with the next message. Empty:
	// the NIC has no adaptive retransmission.
	AdaptiveSchedule []float64
	// AdaptiveFreeUpTo is the longest adaptive timeout, in units of T, that is not charged to the retry count.
	AdaptiveFreeUpTo float64
	// AdaptiveFirstFree says that the first timeout after progress is never charged; otherwise it is charged only once the
	// schedule has reached its end.
	AdaptiveFirstFree bool

	// AckCoalescing lets a later ACK replace one that still waits in the NIC.
	AckCoalescing bool

	// SerialReaction says that one processor of the NIC serves all NAKs one after the other: each reaction starts when the
	// one before is over, so that losses of some connections delay the repair of others.
	SerialReaction bool
	// ClearsMigReq makes the NIC send BTH.MigReq = 0: it never considers a path as migrated.
	ClearsMigReq bool
	// SlowPathQueue is how many packets with MigReq = 0 may wait for the slow path that looks at their path, at
	// SlowPathService for each; more are discarded. 0: there is no slow path.
	SlowPathQueue   int
	SlowPathService clock.Duration
	// ETSShares divides the port among as many classes, in percent; queue pairs belong to them in the order of their
	// creation, in turn. No class gets more than its share, even if the others are idle: the scheduler is not
	// work-conserving. Empty: one class.
	ETSShares []float64

	// TrimReaction makes the NIC recognise trimmed headers by TrimDSCP and ask at once for what they name, TrimLatency
	// after their arrival: a request by a NAK, a READ response by repeating the READ request. Without it a trimmed packet
	// is a damaged one.
	TrimReaction bool
	TrimDSCP     int
	TrimLatency  clock.Duration

	CNPMode     CNPMode        // default scope of CNP pacing
	CNPInterval clock.Duration // default minimum time between CNPs of one scope
	CNPWithNack bool           // with slow restart configured, a sequence NAK triggers a CNP, too

	CounterNames map[string]string // canonical → vendor's name
}

// nvidiaNames are counter names of NVIDIA's Linux driver where they differ from the canonical ones.
var nvidiaNames = map[string]string{
	"tx_packets":  "tx_vport_rdma_unicast_packets",
	"tx_bytes":    "tx_vport_rdma_unicast_bytes",
	"rx_packets":  "rx_vport_rdma_unicast_packets",
	"rx_bytes":    "rx_vport_rdma_unicast_bytes",
	"rx_discards": "rx_discards_phy",
	"tx_discards": "tx_discards_phy",
}

// Spec returns the profile that follows IBTA volume 1, chapter 9, to the letter. Its latencies are round numbers of our
// choice in the range of current NICs (500 ns of processing, 1 us to notice and to repair a loss), not measurements.
func Spec() Profile {
	return Profile{
		Name:                 "spec",
		Description:          "follows IBTA volume 1 to the letter, with fixed round latencies",
		Vendor:               "nvidia",
		SendLatency:          500 * clock.Nanosecond,
		AckLatency:           500 * clock.Nanosecond,
		ReadResponseLatency:  500 * clock.Nanosecond,
		NackGeneration:       clock.Microsecond,
		NackReaction:         clock.Microsecond,
		ReadRerequestLatency: clock.Microsecond,
		TimeoutReaction:      clock.Microsecond,
		CNPLatency:           500 * clock.Nanosecond,
		TrimDSCP:             DefaultTrimDSCP,
		TrimLatency:          500 * clock.Nanosecond,
		TimeoutFactor:        1,
		AckCoalescing:        true,
		CNPMode:              CNPPerIPPair,
		CNPInterval:          4 * clock.Microsecond,
		CNPWithNack:          true,
		CounterNames:         nvidiaNames,
	}
}

var profiles = []func() Profile{Spec, CX4Lx, CX5, CX6Dx, E810, BF3}

// Profiles returns all NIC profiles.
func Profiles() []Profile {
	list := make([]Profile, len(profiles))
	for i, f := range profiles {
		list[i] = f()
	}
	return list
}

// ProfileByName returns the profile with this name; the error of an unknown one lists those that exist.
func ProfileByName(name string) (Profile, error) {
	var names []string
	for _, p := range append(Profiles(), Variants()...) {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("NIC profile %q is unknown (known: %s)", name, strings.Join(names, ", "))
}
