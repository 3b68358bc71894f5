package injector

import (
	"errors"
	"fmt"
	"strconv"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// check refuses parameters that the contract's widths can't hold or that make no sense.
func (a Action) check() error {
	if a.Type == trace.EventNone {
		return errors.New("the event has no action")
	}
	if f, v := a.Rewritten(); f == packet.RewritePSN && v > 0 {
		a.Params = []uint64{a.Params[0], v - 1} // relative, from 1
	}
	return a.Row().CheckParams(a.Params)
}

// Absolute returns the action with the PSNs of a connection whose first PSN in the packet's space is first; those of
// events count from 1.
func (a Action) Absolute(first packet.PSN) Action {
	if f, v := a.Rewritten(); f == packet.RewritePSN {
		a.Params = []uint64{a.Params[0], uint64(first.Add(int(v) - 1))}
	}
	return a
}

// String addresses the intent's packet in the words of the configuration: "qpn 2 psn 5 iter 1", "qpn 1 reverse nak nth
// 1".
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
