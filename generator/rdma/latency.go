package rdma

import "candela.dev/candela/clock"

// Latencies are the longest times that a profile declares, without packets that wait before the one in question.
type Latencies struct {
	NAK      clock.Duration // from the packet behind a gap to the NAK
	Reaction clock.Duration // from a NAK to the first retransmitted packet
}

// Latencies returns the longest times that the profile declares.
func (p *Profile) Latencies() Latencies {
	l := Latencies{NAK: p.NackGeneration, Reaction: p.NackReaction + p.NackReactionSpread}
	if p.NackBatch > 1 {
		l.NAK += p.NackBatchTimeout
	}
	return l
}
