package switchtest

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/boltswitch"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/bolt"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// ofBolt makes the analyzer of Bolt's part in switches, which is an option of every model.
func ofBolt() analyzer {
	return analyzer{name: boltswitch.Name, rules: boltswitch.Rules(),
		applies: func(r *run) bool { return !r.plan.live && r.plan.declared.Bolt.On() }, seat: seatBolt}
}

func seatBolt(r *run) (*judge, error) {
	report := analyzers.NewReporter(boltswitch.Name, boltswitch.Rules())
	judges := make([]*boltswitch.Judge, r.net.Switches())
	for _, i := range r.wholeSwitches(0, r.net.Switches()) {
		sw := r.net.Switch(i)
		judges[i] = boltswitch.New(r.boltConfig(sw), report)
		sw.WatchQueues(toBolt(sw, judges[i]))
	}
	var e boltswitch.Event
	return &judge{
		name: boltswitch.Name,
		observe: func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			if at.Host || judges[at.Node] == nil {
				return
			}
			internal := at.Port >= r.net.Switch(at.Node).Ports()
			switch {
			case at.Stage == fabric.Ingress && !internal:
				e = boltEvent(now, boltswitch.Arrived, p)
			case at.Stage == fabric.Egress && !internal, at.Stage == fabric.Dropped:
				e = boltEvent(now, boltswitch.Ended, p)
			default:
				return
			}
			judges[at.Node].Observe(&e)
		},
		started: func(now clock.Time, sw int) {
			if judges[sw] != nil {
				judges[sw].Started(now)
			}
		},
		relinked: func(now clock.Time, at *fabric.Port, l *fabric.LinkSpec, _ clock.Duration) {
			if j := judges[at.Switch().ID()]; j != nil {
				j.Relink(now, at.Index(), boltswitch.Port{Rate: l.Rate, Framing: l.Framing})
			}
		},
		finish: func(*run) (analyzers.Result, error) {
			events := int64(0)
			for _, j := range judges {
				if j != nil {
					j.Finish()
					events += j.Events()
				}
			}
			return analyzers.Result{Findings: report.Findings(), Coverage: map[string]int64{"data": events}}, nil
		},
	}, nil
}

// toBolt shows a judge the packets at the queues of a switch.
func toBolt(sw *fabric.Switch, j *boltswitch.Judge) fabric.Tap {
	var e boltswitch.Event
	return func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		switch at.Stage {
		case fabric.Queued:
			e = boltEvent(now, boltswitch.Joined, p)
		case fabric.Refused:
			e = boltEvent(now, boltswitch.Refused, p)
		case fabric.Served, fabric.Withdrawn:
			e = boltEvent(now, boltswitch.Left, p)
		default:
			return
		}
		if e.Port = at.Port; at.Port >= sw.Ports() {
			e.Port = -1
		}
		j.Observe(&e)
	}
}

// boltEvent returns an event with the packet's fields.
func boltEvent(now clock.Time, stage boltswitch.Stage, p *fabric.Packet) boltswitch.Event {
	e := boltswitch.Event{Time: now, Stage: stage, ID: p.ID, Size: int(p.Size)}
	if p.Protocol != fabric.Bolt || p.Flags&(fabric.Returned|fabric.Mirrored) != 0 {
		return e
	}
	of := bolt.FromHeader(&p.Header, 0)
	e.Key = boltswitch.Key{Sender: uint32(of.From), Receiver: uint32(of.To), Connection: of.Connection, Number: of.Number}
	if of.Kind != bolt.Data {
		e.Sender, e.Receiver = e.Receiver, e.Sender
	}
	e.Data, e.SRC = of.Kind == bolt.Data && p.Flags&fabric.Trimmed == 0, of.Kind == bolt.SRC
	e.Flags, e.SentNS, e.Queue, e.RateMbps = boltswitch.Flags(of.Flags), of.SentNS, of.Queue, of.RateMbps
	return e
}

// boltConfig is what the test says about a switch.
func (r *run) boltConfig(sw *fabric.Switch) boltswitch.Config {
	s := &r.plan.declared.Bolt
	cfg := boltswitch.Config{Name: sw.Name(), SRC: s.SRC, PRU: s.PRU, SM: s.SM, Threshold: s.Threshold, MTU: s.MTU,
		MaxTokens: s.MaxTokens,
		Number: func(sender, connection uint32) int {
			return r.connections().named[ownerKey(fabric.Bolt, fabric.HostID(sender), connection)]
		}}
	for i := range sw.Ports() {
		of := r.plan.portConfig(sw, sw.Port(i))
		cfg.Ports = append(cfg.Ports, boltswitch.Port{Rate: of.Rate, Framing: of.Framing})
	}
	return cfg
}
