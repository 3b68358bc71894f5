package switchtest

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// ledger observes every packet at the taps and books what became of each flow's data. It knows nothing of the
// endpoints' state: what it says is what the wire says.
type ledger struct {
	*connections
	net    *fabric.Network
	flows  []account           // by flow number less 1
	ways   map[uint64]*way     // connections of loops, by ownerKey
	recent [1024]recentAccount // by a hash of the key of connections.owner: found faster
	taps   []switchTaps        // by switch
	census census
	// headers in transit that had been cut before the switch that has them now, by packet ID
	cutBefore map[uint64]struct{}
	multi     bool // more than one switch, NICs with queues included: headers may have been cut before

	latency *analyzers.Distribution // of headers cut at a switch: from arrival to departure
	sizes   *analyzers.Distribution // of trimmed packets that reached a host
	dscps   *analyzers.Distribution
}

// account is what the taps saw of one flow's data packets.
type account struct {
	sent, sentBytes int64 // left the sender's NIC, retransmissions included
	whole           int64 // packets that reached their receiver whole, each once
	duplicates      int64
	payload         int64 // bytes in them
	headers         int64 // trimmed packets that reached the receiver
	returned        int64 // trimmed packets that came back to the sender
	dropped         int64 // originals that no copy stands for
	stale           int64 // arrived with lengths that don't fit
	first, last     clock.Time
	reordered       int64
	arrivals
	headersSeen bitmap // of unanswered flows: packets of which only the header came
	fates       int64  // of unanswered flows: packets of which something came
	transport.Progress
}

// arrivals is which packets of a connection have arrived whole.
type arrivals struct {
	top  uint64 // one above the highest number
	seen bitmap
}

// way is what one sender of a loop sends by one connection.
type way struct {
	account *account
	arrivals
}

// switchTaps is what the taps saw of one switch.
type switchTaps struct {
	in, out    []uint64 // frames by front port
	trimmedIn  uint64
	trimmedOut uint64 // by front ports
	trimmedGo  []uint64
	cutLost    uint64   // trimmed packets that were dropped
	data       []uint64 // bit set of queues that carried whole data packets, by front port
	queues     [][]queueTaps
}

// census counts packets by what happened to them, apart from the fabric's own counters.
type census struct {
	sent, delivered, dropped [256]uint64 // by kind
}

// bitmap is a set of small numbers.
type bitmap []uint64

// add puts n into the set and reports whether it was new.
func (b *bitmap) add(n uint64) bool {
	word := int(n / 64)
	if word >= len(*b) {
		grown := make(bitmap, max(2*len(*b), word+1))
		copy(grown, *b)
		*b = grown
	}
	bit := uint64(1) << (n % 64)
	if (*b)[word]&bit != 0 {
		return false
	}
	(*b)[word] |= bit
	return true
}

func newLedger(net *fabric.Network, p *Plan) *ledger {
	l := &ledger{
		connections: newConnections(p), net: net, flows: make([]account, len(p.Flows)),
		ways:      make(map[uint64]*way),
		taps:      make([]switchTaps, net.Switches()),
		cutBefore: make(map[uint64]struct{}),
		multi:     devices(net) > 1,
		latency:   analyzers.NewDistribution("flows.header-latency", analyzers.UnitNS, 0),
		sizes:     analyzers.NewDistribution("flows.header-bytes", analyzers.UnitBytes, 0),
		dscps:     analyzers.NewDistribution("flows.header-dscp", analyzers.UnitCount, 0),
	}
	for i := range l.taps {
		n := net.Switch(i).Ports()
		l.taps[i] = switchTaps{in: make([]uint64, n), out: make([]uint64, n), trimmedGo: make([]uint64, n),
			data: make([]uint64, n)}
		if p.showsQueuing() {
			for port := range n {
				l.taps[i].queues = append(l.taps[i].queues, make([]queueTaps, net.Switch(i).Port(port).Queues()))
			}
		}
	}
	for i := range l.flows {
		l.flows[i].first = clock.Never
		l.flows[i].Trips = analyzers.NewDistribution("flows.rtt", analyzers.UnitNS, i+1)
	}
	return l
}

// Progress implements transport.Books.
func (l *ledger) Progress(flow int) *transport.Progress { return &l.flows[flow-1].Progress }

// Close implements transport.Books: everything is kept.
func (l *ledger) Close(int) {}

// data returns the account of the flow whose data p carries, or carried, what has arrived of p's connection, and the
// transport that says how p is read; nil: it has none.
func (l *ledger) data(p *fabric.Packet) (*account, *arrivals, *transport.Transport) {
	t := l.speaks[p.Protocol]
	if t == nil || !t.Carries(&p.Header) {
		return nil, nil, t
	}
	sender := p.Src
	if p.Flags&fabric.Returned != 0 {
		sender = p.Dst
	}
	key := ownerKey(p.Protocol, sender, t.ConnectionOf(&p.Header))
	recent := l.recentOf(key)
	if recent.key != key || recent.account == nil {
		if i, ok := l.owner[key]; ok {
			a := &l.flows[i]
			*recent = recentAccount{key, a, &a.arrivals}
		} else if w := l.ways[key]; w != nil {
			*recent = recentAccount{key, w.account, &w.arrivals}
		} else {
			return nil, nil, t
		}
	}
	return recent.account, recent.arrivals, t
}

