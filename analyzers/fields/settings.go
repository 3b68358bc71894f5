package fields

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Settings are those of one side of a connection. nil: unknown, not judged.
type Settings struct {
	DSCP    *uint8 // of all packets but CNPs
	CNPDSCP *uint8
	ECN     *packet.ECN // of data packets
	MigReq  *bool
	// SourcePort is the UDP source port and FlowLabel the IPv6 flow label of all packets but CNPs.
	SourcePort *uint16
	FlowLabel  *uint32
	// Origin says where MigReq is set.
	Origin string
}

// Config is what is known of the endpoints beyond the trace.
type Config struct {
	Requester, Responder Settings
	// Connections overrides both by 1-based connection.
	Connections map[int]Settings
}

// of returns the settings of a side, 0 for the requester; nil if there are none.
func (c *Config) of(connection, side int) *Settings {
	s := c.Requester
	if side == 1 {
		s = c.Responder
	}
	if own, ok := c.Connections[connection]; ok {
		s = own
	}
	if s == (Settings{}) {
		return nil
	}
	return &s
}

// settings compares a packet with its sender's settings.
func (a *Analyzer) settings(r *trace.Record, s *Settings) {
	want, what := s.DSCP, r.Opcode.String()
	if r.Opcode == packet.CNP {
		want = s.CNPDSCP
	}
	if want != nil && *want != r.DSCP {
		a.set(causeDSCP(a.what(r), r.DSCP, *want), r, fmt.Sprintf("DSCP %d", *want), fmt.Sprintf("%s with DSCP %d", what,
			r.DSCP))
	}
	if s.ECN != nil && r.ECN != *s.ECN && r.ECN != packet.CE {
		// Whether what carries no data is ECN-capable is the implementation's choice.
		if r.PayloadLen > 0 && r.Opcode != packet.CNP || r.ECN != packet.NotECT {
			a.set(causeECN(a.what(r), r.ECN, *s.ECN), r, fmt.Sprint(*s.ECN), fmt.Sprintf("%s with %v", what, r.ECN))
		}
	}
	if s.SourcePort != nil && *s.SourcePort != r.SrcPort && r.Opcode != packet.CNP {
		a.set(causeSourcePortSetting(a.what(r), r.SrcPort, *s.SourcePort), r, fmt.Sprintf("UDP source port %d",
			*s.SourcePort), fmt.Sprintf("%s from port %d", what, r.SrcPort))
	}
	if s.MigReq != nil && *s.MigReq != r.Has(trace.MigReq) && r.Opcode != packet.CNP {
		why := causeMigReqSetting(a.what(r), bit(r.Has(trace.MigReq)), bit(*s.MigReq))
		f := a.finding(why, r, fmt.Sprintf("MigReq %d (%s)", bit(*s.MigReq), s.Origin),
			fmt.Sprintf("%s with MigReq %d", what, bit(r.Has(trace.MigReq))))
		if f != nil {
			f.Message += slowPathText(!*s.MigReq)
			a.report.Tell(why, *f)
		}
	}
}

// agree reports whether a data packet is as its sender is set.
func (s *Settings) agree(r *trace.Record) bool {
	return (s.DSCP == nil || *s.DSCP == r.DSCP) && (s.ECN == nil || *s.ECN == r.ECN) &&
		(s.MigReq == nil || *s.MigReq == r.Has(trace.MigReq)) && (s.SourcePort == nil || *s.SourcePort == r.SrcPort)
}

// set reports an IP header field that differs from its sender's setting. Switches before a capture may rewrite it.
func (a *Analyzer) set(why cause.Cause, r *trace.Record, expected, actual string) {
	f := a.finding(why, r, expected, actual)
	if f == nil {
		return
	}
	if a.meta.Kind != trace.KindMirror {
		f.Doubt(analyzers.Warning, " Or a switch before the tap changed it.")
	}
	a.report.Tell(why, *f)
}

// slowPathText names what packets with MigReq = 0 are known to do.
func slowPathText(toOne bool) string {
	if toOne {
		return ""
	}
	return " Packets with MigReq = 0 belong to a path that has not migrated. ConnectX NICs process them in a slow path " +
		"for automatic path migration and drop " +
		"those that exceed it: the interoperability fault of E810 (which sends MigReq = 0) and ConnectX that Lumina found."
}

// naked is a NAK by which a receiver refused a packet that had passed the observer undamaged.
type naked struct {
	count int64
	id    uint64
}

// nak counts sequence NAKs that no loss before the observer explains.
func (a *Analyzer) nak(r *trace.Record, step *rounds.Step) {
	if step == nil || !a.meta.EventsKnown || a.tracker.Lost(step.Flow, step.Place) {
		return
	}
	n := a.naked[step.Flow]
	if n.count == 0 {
		n.id = r.ID
	}
	n.count++
	a.naked[step.Flow] = n
}

// migReqs compares the sides of a connection.
func (a *Analyzer) migReqs(connection int) {
	flow := trace.NewFlowID(connection, false)
	toward, back := &a.flows[flow], &a.flows[flow.Peer()]
	if !toward.seen || !back.seen || toward.migReq == back.migReq || !a.report.Wants(RuleMigReqDiffers, connection) {
		return
	}
	f := analyzers.Finding{
		Connection: connection, Packets: []uint64{toward.id, back.id}, TimeNS: a.meta.EndNS,
		Expected: "the same MigReq from both sides",
		Actual:   fmt.Sprintf("the requester sends %d, the responder %d", bit(toward.migReq), bit(back.migReq)),
		Message:  statement(RuleMigReqDiffers) + slowPathText(false),
	}
	if toward.migReq {
		flow = flow.Peer()
	}
	why := causeMigReqDiffers(connection, bit(toward.migReq), bit(back.migReq))
	if n := a.naked[flow]; n.count > 0 {
		why = causeMigReqRefused(connection, bit(toward.migReq), bit(back.migReq), n.count)
		f.Severity = analyzers.Warning
		f.Packets = append(f.Packets, n.id)
		f.Message += fmt.Sprintf(" Here the receiver asked for %d packets with MigReq = 0 again that had passed the switch "+
			"unharmed: this is probably the cause.", n.count)
	}
	a.report.Tell(why, f)
}
