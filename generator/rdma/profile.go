package rdma

import (
	"fmt"
	"strings"

	"candela.dev/candela/clock"
)

// Profile is the behaviour of a NIC model that the specification leaves open. Each latency starts at the full arrival
// of a packet (or at the posting) and ends when the packet that it causes may be transmitted.
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

	// NackReactionSpread is the range of a uniform random delay added to NackReaction: firmware has other work, too.
	NackReactionSpread clock.Duration
	// NackBatch out-of-sequence packets of a gap share one NAK. The NIC generates it when the last of them arrives, or
	// NackBatchTimeout after the first. 0 and 1: a NAK per packet, without delay.
	NackBatch        int
	NackBatchTimeout clock.Duration

	// PipelineDepth is the number of packets in the transmit pipeline that all queue pairs of the port share. The NIC
	// keeps it full while any queue pair has data. It is a FIFO, so a retransmission waits for the packets before it. 0:
	// no pipeline; the NIC chooses the next packet when the wire is idle.
	PipelineDepth int
	// SendsOn lets the queue pair transmit new data while the NIC reacts to a NAK. Without it a NAK stops the queue pair
	// at once.
	SendsOn bool

	// TimeoutFactor scales the local ACK timeout: TimeoutFactor · T, T = 4.096 us · 2^t. IBTA 9.7.6.1.3 allows 1 to 4.
	TimeoutFactor float64
	// FirstTimeoutLow and FirstTimeoutHigh bound the first timeout after progress, drawn uniformly, as shares of the local
	// ACK timeout. Both 0: the first timeout equals the others.
	FirstTimeoutLow, FirstTimeoutHigh float64

	// AdaptiveSchedule lists the successive timeouts of adaptive retransmission, in units of T; the last one repeats. The
	// position belongs to the queue pair, so the next message does not reset it. Empty: no adaptive retransmission.
	AdaptiveSchedule []float64
	// AdaptiveFreeUpTo is the longest adaptive timeout, in units of T, that is not charged to the retry count.
	AdaptiveFreeUpTo float64
	// AdaptiveFirstFree never charges the first timeout after progress. Otherwise it is charged only after the schedule
	// has reached its end.
	AdaptiveFirstFree bool

	// AckCoalescing replaces an ACK that still waits in the NIC by a later one.
	AckCoalescing bool

	// SerialReaction makes one processor serve all NAKs in sequence: a reaction starts when the previous one ends, so
	// losses of one connection delay the retransmissions of others.
	SerialReaction bool
	// ClearsMigReq makes the NIC send BTH.MigReq = 0.
	ClearsMigReq bool
	// SlowPathQueue is the number of packets with MigReq = 0 that may wait for the slow path, which takes SlowPathService
	// for each. Further ones are discarded. 0: no slow path.
	SlowPathQueue   int
	SlowPathService clock.Duration
	// ETSShares divides the port among as many classes, in percent. Queue pairs are assigned to classes round-robin in
	// order of creation. No class exceeds its share, even if the others are idle: the scheduler is not work-conserving.
	// Empty: one class.
	ETSShares []float64

	// TrimReaction makes the NIC recognise trimmed headers by TrimDSCP. TrimLatency after the arrival it asks for the
	// packet: for a request with a NAK, for a READ response by repeating the READ request. Without it a trimmed packet is
	// treated as damaged.
	TrimReaction bool
	TrimDSCP     int
	TrimLatency  clock.Duration

	CNPMode     CNPMode        // default scope of CNP pacing
	CNPInterval clock.Duration // default minimum time between CNPs of one scope
	CNPWithNack bool           // with slow restart configured, a sequence NAK triggers a CNP, too

	CounterNames map[string]string // canonical → vendor's name
}

// nvidiaNames are the counter names of NVIDIA's Linux driver that differ from the canonical ones.
var nvidiaNames = map[string]string{
	"tx_packets":  "tx_vport_rdma_unicast_packets",
	"tx_bytes":    "tx_vport_rdma_unicast_bytes",
	"rx_packets":  "rx_vport_rdma_unicast_packets",
	"rx_bytes":    "rx_vport_rdma_unicast_bytes",
	"rx_discards": "rx_discards_phy",
	"tx_discards": "tx_discards_phy",
}

// Spec returns the profile that follows IBTA volume 1, chapter 9, exactly. Its latencies are round numbers in the range
// of current NICs (500 ns of processing, 1 us to detect and to repair a loss), not measurements.
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

// ProfileByName returns the profile with this name. The error for an unknown name lists the known ones.
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
