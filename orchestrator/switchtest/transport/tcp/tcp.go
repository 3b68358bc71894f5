// Package tcp gives hosts of switch tests TCP, and judges them.
package tcp

import (
	"cmp"
	"errors"
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
	return transport.Transport{Transport: tcp.Transport(), Open: open, Judge: judgement(), Stops: true}
}

// endpoints is the TCP hosts of a run. It is the sink of all of them. A connection has the number of its flow.
type endpoints struct {
	*transport.Setup
	hosts []*host // by number; nil: a host without flows
}

// host is one of them, with its ends of connections.
type host struct {
	*fabric.TCPHost
	at   *fabric.Host
	ends map[uint32]*end
}

// end is one end of a connection. Both ends of a flow have one.
type end struct {
	flow   *transport.Flow
	loop   transport.Loop // at the client
	served int            // requests, at the server
	// Of a loop. An end is through once it has all, and the peer has acknowledged all that it wrote.
	acknowledged uint64 // bytes
	through      bool
	booked       int // ends that are through, as books are told: at the client
}

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	if s.Values.Duration("send-jitter-us") > 0 && len(s.Test.Switch.Values.Integers("pfc-classes")) > 0 {
		return nil, errors.New("send-jitter-us and pfc-classes: a NIC that is paused would keep what was decided for no " +
			"time that is known; leave out one of them")
	}
	if s.Values.Bool("timestamps") {
		const why = "timestamps take the place of SACK and of Swift's delay: leave them out, or set loss-detection to " +
			"new-reno and congestion-control to another"
		for _, of := range []struct{ key, word string }{{"congestion-control", "swift"}, {"loss-detection", "sack"},
			{"loss-detection", "per-packet"}} {
			if s.Values.Word(of.key) == of.word {
				return nil, &transport.SettingError{Key: "timestamps", What: "are given with " + of.key + ": " + of.word, Why: why}
			}
		}
	}
	r := &endpoints{Setup: s, hosts: make([]*host, s.Test.Topology.HostCount())}
	if err := transport.OneVersion("TCP", flows); err != nil {
		return nil, err
	}
	if err := transport.EachHost("TCP", flows, r.host); err != nil {
		return nil, err
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
		ECN: ecnOf(v), Control: controls[v.Word("congestion-control")],
		Ranked: r.Ranked,
	}
	cfg.Options = tcp.Config{
		Threshold: v.Int("initial-ssthresh"), RestartsOnSend: v.Word("rto-restart") == "transmissions",
		Timestamps: v.Bool("timestamps"), NeedsACK: v.Bool("handshake-needs-ack"),
		Handshake: v.Bool("handshake"), Unscaled: !v.Bool("window-scaling"),
		InitialRTO: v.Duration("initial-rto-us"), MaxRTO: v.Duration("max-rto-us"), ThreeSRTT: v.Word("rto") == "3-srtt",
		MaxRetries: v.Int("max-retries"), QuickACKs: v.Int("quick-acks"), ACKEvery: v.Int("ack-every"),
		NoFastRetransmit: !v.Bool("fast-retransmit"), NoLimitedTransmit: !v.Bool("limited-transmit"),
		Swift: swiftOf(v),
	}
	if cfg.Options.QuickACKs == 0 {
		cfg.Options.QuickACKs = -1
	}
	switch v.Word("loss-detection") {
	case "new-reno":
		cfg.Options.Detection = tcp.NewReno
	case "per-packet":
		cfg.Options.Detection = tcp.PerPacket
	}
	if cfg.DelayedACK == 0 {
		cfg.DelayedACK = -1
	}
	tcpHost, err := r.Net.AttachTCP(h, cfg, r)
	if err != nil {
		return err
	}
	tcpHost.Core().SeedBugs(seeded)
	r.hosts[h] = &host{TCPHost: tcpHost, at: r.Net.Host(h), ends: make(map[uint32]*end)}
	r.Add(h, r.jitter(h, tcpHost, v.Duration("send-jitter-us")))
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
	for _, h := range []fabric.HostID{f.Src, f.Dst} {
		r.hosts[h].ends[uint32(f.Number)] = &end{flow: f, loop: transport.Loop{Asked: f.Start}}
	}
	bytes := uint64(f.Payload)
	switch {
	case f.Kind == workload.Loop:
		bytes = uint64(f.Request)
	case f.Endless():
		bytes = tcp.Endless
	}
	if f.Kind == workload.Transfer {
		r.Own(fabric.TCP, f.Src, uint32(f.Number), f.Number)
	} else {
		r.Turn(fabric.TCP, f.Src, uint32(f.Number), f.Number)
		r.Turn(fabric.TCP, f.Dst, uint32(f.Number), f.Number)
	}
	r.Weigh(f.Src, uint32(f.Number), f)
	if f.Kind == workload.Loop { // its responses are data of the flow, too
		r.Weigh(f.Dst, uint32(f.Number), f)
	}
	if r.Ranked {
		r.hosts[f.Src].Core().SetRanking(tcp.Endpoint(f.Dst), uint32(f.Number), f.Rank)
		if f.Kind == workload.Loop { // its responses are data of the flow, too
			r.hosts[f.Dst].Core().SetRanking(tcp.Endpoint(f.Src), uint32(f.Number), f.Rank)
		}
	}
	if err := r.hosts[f.Src].write(f, f.Dst, bytes, f.Start); err != nil {
		return err
	}
	if f.Stop > 0 {
		r.hosts[f.Src].Core().End(tcp.Endpoint(f.Dst), uint32(f.Number), f.Stop)
	}
	return nil
}

func (h *host) write(f *transport.Flow, to fabric.HostID, bytes uint64, at clock.Time) error {
	return h.Core().Write(tcp.Endpoint(to), uint32(f.Number), bytes, at)
}

