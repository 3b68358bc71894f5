package plan

import (
	"fmt"
	"slices"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// stream identifies the PSN sequence of one side's requests on one connection.
type stream struct {
	qpn  int
	from config.Side
}

// loss is a data event that causes a retransmission, or may cause one.
type loss struct {
	event   int // index in the list of data events
	psn     int64
	message int
	iter    uint16
	sender  config.Side // of the data packet: rounds are counted per direction
	sure    bool        // the retransmission is certain
}

// warner collects warnings about a plan.
type warner struct {
	*Plan
	losses map[stream][]loss

	event  int            // the event being checked, in the order of Intents; −1: none
	first  map[string]int // path of an item → its first event with a warning
	likely map[string]int // path → number of its other events that would have a warning
}

// warn adds warnings about legal but surprising configurations, in the order of the file's lists.
func (p *Plan) warn() {
	w := warner{Plan: p, losses: make(map[stream][]loss), event: -1, first: make(map[string]int),
		likely: make(map[string]int)}
	for i, e := range p.Test.Traffic.DataEvents {
		if t, ok := p.target(e.QPN, e.From, e.PSN); ok && disturbs(e.Type) {
			s := stream{e.QPN, e.From}
			w.losses[s] = append(w.losses[s], loss{i, e.PSN, t.Index, e.Iter, t.sender, e.Type.Loses()})
		}
	}
	w.hosts()
	w.timers()
	for i := range p.Test.Traffic.DataEvents {
		w.event = i
		w.dataEvent(i)
	}
	for i := range p.Test.Traffic.ControlEvents {
		w.event = len(p.Test.Traffic.DataEvents) + i
		w.controlEvent(i)
	}
	w.likewise()
}

// disturbs reports whether an event of type t may cause a retransmission. A late packet can look like a lost one.
func disturbs(t trace.EventType) bool { return t.Loses() || t.Edits() || t.Late() }

// add adds a warning. For an item that generates many events only the first event with a warning is reported.
func (w *warner) add(path, message, why string) {
	if first, ok := w.first[path]; ok && first != w.event {
		w.likely[path]++
		return
	}
	w.first[path] = w.event
	w.Warnings = append(w.Warnings, Warning{Where: w.Test.Where(path), Path: path, Message: message, Why: why})
}

// ambiguous adds a warning about an event whose ITER depends on the iter-scope.
func (w *warner) ambiguous(path, message, why string) {
	before := len(w.Warnings)
	w.add(path, message, why)
	for i := before; i < len(w.Warnings); i++ {
		w.Warnings[i].Ambiguous = true
	}
}

// likewise appends the number of unreported warnings of each pattern.
func (w *warner) likewise() {
	for path, n := range w.likely {
		where := w.Test.Where(path)
		for i := range w.Warnings {
			if w.Warnings[i].Where == where {
				w.Warnings[i].Why += fmt.Sprintf("\nlikewise %d more of this pattern", n)
				break
			}
		}
	}
}

func (w *warner) hosts() {
	for _, s := range []config.Side{config.Requester, config.Responder} {
		if n := len(w.Test.Host(s).NIC.IPs); n > 1 && !w.Test.Traffic.MultiGID {
			w.add(s.String()+".nic.ip-list", fmt.Sprintf("only the first of %d addresses is used", n),
				"traffic.multi-gid deals them out")
		}
	}
}

// timers warns if recovery by timeout may exceed the deadline.
func (w *warner) timers() {
	n := len(w.Test.Traffic.DataEvents) + len(w.Test.Traffic.ControlEvents)
	if n == 0 {
		return
	}
	if w.AckTimeout == 0 {
		w.add("traffic.min-retransmit-timeout", "there is no timer",
			"a lost tail or a lost retransmission then stalls its connection for good")
		return
	}
	// The timer may fire between T and 4 T (IBTA volume 1, 9.7.6.1.3).
	if longest := 4*w.AckTimeout + w.Quiesce; longest > w.Deadline {
		w.add("deadline-ms", fmt.Sprintf("%s may be too short for one timeout", w.Deadline.Text()),
			fmt.Sprintf("a timeout may take 4 T = %s, and the end of the traffic is noticed after another %s",
				(4*w.AckTimeout).Text(), w.Quiesce.Text()))
	}
}

func (w *warner) dataEvent(i int) {
	e := &w.Test.Traffic.DataEvents[i]
	path := e.Path()
	t, ok := w.target(e.QPN, e.From, e.PSN)
	if !ok {
		return
	}
	if e.Type == trace.EventECN && w.Test.Traffic.ECN == config.ECN(packet.NotECT) {
		w.add(path, "marks a packet that is not ECN-capable",
			"no router would; the trace notes it, and a NIC may answer it or not")
	}
	if e.Type == trace.EventTrim {
		if length := t.ipLength(w.ipHeader(e.QPN)); length <= e.Trim.Size {
			w.add(path, fmt.Sprintf("the packet has only %d bytes and passes whole", length),
				"trim.size counts from the IP header; the injector counts a runt")
		}
	}
	if at, ok := e.Params.Get("offset"); ok && at >= int64(t.payload()) {
		w.add(path, fmt.Sprintf("the packet has only %d bytes of payload and passes whole", t.payload()),
			"offset counts them from 0; the injector counts a runt")
	}
	w.iteration(path, i, t)
	w.exhaustion(path, i)
}

func (w *warner) ipHeader(qpn int) int {
	if w.Connections[qpn-1].IPs[config.Requester].Is6() {
		return packet.IPv6Len
	}
	return packet.IPv4Len
}

// iteration warns if the ITER of event i depends on timing or never occurs.
func (w *warner) iteration(path string, i int, t target) {
	e := &w.Test.Traffic.DataEvents[i]
	if e.Iter == injector.Any {
		return
	}
	earlier, repeats := w.before(i, t)
	if e.Iter > 1 && !repeats {
		w.add(path, fmt.Sprintf("nothing in this test makes packet %d be sent %d times", e.PSN, e.Iter),
			"no event before it, nor on its ACKs, loses anything; an event that never fires makes the run invalid")
		return
	}
	if len(earlier) == 0 {
		return
	}
	// A message is posted only after the message tx-depth before it has completed, including its retransmissions.
	first, certain := earlier[0], 0
	for _, l := range earlier {
		if l.sure && l.message+w.Test.Traffic.TxDepth <= t.Index {
			first = l
			certain++
		}
	}
	if certain == 1 && len(earlier) == 1 && e.Iter == 2 {
		return // exactly one round was retransmitted, whenever that was
	}
	switch {
	case w.Test.Traffic.IterScope == injector.IterMessage:
		w.ambiguous(path, fmt.Sprintf("packet %d may first be sent in round 2 of its message; iter %d may name another "+
			"transmission, or none", e.PSN, e.Iter),
			fmt.Sprintf("packet %d of the same message is retransmitted, and in iter-scope message the rest of the message "+
				"then carries iter 2 or more; iter-scope: packet counts each packet's own transmissions", first.psn))
	case certain > 0 && e.Iter == 1:
		w.ambiguous(path, fmt.Sprintf("packet %d is first sent in round 2; iter 1 never names it", e.PSN),
			fmt.Sprintf("packet %d is retransmitted before message %d starts, and in iter-scope connection all packets after "+
				"that carry iter 2 or more; use iter-scope: packet, or iter: any", first.psn, t.Index+1))
	default:
		w.ambiguous(path, fmt.Sprintf("packet %d may first be sent in round 2; iter %d may name another "+
			"transmission, or none", e.PSN, e.Iter),
			fmt.Sprintf("packet %d is retransmitted, and in iter-scope connection all packets after that carry iter 2 or more; "+
				"iter-scope: packet counts each packet's own transmissions", first.psn))
	}
}

// before returns the losses that raise the ITER of packets before event i's packet is first sent. repeats reports
// whether an event may cause that packet to be retransmitted.
func (w *warner) before(i int, t target) (earlier []loss, repeats bool) {
	e := &w.Test.Traffic.DataEvents[i]
	for _, l := range w.losses[stream{e.QPN, e.From}] {
		switch {
		case l.event == i:
		case l.psn <= e.PSN:
			repeats = true
			inScope := w.Test.Traffic.IterScope == injector.IterConnection ||
				w.Test.Traffic.IterScope == injector.IterMessage && l.message == t.Index
			if l.psn < e.PSN && inScope && l.sender == t.sender {
				earlier = append(earlier, l)
			}
		}
	}
	repeats = repeats || slices.ContainsFunc(w.Test.Traffic.ControlEvents, func(c config.ControlEvent) bool {
		return c.QPN == e.QPN && c.From == e.From && c.Packet != packet.ClassCNP && disturbs(c.Type)
	})
	return earlier, repeats
}

// exhaustion warns, at the last such loss, if one packet is lost more often than the retry limit allows.
func (w *warner) exhaustion(path string, i int) {
	e := &w.Test.Traffic.DataEvents[i]
	if !e.Type.Loses() || w.Test.Expect.CompletionOf(e.QPN, e.From) != nil {
		return
	}
	lost := 0
	for _, l := range w.losses[stream{e.QPN, e.From}] {
		if l.psn != e.PSN || !l.sure {
			continue
		}
		if l.event > i {
			return
		}
		if lost++; l.iter == injector.Any {
			lost = w.Test.Traffic.RetryCount + 1
		}
	}
	if lost > w.Test.Traffic.RetryCount {
		w.add(path, fmt.Sprintf("packet %d is lost more often than it is retried (max-retransmit-retry %d)", e.PSN,
			w.Test.Traffic.RetryCount),
			fmt.Sprintf("the queue pair then goes to error; if that is the point, say expect: {completion: {qpn %d: {status: "+
				"IBV_WC_RETRY_EXC_ERR}}}", e.QPN))
	}
}

// controlEvent warns about events on control packets that may not occur.
func (w *warner) controlEvent(i int) {
	e := &w.Test.Traffic.ControlEvents[i]
	path := e.Path()
	const invalid = "; an event that never fires makes the run invalid"
	switch e.Packet {
	case packet.ClassAck:
		w.ackEvent(path, e)
	case packet.ClassNak:
		if !w.provokesNak(e) {
			w.add(path, "nothing in this test provokes a NAK", "a NAK answers a gap in the requests of its connection"+invalid)
		}
	case packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp:
		if !w.provokesFatal(e) {
			w.add(path, "correct endpoints never send a "+e.Packet.String()+" here",
				"the generator posts valid requests only"+invalid)
		}
	case packet.ClassRNR:
		if tr := &w.Test.Traffic; tr.RxRepostDelay == 0 && tr.RxDepth >= tr.TxDepth {
			w.add(path, "a receive is always posted", "lower rx-depth below tx-depth or set rx-repost-delay-us"+invalid)
		}
	case packet.ClassCNP:
		if why := w.noCNP(e); why != "" {
			w.add(path, "nothing in this test provokes this CNP", why+invalid)
		}
	case packet.ClassData, packet.ClassReadRequest, packet.ClassAtomicAck, packet.ClassOther:
	}
}

func (w *warner) ackEvent(path string, e *config.ControlEvent) {
	const due = "ACKs are due for the last packet of a message only, and one may stand for several messages (coalescing)"
	switch t, _ := w.target(e.QPN, e.From, psnOf(e)); {
	case e.PSN != nil && !t.last():
		w.add(path, fmt.Sprintf("there may be no ACK with psn %d", *e.PSN), due)
	case e.PSN == nil && int(e.Nth) > w.traffic(e.QPN, e.From).Messages && len(w.losses[stream{e.QPN, e.From}]) == 0:
		w.add(path, fmt.Sprintf("there may be no ACK number %d", e.Nth), due)
	case w.Test.Traffic.TxDepth > 1 && e.Nth != injector.Any:
		w.add(path, "which ACKs there are depends on timing", due)
	}
}

func psnOf(e *config.ControlEvent) int64 {
	if e.PSN == nil {
		return 1
	}
	return *e.PSN
}

// provokesNak reports whether a loss may open the gap that e's NAK reports.
func (w *warner) provokesNak(e *config.ControlEvent) bool {
	inRequests := func(l loss) bool {
		t, _ := w.target(e.QPN, e.From, l.psn)
		return t.Verb != generator.Read
	}
	return slices.ContainsFunc(w.losses[stream{e.QPN, e.From}], inRequests) ||
		slices.ContainsFunc(w.Test.Traffic.ControlEvents, func(c config.ControlEvent) bool {
			return c.QPN == e.QPN && c.From == e.From && c.Packet == packet.ClassReadRequest && disturbs(c.Type)
		})
}

// provokesFatal reports whether a request of the connection may be refused: it is rewritten by the switch, or its key
// is stale.
func (w *warner) provokesFatal(e *config.ControlEvent) bool {
	return w.Test.Traffic.StaleRKey || slices.ContainsFunc(w.Test.Traffic.DataEvents, func(d config.DataEvent) bool {
		return d.QPN == e.QPN && d.From == e.From && d.Type == trace.EventRewrite
	})
}

// noCNP returns why the host of e sends no CNP on the connection; "" if it may.
func (w *warner) noCNP(e *config.ControlEvent) string {
	sender := e.Sender(w.Test)
	roce := &w.Test.Host(sender).RoCE
	if !roce.DCQCNNP {
		return fmt.Sprintf("%v.roce-parameters.dcqcn-np-enable is false", sender)
	}
	for _, d := range w.Test.Traffic.DataEvents {
		if t, ok := w.target(d.QPN, d.From, d.PSN); !ok || d.QPN != e.QPN || t.sender == sender {
			continue
		}
		if d.Type == trace.EventECN || roce.SlowRestart && d.Type.Loses() {
			return ""
		}
	}
	return fmt.Sprintf("no packet to the %v is marked", sender)
}
