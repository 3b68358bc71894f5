package switchtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// FlowsSchema names the format of flows.json.
const FlowsSchema = "candela.flows/v1"

// FlowsDocument is flows.json: what became of each flow, as the taps saw it.
type FlowsDocument struct {
	Schema string `json:"schema"`
	EndNS  int64  `json:"end_ns"` // of the run, in simulated time
	Hops   uint64 `json:"hops"`   // links traversed by packets, control packets included
	Sent   uint64 `json:"sent"`   // packets that hosts sent, control packets included
	// Drained says that nothing was left to happen when the run ended: what had not come by then would never have come.
	Drained    bool         `json:"drained"`
	Statistics *Statistics  `json:"statistics,omitempty"`
	Flows      []FlowResult `json:"flows"` // none if they are too many to be kept
}

// FlowResult is what became of one flow. Packets are data packets, those of a loop its requests and responses; bytes
// are payload unless they say otherwise.
type FlowResult struct {
	Flow      int               `json:"flow"` // from 1
	Item      int               `json:"item"` // of the workload, from 0
	Kind      workload.Exchange `json:"kind"`
	Transport string            `json:"transport"`
	Src       int               `json:"src"`
	Dst       int               `json:"dst"`
	StartNS   int64             `json:"start_ns"`
	Bytes     int64             `json:"bytes"` // to send; 0: without end
	Finished  bool              `json:"finished"`
	Stopped   bool              `json:"stopped,omitempty"` // it has no end and was stopped; not finished
	FCTNS     int64             `json:"fct_ns,omitempty"`  // of flows that finished: until the receiver had all
	// IdealNS is how long a transfer takes at line rate along an idle path.
	IdealNS int64 `json:"ideal_ns,omitempty"`
	// SenderFCTNS is the same until the sender knew, where its transport says so (ndp).
	SenderFCTNS int64 `json:"sender_fct_ns,omitempty"`
	// GoodputBPS is payload that arrived whole, over the time to the flow's end or to that of the run.
	GoodputBPS      int64  `json:"goodput_bps"`
	Sent            int64  `json:"sent"`
	Whole           int64  `json:"whole"`   // each packet once
	Payload         int64  `json:"payload"` // bytes in them
	Duplicates      int64  `json:"duplicates"`
	Headers         int64  `json:"headers"`  // trimmed packets that reached the receiver
	Returned        int64  `json:"returned"` // and those that came back to the sender
	Dropped         int64  `json:"dropped"`  // of which nothing arrived
	StaleLengths    int64  `json:"stale_lengths"`
	Retransmissions int64  `json:"retransmissions"`
	Timeouts        int64  `json:"timeouts"`
	Reordered       int64  `json:"reordered"` // packets that arrived for the first time after one with a higher number
	Trips           *Trips `json:"rtt,omitempty"`

	Tenant int     `json:"tenant,omitempty"` // from 1
	Weight float64 `json:"weight,omitempty"` // if not 1
	Class  int     `json:"class,omitempty"`  // traffic class of the packets
	DSCP   int     `json:"dscp,omitempty"`
	// Query is that of the item to which the flow belongs, from 1; it has QueryFlows flows.
	Query      int `json:"query,omitempty"`
	QueryFlows int `json:"query_flows,omitempty"`
}

// Trips sums up round trips in nanoseconds.
type Trips struct {
	Count int64 `json:"count"`
	Min   int64 `json:"min_ns"`
	P50   int64 `json:"p50_ns"`
	P99   int64 `json:"p99_ns"`
	Max   int64 `json:"max_ns"`
}

// flowsDocument closes the books.
func (r *run) flowsDocument() *FlowsDocument {
	doc := &FlowsDocument{Schema: FlowsSchema, EndNS: r.end.Nanoseconds(), Hops: r.net.Hops(), Sent: r.net.Total().Sent,
		Drained: r.quiet}
	if r.stream != nil {
		r.settle()
		doc.Flows, doc.Statistics = r.stream.kept, r.stream.stats.close()
		return doc
	}
	doc.Flows = make([]FlowResult, len(r.plan.Flows))
	stats := newStatistics(r.plan)
	for i := range r.plan.Flows {
		doc.Flows[i] = r.flowResult(&r.plan.Flows[i], &r.ledger.flows[i])
		doc.Flows[i].IdealNS = r.ideal.of(&r.plan.Flows[i]).Nanoseconds()
		stats.add(&doc.Flows[i])
	}
	doc.Statistics = stats.close()
	return doc
}

