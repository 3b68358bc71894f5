package pipeline

import (
	"fmt"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// action is an event's action with its parameters, in the order of [trace.Actions]. An action that changes bytes needs
// a case in Apply, one in misses if some packets have nothing to change, and one in forwardedLen if it changes the
// length.
type action struct {
	event  trace.EventType
	params [trace.MaxActionParams]uint64
	way    way
}

// way is how the packet leaves, beyond where.
type way struct {
	delayNS        int64
	copies, behind uint16
}

func compile(a p4.Action) (action, error) {
	if a.ID == p4.ActionNoAction {
		return action{}, nil
	}
	for i := range trace.Actions {
		row := &trace.Actions[i]
		if row.ID != a.ID {
			continue
		}
		out := action{event: row.Event}
		n := copy(out.params[:], a.Params[:len(row.Params)])
		if err := row.CheckParams(out.params[:n]); err != nil {
			return action{}, err
		}
		if row.Departure != nil {
			d := row.Departure(out.params[:n])
			out.way = way{d.DelayNS, uint16(d.Copies), uint16(d.Behind)}
		}
		return out, nil
	}
	return action{}, fmt.Errorf("this pipeline has no action %d for events", a.ID)
}

// forwardedLen returns the frame length in bytes after the action, without FCS.
func (a *action) forwardedLen(p *packet.Packet, length int) int {
	if a.event != trace.EventTrim {
		return length
	}
	return p.TrimmedLen(int(a.params[0]))
}

// misses reports whether the action finds nothing to change in p, which then passes whole.
func (a *action) misses(p *packet.Packet) bool {
	switch a.event {
	case trace.EventTrim:
		return p.TrimmedLen(int(a.params[0])) == p.Len()
	case trace.EventCorrupt:
		return a.params[1] != 0 && int(a.params[0]) >= len(p.Payload)
	case trace.EventRewrite:
		return !p.Offers(packet.RewriteField(a.params[0]), a.params[1])
	default:
		return false
	}
}

// Apply edits the forwarded copy of the packet of r as its event requires. p must be that packet, unchanged, with its
// own memory. Apply allocates for derived packets and trims only.
func (r *Result) Apply(p *packet.Packet) {
	if r.action == nil {
		return
	}
	v := &r.action.params
	switch r.action.event {
	case trace.EventECN:
		p.SetECN(packet.CE)
	case trace.EventCorrupt:
		if v[1] != 0 {
			p.CorruptPayload(int(v[0]), uint8(v[1]))
			return
		}
		p.Corrupt()
	case trace.EventRewrite:
		p.Rewrite(packet.RewriteField(v[0]), v[1])
	case trace.EventTrim:
		p.Trim(int(v[0]), uint8(v[1]), packet.TrimFlags(v[2]))
	default: // of the way out
	}
}
