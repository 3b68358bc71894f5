package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// mistake applies faults that confuse old and new ACKs and NAKs, or one queue pair and the next. It reports whether p
// is handled completely.
func (r *requester) mistake(now clock.Time, p *packet.Packet) bool {
	bugs := r.q.nic.bugs
	psn := r.una + int64(p.BTH.PSN.Sub(packet.NewPSN(r.una)))
	switch nack := p.AETH.Syndrome == packet.SyndromeNakSequence; {
	case p.AETH.Syndrome.IsAck():
		return bugs.Has(BugWrapAcksIgnored) && p.BTH.PSN < packet.NewPSN(r.una)
	case nack && bugs.Has(BugObeysStaleNack) && psn < r.una && r.out.len() > 0 && psn >= r.out.at(0).first:
		r.seek(psn)
		r.ackDue = r.una
		r.q.schedule(now)
		return true
	case nack && bugs.Has(BugNackRestartsNeighbour):
		next := r.q.nic.qps[(r.q.index+1)%len(r.q.nic.qps)]
		if other := &next.req; next != r.q && next.state == stateReady && other.una < other.nxt {
			other.retry(now, rewind{at: now})
			next.schedule(now)
		}
	}
	return false
}

// spread moves the host's other queue pairs to the error state, too (BugErrorSpreads).
func (q *QP) spread(now clock.Time) {
	if !q.nic.bugs.Has(BugErrorSpreads) {
		return
	}
	for _, other := range q.nic.qps {
		if other.state == stateReady {
			other.fail(now, generator.WorkRequestFlushed)
		}
	}
}
