// Package bolt gives hosts of switch tests Bolt, and judges them.
package bolt

import (
	"fmt"
	"iter"
	"sync"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/bolt"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration, endpoints and judge.
func Transport() transport.Transport {
	return transport.Transport{Transport: bolt.Transport(), Open: open, Judge: judgement()}
}

// endpoints is the Bolt hosts of a run. It is the sink of all of them.
type endpoints struct {
	*transport.Setup
	hosts map[fabric.HostID]*host
}

// host is one of them, with the flows of its connections that are not through. Requests and responses of one loop lead
// to the same flow.
type host struct {
	*fabric.BoltHost
	at      *fabric.Host
	sends   map[uint32]*transport.Flow
	loops   map[int]*transport.Loop // of which it is the client, by flow number
	arrives arriving
}

// arriving is the flows of what is sent to a host. Senders, which may be simulated in parallel, enter a connection
// before its first packet can arrive; the host alone removes it.
type arriving struct {
	sync.Mutex
	flows map[connection]*transport.Flow
}

func (a *arriving) enter(c connection, f *transport.Flow) {
	a.Lock()
	defer a.Unlock()
	a.flows[c] = f
}

// remove returns the flow of a connection that is through; nil: unknown.
func (a *arriving) remove(c connection) *transport.Flow {
	a.Lock()
	defer a.Unlock()
	f := a.flows[c]
	delete(a.flows, c)
	return f
}

type connection struct {
	sender bolt.Endpoint
	number uint32
}

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	r := &endpoints{Setup: s, hosts: make(map[fabric.HostID]*host)}
	if err := transport.OneVersion("Bolt", flows); err != nil {
		return nil, err
	}
	first := make(map[fabric.HostID]*transport.Flow) // of each host
	for f := range flows {
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			if other := first[h]; other != nil && other.Mark != f.Mark {
				return nil, fmt.Errorf("flows %d and %d of host %d differ in dscp, tc or ip: all flows of a Bolt host are alike",
					other.Number, f.Number, h)
			}
			if first[h] == nil {
				kept := *f
				first[h] = &kept
				if err := r.host(h, f); err != nil {
					return nil, err
				}
			}
		}
	}
	return r, nil
}

// host makes the endpoint of a host; f is one of its flows.
func (r *endpoints) host(h fabric.HostID, f *transport.Flow) error {
	v := r.Values
	seeded, err := bolt.ParseBugs(r.Bugs)
	if err != nil {
		return err
	}
	cfg := fabric.BoltConfig{PacketSize: v.Int("packet-size"), InitialWindow: v.Int("initial-window"),
		MaxWindow: v.Int("max-window"), MinWindow: v.Number("min-window"), Increase: v.Number("increase"),
		RTO: v.Duration("rto-us"), Reorder: v.Int("reorder"), IPv6: f.Mark.IPv6, Class: f.Mark.Class, DSCP: f.Mark.DSCP,
		Bugs: seeded}
	boltHost, err := r.Net.AttachBolt(h, cfg, r)
	if err != nil {
		return err
	}
	r.hosts[h] = &host{BoltHost: boltHost, at: r.Net.Host(h), sends: make(map[uint32]*transport.Flow),
		loops: make(map[int]*transport.Loop), arrives: arriving{flows: make(map[connection]*transport.Flow)}}
	r.Add(h, boltHost)
	return nil
}

// Start implements transport.Endpoints: the sender has the flow; of a loop the first request.
func (r *endpoints) Start(f *transport.Flow) error {
	if f.Kind == workload.Loop {
		r.hosts[f.Src].loops[f.Number] = &transport.Loop{Asked: f.Start}
		return r.send(f, f.Src, f.Dst, uint64(f.Request), f.Start)
	}
	return r.send(f, f.Src, f.Dst, uint64(f.Payload), f.Start)
}

