// Package netlock gives hosts of switch tests the clients and lock servers of a lock manager in a switch.
package netlock

import (
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	packet "candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration and endpoints.
func Transport() transport.Transport {
	return transport.Transport{Transport: netlock.Transport(), Open: open, Datagrams: true}
}

// endpoints is the hosts of a run.
type endpoints struct {
	*transport.Setup
	hosts map[fabric.HostID]*host
	order []fabric.HostID
	// databases: some hosts are.
	databases bool
}

// row reports whether a host that answers is a database.
func (r *endpoints) row(from fabric.HostID) bool {
	if !r.databases {
		return false
	}
	h := r.hosts[from]
	return h != nil && h.database
}

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	r := &endpoints{Setup: s, hosts: make(map[fabric.HostID]*host)}
	if err := transport.OneVersion(netlock.Name, flows); err != nil {
		return nil, err
	}
	err := transport.EachHost(netlock.Name, flows, func(h fabric.HostID, f *transport.Flow) error {
		r.host(h, f.Mark)
		return nil
	})
	for f := range flows {
		databases := hostsOf(f.Locks.Databases)
		for _, server := range f.Locks.Servers {
			h := r.host(fabric.HostID(server), f.Mark)
			h.ahead = false
			s := h.server
			if lock.OneRoundTrip(r.Test.Switch.Values) {
				s.databases = databases
			}
			s.address = fabric.HostID.IPv4
			if f.Mark.IPv6 {
				s.address = fabric.HostID.IPv6
			}
		}
		for _, database := range databases {
			h := r.host(database, f.Mark)
			h.ahead, h.database, r.databases = false, true, true
		}
	}
	return r, err
}

func hostsOf(list []int) (hosts []fabric.HostID) {
	for _, h := range list {
		hosts = append(hosts, fabric.HostID(h))
	}
	return hosts
}

// host makes the stack of a host once.
func (r *endpoints) host(id fabric.HostID, mark stack.Mark) *host {
	if r.hosts[id] == nil {
		r.hosts[id] = newHost(r, id, mark)
		r.order = append(r.order, id)
		r.Add(id, r.hosts[id])
	}
	return r.hosts[id]
}

// Start implements transport.Endpoints.
func (r *endpoints) Start(f *transport.Flow) error {
	l := f.Locks
	t := netlock.Thread{Flow: f.Number, Start: f.Start, Next: l.Draws.New(), Count: f.Count, Think: l.Think,
		Timeout: l.Timeout, Interval: l.Interval, Outstanding: l.Outstanding, Tenant: uint16(f.Tenant),
		Priority: uint8(l.Priority),
		Resend:   l.Resend, Await: l.Await, Restart: l.Restart,
		Directory: func(lock uint32) wire.HostID {
			if len(l.Servers) == 1 {
				return wire.HostID(l.Servers[0])
			}
			return wire.HostID(l.Servers[lock%uint32(len(l.Servers))])
		}}
	if l.Queries {
		t.Database = func(lock uint32) wire.HostID { return wire.HostID(l.Databases[lock%uint32(len(l.Databases))]) }
	}
	if l.Kill > 0 {
		t.Kill = f.Start.Add(l.Kill)
	}
	return r.hosts[f.Src].client.Add(t)
}

// Settle implements transport.Endpoints.
func (r *endpoints) Settle() {}

// Counters implements transport.Counter.
func (r *endpoints) Counters(add func(host fabric.HostID, name string, n int64)) {
	slices.Sort(r.order)
	for _, id := range r.order {
		h := r.hosts[id]
		if c := &h.client.Counts; c.Requests > 0 {
			for _, of := range []struct {
				name string
				n    int64
			}{
				{"requests", c.Requests}, {"releases", c.Releases}, {"granted-by-switch", c.BySwitch},
				{"granted-by-server", c.ByServer}, {"transactions", c.Transactions}, {"expired", c.Expired},
				{"resent", c.Resent}, {"queries", c.Queries}, {"rejected", c.Rejected}, {"granted-late", c.Late},
				{"stray-answers", c.Strays},
			} {
				add(id, "locks."+of.name, of.n)
			}
		}
		if h.server.served > 0 {
			add(id, "lock-server.packets", h.server.served)
			add(id, "lock-server.granted", h.server.granted)
			add(id, "lock-server.buffered", h.server.buffered)
		}
	}
}