func (r *run) flowResult(f *Flow, a *account) FlowResult {
	if f.Packets > 0 && a.fates == f.Packets {
		a.Finish(a.last)
	}
	res := resultOf(f, &a.Progress, r.end, a.payload)
	res.Sent, res.Whole, res.Duplicates, res.Headers, res.Returned = a.sent, a.whole, a.duplicates, a.headers, a.returned
	res.Dropped, res.StaleLengths, res.Reordered = max(0, a.dropped), a.stale, a.reordered
	return res
}

// resultOf is what the endpoints know of a flow; end is that of the run.
func resultOf(f *Flow, a *transport.Progress, end clock.Time, payload int64) FlowResult {
	res := FlowResult{
		Flow: f.Number, Item: f.Item, Kind: f.Kind, Transport: f.Transport, Src: int(f.Src), Dst: int(f.Dst),
		StartNS: f.Start.Nanoseconds(), Bytes: f.Payload, Finished: a.Finished, Payload: payload,
		Retransmissions: a.Retransmissions, Timeouts: a.Timeouts, Tenant: f.Tenant, Class: int(f.Mark.Class),
		DSCP: int(f.Mark.DSCP), Query: f.Query, QueryFlows: f.Siblings,
	}
	if f.Weight != 1 {
		res.Weight = f.Weight
	}
	if a.Finished {
		end = a.Done
		res.FCTNS = a.Done.Sub(f.Start).Nanoseconds()
	}
	if f.Stop > 0 && f.Stop <= end {
		end, res.Stopped = f.Stop, true
	}
	if a.Acknowledged {
		res.SenderFCTNS = a.Known.Sub(f.Start).Nanoseconds()
	}
	if span := end.Sub(f.Start); span > 0 && f.Kind == Transfer {
		res.GoodputBPS = bitsPerSecond(payload, span)
	}
	if a.Trips != nil && a.Trips.Count() > 0 {
		m := a.Trips.Metric()
		res.Trips = &Trips{m.Count, m.Min, m.P50, m.P99, m.Max}
	}
	return res
}

// Slowdown returns the completion time over the ideal one; 0: the flow has none.
func (f *FlowResult) Slowdown() float64 {
	if !f.Finished || f.IdealNS == 0 {
		return 0
	}
	return float64(f.FCTNS) / float64(f.IdealNS)
}

// bitsPerSecond returns the rate of so many bytes in a span; 128 bits hold what 64 don't.
func bitsPerSecond(bytes int64, span clock.Duration) int64 {
	return int64(math.Round(float64(bytes) * 8 * (float64(clock.Second) / float64(span))))
}

// CountersSchema names the format of switch-counters.json.
const CountersSchema = "candela.switch-counters/v1"

// CountersDocument is switch-counters.json. Names are made of switch, port, queue and counter:
// leaf-0.port-3.queue-1.max-packets.
type CountersDocument struct {
	Schema   string           `json:"schema"`
	Counters map[string]int64 `json:"counters"`
}

