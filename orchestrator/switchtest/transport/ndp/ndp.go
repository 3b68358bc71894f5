// Package ndp gives hosts of switch tests NDP, and judges them.
package ndp

import (
	"errors"
	"fmt"
	"iter"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration, endpoints and judge.
func Transport() transport.Transport {
	return transport.Transport{Transport: ndp.Transport(), Open: open, Judge: judgement()}
}

// endpoints is the NDP hosts of a run. It is the sink of all of them.
type endpoints struct {
	*transport.Setup
	hosts map[fabric.HostID]*fabric.NDPHost
	// flows by sender and connection; requests and responses of one loop lead to the same flow.
	flows map[connection]*transport.Flow
	loops map[int]*transport.Loop // by flow number
}

type connection struct {
	sender ndp.Endpoint
	number uint32
}

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	r := &endpoints{
		Setup: s, hosts: make(map[fabric.HostID]*fabric.NDPHost), flows: make(map[connection]*transport.Flow),
		loops: make(map[int]*transport.Loop),
	}
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
		Paths: v.Int("paths"), IPv6: f.Mark.IPv6, ControlDSCP: uint8(v.Int("control-dscp")),
		ControlClass: uint8(v.Int("control-tc")), Bugs: seeded,
	}
	if cfg.RTO == 0 {
		cfg.RTO = -1
	}
	if sent != nil {
		cfg.DataClass, cfg.DataDSCP = sent.Mark.Class, sent.Mark.DSCP
	}
	host, err := r.Net.AttachNDP(h, cfg, r)
	if err != nil {
		return err
	}
	r.hosts[h] = host
	r.Add(h, host)
	return nil
}

// Start implements transport.Endpoints: the sender has the flow; of a loop the first request.
func (r *endpoints) Start(f *transport.Flow) error {
	if f.Kind == workload.Loop {
		r.loops[f.Number] = &transport.Loop{Asked: f.Start}
		return r.send(f, f.Src, f.Dst, uint64(f.Request), f.Start)
	}
	return r.send(f, f.Src, f.Dst, uint64(f.Payload), f.Start)
}

func (r *endpoints) send(f *transport.Flow, from, to fabric.HostID, bytes uint64, at clock.Time) error {
	number, err := r.hosts[from].Core().Send(ndp.Flow{To: ndp.Endpoint(to), Bytes: bytes, Start: at})
	if err != nil {
		return err
	}
	r.flows[connection{ndp.Endpoint(from), number}] = f
	r.Name(fabric.NDP, from, number, f.Number)
	if f.Kind == workload.Transfer {
		r.Own(fabric.NDP, from, number, f.Number)
	}
	return nil
}

// NDPEvent implements ndp.Sink.
func (r *endpoints) NDPEvent(now clock.Time, e ndp.Event) {
	f := r.flows[connection{e.Sender, e.Connection}]
	if f == nil {
		return
	}
	p := r.Progress(f.Number)
	switch e.Kind {
	case ndp.Retransmitted:
		p.Retransmissions++
	case ndp.TimedOut:
		p.Timeouts++
	case ndp.Received:
		if f.Kind == workload.Loop {
			r.turn(now, f, fabric.HostID(e.Receiver), p)
			return
		}
		p.Whole, p.Duplicates, p.Reordered = int64(e.Packets), int64(e.Duplicates), int64(e.Reordered)
		p.Headers, p.Payload = int64(e.Trimmed), int64(e.Bytes)
		p.Finish(now)
		r.leave(e, f, p)
	case ndp.Finished:
		if f.Kind == workload.Transfer {
			p.Acknowledged, p.Known, p.Sent = true, now, int64(e.Packets)
		}
		r.leave(e, f, p)
	case ndp.Started:
	}
}

// leave forgets a transfer once both ends are through, and a message of a loop once its sender is.
func (r *endpoints) leave(e ndp.Event, f *transport.Flow, p *transport.Progress) {
	if f.Kind == workload.Transfer {
		if !p.Finished || !p.Acknowledged {
			return
		}
		r.Close(f.Number)
	}
	delete(r.flows, connection{e.Sender, e.Connection})
}

// Settle implements transport.Endpoints.
func (r *endpoints) Settle() {
	for c, f := range r.flows {
		if f.Kind != workload.Transfer {
			continue
		}
		p := r.Progress(f.Number)
		if !p.Acknowledged {
			p.Sent = int64(r.hosts[f.Src].Core().Sent(c.number))
		}
		if e, ok := r.hosts[f.Dst].Core().Arrived(c.sender, c.number); ok {
			p.Whole, p.Duplicates, p.Reordered = int64(e.Packets), int64(e.Duplicates), int64(e.Reordered)
			p.Headers, p.Payload = int64(e.Trimmed), int64(e.Bytes)
		}
	}
}

// turn goes on with a closed loop: a request that has arrived is answered, and a response is followed by the next
// request.
func (r *endpoints) turn(now clock.Time, f *transport.Flow, at fabric.HostID, p *transport.Progress) {
	if at == f.Dst {
		if err := r.send(f, f.Dst, f.Src, uint64(f.Response), now.Add(f.Service)); err != nil {
			r.Fail(err)
		}
		return
	}
	if !r.loops[f.Number].Turn(now, f, p) {
		delete(r.loops, f.Number)
		r.Close(f.Number)
		return
	}
	if err := r.send(f, f.Src, f.Dst, uint64(f.Request), now); err != nil {
		r.Fail(err)
	}
}
