package exploration

import (
	"slices"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/trace"
)

// A Limitation names rules that can't be held against a device in some tests, because what speaks for it can't be seen from
// the switch. Such findings are no failures of an exploration; the same rules are judged in all its other tests.
type Limitation struct {
	Rules  []string
	When   string // the tests
	Reason string
	in     func(*config.Test) bool
}

// Limitations lists what an exploration does not hold against devices.
func Limitations() []Limitation {
	return []Limitation{
		{
			Rules: []string{
				"gbn.retry-exceeded", "retrans.retry-exceeded", "retrans.rnr-retry-exceeded", "retrans.rnr-early", "retrans.timeout-early", "gbn.timeout-early", "gbn.rnr-early", "gbn.rnr-unprovoked",
			},
			When:   "packets are held (delay, reorder)",
			Reason: "progress resets timers and retry counts, and when a held packet brings it is known to its receiver alone",
			in:     holds,
		},
		{
			Rules:  []string{"gbn.ack-missing", "gbn.read-missing", "gbn.nak-missing"},
			When:   "traffic is bidirectional and a queue pair runs out of retries",
			Reason: "a queue pair in error answers nothing, and the switch does not see when it got there",
			in:     func(t *config.Test) bool { return t.Traffic.Bidirectional && len(t.Expect.Completion) > 0 },
		},
		{
			Rules:  []string{everyRule},
			When:   "transport headers are rewritten (psn, syndrome, msn, dest-qpn and the like)",
			Reason: "each side acts on what the other never sent, and the rules hold it against what was sent",
			in:     forges,
		},
	}
}

// everyRule stands for all rules.
const everyRule = "*"

// holds reports whether packets wait in the switch.
func holds(t *config.Test) bool {
	late := func(t trace.EventType) bool { return t == trace.EventDelay || t == trace.EventReorder }
	return slices.ContainsFunc(t.Traffic.DataEvents, func(e config.DataEvent) bool { return late(e.Type) }) ||
		slices.ContainsFunc(t.Traffic.ControlEvents, func(e config.ControlEvent) bool { return late(e.Type) })
}

// forges reports whether receivers are told what nobody sent.
func forges(t *config.Test) bool {
	forged := func(p *config.Params) bool { return p.Field != nil && !slices.Contains(harmlessFields, *p.Field) }
	return slices.ContainsFunc(t.Traffic.DataEvents, func(e config.DataEvent) bool { return forged(&e.Params) }) ||
		slices.ContainsFunc(t.Traffic.ControlEvents, func(e config.ControlEvent) bool { return forged(&e.Params) })
}

// excused reports whether a finding of rule says nothing about the device in test t.
func excused(t *config.Test, rule string) bool {
	for _, l := range Limitations() {
		if (slices.Contains(l.Rules, rule) || slices.Contains(l.Rules, everyRule)) && l.in(t) {
			return true
		}
	}
	return false
}