// host is the stack of a host: its client and its lock server, one of which may be idle.
//
// What arrives at the NIC reaches the client later, and nothing else does. So the client of a host that is nothing else
// is simulated ahead of the network, up to when what arrives next may reach it: one event of the network serves all
// that the client does in that time, and packets leave at the instants at which they would have left.
type host struct {
	of     *endpoints
	at     *fabric.Host
	mark   stack.Mark
	client *netlock.Client
	server *server
	// database: it answers requests that were granted with a row, which the model does not have.
	database bool

	ahead bool       // the client is simulated ahead
	end   clock.Time // of the test: the client is not simulated beyond it
	ended []ending   // flows whose end the client has reached and the network has not

	arriving, leaving line
	arrived           message        // the latest
	gap               clock.Duration // least time between two packets
	free              clock.Time     // when the next packet may leave
	now               clock.Time     // of the latest call: what is due by then is polled, without a timer

	loss, duplicates float64 // shares of packets
	faults           *rand.Rand
	again            message // leaves a second time
	twice            bool
}

// ending is when a flow ends.
type ending struct {
	at   clock.Time
	flow int
}

func newHost(r *endpoints, id fabric.HostID, mark stack.Mark) *host {
	const stream = 0x6e6574686f7374
	v := r.Values
	rng := rand.New(rand.NewPCG(r.Test.Seed^stream, uint64(id)))
	delay, jitter := v.Duration("host-delay-ns"), v.Duration("host-jitter-ns")
	h := &host{of: r, at: r.Net.Host(id), mark: mark, gap: v.Duration("client-ns"), now: -1,
		arriving: line{delay: delay, jitter: jitter, rand: rng}, leaving: line{delay: delay, jitter: jitter, rand: rng},
		loss: v.Number("loss"), duplicates: v.Number("duplicates"),
		faults: rand.New(rand.NewPCG(r.Test.Seed^^uint64(stream), uint64(id)))}
	h.ahead, h.end = delay > 0 && !r.Live, clock.Time(0).Add(r.Test.Deadline)
	if r.Test.Duration > 0 {
		h.end = clock.Time(0).Add(r.Test.Duration)
	}
	h.client = netlock.NewClient(id, r.Test.Seed, h)
	bugs, err := lock.ParseBugs(r.Bugs...)
	if err != nil {
		r.Fail(err)
	}
	h.server = newServer(id, v, bugs)
	if of := r.Test.Switch.Values; of.Table().Find("priorities") >= 0 { // servers have those of the switch
		h.server.state.Priorities = of.Int("priorities")
	}
	return h
}

// Committed implements netlock.Sink.
func (h *host) Committed(_ clock.Time, flow int, took clock.Duration) {
	if !h.at.Apart() {
		h.of.Progress(flow).Trip(took)
		return
	}
	h.at.Report(func() { h.of.Progress(flow).Trip(took) })
}

// Ended implements netlock.Sink.
func (h *host) Ended(now clock.Time, flow int) {
	if h.ahead {
		h.ended = append(h.ended, ending{now, flow})
		return
	}
	h.tell(now, flow)
}

func (h *host) tell(now clock.Time, flow int) {
	h.at.Report(func() {
		h.of.Progress(flow).Finish(now)
		h.of.Close(flow)
	})
}

// Receive implements fabric.Stack. What was trimmed is lost.
func (h *host) Receive(now clock.Time, p *fabric.Packet) {
	if p.Protocol != fabric.NetLock || p.Flags&fabric.Trimmed != 0 || h.fails(h.loss) {
		return
	}
	at := h.arriving.time(now)
	m := &h.arrived
	m.at, m.peer, m.answer = at, p.Src, p.Flags&fabric.Returned != 0
	netlock.Read(&p.Header, &m.header)
	switch {
	case m.answer && h.ahead && at <= h.end:
		h.run(at)
		h.client.Receive(at, &m.header, h.of.row(m.peer))
		h.drain(at)
	case !m.answer && !h.database: // its cores take it when it gets there
		h.server.receive(at, m)
	case at <= now:
		h.take(now, m)
	default:
		*h.arriving.add(at) = *m
	}
}

// run has the client do what it does before an instant.
func (h *host) run(before clock.Time) {
	for at := h.client.NextTimer(); at < before; at = h.client.NextTimer() {
		h.client.HandleTimer(at)
		h.drain(at)
	}
}