// recentAccount is an account that was looked up by an owner's key.
type recentAccount struct {
	key      uint64
	account  *account
	arrivals *arrivals
}

func (l *ledger) recentOf(key uint64) *recentAccount {
	return &l.recent[(key^key>>32*31)%uint64(len(l.recent))]
}

// Own implements transport.Books.
func (l *ledger) Own(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int) {
	l.connections.Own(protocol, sender, connection, flow)
	*l.recentOf(ownerKey(protocol, sender, connection)) = recentAccount{}
}

// Turn implements transport.Books.
func (l *ledger) Turn(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int) {
	key := ownerKey(protocol, sender, connection)
	l.ways[key] = &way{account: &l.flows[flow-1]}
	*l.recentOf(key) = recentAccount{}
}

// observe is the tap.
func (l *ledger) observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	switch {
	case at.Host && at.Stage == fabric.Egress:
		l.census.sent[p.Kind()]++
		l.depart(now, p)
	case at.Host && at.Stage == fabric.Ingress:
		l.census.delivered[p.Kind()]++
		l.arrive(now, p)
	case at.Stage == fabric.Lost: // on a trunk that failed
		l.census.dropped[p.Kind()]++
		l.drop(p)
		delete(l.cutBefore, p.ID)
	case at.Host && at.Stage != fabric.Dropped: // between the stack and the wire
	case at.Stage == fabric.Dropped:
		l.census.dropped[p.Kind()]++
		if !at.Host {
			l.lose(&l.taps[at.Node], p)
			l.taps[at.Node].dropAtQueue(at, p)
		}
		l.drop(p)
	case at.Port >= len(l.taps[at.Node].in): // recirculation
	case at.Stage == fabric.Ingress:
		l.enter(&l.taps[at.Node], at.Port, p)
	default:
		l.leave(&l.taps[at.Node], at, now, p)
	}
}

func (l *ledger) depart(now clock.Time, p *fabric.Packet) {
	if a, _, _ := l.data(p); a != nil {
		a.sent++
		a.sentBytes += int64(p.Size)
		a.first = min(a.first, now)
	}
}

func (l *ledger) enter(s *switchTaps, port int, p *fabric.Packet) {
	s.in[port]++
	if p.Flags&fabric.Trimmed != 0 {
		s.trimmedIn++
		if l.multi {
			l.cutBefore[p.ID] = struct{}{}
		}
	}
}

func (l *ledger) leave(s *switchTaps, at fabric.Point, now clock.Time, p *fabric.Packet) {
	s.out[at.Port]++
	s.leaveQueue(at, p)
	if p.Flags&fabric.Trimmed == 0 {
		if t := l.speaks[p.Protocol]; t != nil && t.Carries(&p.Header) {
			s.data[at.Port] |= 1 << at.Queue
		}
		return
	}
	s.trimmedOut++
	s.trimmedGo[at.Port]++
	if l.multi {
		if _, before := l.cutBefore[p.ID]; before {
			delete(l.cutBefore, p.ID)
			return
		}
	}
	l.latency.Record(now.Sub(p.Arrived).Nanoseconds())
}

// lose books what a switch drops.
func (l *ledger) lose(s *switchTaps, p *fabric.Packet) {
	if p.Flags&fabric.Trimmed != 0 {
		s.cutLost++
		delete(l.cutBefore, p.ID)
	}
}

func (l *ledger) drop(p *fabric.Packet) {
	if a, _, _ := l.data(p); a != nil {
		a.dropped++
		if p.Flags&fabric.Mirrored != 0 {
			a.dropped-- // its original has been booked
		}
	}
}

// arrive books a packet that reached a host.
func (l *ledger) arrive(now clock.Time, p *fabric.Packet) {
	a, came, t := l.data(p)
	if a == nil {
		return
	}
	sequence := t.SequenceOf(&p.Header)
	if p.Flags&fabric.Mirrored != 0 {
		a.dropped-- // of its original, which is not lost: its header is here
	}
	if p.Flags&fabric.LengthStale != 0 {
		a.stale++
	}
	if p.Flags&fabric.Trimmed != 0 {
		l.sizes.Record(int64(p.Size))
		l.dscps.Record(int64(p.DSCP))
		if p.Flags&fabric.Returned != 0 {
			a.returned++
		} else {
			a.headers++
		}
		a.fate(now, t, sequence)
		return
	}
	if !came.seen.add(sequence) {
		a.duplicates++
		return
	}
	if sequence < came.top {
		a.reordered++
	}
	came.top = max(came.top, sequence+1)
	a.whole++
	a.payload += int64(t.PayloadOf(&p.Header))
	a.last = now
	a.fate(now, t, sequence)
}

// fate books that something of a packet has come.
func (a *account) fate(now clock.Time, t *transport.Transport, sequence uint64) {
	if t.Unanswered && a.headersSeen.add(sequence) {
		a.fates++
		a.last = now
	}
}

// trims returns how many packets were cut at a switch.
func (s *switchTaps) trims() int64 {
	if s == nil { // nobody saw them
		return 0
	}
	return int64(s.trimmedOut + s.cutLost - s.trimmedIn)
}
