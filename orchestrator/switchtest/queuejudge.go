package switchtest

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/queues"
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// ofQueues makes the analyzer of queues, buffers and schedulers. It judges tests that say something about them.
func ofQueues() analyzer {
	return analyzer{name: queues.Name, rules: queues.Rules(), applies: func(r *run) bool { return r.plan.judgesQueues() },
		seat: seatQueues}
}

// judgesQueues reports whether the test says something about queues, and they are simulated: frames of a live switch
// have no exact times.
func (p *Plan) judgesQueues() bool {
	v, s := p.Test.Switch.Values, &p.declared
	if p.live || p.model.OwnQueues {
		return !p.live
	}
	return v.Int("queues") > 1 || s.Buffer.Bytes > 0 || len(v.List("per-queue")) > 0 || len(v.Integers("weights")) > 0 ||
		len(p.Test.Topology.Trunks) > 0 || p.Test.ChangesTrunks()
}

func seatQueues(r *run) (*judge, error) {
	report := analyzers.NewReporter(queues.Name, queues.Rules())
	judges := make([]*queues.Judge, r.net.Switches())
	for _, i := range r.wholeSwitches(0, r.net.Switches()) {
		sw := r.net.Switch(i)
		judges[i] = queues.New(r.plan.queueConfig(sw), report)
		sw.WatchQueues(r.plan.toQueues(sw, judges[i]))
	}
	return &judge{
		name: queues.Name,
		observe: func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			if at.Host || at.Stage != fabric.Egress || judges[at.Node] == nil || at.Port >= r.net.Switch(at.Node).Ports() {
				return
			}
			judges[at.Node].Left(now, at.Port, at.Queue, int(p.Size), p.ID)
		},
		relinked: func(_ clock.Time, at *fabric.Port, l *fabric.LinkSpec, shorter clock.Duration) {
			if j := judges[at.Switch().ID()]; j != nil {
				j.Relink(at.Index(), queues.Port{Rate: l.Rate, Framing: l.Framing}, shorter)
			}
		},
		finish: func(*run) (analyzers.Result, error) {
			events := int64(0)
			for _, j := range judges {
				if j != nil {
					events += j.Events()
				}
			}
			return analyzers.Result{Findings: report.Findings(), Coverage: map[string]int64{"events": events}}, nil
		},
	}, nil
}

// toQueues shows a judge the packets at the queues of a switch's ports that lead outside.
func (p *Plan) toQueues(sw *fabric.Switch, j *queues.Judge) fabric.Tap {
	var e trace.QueueEvent
	lossless := p.declared.PFC.Classes
	return func(at fabric.Point, now clock.Time, q *fabric.Packet) {
		if at.Port >= sw.Ports() {
			return
		}
		e = trace.QueueEvent{Time: now, Stage: trace.QueueStage(at.Stage-fabric.Queued) + trace.Joined, Port: at.Port,
			Queue: min(at.Queue, len(p.declared.Queues)-1), ID: q.ID, Size: int(q.Size),
			Lossless: q.Class < 8 && lossless&(1<<q.Class) != 0}
		j.Observe(&e)
	}
}

// queueConfig is what the test says about a switch.
func (p *Plan) queueConfig(sw *fabric.Switch) queues.Config {
	s := &p.declared
	cfg := queues.Config{Name: sw.Name(), Buffer: s.Buffer.Bytes, Admits: !p.model.OwnQueues, Paused: s.PFC.Classes != 0,
		Holds: p.model.Holds != nil && p.model.Holds(p.Test.Switch.Values)}
	for i := range s.Queues {
		q := &s.Queues[i]
		cfg.Queues = append(cfg.Queues, queues.Queue{Bytes: q.MaxBytes, Packets: q.MaxPackets, Alpha: q.Alpha,
			Private: q.Private})
		cfg.Scheduler.Weights = append(cfg.Scheduler.Weights, 1)
	}
	copy(cfg.Scheduler.Weights, s.Scheduler.Weights)
	cfg.Scheduler.Quantum = s.Scheduler.Quantum
	if s.Scheduler.Quantum == 0 {
		cfg.Scheduler.Quantum = fabric.DefaultQuantum
	}
	switch s.Scheduler.Kind {
	case fabric.Strict, "":
		cfg.Scheduler.Discipline = queues.Strict
	case fabric.WRR:
		cfg.Scheduler.Discipline = queues.ByPackets
	case fabric.DWRR:
		cfg.Scheduler.Discipline = queues.ByBytes
	case fabric.FIFO:
	}
	for i := range sw.Ports() {
		cfg.Ports = append(cfg.Ports, p.portConfig(sw, sw.Port(i)))
	}
	return cfg
}

// portConfig is what the test says about the link of a port.
func (p *Plan) portConfig(sw *fabric.Switch, port *fabric.Port) queues.Port {
	top := &p.Test.Topology
	link := top.Link
	if host, ok := port.HostAt(); ok {
		link = top.HostLinkOf(int(host))
	} else if peer := port.Peer(); peer != nil {
		link, _ = top.TrunkBetween(sw.Name(), peer.Name())
	}
	return queues.Port{Rate: link.Rate, Framing: link.Framing}
}
