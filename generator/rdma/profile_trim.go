package rdma

import "candela.dev/candela/clock"

// DefaultTrimDSCP marks trimmed packets unless a test says otherwise. It is the one in the examples of SONiC's
// documentation of packet trimming; the SAI attribute's own default, 0, is best effort's, which marks nothing.
const DefaultTrimDSCP = 48

// BF3 models a BlueField-3-like NIC: a cx6-dx that reacts to trimmed headers. Nothing is published that could be
// measured against. That such NICs exist, recognise trimmed packets by a DSCP, and tell the sender at once is the
// premise of SAI's packet trimming proposal; everything else is ours:
//
//   - Trim latency: 300 ns. The NAK needs neither a batch nor the next packet, so it is about half the 585 ns that cx5
//     takes for a packet out of order.
//   - A header makes one NAK, also for a packet that was NAKed before: a retransmission that is trimmed, too, is
//     reported again.
//   - A trimmed READ response is asked for again as one out of order is, after the same latency.
func BF3() Profile {
	p := CX6Dx()
	p.Name = "bf3"
	p.Description = "model of a BlueField-3-like NIC: cx6-dx that NAKs trimmed headers at once"
	p.TrimReaction = true
	p.TrimLatency = 300 * clock.Nanosecond
	return p
}
