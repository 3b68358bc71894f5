package bolt

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
	SRC
)

// Flags are those of data and of its ACKs.
type Flags uint8

// Flags.
const (
	First Flags = 1 << iota
	Last
	Inc
	Dec
)

// String lists the flags.
func (f Flags) String() string {
	s := ""
	for i, name := range []string{"FIRST ", "LAST ", "INC ", "DEC "} {
		if f&(1<<i) != 0 {
			s += name
		}
	}
	if s == "" {
		return "none"
	}
	return s[:len(s)-1]
}

// Observation is one packet at a NIC.
type Observation struct {
	Time       clock.Time
	ID         uint64 // of the packet, for findings
	Sent       bool   // it leaves its sender; otherwise it has reached its receiver whole
	Kind       Kind
	Flags      Flags
	Src, Dst   uint32 // hosts; of SRC as of an ACK
	Connection uint32 // numbered by the sender of the flow
	Number     uint32
	Total      uint32
	SentNS     uint32 // time of sending, as the packet says, modulo 2³²
	Queue      uint32 // of SRC, in bytes
	RateMbps   uint32 // of SRC
}

// Config is what the analyzer must know besides the packets.
type Config struct {
	Frame     int // bytes of a full packet
	Window    int // packets that a flow starts with
	MaxWindow int
	MinWindow float64
	Increase  float64 // packets a round trip
	RTO       clock.Duration
	Reorder   int                             // packets; 0: only the timer detects losses
	RateOf    func(host uint32) clock.BitRate // of its NIC
	// AckLimit bounds how long an acknowledgement may wait at its NIC.
	AckLimit clock.Duration
	// Idle says that NICs send as soon as their hosts have packets; otherwise pauses or queues may prevent it.
	Idle bool
	// Number gives findings the number of a flow; nil: that of its connection, from 1.
	Number func(src, connection uint32) int
}

func (c *Config) clamp(window float64) float64 {
	return min(max(window, c.MinWindow), float64(c.MaxWindow))
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
	if o.Kind != Data {
		k.src, k.dst = k.dst, k.src
	}
	f := a.flows[k]
	if f == nil {
		f = a.open(k, o)
	}
	switch {
	case o.Kind == Data && o.Sent:
		a.sends(f, o)
	case o.Kind == Data:
		f.take(o.Time, o)
	case o.Kind == Ack && o.Sent:
		a.answers(f, o)
	case o.Sent || f.complete() || o.Number >= f.next():
	case o.Kind == SRC:
		f.expire(&a.cfg, o.Time, false)
		f.slow(&a.cfg, o.Time, o)
	default:
		f.expire(&a.cfg, o.Time, false)
		if f.hear(&a.cfg, o.Time, o); f.complete() {
			f.host.flows = slices.DeleteFunc(f.host.flows, func(g *flow) bool { return g == f })
		}
	}
	a.overdue(f, o.Time)
}

// open makes the state of a flow.
func (a *Analyzer) open(k key, o *Observation) *flow {
	f := &flow{key: k, number: int(k.connection) + 1, host: a.host(k.src), window: float64(a.cfg.Window),
		expires: clock.Never, able: clock.Never}
	if o.Kind == Data {
		f.total = o.Total
	}
	if a.cfg.Number != nil {
		f.number = a.cfg.Number(k.src, k.connection)
	}
	f.host.flows = append(f.host.flows, f)
	a.flows[k] = f
	return f
}

