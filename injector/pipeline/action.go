package pipeline

import (
	"errors"
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
	field packet.RewriteField
	xor   uint8  // of a payload byte; 0: corrupt as the contract says
	size  uint16 // of a trim; copies of a duplicate, packets of a reorder, offset of a payload byte
	value uint64 // of a rewrite; nanoseconds of a delay
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
	return compileSoftware(a)
}

// compileSoftware compiles the actions that only software targets have.
func compileSoftware(a p4.Action) (action, error) {
	switch a.ID {
	case p4.ActionDelay:
		if a.Params[0] == 0 {
			return action{}, errors.New("delay: 0 ns are none")
		}
		return action{event: trace.EventDelay, value: a.Params[0]}, nil
	case p4.ActionDuplicate:
		if a.Params[0] == 0 {
			return action{}, errors.New("duplicate: 0 copies are none")
		}
		return action{event: trace.EventDuplicate, size: uint16(a.Params[0])}, nil
	case p4.ActionReorder:
		if a.Params[0] == 0 {
			return action{}, errors.New("reorder: by 0 packets is no reordering")
		}
		return action{event: trace.EventReorder, size: uint16(a.Params[0])}, nil
	case p4.ActionRewrite:
		field := packet.RewriteField(a.Params[0])
		if field.Bits() == 0 || a.Params[1]>>field.Bits() != 0 {
			return action{}, fmt.Errorf("rewrite: field %v can't be set to %d", field, a.Params[1])
		}
		return action{event: trace.EventRewrite, field: field, value: a.Params[1]}, nil
	case p4.ActionCorruptPayload:
		if a.Params[1] == 0 {
			return action{}, errors.New("corrupt_payload: xor 0 changes nothing")
		}
		return action{event: trace.EventCorrupt, size: uint16(a.Params[0]), xor: uint8(a.Params[1])}, nil
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

// misses reports whether the action finds nothing to do on p, which then passes whole.
func (a *action) misses(p *packet.Packet) bool {
	switch a.event {
	case trace.EventTrim:
		return p.TrimmedLen(int(a.size)) == p.Len()
	case trace.EventCorrupt:
		return a.xor != 0 && int(a.size) >= len(p.Payload)
	case trace.EventRewrite:
		return !p.Offers(a.field, a.value)
	case trace.EventNone, trace.EventDrop, trace.EventECN, trace.EventDelay, trace.EventDuplicate, trace.EventReorder:
	}
	return false
}

// wayOut tells the owner how the packet leaves, beyond where.
func (a *action) wayOut(f *Forward) {
	switch a.event {
	case trace.EventDelay:
		f.DelayNS = int64(a.value)
	case trace.EventDuplicate:
		f.Copies = a.size
	case trace.EventReorder:
		f.Behind = a.size
	case trace.EventNone, trace.EventDrop, trace.EventECN, trace.EventCorrupt, trace.EventTrim, trace.EventRewrite:
	}
}

// Apply edits the forwarded copy of the packet that r was computed for, as its event says. p must hold that packet,
// unchanged, and own what it points to. Apply allocates for derived packets and trims only.
func (r *Result) Apply(p *packet.Packet) {
	switch r.action.event {
	case trace.EventECN:
		p.SetECN(packet.CE)
	case trace.EventCorrupt:
		if r.action.xor != 0 {
			p.CorruptPayload(int(r.action.size), r.action.xor)
			return
		}
		p.Corrupt()
	case trace.EventRewrite:
		p.Rewrite(r.action.field, r.action.value)
	case trace.EventTrim:
		p.Trim(int(r.action.size), r.action.dscp, r.action.flags)
	case trace.EventNone, trace.EventDrop, trace.EventDelay, trace.EventDuplicate, trace.EventReorder: // of the way out
	}
}