// counters reads every counter at the end of the run.
func (r *run) counters() (*CountersDocument, error) {
	c := counterSet{}
	for i := range r.net.Switches() {
		var taps *switchTaps
		if r.ledger != nil {
			taps = &r.ledger.taps[i]
		}
		if err := c.readSwitch(r.plan, r.net.Switch(i), taps); err != nil {
			return nil, err
		}
	}
	for i := r.net.Switches(); i < devices(r.net); i++ {
		if err := c.readNIC(&r.familyAt(i).Family, deviceAt(r.net, i)); err != nil {
			return nil, err
		}
	}
	if of := r.plan.family.HostCounters; of != nil {
		for i := range r.net.Hosts() {
			name := fmt.Sprintf("host-%d.", i)
			if err := of(r.net.Host(fabric.HostID(i)), func(word string, n int64) { c[name+word] = n }); err != nil {
				return nil, fmt.Errorf("counters of host %d: %w", i, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.endpoints.open)) {
		if of, ok := r.endpoints.open[name].(transport.Counter); ok {
			of.Counters(func(host fabric.HostID, word string, n int64) { c[fmt.Sprintf("host-%d.%s", host, word)] = n })
		}
	}
	if r.ledger != nil {
		c.readTaps(r.ledger)
	} else {
		c.readFlows(r.stream.stats)
	}
	return &CountersDocument{Schema: CountersSchema, Counters: c}, nil
}

type counterSet map[string]int64

func (c counterSet) readSwitch(plan *Plan, sw *fabric.Switch, taps *switchTaps) error {
	f, name := &plan.family.Family, sw.Name()
	for why := fabric.ReasonTail; why < fabric.Reasons; why++ {
		reason := f.Reason(why)
		switch n := int64(sw.Dropped(why)); {
		case why == fabric.ReasonConsumed: // no loss
		case why == fabric.ReasonStopped && !plan.Test.Stops(), // it cannot happen
			why.Outage() && why != fabric.ReasonStopped && !plan.Test.ChangesTrunks():
		case reason.Consumed:
			c[name+".consumed-"+reason.Name] = n
		case reason.Name != "":
			c[name+".dropped-"+reason.Name] = n
		case n > 0:
			return fmt.Errorf("switch %s dropped %d packets for reason %d, which the family %s does not declare", name, n, why,
				f.Name)
		}
	}
	if taps != nil {
		c[name+".trims"] = taps.trims()
	}
	ports := sw.Ports()
	if sw.Recirculation(0) != nil {
		ports += sw.Pipelines()
	}
	for i := range ports {
		c.readPort(sw, i)
	}
	if f.Counters == nil || sw.Stopped() || plan.plain(sw) {
		return nil
	}
	if err := f.Counters(sw, func(word string, n int64) { c[name+"."+word] = n }); err != nil {
		return fmt.Errorf("counters of switch %s: %w", name, err)
	}
	return nil
}

// readNIC adds what a NIC dropped, the counters of its port, and those of its family.
func (c counterSet) readNIC(f *switches.Family, nic *fabric.Switch) error {
	name := nic.Name()
	for why := fabric.ReasonTail; why < fabric.LeastOutage; why++ {
		switch reason, n := f.Reason(why), int64(nic.Dropped(why)); {
		case why == fabric.ReasonConsumed: // no loss
		case reason.Name != "":
			c[name+".dropped-"+reason.Name] = n
		case n > 0:
			return fmt.Errorf("%s dropped %d packets for reason %d, which the family %s does not declare", name, n, why, f.Name)
		}
	}
	c.readPort(nic, 0)
	if f.Counters == nil {
		return nil
	}
	if err := f.Counters(nic, func(word string, n int64) { c[name+"."+word] = n }); err != nil {
		return fmt.Errorf("counters of %s: %w", name, err)
	}
	return nil
}

func (c counterSet) readPort(sw *fabric.Switch, i int) {
	pt := sw.Port(i)
	name := fmt.Sprintf("%s.port-%d.", sw.Name(), i)
	if i >= sw.Ports() {
		name = fmt.Sprintf("%s.recirculation-%d.", sw.Name(), i-sw.Ports())
	}
	n := pt.Counters()
	for _, of := range [...]counter{
		{"received", int64(n.Received)}, {"received-bytes", int64(n.ReceivedBytes)}, {"sent", int64(n.Sent)},
		{"sent-bytes", int64(n.SentBytes)}, {"dropped", int64(n.Dropped)}, {"dropped-bytes", int64(n.DroppedBytes)},
		{"pauses-sent", int64(n.PausesSent)}, {"pauses-received", int64(n.PausesReceived)},
		{"busy-ns", n.Busy.Nanoseconds()}, {"max-headroom-bytes", int64(n.HeadroomBytes)},
	} {
		c[name+of.word] = of.n
	}
	for j := range pt.Queues() {
		q, queue := pt.Queue(j).Counters(), fmt.Sprintf("%squeue-%d.", name, j)
		for _, of := range [...]counter{
			{"enqueued", int64(q.Enqueued)}, {"enqueued-bytes", int64(q.EnqueuedBytes)}, {"dequeued", int64(q.Dequeued)},
			{"dequeued-bytes", int64(q.DequeuedBytes)}, {"dropped", int64(q.Dropped)},
			{"dropped-bytes", int64(q.DroppedBytes)}, {"marked", int64(q.Marked)}, {"max-packets", int64(q.MaxPackets)},
			{"max-bytes", int64(q.MaxBytes)},
		} {
			c[queue+of.word] = of.n
		}
	}
}

// counter is the last word of a counter's name, and its value.
type counter struct {
	word string
	n    int64
}

// readTaps adds what the taps saw, which counters of switches can be compared with.
func (c counterSet) readTaps(l *ledger) {
	for i := range l.taps {
		s := &l.taps[i]
		name := "taps." + l.net.Switch(i).Name()
		c.readQueues(l.net.Switch(i).Name(), s)
		for port := range s.in {
			c[fmt.Sprintf("%s.port-%d.in", name, port)] = int64(s.in[port])
			c[fmt.Sprintf("%s.port-%d.out", name, port)] = int64(s.out[port])
			c[fmt.Sprintf("%s.port-%d.trimmed-out", name, port)] = int64(s.trimmedGo[port])
		}
		c["total.trims"] += s.trims()
		c[name+".trimmed-out"], c[name+".trimmed-in"], c[name+".trimmed-dropped"] = int64(s.trimmedOut), int64(s.trimmedIn),
			int64(s.cutLost)
	}
	for i := range l.flows {
		a := &l.flows[i]
		name := fmt.Sprintf("flow-%d.", i+1)
		for _, of := range [...]counter{
			{"sent", a.sent}, {"whole", a.whole}, {"headers", a.headers}, {"returned", a.returned},
			{"dropped", max(0, a.dropped)}, {"duplicates", a.duplicates}, {"retransmissions", a.Retransmissions},
			{"timeouts", a.Timeouts},
		} {
			c[name+of.word] = of.n
			c["flows."+of.word] += of.n
		}
	}
}

// readFlows adds the sums of what endpoints count.
func (c counterSet) readFlows(s *statistics) {
	if g := s.groups[groupKey{"all", 0}]; g != nil {
		c["flows.sent"], c["flows.retransmissions"], c["flows.timeouts"] = g.Sent, g.Retransmissions, g.Timeouts
		c["flows.reordered"] = g.Reordered
	}
	c["flows.finished"], c["flows.open"], c["flows.payload"] = s.Finished, s.Open, s.Payload
}

// unfinished returns the flows of known size that did not come to their end.
func (r *facts) unfinished() []*FlowResult {
	var list []*FlowResult
	for i := range r.flows.Flows {
		if f := &r.flows.Flows[i]; !f.Finished && !f.endless() {
			list = append(list, f)
		}
	}
	return list
}

// Write writes the document.
func (d *FlowsDocument) Write(w io.Writer) error { return writeJSON(w, d) }

// Write writes the document; keys are sorted. It does what writeJSON does, in a fifth of the time: with thousands of
// counters this matters.
func (d *CountersDocument) Write(w io.Writer) error {
	schema, err := json.Marshal(d.Schema)
	if err != nil || len(d.Counters) == 0 {
		return errors.Join(err, writeJSON(w, d))
	}
	b := fmt.Appendf(nil, "{\n  \"schema\": %s,\n  \"counters\": {\n", schema)
	for i, name := range slices.Sorted(maps.Keys(d.Counters)) {
		if i > 0 {
			b = append(b, ",\n"...)
		}
		b = append(strconv.AppendQuote(append(b, "    "...), name), ": "...) // as in JSON: names are printable ASCII
		b = strconv.AppendInt(b, d.Counters[name], 10)
	}
	_, err = w.Write(append(b, "\n  }\n}\n"...))
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
