package lock

import (
	"maps"
	"slices"

	"candela.dev/candela/clock"
	wirelock "candela.dev/candela/generator/netlock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Mechanism is a switch that manages locks: it takes the packets of the lock manager and makes others, and forwards all
// other packets unchanged.
type Mechanism struct {
	fabric.TailDrop
	set      settings
	plane    *DataPlane // nil: the baseline
	netchain *NetChain
	late     [][]Output // answers of the baseline that a bug keeps
	control  *Control
	passes   []Pass // that recirculate, by token less 1
	idle     []int  // places in passes
	armed    clock.Time
	peers    peers
	counts   Counts
	pair     pair
	// The packet that is processed, its request, and the grant that is made: here, so that they are not copied.
	header, made netlock.Header
	request      Request

	// Of a switch that has returned without its registers: locks that it takes when they are asked for, and until when it
	// grants nothing. Without the former it forwards nothing until then.
	absent Allocation
	until  clock.Time
}

// settings is how a switch is set.
type settings struct {
	config      Config
	control     ControlConfig
	recirculate clock.Duration
	databases   []wire.HostID
	installed   Allocation // from the start
	dynamic     bool       // the control plane moves locks
	ids         uint32     // of the baseline: lock ids that there may be
	chainBugs   ChainBugs
}

// peer is what packets of a lock are like: whom the switch answers for.
type peer struct {
	server, client wire.HostID
	entropy        uint16
	class, dscp    uint8
	ipv6, known    bool
}

// peers is a table of peers by lock. Numbers of locks are dense in places: it has pages of them.
type peers struct {
	pages map[uint32]*[pageLocks]peer
	last  *[pageLocks]peer // the page used last
	at    uint32
}

const pageLocks = 256

func (p *peers) of(lock uint32) *peer {
	if page := lock / pageLocks; p.last == nil || page != p.at {
		of := p.pages[page]
		if of == nil {
			if p.pages == nil {
				p.pages = make(map[uint32]*[pageLocks]peer)
			}
			of = new([pageLocks]peer)
			p.pages[page] = of
		}
		p.last, p.at = of, page
	}
	return &p.last[lock%pageLocks]
}

// Counts is what a lock switch has counted.
type Counts struct {
	Requests, Releases, Grants, Owned, Buffered, PushRequests, PushedBack, Recirculations, Ignored, Rejected int64
}

// timerToken is that of the data plane's own timer; others are those of passes.
const timerToken = 0

// newMechanism returns a lock switch. It gets its locks when it starts.
func newMechanism(set *settings, baseline bool) (*Mechanism, error) {
	m := &Mechanism{set: *set, armed: clock.Never, pair: pair{port: -1}}
	if baseline {
		var err error
		if m.netchain, err = NewNetChain(set.ids, max(1, set.config.Slots)); err == nil {
			m.netchain.Bugs = set.chainBugs
		}
		return m, err
	}
	m.plane = New(set.config)
	return m, nil
}

// Start implements fabric.Starter.
func (m *Mechanism) Start(now clock.Time, sw *fabric.Switch) {
	if m.plane == nil {
		m.until = m.after(now)
		return
	}
	control, err := NewControl(now, m.set.control, m.plane)
	if err != nil {
		panic(err) // the settings have been checked
	}
	m.control = control
	m.pair.port, m.pair.backup = sw.Pair()
	if m.pair.backup { // until TakeOver it has none
		return
	}
	if now > 0 {
		m.absent, m.until = maps.Clone(m.set.installed), m.after(now)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(m.set.installed)) {
		if err := m.plane.Install(id, m.set.installed[id]); err != nil {
			panic(err)
		}
	}
	m.arm(sw)
}

// after is from when on a switch that starts may grant: leases of holders that it does not know have ended.
func (m *Mechanism) after(now clock.Time) clock.Time {
	if now == 0 || m.set.config.Bugs.Has(GrantsBeforeLease) || m.set.chainBugs.Has(ChainGrantsBeforeLease) {
		return 0
	}
	return now.Add(m.set.control.Lease + m.set.control.Poll)
}

// Counts returns what the switch has counted.
func (m *Mechanism) Counts() Counts { return m.counts }

// Ingress implements fabric.Mechanism. What another lock switch has marked passes, as do answers of servers.
func (m *Mechanism) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if p.Protocol != fabric.NetLock || p.Flags&(fabric.Trimmed|fabric.Mirrored) != 0 {
		return v
	}
	h := &m.header
	wirelock.Read(&p.Header, h)
	answer := p.Flags&fabric.Returned != 0
	if v.Action == fabric.Forward && m.pair.passes(m.plane, h, answer, in) {
		return v.To(sw.Port(m.pair.port), int(p.Class))
	}
	asked := !answer && m.pair.from(in) && h.Op == netlock.PushRequest
	if m.pair.granted(h, answer, in) || h.Mark != netlock.Unmarked && !answer && !asked ||
		slices.Contains(m.set.databases, p.Dst) || slices.Contains(m.set.databases, p.Src) {
		return v
	}
	r := &m.request
	r.Lock, r.Transaction, r.Mode, r.Timestamp = h.Lock, h.Transaction, h.Mode, h.Timestamp
	r.Tenant, r.Priority, r.Client.Host, r.Client.Thread = h.Tenant, h.Priority, uint32(p.Src), h.Client
	r.OneRTT = len(m.set.databases) > 0 && !answer // what the server buffered has no query
	var list []Output
	switch {
	case asked:
		m.meet(p)
		m.take(now, sw, h.Lock)
		list = m.plane.Yield(now, h.Lock, answerOf(h))
	case !answer && (h.Op == netlock.Acquire || h.Op == netlock.Release):
		m.meet(p)
		if len(m.absent) > 0 {
			m.take(now, sw, h.Lock)
		}
		if h.Op == netlock.Acquire {
			m.counts.Requests++
		} else {
			m.counts.Releases++
		}
		list = m.process(now, sw, r, h.Op)
	case h.Op == netlock.PushBack && answer && m.plane != nil:
		m.counts.PushedBack++
		r.Client.Host = uint32(p.Dst)
		list = m.plane.PushBack(now, *r, answerOf(h))
	case h.Op == netlock.PushEmpty && answer && m.plane != nil:
		list = m.plane.PushEmpty(now, h.Lock, answerOf(h))
	default:
		return v
	}
	dropped := len(list) == 1 && list[0].Kind == Dropped
	if dropped {
		m.counts.Ignored++
	}
	switch { // before what it makes, which may look like it, leaves
	case dropped && (m.recovers(now) || list[0].NoSlot):
		sw.Discard(now, p, v.Drop(reasonRecovering))
	case dropped:
		sw.Consume(now, p, v.Drop(reasonIgnored))
	default:
		sw.Consume(now, p, v.Drop(reasonTaken))
	}
	m.send(now, sw, h, list)
	return v.Consumed()
}

