// Package plan turns a validated test into a Plan before a testbed is touched: the addresses of each connection, its
// schedule of messages, the packet of each event, and the derived times. Planning is pure and identical on every
// testbed. The injector adds the values chosen at run time (QPNs, initial PSNs).
package plan

import (
	"fmt"
	"net/netip"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Plan is a planned test. Treat it as immutable.
type Plan struct {
	Test        *config.Test
	Connections []Connection
	Intents     []injector.Intent // data events, then control events, each in the order of the file
	DataPackets int64             // of all connections, transmitted once

	AckTimeout clock.Duration // T = 4.096 us · 2^t; 0: no timer
	Quiesce    clock.Duration // silence on the wire that ends the traffic
	Deadline   clock.Duration // of the run
	Snap       int            // bytes kept of each mirror copy; 0: all

	Warnings []Warning
}

// Connection is one RC connection. Arrays have the requester first.
type Connection struct {
	Index      int // from 1
	IPs        [2]netip.Addr
	Traffic    [2]generator.Traffic // what each side requests; a side with no messages requests nothing
	InitialPSN [2]*packet.PSN       // nil: chosen at run time
}

// Warning is a remark about a legal test that may not do what its author expects.
type Warning struct {
	Where     string // "drop.yml:14:9: traffic.data-pkt-events[1]"
	Path      string // "traffic.data-pkt-events[1]"
	Message   string
	Why       string
	Ambiguous bool // the transmission that the event names depends on timing and on iter-scope
}

// String formats w like a problem of the configuration, with Why indented on the next lines.
func (w Warning) String() string {
	s := w.Where + ": " + w.Message
	if w.Why != "" {
		s += "\n  " + strings.ReplaceAll(w.Why, "\n", "\n  ")
	}
	return s
}

// Limits of the quiet time (design, "One run").
const (
	minQuiesce      = 10 * clock.Millisecond
	ackTimeoutUnit  = 4096 * clock.Nanosecond // IBTA volume 1, 9.7.6.1.3
	longestTimerExp = 31
)

// New plans t. An error means that the testbed or the injector cannot run the test; parsing t has checked everything
// else.
func New(t *config.Test) (*Plan, error) {
	p := &Plan{Test: t, AckTimeout: AckTimeout(t.Traffic.AckTimeout), Deadline: t.Deadline, Snap: t.Testbed.Mirror.Snap}
	if t.Injector.Snap != nil {
		p.Snap = *t.Injector.Snap
	}
	p.Quiesce = min(max(minQuiesce, 2*p.AckTimeout)+longestDelay(t), p.Deadline)
	for i := range t.Traffic.Connections {
		c := newConnection(t, i+1)
		p.DataPackets += c.Traffic[config.Requester].PSNs() + c.Traffic[config.Responder].PSNs()
		p.Connections = append(p.Connections, c)
	}
	if err := p.resolveDataEvents(); err != nil {
		return nil, err
	}
	p.resolveControlEvents()
	if err := p.fits(); err != nil {
		return nil, err
	}
	p.warn()
	return p, nil
}

// AckTimeout returns the local ACK timeout of exponent t (IBTA volume 1, 9.7.6.1.3); 0: no timer.
func AckTimeout(t int) clock.Duration {
	if t <= 0 {
		return 0
	}
	return ackTimeoutUnit << min(t, longestTimerExp)
}

// longestDelay returns the longest time that an event holds a packet. The quiet time includes it, so that the run does
// not end before a held packet is released.
func longestDelay(t *config.Test) (longest clock.Duration) {
	for i := range t.Traffic.DataEvents {
		longest = max(longest, delayOf(t.Traffic.DataEvents[i].Params))
	}
	for i := range t.Traffic.ControlEvents {
		longest = max(longest, delayOf(t.Traffic.ControlEvents[i].Params))
	}
	return longest
}

func delayOf(p config.Params) (longest clock.Duration) {
	for _, d := range p.Durations() {
		longest = max(longest, d)
	}
	return longest
}

func newConnection(t *config.Test, index int) Connection {
	c := Connection{Index: index}
	c.IPs[config.Requester], c.IPs[config.Responder] = t.IPs(index)
	for _, s := range []config.Side{config.Requester, config.Responder} {
		c.Traffic[s] = t.TrafficFrom(s, index)
		c.InitialPSN[s] = t.Traffic.InitialPSN.Of(s)
	}
	return c
}

func requestFlow(connection int, s config.Side) trace.FlowID {
	return trace.NewFlowID(connection, s == config.Responder)
}

func (p *Plan) resolveDataEvents() error {
	for i := range p.Test.Traffic.DataEvents {
		e := &p.Test.Traffic.DataEvents[i]
		where := p.Test.WhereData(i)
		m, ok := p.traffic(e.QPN, e.From).Locate(e.PSN)
		if !ok {
			return fmt.Errorf("%s: connection %d has no data packet %d", where, e.QPN, e.PSN)
		}
		in := injector.Intent{
			Index: i, Where: where, Flow: requestFlow(e.QPN, e.From), Space: packet.Requests,
			Class: packet.ClassData, RelPSN: e.PSN, Nth: e.Iter, Scope: p.Test.Traffic.IterScope, Action: action(e),
		}
		if m.Verb == generator.Read {
			in.Flow, in.Space = in.Flow.Peer(), packet.Responses
		}
		p.Intents = append(p.Intents, in)
	}
	return nil
}

func action(e *config.DataEvent) injector.Action {
	if e.Type != trace.EventTrim {
		return withParams(e.Type, e.Params)
	}
	var dscp uint8
	var flags injector.TrimFlags
	if e.Trim.DSCP != nil {
		dscp, flags = *e.Trim.DSCP, injector.TrimSetDSCP
	}
	if e.Trim.UpdateIPLength {
		flags |= injector.TrimUpdateIPLength
	}
	if e.Trim.UpdateUDPLength {
		flags |= injector.TrimUpdateUDPLength
	}
	return injector.NewAction(e.Type, uint64(e.Trim.Size), uint64(dscp), uint64(flags))
}

// withParams returns the action of event type t that takes the given parameters.
func withParams(t trace.EventType, given config.Params) injector.Action {
	for i := range trace.Actions {
		row := &trace.Actions[i]
		if row.Event != t || len(row.Params) == 0 {
			continue
		}
		a := injector.NewAction(t)
		for n := range row.Params {
			if v, ok := given.Get(row.Params[n].Key); ok {
				a.Params = append(a.Params, uint64(v))
			}
		}
		if len(a.Params) == len(row.Params) {
			return a
		}
	}
	return injector.NewAction(t)
}

func (p *Plan) resolveControlEvents() {
	for i := range p.Test.Traffic.ControlEvents {
		e := &p.Test.Traffic.ControlEvents[i]
		in := injector.Intent{
			Index: i, Where: p.Test.WhereControl(i),
			Flow:  requestFlow(e.QPN, e.Sender(p.Test)), // packets sent by side s use the flow of its requests
			Space: controlSpace(e.Packet), Class: e.Packet, Nth: e.Nth, Action: withParams(e.Type, e.Params),
		}
		if e.PSN != nil {
			in.RelPSN = *e.PSN
		}
		p.Intents = append(p.Intents, in)
	}
}

// controlSpace returns the PSN space of control packets of class c. CNPs have none and are counted with requests.
func controlSpace(c packet.Class) packet.Space {
	if c == packet.ClassReadRequest || c == packet.ClassCNP {
		return packet.Requests
	}
	return packet.Responses
}

func (p *Plan) traffic(connection int, s config.Side) generator.Traffic {
	return p.Connections[connection-1].Traffic[s]
}
