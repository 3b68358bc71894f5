package sai

import (
	"fmt"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/switches"
)

// check refuses thresholds that never admit a packet of a flow that retransmits: it would send the packet, and the
// switch refuse it, until the deadline.
func check(v parameter.Values, ports int, offered []switches.Frames) []switches.Problem {
	s := sai.Settings{DSCPTC: map[int]int{}, TCQueue: map[int]int{}}
	readQoS(&s, v)
	bound := bindings(v, ports)
	var list []switches.Problem
	found := map[string]bool{}
	for _, f := range offered {
		if !f.Reliable {
			continue
		}
		queue := s.QueueOf(f.DSCP)
		for port := range ports {
			p := refusal(v, f, bound[queueAt{port, queue}])
			if p.Key != "" && !found[p.Key] {
				found[p.Key] = true
				list = append(list, p)
			}
		}
	}
	return list
}

// queueAt is a queue of a port.
type queueAt struct{ port, queue int }

// bindings returns the profile, by number from 1, of each queue that has one.
func bindings(v parameter.Values, ports int) map[queueAt]int {
	bound := map[queueAt]int{}
	for i, m := range v.List("profiles") {
		for _, port := range chosen(m.Integers("ports"), ports) {
			for _, queue := range chosen(m.Integers("queues"), lastQueue+1) {
				bound[queueAt{port, queue}] = i + 1
			}
		}
	}
	return bound
}

// refusal returns why an empty queue with a profile never admits the largest packets of f; the zero Problem: it does.
func refusal(v parameter.Values, f switches.Frames, profile int) switches.Problem {
	pool := v.Int("buffer-bytes")
	never := func(key, what string) switches.Problem {
		return switches.Problem{Key: key,
			What: fmt.Sprintf("%s less than a packet of workload[%d] (%s), of %d bytes: not even an empty queue admits it, "+
				"and its sender retransmits it for ever", what, f.Item, f.What, f.Size),
			Why: fmt.Sprintf("the queue must admit at least one packet of %d bytes", f.Size)}
	}
	if pool < f.Size {
		return never("buffer-bytes", fmt.Sprintf("is %d,", pool))
	}
	if profile == 0 {
		return switches.Problem{}
	}
	m, at := v.List("profiles")[profile-1], fmt.Sprintf("profiles[%d].", profile-1)
	limit, alpha := m.Int("limit-bytes"), m.Number("alpha")
	switch {
	case m.Int("reserved-bytes") >= f.Size:
	case limit > 0 && limit < f.Size:
		return never(at+"limit-bytes", fmt.Sprintf("is %d,", limit))
	case alpha > 0 && alpha*float64(pool) < float64(f.Size):
		return never(at+"alpha", fmt.Sprintf("is %g, which of %d bytes is %.0f,", alpha, pool, alpha*float64(pool)))
	}
	return switches.Problem{}
}