// take begins to take a lock that the switch had before it lost its registers.
func (m *Mechanism) take(now clock.Time, sw *fabric.Switch, lock uint32) {
	slots, absent := m.absent[lock]
	if !absent {
		return
	}
	delete(m.absent, lock)
	list, err := m.plane.Take(now, lock, slots, m.pair.source, m.until)
	if err != nil {
		panic(err) // it had it before
	}
	m.send(now, sw, nil, list)
}

// recovers reports whether a switch that has lost its registers waits for leases to end, and does not know which locks
// it will have.
func (m *Mechanism) recovers(now clock.Time) bool {
	return (m.plane == nil || m.set.dynamic) && now < m.until && m.set.control.Lease > 0
}

// process has the data plane process a request or a release.
func (m *Mechanism) process(now clock.Time, sw *fabric.Switch, r *Request, op netlock.Op) []Output {
	switch {
	case m.recovers(now):
		return []Output{{Kind: Dropped, Request: *r}}
	case m.plane == nil:
		return m.chained(now, sw, r, op)
	case op == netlock.Acquire:
		return m.plane.acquire(now, r)
	}
	return m.plane.release(now, r)
}

func answerOf(h *netlock.Header) Answer {
	return Answer{Last: h.Last || h.Op == netlock.PushEmpty, Received: h.Received, Index: h.Index, Sent: h.Sent,
		Queue: h.Priority, Mark: h.Mark}
}

// meet notes whom a lock's packets are from and for.
func (m *Mechanism) meet(p *fabric.Packet) {
	at := m.peers.of(p.Flow)
	if at.known && at.server == p.Dst && at.client == p.Src {
		return
	}
	*at = peer{server: p.Dst, client: p.Src, entropy: p.Entropy, class: p.Class, dscp: p.DSCP, ipv6: p.IPv6, known: true}
}

