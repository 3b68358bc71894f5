package transport

import (
	"fmt"
	"iter"
	"sync"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Messages is the hosts of a transport that sends each message as a connection, which the sender numbers. It starts
// flows, goes on with closed loops and books what the hosts report.
type Messages struct {
	*Setup
	protocol fabric.Protocol
	hosts    map[fabric.HostID]*messenger
	open     map[int]int // messages of loops that their senders are not through with, by flow number, as books are told
}

// MessageCore is the protocol at one host.
type MessageCore interface {
	// Send announces a message of a flow, which starts at an instant, and returns the number of its connection.
	Send(f *Flow, to fabric.HostID, bytes uint64, at clock.Time) (connection uint32, err error)
	// Sent returns how many data packets of a connection that has not finished were sent.
	Sent(connection uint32) int64
	// Arrived returns what has arrived of a connection that is not complete; false: nothing.
	Arrived(sender fabric.HostID, connection uint32) (a Arrivals, ok bool)
}

// Arrivals is how many packets of a connection have arrived, and how many bytes of payload, each once.
type Arrivals struct{ Whole, Duplicates, Reordered, Headers, Payload int64 }

// MessageEventKind is what has happened to a message.
type MessageEventKind uint8

// Kinds of events.
const (
	MessageRetransmitted MessageEventKind = 1 + iota // one of its packets
	MessageTimedOut
	MessageReceived // the receiver has all of it
	MessageFinished // the sender knows that
)

// MessageEvent is what a host reports.
type MessageEvent struct {
	Kind             MessageEventKind
	Sender, Receiver fabric.HostID
	Connection       uint32
	Arrivals         Arrivals // of MessageReceived
	Sent             int64    // of MessageFinished: data packets, retransmissions included
}

// messenger is one host, with the flows of its connections that are not through. Requests and responses of one loop
// lead to the same flow.
type messenger struct {
	core    MessageCore
	at      *fabric.Host
	sends   map[uint32]*Flow
	loops   map[int]*Loop // of which it is the client, by flow number
	arrives arriving
}

// arriving is the flows of what is sent to a host. Senders, which may be simulated in parallel, enter a connection
// before its first packet can arrive; the host alone removes it.
type arriving struct {
	sync.Mutex
	flows map[connection]*Flow
}

type connection struct {
	sender fabric.HostID
	number uint32
}

func (a *arriving) enter(c connection, f *Flow) {
	a.Lock()
	defer a.Unlock()
	a.flows[c] = f
}

// remove returns the flow of a connection that is through; nil: unknown.
func (a *arriving) remove(c connection) *Flow {
	a.Lock()
	defer a.Unlock()
	f := a.flows[c]
	delete(a.flows, c)
	return f
}

// NewMessages returns the hosts of a run, none so far.
func NewMessages(s *Setup, protocol fabric.Protocol) *Messages {
	return &Messages{Setup: s, protocol: protocol, hosts: make(map[fabric.HostID]*messenger),
		open: make(map[int]int)}
}

// Join adds a host, whose stack the network has.
func (m *Messages) Join(h fabric.HostID, core MessageCore, s fabric.Stack) {
	m.hosts[h] = &messenger{core: core, at: m.Net.Host(h), sends: make(map[uint32]*Flow), loops: make(map[int]*Loop),
		arrives: arriving{flows: make(map[connection]*Flow)}}
	m.Add(h, s)
}

// Has reports whether a host was added.
func (m *Messages) Has(h fabric.HostID) bool { return m.hosts[h] != nil }

// Start implements Endpoints: the sender has the flow; of a loop the first request.
func (m *Messages) Start(f *Flow) error {
	if f.Kind == workload.Loop {
		m.hosts[f.Src].loops[f.Number] = &Loop{Asked: f.Start}
		return m.send(f, f.Src, f.Dst, uint64(f.Request), f.Start)
	}
	return m.send(f, f.Src, f.Dst, uint64(f.Payload), f.Start)
}

func (m *Messages) send(f *Flow, from, to fabric.HostID, bytes uint64, at clock.Time) error {
	h := m.hosts[from]
	number, err := h.core.Send(f, to, bytes, at)
	if err != nil {
		return err
	}
	h.sends[number] = f
	m.Weigh(from, number, f)
	m.hosts[to].arrives.enter(connection{from, number}, f)
	h.at.Report(func() {
		m.Name(m.protocol, from, number, f.Number)
		if f.Kind == workload.Transfer {
			m.Own(m.protocol, from, number, f.Number)
			return
		}
		m.open[f.Number]++
		m.Turn(m.protocol, from, number, f.Number)
	})
	return nil
}

// Happened takes an event. What it does at its host is done at once; books are told in order.
func (m *Messages) Happened(now clock.Time, e *MessageEvent) {
	h := m.hosts[e.Sender]
	var f *Flow
	if e.Kind == MessageReceived {
		h = m.hosts[e.Receiver]
		f = h.arrives.remove(connection{e.Sender, e.Connection})
	} else {
		f = h.sends[e.Connection]
	}
	switch {
	case f == nil:
	case e.Kind == MessageReceived && f.Kind == workload.Loop:
		m.turn(now, h, f, e.Arrivals)
	case h.at.Apart():
		e, f := *e, f
		h.at.Report(func() { m.book(now, f, &e) })
	default:
		m.book(now, f, e)
	}
	if e.Kind == MessageFinished {
		delete(h.sends, e.Connection)
	}
}

// book tells the books of an event. A flow is closed once both ends are through.
func (m *Messages) book(now clock.Time, f *Flow, e *MessageEvent) {
	p := m.Progress(f.Number)
	switch e.Kind {
	case MessageRetransmitted:
		p.Retransmissions++
	case MessageTimedOut:
		p.Timeouts++
	case MessageReceived:
		p.arrived(&e.Arrivals)
		if !f.Endless() { // otherwise it was stopped
			p.Finish(now)
		}
	case MessageFinished:
		p.Sent += e.Sent
		if f.Kind == workload.Transfer {
			p.Acknowledged, p.Known = !f.Endless(), now
		} else {
			m.open[f.Number]--
		}
	}
	if p.Finished && (p.Acknowledged || f.Kind == workload.Loop && m.open[f.Number] == 0) {
		delete(m.open, f.Number)
		m.Close(f.Number)
	}
}

// arrived books what has arrived of a message.
func (p *Progress) arrived(a *Arrivals) {
	p.Whole, p.Duplicates, p.Reordered = p.Whole+a.Whole, p.Duplicates+a.Duplicates, p.Reordered+a.Reordered
	p.Headers, p.Payload = p.Headers+a.Headers, p.Payload+a.Payload
}

// Settle implements Endpoints.
func (m *Messages) Settle() {
	for _, h := range m.hosts {
		for number, f := range h.sends {
			m.Progress(f.Number).Sent += h.core.Sent(number)
		}
		for c, f := range h.arrives.flows {
			if a, ok := h.core.Arrived(c.sender, c.number); ok {
				m.Progress(f.Number).arrived(&a)
			}
		}
	}
}

// turn goes on with a closed loop at one of its hosts: a request that has arrived is answered, and a response is
// followed by the next request.
func (m *Messages) turn(now clock.Time, h *messenger, f *Flow, a Arrivals) {
	if h.at.ID() == f.Dst {
		h.at.Report(func() { m.Progress(f.Number).arrived(&a) })
		m.goOn(h, f, f.Src, uint64(f.Response), now.Add(f.Service))
		return
	}
	trip, more := h.loops[f.Number].Turn(now, f)
	h.at.Report(func() {
		p := m.Progress(f.Number)
		p.arrived(&a)
		p.Turned(now, trip, more)
	})
	if more {
		m.goOn(h, f, f.Dst, uint64(f.Request), now)
	} else {
		delete(h.loops, f.Number)
	}
}

// goOn sends the next message of a loop.
func (m *Messages) goOn(h *messenger, f *Flow, to fabric.HostID, bytes uint64, at clock.Time) {
	if err := m.send(f, h.at.ID(), to, bytes, at); err != nil {
		h.at.Report(func() { m.Fail(err) })
	}
}

// EachHost calls attach for each host of flows, with the first of its flows. Flows of one host must have the same mark.
func EachHost(transport string, flows iter.Seq[*Flow], attach func(h fabric.HostID, f *Flow) error) error {
	first := map[fabric.HostID]*Flow{}
	for f := range flows {
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			if other := first[h]; other != nil {
				if other.Mark != f.Mark {
					return fmt.Errorf("flows %d and %d of host %d differ in dscp, tc or ip: all flows of a %s host are alike",
						other.Number, f.Number, h, transport)
				}
				continue
			}
			kept := *f
			first[h] = &kept
			if err := attach(h, f); err != nil {
				return err
			}
		}
	}
	return nil
}
