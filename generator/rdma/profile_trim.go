package rdma

import "candela.dev/candela/clock"

// DefaultTrimDSCP is the default DSCP of trimmed packets, as in SONiC's documentation of packet trimming. The SAI
// attribute's default, 0, is that of best effort and marks nothing.
const DefaultTrimDSCP = 48

// BF3 models a BlueField-3-like NIC: a cx6-dx that reacts to trimmed headers. No measurements are published. SAI's
// packet trimming proposal assumes NICs that recognise trimmed packets by a DSCP and notify the sender at once;
// everything else is ours:
//
//   - Trim latency: 300 ns. The NAK needs neither a batch nor the next packet, so it takes about half of cx5's 585 ns
//     for a packet out of order.
//   - Each header causes one NAK, also for a packet that was NAKed before: a trimmed retransmission is reported again.
//   - A trimmed READ response causes a new READ request, like one out of order, after the same latency.
func BF3() Profile {
	p := CX6Dx()
	p.Name = "bf3"
	p.Description = "model of a BlueField-3-like NIC: cx6-dx that NAKs trimmed headers at once"
	p.TrimReaction = true
	p.TrimLatency = 300 * clock.Nanosecond
	return p
}
