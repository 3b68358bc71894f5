package retrans

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A requester cannot distinguish a lost acknowledgement from one that was never sent: its timer repairs both. An
// observer that knows what arrived can. Slow answers break no rule, so these are warnings, with the time.

// owed is the oldest request of a stream that arrived in order, asks for an acknowledgement and has none.
type owed struct {
	place, lastPlace int64
	ns, lastNS       int64  // when it passed
	id, lastID       uint64 // last: the same of the latest one
	repeatNS         int64  // when the timer's retransmission of it passed; 0: there was none
	repeatID         uint64
	active           bool
}

// silent is an acknowledgement that came only when a request was repeated.
type silent struct {
	flow     trace.FlowID
	place    int64
	psn      packet.PSN
	ns       int64 // of the acknowledgement
	ids      []uint64
	since    int64 // the first transmission
	repeated int64 // since the retransmission
}

// maxSilent bounds the cases that wait for the end of a trace, of all connections.
const maxSilent = 1 << 12

// listen keeps who owes an acknowledgement. It needs to know what arrives.
func (a *Analyzer) listen(r *trace.Record, step *rounds.Step) {
	o := &a.owed[step.Flow]
	if r.Opcode.IsResponse() {
		if !o.active || !r.Has(trace.Sent) || r.ICRC == packet.ICRCInvalid {
			return
		}
		if step.Place >= o.place {
			a.acknowledged(r, step, o)
		}
		if r.Syndrome.IsNak() || r.Syndrome.IsRNR() {
			o.active = false // the responder did not accept what followed
		}
		return
	}
	if !r.Delivered() || step.Marks&(rounds.OutOfOrder|rounds.Unsure) != 0 {
		return
	}
	demands := r.Opcode == packet.ReadRequest || r.Opcode.Verb() == packet.VerbAtomic
	switch verb := r.Opcode.Verb(); {
	case verb != packet.VerbSend && verb != packet.VerbWrite && !demands:
	case step.Is(rounds.Duplicate):
		// Any packet of the timer's round can cause the acknowledgement, before the round reaches the request that asked for
		// it.
		if o.active && step.Place <= o.place && step.Cause == rounds.Timeout && o.repeatNS == 0 {
			o.repeatNS, o.repeatID = r.TimeNS, r.ID
		}
	case r.Flags&trace.AckReq != 0 || demands:
		o.lastPlace, o.lastNS, o.lastID = step.Place, r.TimeNS, r.ID
		if !o.active {
			o.active, o.place, o.ns, o.id, o.repeatNS = true, step.Place, r.TimeNS, r.ID, 0
		}
	}
}

// acknowledged takes an answer to what is owed.
func (a *Analyzer) acknowledged(r *trace.Record, step *rounds.Step, o *owed) {
	since := r.TimeNS - o.ns
	switch {
	case o.repeatNS == 0:
		a.slowest[a.hosts[step.Flow.Peer()]] = max(a.slowest[a.hosts[step.Flow.Peer()]], since)
	case len(a.silent) < maxSilent && r.Syndrome.IsAck():
		a.silent = append(a.silent, silent{
			flow: step.Flow, place: o.place, psn: r.PSN, ns: r.TimeNS, ids: []uint64{r.ID, o.id, o.repeatID}, since: since,
			repeated: r.TimeNS - o.repeatNS,
		})
	}
	o.active = o.lastPlace > step.Place
	o.place, o.ns, o.id, o.repeatNS = o.lastPlace, o.lastNS, o.lastID, 0
}

// silenceNS returns the shortest silence of a responder that is reported: the setting, or half of the local ACK timeout
// plus the links' delay.
func (a *Analyzer) silenceNS(p Params) int64 {
	if a.cfg.AckSilenceNS > 0 {
		return a.cfg.AckSilenceNS
	}
	t := int64(0)
	if p.Known {
		t = p.timeoutNS()
	}
	return bounds.TimeoutNS(t)/2 + 2*a.cfg.LinkDelayNS
}

// silences reports acknowledgements that came only after a retransmission and later than this responder's usual
// answers.
func (a *Analyzer) silences() {
	for i := range a.silent {
		s := &a.silent[i]
		c := s.flow.Connection()
		p := a.params[c-1]
		usual := a.slowest[a.hosts[s.flow.Peer()]]
		if s.since < a.silenceNS(p) || s.since <= 2*usual || !a.report.Wants(RuleAckSilence, c) {
			continue
		}
		a.report.Tell(causeAckSilence(cause.Responder(s.flow), psn(s.place), duration(s.since)), analyzers.Finding{
			Connection: c, Packets: s.ids, TimeNS: s.ns, PSN: s.place, PSNAbs: uint32(s.psn),
			Expected: "an answer without a retransmission; the slowest other one of this host took " + micros(usual),
			Actual: fmt.Sprintf("one after %s, and %s after the timer had repeated the request", micros(s.since),
				micros(s.repeated)),
			Message: "the request arrived and had to be answered; the responder was silent until the requester's timer " +
				"repeated it",
		})
	}
}

// heeded judges how a requester reacts to a NAK: immediately, or only when its timer expires.
func (a *Analyzer) heeded(r *trace.Record, step *rounds.Step) {
	p := a.params[step.Flow.Connection()-1]
	since, t := r.TimeNS-step.CauseNS, p.timeoutNS()
	least := a.cfg.NakSilenceNS
	if least == 0 {
		if !p.Known || t == 0 || step.QuietNS+a.jitterNS(p) < t {
			return
		}
		const quarter = 4
		least = t - t/quarter + 2*a.cfg.LinkDelayNS
	}
	if since < least || !a.arrivals { // the NAK may have been lost after the tap
		return
	}
	a.finding(r, step, p, RuleNakSilence, text{
		expected: "a retransmission at once",
		actual:   fmt.Sprintf("one %s after the NAK, as late as the local ACK timer would have caused it", micros(since)),
		message:  "the NAK changed nothing until the timer repaired the loss",
		why:      causeNakSilence(cause.Requester(step.Flow), psn(step.Place), duration(since)),
	})
}

// hosts numbers the hosts. It returns the host of each flow's sender, and a time for each host.
func hosts(meta trace.Meta) (flows []int32, times []int64) {
	number := map[netip.Addr]int32{}
	for _, c := range meta.Connections.All() {
		for _, ip := range [2]netip.Addr{c.Requester.IP, c.Responder.IP} {
			if _, ok := number[ip]; !ok {
				number[ip] = int32(len(number))
			}
			flows = append(flows, number[ip])
		}
	}
	return flows, make([]int64, len(number))
}
