package pfabric

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// Kind is what a packet is for.
type Kind uint8

// Kinds of packets.
const (
	Data Kind = 1 + iota
	Ack
	Probe
)

// noNumber is the number in the ACK of a probe.
const noNumber = 1<<32 - 1

// Observation is one packet at a NIC.
type Observation struct {
	Time       clock.Time
	ID         uint64 // of the packet, for findings
	Sent       bool   // it leaves its sender; otherwise it has reached its receiver whole
	Kind       Kind
	Src, Dst   uint32 // hosts
	Connection uint32 // numbered by the sender of the flow
	Number     uint32
	Total      uint32
	Payload    int
	Rank       uint64
}

// Config is what the analyzer must know besides the packets.
type Config struct {
	Payload    int // of a full packet
	Window     int // packets that a flow starts with
	RTO        clock.Duration
	ProbeAfter int // timeouts in a row; 0: never
	// Fixed reports whether all packets of a flow have one rank; otherwise, or if nil, ranks are the bytes of the flow
	// from the packet on.
	Fixed func(flow int) bool
	// Stopped reports whether a flow had no end until it was stopped, perhaps before its first packet; nil: none.
	Stopped func(flow int) bool
	// AckLimit bounds how long an acknowledgement may wait at its NIC.
	AckLimit clock.Duration
	// Idle says that NICs send as soon as their hosts have packets; otherwise pauses or queues may prevent it.
	Idle bool
	// Number gives findings the number of a flow; nil: that of its connection, from 1.
	Number func(src, connection uint32) int
}

// Analyzer judges every flow. Feed it every packet that leaves or reaches a NIC in order of time, then call Finish.
type Analyzer struct {
	cfg    Config
	report *analyzers.Reporter
	flows  map[key]*flow
	hosts  map[uint32]*host
	seen   uint64 // the packet that is being judged
	now    clock.Time
	done   bool // nothing is left to happen
}

// host is the NIC of a host.
type host struct {
	busy  clock.Time // until then
	flows []*flow    // that are not complete
}

// New returns an analyzer.
func New(cfg Config) *Analyzer {
	return &Analyzer{cfg: cfg, report: analyzers.NewReporter(Name, Rules()), flows: make(map[key]*flow),
		hosts: make(map[uint32]*host)}
}

// Leaves says that any packet occupies the NIC of a host. It precedes the packet's observation.
func (a *Analyzer) Leaves(number uint32, now clock.Time, takes clock.Duration) {
	h := a.host(number)
	a.idle(h, now)
	h.busy = max(h.busy, now.Add(takes))
}

func (a *Analyzer) host(number uint32) *host {
	h := a.hosts[number]
	if h == nil {
		h = new(host)
		a.hosts[number] = h
	}
	return h
}

// Observe takes a packet.
func (a *Analyzer) Observe(o *Observation) {
	a.seen, a.now = o.ID, o.Time
	k := key{o.Src, o.Dst, o.Connection}
	if o.Kind == Ack {
		k.src, k.dst = k.dst, k.src
	}
	f := a.flows[k]
	if f == nil {
		f = a.open(k, o)
	}
	if f.total == 0 && o.Kind != Ack && o.Sent { // it ends now
		f.total = o.Total
	}
	switch {
	case o.Kind == Ack && o.Sent:
		a.answers(f, o)
	case o.Kind == Ack:
		f.expire(&a.cfg, o.Time, false)
		if f.hear(&a.cfg, o.Time, o.Number, o.Total); f.complete() {
			f.host.flows = slices.DeleteFunc(f.host.flows, func(g *flow) bool { return g == f })
		}
	case !o.Sent:
		f.take(o.Time, o.Number, o.Kind == Probe)
	case o.Kind == Probe:
		a.probes(f, o)
	default:
		a.sends(f, o)
	}
	a.overdue(f, o.Time)
}

// open makes the state of a flow.
func (a *Analyzer) open(k key, o *Observation) *flow {
	f := &flow{key: k, number: int(k.connection) + 1, host: a.host(k.src), total: o.Total, window: float64(a.cfg.Window),
		threshold: float64(a.cfg.Window), expires: clock.Never, able: clock.Never, origin: o.Rank}
	if a.cfg.Number != nil {
		f.number = a.cfg.Number(k.src, k.connection)
	}
	f.fixed = a.cfg.Fixed != nil && a.cfg.Fixed(f.number)
	f.endless = o.Total == 0 || a.cfg.Stopped != nil && a.cfg.Stopped(f.number)
	if !f.fixed {
		f.origin += uint64(o.Number) * uint64(a.cfg.Payload)
	}
	f.host.flows = append(f.host.flows, f)
	a.flows[k] = f
	return f
}

// rank returns the rank of a packet.
func (a *Analyzer) rank(f *flow, number uint32) uint64 {
	if f.fixed {
		return f.origin
	}
	return f.origin - min(f.origin, uint64(number)*uint64(a.cfg.Payload))
}

