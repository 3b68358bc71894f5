package injector

import (
	"errors"
	"fmt"
	"strconv"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// actionNames are the names that the contract gives to the actions of events.
var actionNames = [...]string{
	trace.EventNone: "NoAction", trace.EventDrop: "drop", trace.EventECN: "mark_ecn", trace.EventCorrupt: "corrupt",
	trace.EventTrim: "trim", trace.EventDelay: "delay", trace.EventDuplicate: "duplicate", trace.EventReorder: "reorder",
	trace.EventRewrite: "rewrite",
}

// name returns the action's name in the P4Info.
func (a Action) name() string {
	if a.Type == trace.EventCorrupt && a.Xor != 0 {
		return "corrupt_payload"
	}
	if int(a.Type) < len(actionNames) {
		return actionNames[a.Type]
	}
	return a.Type.String()
}

// maxDelayNS is what the contract's 48 bits hold.
const maxDelayNS = 1<<48 - 1

// check refuses parameters that the contract's widths can't hold or that make no sense.
func (a Action) check() error {
	switch a.Type {
	case trace.EventNone:
		return errors.New("the event has no action")
	case trace.EventTrim:
		return a.checkTrim()
	case trace.EventDelay:
		if a.DelayNS < 1 || a.DelayNS > maxDelayNS {
			return fmt.Errorf("delay: %d ns is not in 1…%d", a.DelayNS, int64(maxDelayNS))
		}
	case trace.EventDuplicate:
		if a.Copies == 0 {
			return errors.New("duplicate: 0 copies are none")
		}
	case trace.EventReorder:
		if a.By == 0 {
			return errors.New("reorder: by 0 packets is no reordering")
		}
	case trace.EventRewrite:
		if a.Field == packet.RewritePSN && a.Value >= 1 && a.Value <= 1<<24 {
			return nil // relative
		}
		if a.Field.Bits() == 0 || a.Value>>a.Field.Bits() != 0 {
			return fmt.Errorf("rewrite: field %v has %d bits, value %d needs more", a.Field, a.Field.Bits(), a.Value)
		}
	case trace.EventDrop, trace.EventECN, trace.EventCorrupt:
	}
	return nil
}

func (a Action) checkTrim() error {
	switch {
	case a.TrimSize == 0:
		return errors.New("trim: the size is 0, it counts bytes from the start of the IP header")
	case a.TrimDSCP > 0x3f:
		return fmt.Errorf("trim: dscp %d is not in 0…63", a.TrimDSCP)
	}
	return nil
}

// p4 returns the action as tables hold it. Only for actions that the contract has.
func (a Action) p4() p4.Action {
	switch a.Type {
	case trace.EventDrop:
		return p4.NewAction(p4.ActionDrop)
	case trace.EventECN:
		return p4.NewAction(p4.ActionMarkECN)
	case trace.EventCorrupt:
		if a.Xor != 0 {
			return p4.NewAction(p4.ActionCorruptPayload, uint64(a.Offset), uint64(a.Xor))
		}
		return p4.NewAction(p4.ActionCorrupt)
	case trace.EventTrim:
		return p4.NewAction(p4.ActionTrim, uint64(a.TrimSize), uint64(a.TrimDSCP), uint64(a.TrimFlags))
	case trace.EventDelay:
		return p4.NewAction(p4.ActionDelay, uint64(a.DelayNS))
	case trace.EventDuplicate:
		return p4.NewAction(p4.ActionDuplicate, uint64(a.Copies))
	case trace.EventReorder:
		return p4.NewAction(p4.ActionReorder, uint64(a.By))
	case trace.EventRewrite:
		return p4.NewAction(p4.ActionRewrite, uint64(a.Field), a.Value)
	case trace.EventNone:
	}
	return p4.NewAction(p4.ActionNoAction)
}

// String addresses the intent's packet in the words of the configuration: "qpn 2 psn 5 iter 1", "qpn 1 reverse nak nth 1".
func (in *Intent) String() string {
	s := fmt.Sprintf("qpn %d", in.Flow.Connection())
	if in.Flow.Reverse() {
		s += " reverse"
	}
	nth := "any"
	if in.Nth != Any {
		nth = strconv.Itoa(int(in.Nth))
	}
	if in.Class == packet.ClassData {
		return fmt.Sprintf("%s psn %d iter %s", s, in.RelPSN, nth)
	}
	s += " " + in.Class.String()
	if in.RelPSN != 0 {
		s += fmt.Sprintf(" psn %d", in.RelPSN)
	}
	return s + " nth " + nth
}
