package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// nakReady returns when a NAK decided now may be sent. With NackBatch, a sequence NAK waits until its batch is complete
// or its timeout expires.
func (r *responder) nakReady(now clock.Time, s packet.Syndrome) clock.Time {
	p := &r.q.nic.profile
	at := now.Add(p.NackGeneration)
	if s == packet.SyndromeNakSequence && p.NackBatch > 1 {
		at = at.Add(p.NackBatchTimeout)
	}
	return at
}

// another counts one more packet after the gap. The packet that completes the batch releases the NAK.
func (r *responder) another(now clock.Time) {
	p := &r.q.nic.profile
	if r.batch++; p.NackBatch <= 1 || r.batch != p.NackBatch {
		return
	}
	for i := range r.out.len() {
		if a := r.out.at(i); a.kind == answerAck && a.syndrome == packet.SyndromeNakSequence {
			a.ready = min(a.ready, now.Add(p.NackGeneration))
		}
	}
	r.q.schedule(now)
}
