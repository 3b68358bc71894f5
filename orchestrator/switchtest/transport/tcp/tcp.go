// Package tcp gives hosts of switch tests TCP, and judges them.
package tcp

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration, endpoints and judge.
func Transport() transport.Transport {
	return transport.Transport{Transport: tcp.Transport(), Open: open, Judge: judgement()}
}

// endpoints is the TCP hosts of a run. It is the sink of all of them. A connection has the number of its flow.
type endpoints struct {
	*transport.Setup
	hosts map[fabric.HostID]*fabric.TCPHost
	flows map[uint32]*transport.Flow
	loops map[int]*transport.Loop // by flow number
}

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	if s.Values.Duration("send-jitter-us") > 0 && len(s.Test.Switch.Values.Integers("pfc-classes")) > 0 {
		return nil, errors.New("send-jitter-us and pfc-classes: a NIC that is paused would keep what was decided for no " +
			"time that is known; leave out one of them")
	}
	r := &endpoints{
		Setup: s, hosts: make(map[fabric.HostID]*fabric.TCPHost), flows: make(map[uint32]*transport.Flow),
		loops: make(map[int]*transport.Loop),
	}
	first := make(map[fabric.HostID]*transport.Flow)
	if err := transport.OneVersion("TCP", flows); err != nil {
		return nil, err
	}
	for f := range flows {
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			if other := first[h]; other != nil && other.Mark != f.Mark {
				return nil, fmt.Errorf("flows %d and %d of host %d differ in dscp, tc or ip: all flows of a TCP host are alike",
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
	seeded, err := tcp.ParseBugs(r.Bugs)
	if err != nil {
		return err
	}
	cfg := fabric.TCPConfig{
		PacketSize: v.Int("packet-size"), InitialWindow: v.Int("initial-window"),
		ReceiveWindow: v.Int("receive-window-bytes"),
		MinRTO:        v.Duration("min-rto-us"), DelayedACK: v.Duration("delayed-ack-us"),
		FirstSequence: uint32(v.Int("first-sequence")), IPv6: f.Mark.IPv6, Class: f.Mark.Class, DSCP: f.Mark.DSCP,
	}
	if cfg.DelayedACK == 0 {
		cfg.DelayedACK = -1
	}
	if v.Word("congestion-control") == "reno" {
		cfg.Control = tcp.Reno
	}
	host, err := r.Net.AttachTCP(h, cfg, r)
	if err != nil {
		return err
	}
	host.Core().SeedBugs(seeded)
	r.hosts[h] = host
	r.Add(h, r.jitter(h, host, v.Duration("send-jitter-us")))
	return nil
}

// jitter puts a random delay of at most most before the NIC of a host.
func (r *endpoints) jitter(h fabric.HostID, s fabric.Stack, most clock.Duration) fabric.Stack {
	if most == 0 {
		return s
	}
	link := r.Test.Topology.HostLinkOf(int(h))
	takes := func(size int32) clock.Duration { return link.Rate.Serialise(int(size) + link.Framing) }
	return stack.NewJitter(s, most, takes, rand.New(rand.NewPCG(r.Test.Seed, uint64(h)<<8|jitterStream)))
}

// jitterStream tells a host's jitter from what else is drawn from the seed.
const jitterStream = 0x6a

// Start implements transport.Endpoints: the sender has the flow; of a loop the first request.
func (r *endpoints) Start(f *transport.Flow) error {
	r.flows[uint32(f.Number)] = f
	bytes := uint64(f.Payload)
	switch {
	case f.Kind == workload.Loop:
		r.loops[f.Number] = &transport.Loop{Asked: f.Start}
		bytes = uint64(f.Request)
	case f.Endless():
		bytes = tcp.Endless
	}
	if f.Kind == workload.Transfer {
		r.Own(fabric.TCP, f.Src, uint32(f.Number), f.Number)
	}
	return r.write(f, f.Src, f.Dst, bytes, f.Start)
}

func (r *endpoints) write(f *transport.Flow, from, to fabric.HostID, bytes uint64, at clock.Time) error {
	return r.hosts[from].Core().Write(tcp.Endpoint(to), uint32(f.Number), bytes, at)
}

// TCPEvent implements tcp.Sink.
func (r *endpoints) TCPEvent(now clock.Time, e tcp.Event) {
	f := r.flows[e.Connection]
	if f == nil {
		return
	}
	p := r.Progress(f.Number)
	switch e.Kind {
	case tcp.Retransmitted:
		p.Retransmissions++
	case tcp.TimedOut:
		p.Timeouts++
	case tcp.Delivered:
		switch {
		case f.Kind == workload.Loop:
			r.turn(now, f, fabric.HostID(e.Local), e.Bytes, p)
		case e.Bytes == uint64(f.Payload):
			p.Finish(now)
		}
	case tcp.Acknowledged:
		if f.Kind == workload.Transfer && p.Finished && fabric.HostID(e.Local) == f.Src {
			r.settle(f, p)
			r.Close(f.Number)
			delete(r.flows, e.Connection)
		}
	case tcp.Recovering:
	}
}

// Settle implements transport.Endpoints.
func (r *endpoints) Settle() {
	for _, f := range r.flows {
		if f.Kind == workload.Transfer {
			r.settle(f, r.Progress(f.Number))
		}
	}
}

// settle books how far a transfer has come.
func (r *endpoints) settle(f *transport.Flow, p *transport.Progress) {
	if c, ok := r.hosts[f.Src].Core().Connection(tcp.Endpoint(f.Dst), uint32(f.Number)); ok {
		p.Sent = int64(c.Sent)
	}
	if c, ok := r.hosts[f.Dst].Core().Connection(tcp.Endpoint(f.Src), uint32(f.Number)); ok {
		p.Whole, p.Payload = int64(c.Received), int64(c.Bytes)
		p.Duplicates, p.Reordered = int64(c.Duplicates), int64(c.Reordered)
	}
}

// turn goes on with a closed loop. One side waits at a time, so that what has arrived there in order is a number of
// whole messages and maybe a part of the next.
func (r *endpoints) turn(now clock.Time, f *transport.Flow, at fabric.HostID, bytes uint64, p *transport.Progress) {
	l := r.loops[f.Number]
	if at == f.Dst {
		if bytes == uint64(l.Answered+1)*uint64(f.Request) {
			r.send(f, f.Dst, f.Src, uint64(f.Response), now.Add(f.Service))
		}
		return
	}
	if bytes != uint64(l.Answered+1)*uint64(f.Response) {
		return
	}
	if l.Turn(now, f, p) {
		r.send(f, f.Src, f.Dst, uint64(f.Request), now)
	} else {
		r.Close(f.Number)
	}
}

// send writes while the simulation runs; the host is polled when the sink has returned.
func (r *endpoints) send(f *transport.Flow, from, to fabric.HostID, bytes uint64, at clock.Time) {
	if err := r.write(f, from, to, bytes, at); err != nil {
		r.Fail(err)
	}
}
