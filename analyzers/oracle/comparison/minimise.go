package comparison

import (
	"slices"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/trace"
)

// Minimise deletes packets from the trace of a disagreement and simplifies the rest while a disagreement of its class
// remains.
func Minimise(d Disagreement, judge Judge) Disagreement {
	for changed := true; changed; {
		changed = false
		for i := len(d.Trace.Packets) - 1; i >= 0; i-- {
			if i >= len(d.Trace.Packets) {
				continue
			}
			changed = try(&d, judge, func(t *oracle.Trace) { remove(t, i) }) || changed
		}
		for i := range d.Trace.Packets {
			if d.Trace.Packets[i].Lost {
				changed = try(&d, judge, func(t *oracle.Trace) { t.Packets[i].Lost = false }) || changed
			}
		}
		if d.Trace.View.Closed {
			changed = try(&d, judge, func(t *oracle.Trace) { t.View.Closed = false }) || changed
		}
		if d.Trace.View.TimeoutNS > 0 && !d.Trace.View.Closed {
			changed = try(&d, judge, func(t *oracle.Trace) {
				t.View = oracle.View{Plain: t.View.Plain, Complete: t.View.Complete, Retry: -1, RNRRetry: -1}
			}) || changed
		}
	}
	return d
}

func try(d *Disagreement, judge Judge, change func(*oracle.Trace)) bool {
	t := &oracle.Trace{View: d.Trace.View, Packets: slices.Clone(d.Trace.Packets)}
	change(t)
	if !Judgeable(t) {
		return false
	}
	list, err := Compare(t, judge)
	if err != nil {
		return false
	}
	for _, other := range list {
		if other.Class() == d.Class() {
			*d = other
			return true
		}
	}
	return false
}

// remove deletes a packet; for a frame that was sent, also the passed frame.
func remove(t *oracle.Trace, i int) {
	frame, passed := t.Packets[i].Frame, t.Packets[i].Seen == trace.Passed
	t.Packets = slices.Delete(t.Packets, i, i+1)
	if frame == 0 || passed {
		return
	}
	t.Packets = slices.DeleteFunc(t.Packets, func(p oracle.Packet) bool { return p.Frame == frame })
}