// send does what the data plane says; of is the packet that it answers, nil: none.
func (m *Mechanism) send(now clock.Time, sw *fabric.Switch, of *netlock.Header, list []Output) {
	for i := range list {
		switch o := &list[i]; o.Kind {
		case Grant:
			m.counts.Grants++
			h := &m.made
			fillHeader(h, netlock.Acquire, &o.Request)
			if m.set.config.Bugs.Has(GrantsAsShared) {
				h.Mode = netlock.Shared
			}
			if of != nil && of.Op == netlock.PushBack && of.Transaction == h.Transaction {
				h.Op = netlock.PushBack
			}
			at, client := m.peers.of(h.Lock), wire.HostID(o.Request.Client.Host)
			if o.Database {
				m.make(now, sw, at, client, m.database(h.Lock), 0, h)
				continue
			}
			m.make(now, sw, at, at.server, client, fabric.Returned, h)
		case Rejected:
			m.counts.Rejected++
			h := headerOf(netlock.Reject, &o.Request)
			at := m.peers.of(h.Lock)
			m.make(now, sw, at, at.server, wire.HostID(o.Request.Client.Host), fabric.Returned, &h)
		case ForwardOwned, ForwardBuffer:
			h := *of
			if o.Peer {
				m.tell(now, sw, 0, &h)
				continue
			}
			h.Mark = netlock.Owned
			if m.counts.Owned++; o.Kind == ForwardBuffer {
				m.counts.Owned--
				m.counts.Buffered++
				h.Mark, h.Sent = netlock.BufferOnly, o.Sent
			}
			at := m.peers.of(h.Lock)
			m.make(now, sw, at, wire.HostID(o.Request.Client.Host), at.server, 0, &h)
			if o.Kind == ForwardBuffer && m.set.config.Bugs.Has(ForwardsTwice) {
				m.make(now, sw, at, wire.HostID(o.Request.Client.Host), at.server, 0, &h)
			}
		case PushRequest:
			m.counts.PushRequests++
			h := headerOf(netlock.PushRequest, &o.Request)
			h.Avail, h.Sent, h.Index, h.Mark = o.Avail, o.Sent, o.Index, o.Mark
			if o.Peer {
				m.tell(now, sw, 0, &h)
				continue
			}
			at := m.peers.of(h.Lock)
			m.make(now, sw, at, at.client, at.server, 0, &h)
		case Recirculate:
			m.counts.Recirculations++
			if o.Idle {
				continue
			}
			sw.Wake(now.Add(m.set.recirculate), m.keep(o.Pass))
		case Emptied: // of a switch: for the other one of its pair
			h := headerOf(netlock.PushEmpty, &o.Request)
			h.Sent, h.Index, h.Mark, h.Last = o.Sent, o.Index, o.Mark, true
			m.tell(now, sw, fabric.Returned, &h)
		case Dropped:
		}
	}
	m.arm(sw)
}

// database returns that of a lock.
func (m *Mechanism) database(lock uint32) wire.HostID {
	if m.set.config.Bugs.Has(OtherDatabase) {
		lock++
	}
	return m.set.databases[lock%uint32(len(m.set.databases))]
}

func headerOf(op netlock.Op, r *Request) (h netlock.Header) {
	fillHeader(&h, op, r)
	return h
}

// fillHeader sets what the header of a packet about a request has; its other fields are not set.
func fillHeader(h *netlock.Header, op netlock.Op, r *Request) {
	h.Op, h.Mode, h.Client, h.Transaction, h.Lock = op, r.Mode, r.Client.Thread, r.Transaction, r.Lock
	h.Timestamp, h.Tenant, h.Priority = r.Timestamp, r.Tenant, r.Priority
}

// make sends a packet.
func (m *Mechanism) make(now clock.Time, sw *fabric.Switch, at *peer, src, dst wire.HostID, flags fabric.Flags,
	h *netlock.Header) {
	p := packetOf(now, sw, at, src, dst, flags, h)
	out, ok := sw.Route(p)
	v := fabric.Verdict{Action: fabric.Forward, Port: uint16(out), Queue: p.Class}
	if !ok {
		v = v.Drop(sw.NoRoute(p))
	}
	p.Egress = uint16(out)
	sw.Place(now, p, v)
}

// packetOf makes a packet.
func packetOf(now clock.Time, sw *fabric.Switch, at *peer, src, dst wire.HostID, flags fabric.Flags,
	h *netlock.Header) *fabric.Packet {
	p := sw.Blank()
	p.Protocol, p.Src, p.Dst, p.Flags, p.Class, p.DSCP = fabric.NetLock, src, dst, flags, at.class, at.dscp
	p.IPv6, p.Entropy, p.Size = at.ipv6, at.entropy, wirelock.Size(h, at.ipv6)
	wirelock.FillBlank(h, &p.Header)
	sw.Complete(now, p)
	return p
}

// keep stores a pass and returns its token.
func (m *Mechanism) keep(p Pass) uint64 {
	if n := len(m.idle); n > 0 {
		i := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.passes[i] = p
		return uint64(i) + 1
	}
	m.passes = append(m.passes, p)
	return uint64(len(m.passes))
}

// arm sets the timer of data plane and control plane, unless an earlier one is set.
func (m *Mechanism) arm(sw *fabric.Switch) {
	if m.plane == nil {
		return
	}
	if at := min(m.plane.NextTimer(), m.control.NextTimer()); at < m.armed {
		m.armed = at
		sw.Wake(at, timerToken)
	}
}

// HandleTimer implements fabric.Timed.
func (m *Mechanism) HandleTimer(now clock.Time, sw *fabric.Switch, token uint64) {
	switch {
	case m.plane == nil:
		m.sendLate(now, sw)
		return
	case token == timerToken:
		m.armed = clock.Never
		if m.plane.NextTimer() <= now {
			m.send(now, sw, nil, m.plane.Timer(now))
		}
		if m.control.NextTimer() <= now {
			m.send(now, sw, nil, m.control.Timer(now))
		}
		m.arm(sw)
		return
	}
	i := int(token) - 1
	p := m.passes[i]
	m.passes[i], m.idle = Pass{}, append(m.idle, i)
	m.send(now, sw, nil, m.plane.Resume(now, p))
}
