package trace

import (
	"fmt"
	"strings"
)

// luminaDisorderNS is how far the stamps of the two directions may be out of order in traces of Lumina's prototype,
// whose mirror sequence and clock are read at different stages (spec §4).
const luminaDisorderNS = 50

// wayPort is the bit offset of a way's source port, above the destination QPN and the IP version.
const wayPort = 40

// timeCheck is condition 2: stamps do not decrease. The decoder's TimeUnwrapper has resolved the wrap.
type timeCheck struct {
	tolerance int64 // ns below the latest stamp that another way may be
	started   bool
	latest    int64
	perWay    map[flowKey]int64 // latest stamp by way, only with a tolerance
	perFlow   bool              // a way is a flow with its UDP source port, else (source, destination)
	disorder  int64             // ns that a stamp was below the latest at most

	back     int64
	backList []TimeStep
}

func newTimeCheck(format Format, disorderNS int64) *timeCheck {
	c := &timeCheck{}
	switch {
	case format == FormatLumina:
		c.tolerance = luminaDisorderNS
	case disorderNS > 0:
		// A switch spreads packets over its queues by addresses and ports, and stamps each queue in order. One connection may
		// use several source ports, and so several queues.
		c.tolerance, c.perFlow = disorderNS, true
	}
	if c.tolerance > 0 {
		c.perWay = make(map[flowKey]int64)
	}
	return c
}

// add observes a record with the flow key and the UDP source port of its frame.
func (c *timeCheck) add(r *Record, key *flowKey, port uint16, frame uint64) {
	bound := c.latest - c.tolerance
	if c.perWay != nil {
		way := *key
		if c.perFlow {
			way.qpn |= uint64(port) << wayPort
		} else {
			way.qpn = 0
		}
		if last, ok := c.perWay[way]; ok {
			bound = max(bound, last)
		}
		c.perWay[way] = r.TimeNS
	}
	c.follow(r.ID, r.TimeNS, bound, frame)
}

// follow observes the stamp of a packet that must not be below bound.
func (c *timeCheck) follow(id uint64, ns, bound int64, frame uint64) {
	if c.started {
		c.disorder = max(c.disorder, c.latest-ns)
	}
	if c.started && ns < bound {
		c.back++
		c.backList = appendBounded(c.backList, TimeStep{Frame: frame, Seq: id, PreviousNS: max(bound, c.latest), TimeNS: ns})
		c.latest = ns // one step back is one finding, not one for every packet after it
		return
	}
	c.started = true
	c.latest = max(c.latest, ns)
}

func (c *timeCheck) condition() Condition {
	out := Condition{Name: ConditionTime, Status: StatusOK, BackCount: c.back, Back: c.backList,
		Message: "timestamps never decrease"}
	if c.perFlow {
		out.DisorderNS = &c.disorder
	}
	switch {
	case !c.started:
		out.Status, out.Message = StatusNotChecked, "no packet"
	case c.back > 0:
		s := c.backList[0]
		out.Status = StatusViolated
		out.Message = fmt.Sprintf("time goes back %d times, first by %d ns at #%d (frame %d), from %d to %d ns",
			c.back, s.PreviousNS-s.TimeNS, s.Seq, s.Frame, s.PreviousNS, s.TimeNS)
	case c.perFlow:
		out.Message = fmt.Sprintf("timestamps never decrease within a flow, nor by more than %d ns between queues (%d ns "+
			"are allowed)", c.disorder, c.tolerance)
	case c.tolerance > 0:
		out.Message = fmt.Sprintf("timestamps never decrease within a direction, nor by more than %d ns between directions",
			c.tolerance)
	}
	return out
}

// countCondition is condition 3 or 4: the trace is as long as counters say.
func countCondition(name, what string, counters []Counter, packets int64) Condition {
	out := Condition{Name: name, Status: StatusOK, Counters: counters, Actual: &packets}
	if len(counters) == 0 {
		out.Status, out.Message, out.Actual = StatusNotChecked, "no counter was given", nil
		return out
	}
	sum := int64(0)
	parts := make([]string, len(counters))
	for i, c := range counters {
		sum += c.Value
		parts[i] = fmt.Sprintf("%s: %d", c.Name, c.Value)
	}
	out.Expected = &sum
	if sum == packets {
		out.Message = fmt.Sprintf("%d packets in the trace and %s by the switch", packets, what)
		return out
	}
	out.Status = StatusViolated
	diff, more := sum-packets, "fewer"
	if diff < 0 {
		diff, more = -diff, "more"
	}
	out.Message = fmt.Sprintf("the trace has %d packets, %d %s than the %d %s by the switch (%s)",
		packets, diff, more, sum, what, strings.Join(parts, ", "))
	return out
}
