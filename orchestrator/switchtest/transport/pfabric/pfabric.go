// Package pfabric gives hosts of switch tests pFabric, and judges them.
package pfabric

import (
	"iter"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/pfabric"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration, endpoints and judge.
func Transport() transport.Transport {
	return transport.Transport{Transport: pfabric.Transport(), Open: open, Judge: judgement(), Stops: true}
}

// endpoints is the pFabric hosts of a run. It is the sink of all of them.
type endpoints struct{ *transport.Messages }

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	if err := transport.OneVersion("pFabric", flows); err != nil {
		return nil, err
	}
	r := &endpoints{transport.NewMessages(s, fabric.PFabric)}
	if err := transport.EachHost("pFabric", flows, r.host); err != nil {
		return nil, err
	}
	return r, nil
}

// host makes the endpoint of a host; f is one of its flows.
func (r *endpoints) host(h fabric.HostID, f *transport.Flow) error {
	v := r.Values
	seeded, err := pfabric.ParseBugs(r.Bugs)
	if err != nil {
		return err
	}
	cfg := fabric.PFabricConfig{PacketSize: v.Int("packet-size"), InitialWindow: v.Int("initial-window"),
		RTO: v.Duration("rto-us"), ProbeAfter: v.Int("probe-after"), IPv6: f.Mark.IPv6, Class: f.Mark.Class,
		DSCP: f.Mark.DSCP, Bugs: seeded}
	pfabricHost, err := r.Net.AttachPFabric(h, cfg, r)
	if err != nil {
		return err
	}
	r.Join(h, core{pfabricHost.Core()}, pfabricHost)
	return nil
}

// core is the protocol at a host.
type core struct{ host *pfabric.Host }

// Send implements transport.MessageCore.
func (c core) Send(f *transport.Flow, to fabric.HostID, bytes uint64, at clock.Time) (uint32, error) {
	return c.host.Send(pfabric.Flow{To: pfabric.Endpoint(to), Bytes: bytes, Start: at, Stop: f.Stop, Rank: f.Rank})
}

// Sent implements transport.MessageCore.
func (c core) Sent(connection uint32) int64 { return int64(c.host.Sent(connection)) }

// Arrived implements transport.MessageCore.
func (c core) Arrived(sender fabric.HostID, connection uint32) (transport.Arrivals, bool) {
	a, ok := c.host.Arrived(pfabric.Endpoint(sender), connection)
	return arrivals(&a), ok
}

func arrivals(a *pfabric.Arrivals) transport.Arrivals {
	return transport.Arrivals{Whole: int64(a.Packets), Duplicates: int64(a.Duplicates), Reordered: int64(a.Reordered),
		Payload: int64(a.Bytes)}
}

var kinds = [...]transport.MessageEventKind{
	pfabric.Received: transport.MessageReceived, pfabric.Finished: transport.MessageFinished,
	pfabric.Retransmitted: transport.MessageRetransmitted, pfabric.TimedOut: transport.MessageTimedOut,
}

// PFabricEvent implements pfabric.Sink.
func (r *endpoints) PFabricEvent(now clock.Time, e pfabric.Event) {
	r.Happened(now, &transport.MessageEvent{Kind: kinds[e.Kind], Sender: fabric.HostID(e.Sender),
		Receiver: fabric.HostID(e.Receiver), Connection: e.Connection, Arrivals: arrivals(&e.Arrivals),
		Sent: int64(e.Sent)})
}
