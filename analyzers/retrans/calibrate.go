package retrans

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Calibration measures the round trip from the switch to each host in a run without events. It is an Analyzer.
//
// For the responder it is the time from a request that asks for an acknowledgement to its ACK or first response. For
// the requester it is the time from the response that acknowledges everything outstanding to the next request, which
// needs traffic with tx-depth 1. Both contain the host's shortest processing time, so a corrected latency is what a
// host takes beyond its fastest answer.
type Calibration struct {
	streams []calibrated
	sides   [2][]*analyzers.Distribution // by side and connection, 0 being all
}

// calibrated is one stream of requests during calibration.
type calibrated struct {
	askedPSN, high     packet.PSN
	askedNS, ackedNS   int64
	asked, acked, seen bool
}

const (
	requesterSide = iota
	responderSide
)

// Calibrate returns a calibration for traces with the given connections.
func Calibrate(meta trace.Meta) *Calibration {
	n := meta.Connections.Len()
	c := &Calibration{streams: make([]calibrated, 2*n)}
	for side, name := range [...]string{"retrans.half-rtt.requester", "retrans.half-rtt.responder"} {
		c.sides[side] = make([]*analyzers.Distribution, n+1)
		for i := range c.sides[side] {
			c.sides[side][i] = analyzers.NewDistribution(name, analyzers.UnitNS, i)
		}
	}
	return c
}

// Name returns "retrans": the metrics belong to it.
func (c *Calibration) Name() string { return Name }

// Packet observes one record.
func (c *Calibration) Packet(r *trace.Record) {
	flow := r.Flow
	request := r.Opcode.IsRequest()
	if !request {
		if !r.Opcode.IsResponse() {
			return
		}
		flow = flow.Peer()
	}
	if flow < 0 || int(flow) >= len(c.streams) {
		return
	}
	if s := &c.streams[flow]; request {
		c.request(s, flow, r)
	} else {
		c.response(s, flow, r)
	}
}

func (c *Calibration) request(s *calibrated, flow trace.FlowID, r *trace.Record) {
	if r.Has(trace.Sent) && s.acked && !r.PSN.Before(s.high) {
		c.record(requesterSide, flow, r.TimeNS-s.ackedNS)
	}
	s.acked = false
	if !s.seen || !r.PSN.Before(s.high) {
		s.seen, s.high = true, r.PSN.Next()
	}
	if r.Delivered() && (r.Has(trace.AckReq) || r.Opcode == packet.ReadRequest) {
		s.asked, s.askedPSN, s.askedNS = true, r.PSN, r.TimeNS
	}
}

func (c *Calibration) response(s *calibrated, flow trace.FlowID, r *trace.Record) {
	if s.asked && r.PSN == s.askedPSN && r.Has(trace.Sent) {
		s.asked = false
		c.record(responderSide, flow, r.TimeNS-s.askedNS)
	}
	last := r.Opcode.Ends() || r.Opcode == packet.Acknowledge && r.Syndrome.IsAck()
	if r.Delivered() && last && s.seen && !r.PSN.Next().Before(s.high) {
		s.acked, s.ackedNS = true, r.TimeNS
	}
}

// record adds a round trip; in a reverse stream the connection's responder sends the requests.
func (c *Calibration) record(side int, flow trace.FlowID, ns int64) {
	if flow.Reverse() {
		side = 1 - side
	}
	c.sides[side][0].Record(ns)
	c.sides[side][flow.Connection()].Record(ns)
}

// HalfRTT returns the shortest round trip seen on each side, for [Config]; 0 where none was.
func (c *Calibration) HalfRTT() Sides {
	return Sides{
		Requester: c.sides[requesterSide][0].Metric().Min,
		Responder: c.sides[responderSide][0].Metric().Min,
	}
}

// Finish returns the round trips as metrics; the minimum is what matters.
func (c *Calibration) Finish() analyzers.Result {
	var result analyzers.Result
	for i := range c.sides[requesterSide] {
		for side := range c.sides {
			if d := c.sides[side][i]; i == 0 || d.Count() > 0 {
				result.Metrics = append(result.Metrics, d.Metric())
			}
		}
	}
	return result
}