// drain moves what the client sends at an instant to the line that leaves.
func (h *host) drain(at clock.Time) {
	for p := h.client.Poll(); p != nil; p = h.client.Poll() {
		m := h.leaving.add(h.leaving.time(at))
		m.peer, m.answer, m.header = p.To, false, p.Header
	}
}

// fails draws whether something happens that has a probability.
func (h *host) fails(probability float64) bool {
	return probability > 0 && h.faults.Float64() < probability
}

// take has client or database process a packet: answers are for clients.
func (h *host) take(now clock.Time, m *message) {
	if m.answer {
		h.client.Receive(now, &m.header, h.of.row(m.peer))
		h.drain(now)
		return
	}
	answer := *m
	answer.answer, answer.header.Address = true, netip.Addr{}
	if a := m.header.Address; a.IsValid() {
		answer.peer = wire.HostOf(a.AsSlice())
	}
	h.leaving.push(now, answer)
}

// collect moves what the server has to send to the line that leaves.
func (h *host) collect(now clock.Time) {
	for _, m := range h.server.out {
		h.leaving.push(now, m)
	}
	h.server.out = h.server.out[:0]
}

// Poll implements fabric.Stack.
func (h *host) Poll(now clock.Time, p *fabric.Packet) bool {
	h.now = now
	if len(h.server.out) > 0 {
		h.collect(now)
	}
	m := h.leave(now)
	if m == nil {
		return false
	}
	h.mark.Set(p)
	p.Protocol, p.Dst, p.Size = fabric.NetLock, m.peer, netlock.Size(&m.header, h.mark.IPv6)
	if m.answer {
		p.Flags |= fabric.Returned
	}
	netlock.FillBlank(&m.header, &p.Header)
	p.Entropy = uint16(m.header.Client)
	h.free = now.Add(h.gap)
	return true
}

// leave returns the next packet that leaves now, valid until the next call; nil: there is none.
func (h *host) leave(now clock.Time) *message {
	if h.free > now {
		return nil
	}
	if h.twice {
		h.twice = false
		return &h.again
	}
	for h.leaving.due() <= now {
		if m := h.leaving.pop(); !h.fails(h.loss) {
			clients := !m.answer && m.header.Op != packet.GrantFromServer
			if h.twice = clients && h.fails(h.duplicates); h.twice {
				h.again = *m
			}
			return m
		}
	}
	return nil
}

// NextPacket implements fabric.Sender.
func (h *host) NextPacket() clock.Time {
	switch {
	case len(h.server.out) > 0 || h.twice:
		return h.free
	case h.leaving.len() > 0:
		return max(h.leaving.due(), h.free)
	}
	return clock.Never
}

// NextTimer implements fabric.Stack.
func (h *host) NextTimer() clock.Time {
	at := h.client.NextTimer()
	if h.ahead && at != clock.Never { // what the client sends then leaves later
		at = min(at.Add(h.leaving.delay), max(at, h.end))
	}
	if h.arriving.len() > 0 {
		at = min(at, h.arriving.due())
	}
	if !h.ahead || h.server.busy() {
		at = min(at, h.server.next())
	}
	if len(h.ended) > 0 {
		at = min(at, h.ended[0].at)
	}
	if h.twice && h.free > h.now {
		at = min(at, h.free)
	}
	if h.leaving.len() > 0 {
		if out := max(h.leaving.due(), h.free); out > h.now {
			at = min(at, out)
		}
	}
	return at
}

// HandleTimer implements fabric.Stack.
func (h *host) HandleTimer(now clock.Time) {
	h.now = now
	for h.arriving.due() <= now {
		h.take(now, h.arriving.pop())
	}
	before := now.Add(1)
	if h.ahead {
		before = max(before, min(now.Add(h.arriving.delay), h.end.Add(1)))
	}
	h.run(before)
	for len(h.ended) > 0 && h.ended[0].at <= now {
		h.tell(h.ended[0].at, h.ended[0].flow)
		h.ended = h.ended[1:]
	}
	if !h.ahead || h.server.busy() {
		h.server.advance(now)
		h.collect(now)
	}
}

// message is a packet between a host's NIC and its client or lock server.
type message struct {
	at     clock.Time // when it gets there
	peer   fabric.HostID
	answer bool // to a client
	header packet.Header
}
