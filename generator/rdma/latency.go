package rdma

import "candela.dev/candela/clock"

// Latencies are the longest times of a profile, excluding the wait for earlier packets.
type Latencies struct {
	NAK      clock.Duration // from the packet after a gap to the NAK
	Reaction clock.Duration // from a NAK to the first retransmitted packet
}

// Latencies returns the longest times of the profile.
func (p *Profile) Latencies() Latencies {
	l := Latencies{NAK: p.NackGeneration, Reaction: p.NackReaction + p.NackReactionSpread}
	if p.NackBatch > 1 {
		l.NAK += p.NackBatchTimeout
	}
	return l
}
