// Package ndp gives hosts of switch tests NDP, and judges them.
package ndp

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration, endpoints and judge.
func Transport() transport.Transport {
	return transport.Transport{Transport: ndp.Transport(), Open: open, Judge: judgement(), Stops: true}
}

// endpoints is the NDP hosts of a run. It is the sink of all of them.
type endpoints struct {
	*transport.Setup
	hosts map[fabric.HostID]*host
}

// host is one of them, with the flows of its connections that are not through. Requests and responses of one loop lead
// to the same flow.
type host struct {
	*fabric.NDPHost
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
	sender ndp.Endpoint
	number uint32
}

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	r := &endpoints{Setup: s, hosts: make(map[fabric.HostID]*host)}
	senders := make(map[fabric.HostID]*transport.Flow) // of each host a flow that it sends data of
	if err := transport.OneVersion("NDP", flows); err != nil {
		return nil, err
	}
	if err := keepsHeaders(&s.Test.Switch.Values, flows); err != nil {
		return nil, err
	}
	if s.Values.Number("pull-rate") == 0 {
		return nil, errors.New(
			"pull-rate: 0 would ask for nothing, and no flow would end: must be above 0, at most 2; 1 is the link's rate")
	}
	if err := followsTags(s); err != nil {
		return nil, err
	}
	for f := range flows {
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			if h != f.Src && f.Kind == workload.Transfer {
				continue
			}
			if first := senders[h]; first == nil {
				kept := *f
				senders[h] = &kept
			} else if first.Mark != f.Mark {
				return nil, fmt.Errorf("flows %d and %d of host %d differ in dscp, tc or ip: all flows of an NDP host are alike",
					first.Number, f.Number, h)
			}
		}
	}
	for f := range flows {
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			if err := r.host(h, f, senders[h]); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// penalty returns the settings of the scoreboard of paths.
func penalty(v parameter.Values) ndp.Penalty {
	return ndp.Penalty{On: v.Bool("path-penalty"), Answers: v.Int("penalty-answers"), Periods: v.Int("penalty-periods"),
		SharePercent: v.Int("penalty-share-percent"), FactorPercent: v.Int("penalty-factor-percent")}
}

// followsTags refuses a scoreboard of paths that are none.
func followsTags(s *transport.Setup) error {
	if !s.Values.Bool("path-penalty") {
		return nil
	}
	if s.Values.Int("paths") < 2 {
		return errors.New("path-penalty: excluding a path takes several: set paths to 2 or more")
	}
	if b := s.Test.Topology.Spec().Balance; b == fabric.SprayRandom || b == fabric.SprayRoundRobin {
		return fmt.Errorf("path-penalty: with routing %s switches choose the path of each packet, and senders have none to "+
			"exclude: set topology.routing to path or ecmp", b)
	}
	return nil
}

// keepsHeaders refuses a switch that cuts frames within the headers of NDP, which nobody could read behind it.
func keepsHeaders(v *parameter.Values, flows iter.Seq[*transport.Flow]) error {
	var first transport.Flow
	for f := range flows {
		first = *f
		break
	}
	need := ndp.Codec().HeaderSize(first.Mark.IPv6)
	for _, name := range []string{"trim-bytes", "trim-size"} {
		if v.Table().Find(name) >= 0 && v.Int(name) < need {
			return fmt.Errorf("switch-under-test.%s: %d bytes cut into the headers of NDP; flow %d has %d bytes of them: set "+
				"%d or more", name, v.Int(name),
				first.Number, need, need)
		}
	}
	return nil
}

// host makes the endpoint of a host once; f is one of its flows, as is what it sends, if anything.
func (r *endpoints) host(h fabric.HostID, f, sent *transport.Flow) error {
	if r.hosts[h] != nil {
		return nil
	}
	v := r.Values
	seeded, err := ndp.ParseBugs(r.Bugs)
	if err != nil {
		return err
	}
	cfg := fabric.NDPConfig{
		InitialWindow: v.Int("initial-window"), PacketSize: v.Int("packet-size"), PullRate: v.Number("pull-rate"),
		RTO:   v.Duration("rto-us"),
		Paths: v.Int("paths"), Penalty: penalty(v), IPv6: f.Mark.IPv6, ControlDSCP: uint8(v.Int("control-dscp")),
		ControlClass: uint8(v.Int("control-tc")), Bugs: seeded,
		Ranked: r.Ranked,
	}
	if cfg.RTO == 0 {
		cfg.RTO = -1
	}
	if sent != nil {
		cfg.DataClass, cfg.DataDSCP = sent.Mark.Class, sent.Mark.DSCP
	}
	ndpHost, err := r.Net.AttachNDP(h, cfg, r)
	if err != nil {
		return err
	}
	r.hosts[h] = &host{NDPHost: ndpHost, at: r.Net.Host(h), sends: make(map[uint32]*transport.Flow),
		loops: make(map[int]*transport.Loop), arrives: arriving{flows: make(map[connection]*transport.Flow)}}
	r.Add(h, ndpHost)
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
	number, err := h.Core().Send(ndp.Flow{To: ndp.Endpoint(to), Bytes: bytes, Start: at, Stop: f.Stop, Rank: f.Rank})
	if err != nil {
		return err
	}
	h.sends[number] = f
	r.hosts[to].arrives.enter(connection{ndp.Endpoint(from), number}, f)
	h.at.Report(func() {
		r.Name(fabric.NDP, from, number, f.Number)
		if f.Kind == workload.Transfer {
			r.Own(fabric.NDP, from, number, f.Number)
		}
	})
	return nil
}

// NDPEvent implements ndp.Sink. What an event does at its host is done at once; books are told in order.
func (r *endpoints) NDPEvent(now clock.Time, e ndp.Event) {
	var h *host
	var f *transport.Flow
	switch e.Kind {
	case ndp.Started:
		return
	case ndp.Received:
		h = r.hosts[fabric.HostID(e.Receiver)]
		f = h.arrives.remove(connection{e.Sender, e.Connection})
	case ndp.Retransmitted, ndp.TimedOut, ndp.Finished:
		h = r.hosts[fabric.HostID(e.Sender)]
		f = h.sends[e.Connection]
	}
	switch {
	case f == nil:
	case e.Kind == ndp.Received && f.Kind == workload.Loop:
		r.turn(now, h, f)
	case h.at.Apart():
		e, f := e, f
		h.at.Report(func() { r.book(now, f, &e) })
	default:
		r.book(now, f, &e)
	}
	if e.Kind == ndp.Finished {
		delete(h.sends, e.Connection)
	}
}

// book tells the books of an event. A transfer is closed once both ends are through.
func (r *endpoints) book(now clock.Time, f *transport.Flow, e *ndp.Event) {
	p := r.Progress(f.Number)
	switch e.Kind {
	case ndp.Retransmitted:
		p.Retransmissions++
	case ndp.TimedOut:
		p.Timeouts++
	case ndp.Received:
		came(p, e)
		if !f.Endless() { // otherwise it was stopped
			p.Finish(now)
		}
	case ndp.Finished:
		if f.Kind == workload.Transfer {
			p.Acknowledged, p.Known, p.Sent = !f.Endless(), now, int64(e.Packets)
		}
	case ndp.Started:
	}
	if f.Kind == workload.Transfer && p.Finished && p.Acknowledged {
		r.Close(f.Number)
	}
}

// came books what has arrived.
func came(p *transport.Progress, e *ndp.Event) {
	p.Whole, p.Duplicates, p.Reordered = int64(e.Packets), int64(e.Duplicates), int64(e.Reordered)
	p.Headers, p.Payload = int64(e.Trimmed), int64(e.Bytes)
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
			if e, ok := h.Core().Arrived(c.sender, c.number); ok && f.Kind == workload.Transfer {
				came(r.Progress(f.Number), &e)
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
