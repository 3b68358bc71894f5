package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// DeflectOnDrop (DoD) is trimming on a Tofino without feedback. Meters in each ingress pipeline trim traffic beyond an
// egress port's line rate. A packet that then overflows the port's queue is deflected whole to the recirculation port
// of its ingress pipeline and trimmed there. Tofino adds the control loop.
type DeflectOnDrop struct {
	cutter
	config    LoopConfig
	notify    notify
	pipelines []pipeline
	ties      []tie // per front port
	jitter    jitter
}

// notify selects the pipelines that a deflected packet alarms.
type notify uint8

const (
	nobody notify = iota
	everyPipeline
	ownPipeline
)

// pipeline is the state of an ingress pipeline for each egress port.
type pipeline struct {
	loops    []Loop
	episodes []episodes
}

// Start implements fabric.Starter.
func (d *DeflectOnDrop) Start(now clock.Time, sw *fabric.Switch) {
	d.cutter.Start(now, sw)
	d.jitter.ports = make([]jitteredPort, sw.Ports())
	d.pipelines, d.ties = make([]pipeline, sw.Pipelines()), make([]tie, sw.Ports())
	for i := range d.pipelines {
		p := pipeline{loops: make([]Loop, sw.Ports()), episodes: make([]episodes, sw.Ports())}
		for port := range p.loops {
			cfg := d.config
			cfg.Line = sw.Port(port).Rate()
			p.loops[port] = NewLoop(cfg)
			p.episodes[port].config = &d.config
		}
		d.pipelines[i] = p
	}
}

// Held implements fabric.Holder.
func (d *DeflectOnDrop) Held() int { return d.jitter.held() }

// Stop implements fabric.Stopper.
func (d *DeflectOnDrop) Stop(now clock.Time, sw *fabric.Switch) { d.jitter.stop(now, sw) }

// Ingress implements fabric.Mechanism.
func (d *DeflectOnDrop) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	switch {
	case recirculated(in):
		return d.returned(sw, p, v)
	case v.Action != fabric.Forward:
		return v
	case d.jitter.most > 0:
		p.Meta = uint32(v.Port)
		d.jitter.hold(now, sw, p, in)
		return v.Consumed()
	}
	return d.classify(now, p, in, v)
}

// classify is the ingress pipeline's decision on a packet from a front port: whether to trim it, and its queue.
func (d *DeflectOnDrop) classify(now clock.Time, p *fabric.Packet, in *fabric.Port, v fabric.Verdict) fabric.Verdict {
	if d.small(p) {
		v.Queue = d.headers
		return v
	}
	v.Queue = d.data(p)
	if d.cuttable(p) && d.pipelines[in.Pipeline()].loops[v.Port].Trim(now, int(p.Size)) {
		d.cut(p)
		d.trims[v.Port].Ingress++
		v.Queue = d.headers
	}
	return v
}

// returned trims a deflected packet that comes back from the recirculation port.
func (d *DeflectOnDrop) returned(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	port := outlet(sw, p)
	d.cut(p)
	d.trims[port.Index()].Deflected++
	return v.To(port, int(d.headers))
}

// Dequeued implements fabric.Mechanism. A packet that leaves a recirculation port's queue alarms the pipelines after
// the latency of a recirculation.
func (d *DeflectOnDrop) Dequeued(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if out := sw.Port(int(v.Port)); d.notify != nobody && recirculated(out) {
		sw.Wake(now.Add(sw.Spec().Recirculation.Latency), uint64(out.Pipeline())<<32|uint64(p.Meta))
	}
	return d.cutter.Dequeued(now, sw, p, v)
}

// HandleTimer implements fabric.Timed: it delivers a notification or a packet delayed by jitter.
func (d *DeflectOnDrop) HandleTimer(now clock.Time, sw *fabric.Switch, token uint64) {
	if token&jitterToken != 0 {
		in := sw.Port(int(token &^ jitterToken))
		p := d.jitter.enter(in.Index())
		sw.Place(now, p, d.classify(now, p, in, fabric.Verdict{}.To(outlet(sw, p), firstQueue)))
		return
	}
	from, port := int(token>>32), int(token&0xffffffff)
	for i := range d.pipelines {
		if d.notify == everyPipeline || i == from {
			d.pipelines[i].hear(now, port)
		}
	}
}

func (l *pipeline) hear(now clock.Time, port int) {
	l.loops[port].Notify(now)
	l.episodes[port].notify(now)
}

// Overflow implements fabric.Mechanism.
func (d *DeflectOnDrop) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	switch {
	case int(v.Port) >= sw.Ports():
		return d.lose(v, int(p.Meta)) // the recirculation port is full
	case v.Queue == d.headers || !d.cuttable(p):
		return d.lose(v, int(v.Port))
	}
	if last := d.rival(now, sw, p, v); last != nil {
		sw.Extract(now, sw.Port(int(v.Port)), int(v.Queue), last)
		sw.Place(now, last, deflect(sw, last, v))
		return v
	}
	return deflect(sw, p, v)
}

// rival returns the packet that p replaces in a full queue: the last one, if it arrived at the same instant and loses
// the draw. Pipelines feed the traffic manager in parallel without an order. A simulation orders events, so without a
// draw the same pipeline would win whenever synchronised senders meet at a port.
func (d *DeflectOnDrop) rival(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) *fabric.Packet {
	t := &d.ties[v.Port]
	if t.at != now {
		*t = tie{at: now}
	}
	t.refused++
	last := sw.Port(int(v.Port)).Queue(int(v.Queue)).Tail()
	if last == nil || last.Arrived != now || last.Size < p.Size || !d.cuttable(last) {
		return nil
	}
	// After n refusals, each of the n+1 rivals for the last place, p included, keeps it with equal probability.
	if sw.Rand().IntN(t.refused+1) != 0 {
		return nil
	}
	return last
}

// tie counts packets that found a queue full at one instant.
type tie struct {
	at      clock.Time
	refused int
}

// Mode returns the mode of an egress port in an ingress pipeline.
func (d *DeflectOnDrop) Mode(now clock.Time, pipeline, port int) Mode {
	return d.pipelines[pipeline].loops[port].Mode(now)
}

// Pessimistic returns the spans, up to now, in which an egress port was pessimistic in an ingress pipeline.
func (d *DeflectOnDrop) Pessimistic(now clock.Time, pipeline, port int) []Span {
	return d.pipelines[pipeline].episodes[port].until(now)
}

// Span is a span of time, [From, To).
type Span struct{ From, To clock.Time }

// episodes records the pessimistic spans of a port.
type episodes struct {
	config *LoopConfig
	spans  []Span
}

func (e *episodes) notify(now clock.Time) {
	if e.config.T0 <= 0 {
		return
	}
	end := now.Add(e.config.T0)
	if n := len(e.spans); n > 0 && e.spans[n-1].To >= now {
		e.spans[n-1].To = end
		return
	}
	e.spans = append(e.spans, Span{now, end})
}

// until returns the episodes, the last one cut at now.
func (e *episodes) until(now clock.Time) []Span {
	spans := append([]Span(nil), e.spans...)
	if n := len(spans); n > 0 {
		spans[n-1].To = min(spans[n-1].To, now)
	}
	return spans
}