// TCPEvent implements tcp.Sink. What an event does at its host is done at once; books are told in order.
func (r *endpoints) TCPEvent(now clock.Time, e tcp.Event) {
	h := r.hosts[e.Local]
	c := h.ends[e.Connection]
	if c == nil {
		return
	}
	f := c.flow
	switch e.Kind {
	case tcp.Retransmitted:
		h.at.Report(func() { r.Progress(f.Number).Retransmissions++ })
	case tcp.TimedOut:
		h.at.Report(func() { r.Progress(f.Number).Timeouts++ })
	case tcp.Delivered:
		if f.Kind == workload.Loop {
			r.turn(now, h, c, e.Bytes)
			return
		}
		if all := cmp.Or(uint64(f.Payload), tcp.Endless); e.Bytes < all {
			h.Core().Await(e.Peer, e.Connection, all)
			return
		}
		s := h.stream(e.Peer, f)
		delete(h.ends, e.Connection)
		h.Core().Finish(e.Peer, e.Connection)
		h.at.Report(func() {
			p := r.Progress(f.Number)
			came(p, &s)
			p.Finish(now)
		})
	case tcp.Acknowledged:
		switch {
		case f.Kind == workload.Loop:
			c.acknowledged = e.Bytes
			r.through(h, c)
		case h.at.ID() == f.Src:
			r.acknowledged(h, f)
		}
	case tcp.Recovering, tcp.Aborted:
	}
}

// acknowledged books that the sender of a transfer is through, and closes it if the receiver is.
func (r *endpoints) acknowledged(h *host, f *transport.Flow) {
	sent := int64(h.stream(tcp.Endpoint(f.Dst), f).Sent)
	delete(h.ends, uint32(f.Number))
	h.Core().Finish(tcp.Endpoint(f.Dst), uint32(f.Number))
	h.at.Report(func() {
		p := r.Progress(f.Number)
		if p.Sent = sent; p.Finished {
			r.Close(f.Number)
		}
	})
}

// stream returns how far the connection of a flow has come at one end.
func (h *host) stream(peer tcp.Endpoint, f *transport.Flow) tcp.Stream {
	s, _ := h.Core().Connection(peer, uint32(f.Number))
	return s
}

// through books what an end of a loop has sent and received once it is through. The loop is closed when both ends are.
func (r *endpoints) through(h *host, c *end) {
	f, peer := c.flow, c.flow.Dst
	if h.at.ID() == f.Dst {
		if peer = f.Src; c.served < f.Count || c.acknowledged < uint64(f.Count)*uint64(f.Response) {
			return
		}
	} else if c.loop.Answered < f.Count || c.acknowledged < uint64(f.Count)*uint64(f.Request) {
		return
	}
	if c.through {
		return
	}
	c.through = true
	s := h.stream(tcp.Endpoint(peer), f)
	h.at.Report(func() {
		p := r.Progress(f.Number)
		p.Sent += int64(s.Sent)
		came(p, &s)
		client := r.hosts[f.Src].ends[uint32(f.Number)]
		if client.booked++; client.booked == 2 && p.Finished {
			r.Close(f.Number)
			if r.Untapped { // nothing is booked for a flow that is closed
				delete(r.hosts[f.Src].ends, uint32(f.Number))
				delete(r.hosts[f.Dst].ends, uint32(f.Number))
			}
		}
	})
}

// came books what has arrived in one direction.
func came(p *transport.Progress, s *tcp.Stream) {
	p.Whole, p.Payload = p.Whole+int64(s.Received), p.Payload+int64(s.Bytes)
	p.Duplicates, p.Reordered = p.Duplicates+int64(s.Duplicates), p.Reordered+int64(s.Reordered)
}

// Settle implements transport.Endpoints.
func (r *endpoints) Settle() {
	for _, h := range r.hosts {
		if h == nil {
			continue
		}
		for _, c := range h.ends {
			r.settle(h, c)
		}
	}
}

// settle books how far one end has come.
func (r *endpoints) settle(h *host, c *end) {
	f, peer := c.flow, c.flow.Dst
	if h.at.ID() == f.Dst {
		peer = f.Src
	}
	p := r.Progress(f.Number)
	s := h.stream(tcp.Endpoint(peer), f)
	switch {
	case f.Kind == workload.Loop && !c.through:
		p.Sent += int64(s.Sent)
		came(p, &s)
	case f.Kind == workload.Loop:
	case h.at.ID() == f.Src:
		p.Sent = int64(s.Sent)
	case !p.Finished:
		came(p, &s)
	}
}

// turn goes on with a closed loop at one of its hosts. One side waits at a time, so that what has arrived there in
// order is a number of whole messages and maybe a part of the next.
func (r *endpoints) turn(now clock.Time, h *host, c *end, bytes uint64) {
	f := c.flow
	if h.at.ID() == f.Dst {
		if bytes == uint64(c.served+1)*uint64(f.Request) {
			c.served++
			r.send(h, f, f.Src, uint64(f.Response), now.Add(f.Service))
		}
		return
	}
	if bytes != uint64(c.loop.Answered+1)*uint64(f.Response) {
		return
	}
	trip, more := c.loop.Turn(now, f)
	h.at.Report(func() { r.Progress(f.Number).Turned(now, trip, more) })
	if more {
		r.send(h, f, f.Dst, uint64(f.Request), now)
	} else {
		r.through(h, c)
	}
}

// send writes while the simulation runs; the host is polled when the sink has returned.
func (r *endpoints) send(h *host, f *transport.Flow, to fabric.HostID, bytes uint64, at clock.Time) {
	if err := h.write(f, to, bytes, at); err != nil {
		h.at.Report(func() { r.Fail(err) })
	}
}