func (r *endpoints) send(f *transport.Flow, from, to fabric.HostID, bytes uint64, at clock.Time) error {
	h := r.hosts[from]
	number, err := h.Core().Send(bolt.Flow{To: bolt.Endpoint(to), Bytes: bytes, Start: at})
	if err != nil {
		return err
	}
	h.sends[number] = f
	r.hosts[to].arrives.enter(connection{bolt.Endpoint(from), number}, f)
	h.at.Report(func() {
		r.Name(fabric.Bolt, from, number, f.Number)
		if f.Kind == workload.Transfer {
			r.Own(fabric.Bolt, from, number, f.Number)
		}
	})
	return nil
}

// BoltEvent implements bolt.Sink. What an event does at its host is done at once; books are told in order.
func (r *endpoints) BoltEvent(now clock.Time, e bolt.Event) {
	var h *host
	var f *transport.Flow
	switch e.Kind {
	case bolt.Received:
		h = r.hosts[fabric.HostID(e.Receiver)]
		f = h.arrives.remove(connection{e.Sender, e.Connection})
	case bolt.Retransmitted, bolt.TimedOut, bolt.Finished:
		h = r.hosts[fabric.HostID(e.Sender)]
		f = h.sends[e.Connection]
	}
	switch {
	case f == nil:
	case e.Kind == bolt.Received && f.Kind == workload.Loop:
		r.turn(now, h, f)
	case h.at.Apart():
		e, f := e, f
		h.at.Report(func() { r.book(now, f, &e) })
	default:
		r.book(now, f, &e)
	}
	if e.Kind == bolt.Finished {
		delete(h.sends, e.Connection)
	}
}

// book tells the books of an event. A transfer is closed once both ends are through.
func (r *endpoints) book(now clock.Time, f *transport.Flow, e *bolt.Event) {
	p := r.Progress(f.Number)
	switch e.Kind {
	case bolt.Retransmitted:
		p.Retransmissions++
	case bolt.TimedOut:
		p.Timeouts++
	case bolt.Received:
		came(p, &e.Arrivals)
		p.Finish(now)
	case bolt.Finished:
		if f.Kind == workload.Transfer {
			p.Acknowledged, p.Known, p.Sent = true, now, int64(e.Sent)
		}
	}
	if f.Kind == workload.Transfer && p.Finished && p.Acknowledged {
		r.Close(f.Number)
	}
}

// came books what has arrived.
func came(p *transport.Progress, a *bolt.Arrivals) {
	p.Whole, p.Duplicates, p.Reordered = int64(a.Packets), int64(a.Duplicates), int64(a.Reordered)
	p.Payload = int64(a.Bytes)
}

// Settle implements transport.Endpoints.
func (r *endpoints) Settle() {
	for _, h := range r.hosts {
		for number, f := range h.sends {
			if f.Kind == workload.Transfer {
				r.Progress(f.Number).Sent = int64(h.Core().Sent(number))
			}
		}
		for c, f := range h.arrives.flows {
			if a, ok := h.Core().Arrived(c.sender, c.number); ok && f.Kind == workload.Transfer {
				came(r.Progress(f.Number), &a)
			}
		}
	}
}

// turn goes on with a closed loop at one of its hosts: a request that has arrived is answered, and a response is
// followed by the next request.
func (r *endpoints) turn(now clock.Time, h *host, f *transport.Flow) {
	if h.at.ID() == f.Dst {
		r.goOn(h, f, f.Src, uint64(f.Response), now.Add(f.Service))
		return
	}
	trip, more := h.loops[f.Number].Turn(now, f)
	h.at.Report(func() {
		if r.Progress(f.Number).Turned(now, trip, more); !more {
			r.Close(f.Number)
		}
	})
	if more {
		r.goOn(h, f, f.Dst, uint64(f.Request), now)
	} else {
		delete(h.loops, f.Number)
	}
}

// goOn sends the next message of a loop.
func (r *endpoints) goOn(h *host, f *transport.Flow, to fabric.HostID, bytes uint64, at clock.Time) {
	if err := r.send(f, h.at.ID(), to, bytes, at); err != nil {
		h.at.Report(func() { r.Fail(err) })
	}
}
