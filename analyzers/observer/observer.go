package observer

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/trace"
)

// Config is what is known besides the trace.
type Config struct {
	// Default holds for every connection that Connections does not name.
	Default     Limits
	Connections map[int]*Limits

	clockNS int64 // how much later than its timestamp a frame may have passed towards its receiver
}

// Limits are what is known of one connection.
type Limits struct {
	TimeoutNS       int64 // local ACK timeout; 0: unknown
	HostDelayNS     int64 // longest time of a packet between tap and transport, either way; 0: unknown
	Retry, RNRRetry Limit
	// AtRest says that the trace ends when the connection has come to rest: every obligation is due.
	AtRest bool
}

// A Limit is a bound that may not be known.
type Limit struct {
	Known bool
	Max   int
}

// unlimitedRNR is the rnr_retry that never gives up (IBTA volume 1, 9.7.5.2.8).
const unlimitedRNR = 7

func (c *Config) limits(connection int) *Limits {
	if l, ok := c.Connections[connection]; ok {
		return l
	}
	return &c.Default
}

// An Observer follows the endpoints of every connection in one capture.
type Observer struct {
	cfg      Config
	meta     trace.Meta
	sessions []*session // by flow of the requests
}

// New returns an observer of the trace that meta describes.
func New(meta trace.Meta, cfg Config) *Observer {
	cfg.clockNS = meta.ClockUncertaintyNS
	return &Observer{cfg: cfg, meta: meta, sessions: make([]*session, 2*meta.Connections.Len())}
}

// Packet follows r.
func (o *Observer) Packet(r *trace.Record) {
	if o == nil || r.Flow < 0 || int(r.Flow) >= len(o.sessions) {
		return
	}
	flow := r.Flow
	switch {
	case r.Opcode.IsRequest():
	case r.Opcode.IsResponse():
		flow = flow.Peer()
	default:
		return
	}
	s := o.sessions[flow]
	if s == nil {
		s = newSession(&o.cfg, &o.meta, flow)
		o.sessions[flow] = s
	}
	s.observe(r)
}

// Finish returns what was observed.
func (o *Observer) Finish() []analyzers.Observed {
	if o == nil {
		return nil
	}
	var all []analyzers.Observed
	for _, s := range o.sessions {
		if s != nil && s.stumbled > 0 {
			s.rejudge()
		}
	}
	for _, s := range o.sessions {
		if s != nil {
			all = append(all, s.finish(o.sessions[s.flow.Peer()])...)
		}
	}
	return all
}
