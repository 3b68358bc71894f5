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
	return transport.Transport{Transport: ndp.Transport(), Open: open, Judge: judgement(), Stops: true}
}

// endpoints is the NDP hosts of a run. It is the sink of all of them.
type endpoints struct{ *transport.Messages }

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	r := &endpoints{transport.NewMessages(s, fabric.NDP)}
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
	if r.Has(h) {
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
	r.Join(h, core{ndpHost.Core()}, ndpHost)
	return nil
}

// core is the protocol at a host.
type core struct{ host *ndp.Host }

// Send implements transport.MessageCore.
func (c core) Send(f *transport.Flow, to fabric.HostID, bytes uint64, at clock.Time) (uint32, error) {
	return c.host.Send(ndp.Flow{To: ndp.Endpoint(to), Bytes: bytes, Start: at, Stop: f.Stop, Rank: f.Rank})
}

// Sent implements transport.MessageCore.
func (c core) Sent(connection uint32) int64 { return int64(c.host.Sent(connection)) }

// Arrived implements transport.MessageCore.
func (c core) Arrived(sender fabric.HostID, connection uint32) (transport.Arrivals, bool) {
	e, ok := c.host.Arrived(ndp.Endpoint(sender), connection)
	return arrivals(&e), ok
}

func arrivals(e *ndp.Event) transport.Arrivals {
	return transport.Arrivals{Whole: int64(e.Packets), Duplicates: int64(e.Duplicates), Reordered: int64(e.Reordered),
		Headers: int64(e.Trimmed), Payload: int64(e.Bytes)}
}

var kinds = [...]transport.MessageEventKind{
	ndp.Retransmitted: transport.MessageRetransmitted, ndp.TimedOut: transport.MessageTimedOut,
	ndp.Received: transport.MessageReceived, ndp.Finished: transport.MessageFinished,
}

// NDPEvent implements ndp.Sink.
func (r *endpoints) NDPEvent(now clock.Time, e ndp.Event) {
	if e.Kind == ndp.Started {
		return
	}
	r.Happened(now, &transport.MessageEvent{Kind: kinds[e.Kind], Sender: fabric.HostID(e.Sender),
		Receiver: fabric.HostID(e.Receiver), Connection: e.Connection, Arrivals: arrivals(&e), Sent: int64(e.Packets)})
}
