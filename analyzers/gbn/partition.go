package gbn

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// checkPartition compares the partition key of a packet with its sender's first one, and records where it is unknown
// which key the receiver accepts: before the receiver's own packets show its key.
func (a *Analyzer) checkPartition(r *trace.Record) {
	if a.partitions.Usual(r) {
		return
	}
	first := a.partitions.Learn(r)
	key, known := a.partitions.Key(r.Flow)
	if !known {
		return
	}
	peer, peerKnown := a.partitions.Key(r.Flow.Peer())
	if first && peerKnown && !trace.SamePartition(key, peer) {
		a.mistrust(r.Flow)
	}
	if r.PKey == key || !a.partitions.Shows(r) {
		return
	}
	say(a.report(RulePKeyChanged, r, r.Flow.Connection()), fmt.Sprintf("partition key 0x%04x, as before", key),
		fmt.Sprintf("%v with partition key 0x%04x", r.Opcode, r.PKey),
		causePartition(cause.Sender(r), cause.At(&a.meta, r.TimeNS), r.PKey, key))
	if !peerKnown {
		a.mistrust(r.Flow)
	}
}

// mistrust marks the deliveries of both directions of a connection as unknown.
func (a *Analyzer) mistrust(flow trace.FlowID) {
	a.session(flow).fateUnknown = true
	a.session(flow.Peer()).fateUnknown = true
}

// strangers reports whether nothing shows that the responder to the requests on flow accepts their partition: the key
// is not the default, and the responder sent no packet. Its silence is then not a fault.
func (a *Analyzer) strangers(flow trace.FlowID) bool {
	key, known := a.partitions.Key(flow)
	_, confirmed := a.partitions.Key(flow.Peer())
	return known && !confirmed && key != trace.DefaultPKey
}