// sends judges a data packet at its sender.
func (a *Analyzer) sends(f *flow, o *Observation) {
	f.expire(&a.cfg, o.Time, true)
	a.ranks(f, o)
	want, may := f.choose()
	switch {
	case o.Number < f.base || o.Number < f.next() && f.packets[o.Number-f.base] == acknowledged:
		a.tell(f, causeAcknowledged(f, o.Time, o.Number))
		return
	case f.probing:
		a.tell(f, causeProbeAbsent(f, o.Time, o.Number))
		f.probing, f.probed = false, false
	case o.Number < f.next() && f.packets[o.Number-f.base] == flying:
		left := clock.Duration(0)
		if f.expires != clock.Never {
			left = f.expires.Sub(o.Time)
		}
		a.tell(f, causeEarly(f, o.Time, o.Number, left))
		return
	case !may && f.flight >= f.room():
		a.tell(f, causeWindow(f, o.Time, o.Number, f.flight, f.room()))
	case o.Number != want || !may:
		a.tell(f, causeSequence(f, o.Time, o.Number, want))
	}
	const most = 1 << 20 // packets that one may be ahead of its turn
	if o.Number-f.base > most {
		return
	}
	for f.next() < o.Number {
		f.packets = append(f.packets, lost)
		f.missing++
	}
	if at := int(o.Number - f.base); at == len(f.packets) {
		f.packets = append(f.packets, flying)
	} else {
		f.packets[at] = flying
		f.missing--
	}
	f.flight++
	a.sent(f, o.Time)
}

// sent starts the timer and waits for the next packet.
func (a *Analyzer) sent(f *flow, now clock.Time) {
	if f.expires == clock.Never {
		f.expires = now.Add(a.cfg.RTO)
	}
	f.able = clock.Never
	f.settle(now)
}

// probes judges a probe at its sender.
func (a *Analyzer) probes(f *flow, o *Observation) {
	f.expire(&a.cfg, o.Time, true)
	a.ranks(f, o)
	if !f.probing || f.probed {
		a.tell(f, causeProbeEarly(f, o.Time))
		return
	}
	f.probed = true
	a.sent(f, o.Time)
}

// ranks judges the rank of what a sender sends, and whether it was its turn.
func (a *Analyzer) ranks(f *flow, o *Observation) {
	want := a.rank(f, o.Number)
	if last := !f.fixed && !f.endless && o.Kind == Data && f.total > 0 && o.Number == f.total-1; last {
		want = uint64(o.Payload)
	}
	if o.Rank != want {
		a.tell(f, causeRank(f, o.Time, o.Number, o.Rank, want))
	}
	for _, g := range f.host.flows {
		if g == f {
			continue
		}
		g.expire(&a.cfg, o.Time, false)
		if number, may := g.choose(); may && g.able < o.Time && len(g.packets) > 0 && a.rank(g, number) < want {
			a.tell(f, causePriority(f, g, o.Time, want, a.rank(g, number)))
			return
		}
	}
}

// answers judges an ACK at the receiver.
func (a *Analyzer) answers(f *flow, o *Observation) {
	switch {
	case o.Number != noNumber && !f.has(o.Number):
		a.tell(f, causeAckFalse(f, o.Time, o.Number))
	case o.Total > f.below:
		a.tell(f, causeAckFalse(f, o.Time, o.Total-1))
	case f.owed[o.Number] > 0:
		f.owed[o.Number]--
	}
}

// overdue reports acknowledgements that have not come.
func (a *Analyzer) overdue(f *flow, now clock.Time) {
	for len(f.queue) > 0 {
		first := f.queue[0]
		owed := f.owed[first.number] > 0
		if owed && !a.done && now.Sub(first.at) <= a.cfg.AckLimit {
			return
		}
		if f.queue = f.queue[1:]; owed {
			f.owed[first.number]--
			a.tell(f, causeAckAbsent(f, first.number, first.at))
		}
		if f.owed[first.number] == 0 {
			delete(f.owed, first.number)
		}
	}
}

// idle reports flows that did not send although they and the NIC could.
func (a *Analyzer) idle(h *host, now clock.Time) {
	const grain = clock.Nanosecond
	if !a.cfg.Idle || now <= h.busy.Add(grain) {
		return
	}
	for _, f := range h.flows {
		f.expire(&a.cfg, now, false)
		number, may := f.choose()
		if since := max(f.able, h.busy); may && f.able != clock.Never && now > since.Add(grain) {
			a.tell(f, causeSendAbsent(f, number, since, now))
			f.able = now // once
		}
	}
}

func (a *Analyzer) tell(f *flow, c cause.Cause) {
	if !a.report.Wants(c.Rule, f.number) {
		return
	}
	a.report.Tell(c, analyzers.Finding{Connection: f.number, Packets: []uint64{a.seen}, TimeNS: a.now.Nanoseconds(),
		Message: fmt.Sprintf("connection %d of host %d to host %d", f.connection, f.src, f.dst)})
}

// Drain says that nothing is left to happen: what has not come by the end will not come.
func (a *Analyzer) Drain() { a.done = true }

// Finish returns what was found.
func (a *Analyzer) Finish(end clock.Time) analyzers.Result {
	a.now = max(a.now, end)
	flows := make([]*flow, 0, len(a.flows))
	for _, f := range a.flows {
		flows = append(flows, f)
	}
	slices.SortFunc(flows, func(f, g *flow) int {
		return cmp.Or(cmp.Compare(f.number, g.number), cmp.Compare(f.src, g.src),
			cmp.Compare(f.connection, g.connection), cmp.Compare(f.dst, g.dst))
	})
	for _, f := range flows {
		last := a.now
		if a.done && f.expires != clock.Never {
			last = max(last, f.expires.Add(clock.Microsecond))
		}
		f.host.flows = []*flow{f} // of each flow by itself
		a.idle(f.host, last)
		a.overdue(f, a.now)
		if a.done && f.base < f.next() {
			a.tell(f, causeIncomplete(f, f.base))
		}
	}
	return analyzers.Result{Findings: a.report.Findings()}
}
