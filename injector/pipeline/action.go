package pipeline

import (
	"fmt"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// action is an event's action, compiled. A new one needs a case in compile, one in Apply, and, if it changes the length of
// the forwarded packet, one in forwardedLen.
type action struct {
	event trace.EventType
	flags packet.TrimFlags
	dscp  uint8
	size  uint16
}

func compile(a p4.Action) (action, error) {
	switch a.ID {
	case p4.ActionDrop:
		return action{event: trace.EventDrop}, nil
	case p4.ActionMarkECN:
		return action{event: trace.EventECN}, nil
	case p4.ActionCorrupt:
		return action{event: trace.EventCorrupt}, nil
	case p4.ActionTrim:
		return action{event: trace.EventTrim, size: uint16(a.Params[0]), dscp: uint8(a.Params[1]) & 0x3f,
			flags: packet.TrimFlags(a.Params[2])}, nil
	case p4.ActionNoAction:
		return action{}, nil
	}
	return action{}, fmt.Errorf("this pipeline has no action %d for events", a.ID)
}

// forwardedLen returns the frame length in bytes after the action, without FCS.
func (a *action) forwardedLen(p *packet.Packet, length int) int {
	if a.event != trace.EventTrim {
		return length
	}
	return p.TrimmedLen(int(a.size))
}

// Apply edits the forwarded copy of the packet that r was computed for, as its event says. p must hold that packet,
// unchanged, and own what it points to. Apply allocates for derived packets and trims only.
func (r *Result) Apply(p *packet.Packet) {
	switch r.action.event {
	case trace.EventECN:
		p.SetECN(packet.CE)
	case trace.EventCorrupt:
		p.Corrupt()
	case trace.EventTrim:
		p.Trim(int(r.action.size), r.action.dscp, r.action.flags)
	case trace.EventNone, trace.EventDrop, trace.EventDelay, trace.EventDuplicate, trace.EventReorder, trace.EventRewrite:
	}
}
