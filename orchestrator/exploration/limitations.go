package exploration

import (
	"slices"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
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
			Rules:  []string{everyRule},
			When:   "opcode, psn, syndrome or queue pair are rewritten",
			Reason: "analyzers judge receivers by what they got, but not every state that a forged packet leads to has been seen to be judged rightly",
			in:     forges,
		},
	}
}

// everyRule stands for all rules.
const everyRule = "*"

var forgedFields = []packet.RewriteField{packet.RewriteOpcode, packet.RewritePSN, packet.RewriteSyndrome, packet.RewriteDestQP}

// forges reports whether packets come to mean something else.
func forges(t *config.Test) bool {
	forged := func(p *config.Params) bool { return p.Field != nil && slices.Contains(forgedFields, *p.Field) }
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
