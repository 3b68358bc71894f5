// Package bounds holds what analyzers assume about hosts where no test says it: how long a packet may take between the
// observer and a host, and how short a timer may be. Analyzers that assumed different values would contradict each
// other about one packet.
package bounds

import "candela.dev/candela/trace"

// ShortestTimeoutNS is the shortest local ACK timeout that a requester is taken to run with if nobody says which it is.
// The adaptive timeouts that Lumina measured start at 4 ms (figure 5-12).
const ShortestTimeoutNS = 1_000_000

// TimeoutNS returns t, or the shortest timeout if t is 0: not known.
func TimeoutNS(t int64) int64 {
	if t <= 0 {
		return ShortestTimeoutNS
	}
	return t
}

// SlowestReactionNS bounds the time from the expiry of a timer to the retransmission: more than the 200 us of a
// ConnectX-4's firmware (Lumina, figure 5-9).
const SlowestReactionNS = 500_000

// IdleJitterNS bounds how much the delay of an idle path changes: the time of one full frame on a slow link.
const IdleJitterNS = 5_000

const (
	// mirrorDelayNS is assumed of hosts a cable away from a switch: beyond any queue there, yet below half the default
	// local ACK timeout.
	mirrorDelayNS = 20_000_000
	// captureDelayNS is assumed of hosts in captures, which come from software stacks, too: their soft interrupts may be
	// held up.
	captureDelayNS = 250_000_000
)

// UnseenFrames is how many frames a tap may have missed without being known for it.
const UnseenFrames = 2

// ReactionNS is longer than a packet takes from the switch to a host, and its consequence back.
const ReactionNS = 2 * mirrorDelayNS

// Hosts is what is known of the hosts of a trace. The zero value says nothing.
type Hosts struct {
	// DelayNS bounds the time that a packet takes between the observer and a host's transport, either way; 0: not
	// measured.
	DelayNS int64
	// LinkNS is the longest propagation, one way, of the links between hosts and switch as the testbed is described; 0:
	// not known.
	LinkNS int64
	// Software says that the hosts are software on machines that may be suspended.
	Software bool
}

// A Delay bounds the time that a packet takes between the observer and a host, either way.
type Delay struct {
	ns, linkNS int64
	measured   bool
}

// Delay returns the bound for a trace of a kind.
func (h Hosts) Delay(kind trace.Kind) Delay {
	d := Delay{ns: h.DelayNS, linkNS: h.LinkNS, measured: h.DelayNS > 0}
	switch {
	case d.measured:
	case kind == trace.KindMirror && !h.Software:
		d.ns = max(mirrorDelayNS, 2*h.LinkNS)
	default:
		d.ns = max(captureDelayNS, 2*h.LinkNS)
	}
	return d
}

// NS returns the bound.
func (d Delay) NS() int64 { return d.ns }

// RoundTripNS bounds the time from the observer to a host and back.
func (d Delay) RoundTripNS() int64 { return 2 * d.ns }

// Measured reports whether the bound was measured.
func (d Delay) Measured() bool { return d.measured }

// roundTrip is how many delays a request and its answer take.
const roundTrip = 4

// BesideNS returns the bound for a connection with a local ACK timeout of t. A delay that was not measured is at most
// t/4, since four of them make a round trip and a connection whose timeout is shorter than that cannot work, unless the
// links alone take longer.
func (d Delay) BesideNS(t int64) int64 {
	if d.measured {
		return d.ns
	}
	return max(min(d.ns, t/roundTrip), 2*d.linkNS)
}
