// Package echo gives hosts of switch tests endpoints that ping and answer.
package echo

import (
	"iter"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/echo"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration and endpoints.
func Transport() transport.Transport {
	return transport.Transport{Transport: echo.Transport(), Open: open}
}

// endpoints is the hosts of a run.
type endpoints struct {
	*transport.Setup
	hosts map[fabric.HostID]*stack.Echo
	flows map[uint32]*transport.Flow // that have not finished
}

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	r := &endpoints{Setup: s, hosts: make(map[fabric.HostID]*stack.Echo), flows: make(map[uint32]*transport.Flow)}
	for f := range flows {
		r.host(f.Src)
		r.host(f.Dst)
	}
	return r, nil
}

// host makes the endpoint of a host once.
func (r *endpoints) host(h fabric.HostID) {
	if r.hosts[h] != nil {
		return
	}
	r.hosts[h] = stack.NewEcho(h, func(now clock.Time, id uint32, rtt clock.Duration) {
		r.Net.Host(h).Report(func() { r.answered(now, id, rtt) })
	})
	r.Add(h, r.hosts[h])
}

// Start implements transport.Endpoints.
func (r *endpoints) Start(f *transport.Flow) error {
	id := uint32(f.Number)
	r.flows[id] = f
	r.Own(fabric.Echo, f.Src, id, f.Number)
	r.Weigh(f.Src, id, f)
	r.hosts[f.Src].Ping(stack.Ping{ID: id, To: f.Dst, Count: f.Count, Interval: f.Interval, Size: int32(f.PacketSize),
		Start: f.Start, Mark: f.Mark, Rank: f.Rank})
	return nil
}

// Settle implements transport.Endpoints: round trips are booked as they end.
func (r *endpoints) Settle() {}

// answered books a round trip of a ping.
func (r *endpoints) answered(now clock.Time, id uint32, rtt clock.Duration) {
	f := r.flows[id]
	if f == nil {
		return
	}
	p := r.Progress(int(id))
	p.Trip(rtt)
	if p.Trips.Count() == int64(f.Count) {
		p.Finish(now)
		r.Close(int(id))
		if r.Untapped { // else a copy of an answer is booked, too
			delete(r.flows, id)
		}
	}
}
