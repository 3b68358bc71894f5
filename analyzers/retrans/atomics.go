package retrans

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// results keeps the results of the latest atomics of one stream of requests, by place.
type results [keptResults]result

// keptResults is more than the atomics that a requester of any known NIC may have outstanding: an older one is not
// repeated.
const keptResults = 128

// result is the first answer to an atomic.
type result struct {
	place int64
	value uint64
	id    uint64 // of the record
}

// atomic compares the answer to a repeated atomic with the first one. The responder sent both, whatever the injector
// does to them after the observer; and a place in the stream is one atomic, however often its request arrived.
func (a *Analyzer) atomic(r *trace.Record, step *rounds.Step) {
	value, ok := r.Original()
	if !ok || !r.Has(trace.Sent) || r.ICRC == packet.ICRCInvalid {
		return
	}
	if a.results[step.Flow] == nil {
		a.results[step.Flow] = new(results)
	}
	first := &a.results[step.Flow][uint64(step.Place)%keptResults]
	if first.id == 0 || first.place != step.Place {
		*first = result{step.Place, value, r.ID}
		return
	}
	c := step.Flow.Connection()
	if first.value == value || !a.report.Wants(RuleAtomicReplay, c) {
		return
	}
	f := analyzers.Finding{
		Connection: c, Packets: []uint64{r.ID, first.id}, TimeNS: r.TimeNS, PSN: step.Place,
		PSNAbs:   uint32(r.PSN),
		Expected: fmt.Sprintf("0x%x, the result of the atomic", first.value), Actual: fmt.Sprintf("0x%x", value),
		About:   step.Flow + 1,
		Message: "the repeated atomic was executed again, or answered with another one's result",
	}
	if a.inferred {
		f.Doubt(analyzers.Warning, "; or the queue pair was connected anew, which a capture does not show")
	}
	a.report.Tell(causeAtomicReplay(cause.Responder(step.Flow), psn(step.Place), value, first.value), f)
}