// sends judges a data packet at its sender.
func (a *Analyzer) sends(f *flow, o *Observation) {
	f.expire(&a.cfg, o.Time, true)
	if now := uint32(o.Time.Nanoseconds()); o.SentNS != now {
		a.tell(f, causeTime(f, o.Time, o.Number, clock.Duration(int32(now-o.SentNS))*clock.Nanosecond))
	}
	f.sent++
	if f.sent == 1 {
		f.lowered = o.Time
	}
	want, from := f.choose(may)
	old := f.last
	f.last = o.Time
	switch {
	case o.Number < f.base || o.Number < f.next() && f.packets[o.Number-f.base].state == acknowledged:
		a.tell(f, causeAcknowledged(f, o.Time, o.Number))
		return
	case o.Number < f.next() && f.packets[o.Number-f.base].state == flying:
		left := clock.Duration(0)
		if f.expires != clock.Never {
			left = f.expires.Sub(o.Time)
		}
		a.tell(f, causeEarly(f, o.Time, o.Number, left))
		return
	case a.closed(f, o.Time, from):
		a.tell(f, causeWindow(f, o.Time, o.Number, old))
	case o.Number != want:
		a.tell(f, causeSequence(f, o.Time, o.Number, want))
	}
	a.flags(f, o)
	a.book(f, o)
}

// closed reports whether the window forbids a packet at now that may go from an instant on, which sums of fractions may
// move by 1 ns.
func (a *Analyzer) closed(f *flow, now, from clock.Time) bool {
	if from == clock.Never {
		return f.missing > 0 || f.total == 0 || f.next() < f.total
	}
	return now.Add(clock.Nanosecond) < from
}

// flags judges those of a packet that is sent.
func (a *Analyzer) flags(f *flow, o *Observation) {
	want, open := Flags(0), Flags(0)
	if o.Number >= f.next() {
		want, open = f.flags(o.Number)
	}
	if (o.Flags^want)&^open != 0 {
		a.tell(f, causeFlags(f, o.Time, o.Number, o.Flags, want))
	}
}

// book enters a transmission.
func (a *Analyzer) book(f *flow, o *Observation) {
	const most = 1 << 20 // packets that one may be ahead of its turn
	if o.Number-f.base > most {
		return
	}
	for f.next() < o.Number {
		f.packets = append(f.packets, packet{state: lost})
		f.missing++
	}
	if at := int(o.Number - f.base); at == len(f.packets) {
		f.packets = append(f.packets, packet{flying, f.sent})
	} else {
		f.packets[at] = packet{flying, f.sent}
		f.missing--
	}
	f.transmissions = append(f.transmissions, transmission{o.Number, f.sent})
	f.flight++
	if f.expires == clock.Never {
		f.expires = o.Time.Add(a.cfg.RTO)
	}
	f.able = clock.Never
	f.settle(o.Time)
}

// answers judges an ACK at the receiver.
func (a *Analyzer) answers(f *flow, o *Observation) {
	owed := f.owed[o.Number]
	switch {
	case !f.has(o.Number):
		a.tell(f, causeAckFalse(f, o.Time, o.Number))
	case o.Total > f.below:
		a.tell(f, causeAckFalse(f, o.Time, o.Total-1))
	}
	if len(owed) == 0 {
		return
	}
	at := slices.Index(owed, content{o.Flags, o.SentNS})
	if at < 0 {
		at = 0
		a.tell(f, causeAckContent(f, o.Time, o.Number, o.Flags, owed[0].flags))
	}
	f.owed[o.Number] = slices.Delete(owed, at, at+1)
}

// overdue reports acknowledgements that have not come.
func (a *Analyzer) overdue(f *flow, now clock.Time) {
	for len(f.queue) > 0 {
		first := f.queue[0]
		owed := f.owed[first.number]
		if len(owed) > 0 && !a.done && now.Sub(first.at) <= a.cfg.AckLimit {
			return
		}
		if f.queue = f.queue[1:]; len(owed) > 0 {
			owed = owed[1:]
			f.owed[first.number] = owed
			a.tell(f, causeAckAbsent(f, first.number, first.at))
		}
		if len(owed) == 0 {
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
		number, from := f.choose(must)
		since := max(f.able, h.busy, from)
		if f.able != clock.Never && from != clock.Never && now > since.Add(grain) {
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
