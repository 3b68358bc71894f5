// Package bolt gives hosts of switch tests Bolt, and judges them.
package bolt

import (
	"iter"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/bolt"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration, endpoints and judge.
func Transport() transport.Transport {
	return transport.Transport{Transport: bolt.Transport(), Open: open, Judge: judgement()}
}

// endpoints is the Bolt hosts of a run. It is the sink of all of them.
type endpoints struct{ *transport.Messages }

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	if err := transport.OneVersion("Bolt", flows); err != nil {
		return nil, err
	}
	r := &endpoints{transport.NewMessages(s, fabric.Bolt)}
	if err := transport.EachHost("Bolt", flows, r.host); err != nil {
		return nil, err
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
		Ranked: r.Ranked, Bugs: seeded}
	boltHost, err := r.Net.AttachBolt(h, cfg, r)
	if err != nil {
		return err
	}
	r.Join(h, core{boltHost.Core()}, boltHost)
	return nil
}

// core is the protocol at a host.
type core struct{ host *bolt.Host }

// Send implements transport.MessageCore.
func (c core) Send(f *transport.Flow, to fabric.HostID, bytes uint64, at clock.Time) (uint32, error) {
	return c.host.Send(bolt.Flow{To: bolt.Endpoint(to), Bytes: bytes, Start: at, Rank: f.Rank})
}

// Sent implements transport.MessageCore.
func (c core) Sent(connection uint32) int64 { return int64(c.host.Sent(connection)) }

// Arrived implements transport.MessageCore.
func (c core) Arrived(sender fabric.HostID, connection uint32) (transport.Arrivals, bool) {
	a, ok := c.host.Arrived(bolt.Endpoint(sender), connection)
	return arrivals(&a), ok
}

func arrivals(a *bolt.Arrivals) transport.Arrivals {
	return transport.Arrivals{Whole: int64(a.Packets), Duplicates: int64(a.Duplicates), Reordered: int64(a.Reordered),
		Payload: int64(a.Bytes)}
}

var kinds = [...]transport.MessageEventKind{
	bolt.Received: transport.MessageReceived, bolt.Finished: transport.MessageFinished,
	bolt.Retransmitted: transport.MessageRetransmitted, bolt.TimedOut: transport.MessageTimedOut,
}

// BoltEvent implements bolt.Sink.
func (r *endpoints) BoltEvent(now clock.Time, e bolt.Event) {
	r.Happened(now, &transport.MessageEvent{Kind: kinds[e.Kind], Sender: fabric.HostID(e.Sender),
		Receiver: fabric.HostID(e.Receiver), Connection: e.Connection, Arrivals: arrivals(&e.Arrivals),
		Sent: int64(e.Sent)})
}
