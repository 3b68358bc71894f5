package orchestrator

import (
	"fmt"

	"candela.dev/candela/analyzers"
)

// Exit is the exit status of a command that judges.
type Exit int

// Exit statuses (design, "Verdict").
const (
	ExitPass           Exit = 0
	ExitFail           Exit = 1 // a violation or a failed expectation
	ExitUsage          Exit = 2 // bad usage or configuration
	ExitInvalid        Exit = 3 // no integrity, or an event that never fired
	ExitInfrastructure Exit = 4 // a component of Candela or of the lab failed
)

// Verdict is the verdict on a run with its reasons.
type Verdict struct {
	Verdict analyzers.Verdict `json:"verdict"`
	Exit    Exit              `json:"exit"`
	Reasons []string          `json:"reasons,omitempty"` // most important first; empty for a pass
}

type evidence struct {
	infrastructure error    // a component failed
	integrity      []string // conditions that don't hold
	violations     int
	warnings       int
	unmet          []string // expectations that failed
	unfired        []string // events that never fired, and why
	strict         bool     // warnings fail too
}

// judge applies the precedence of the design: infrastructure failure, integrity, fail, unfired event, pass. A trace
// with integrity is always judged: a NIC that never retransmits leaves events unfired, and that is a failure of the
// NIC, not of the lab.
func judge(e evidence) Verdict {
	if e.infrastructure != nil {
		return Verdict{analyzers.Invalid, ExitInfrastructure, []string{e.infrastructure.Error()}}
	}
	if len(e.integrity) > 0 {
		return Verdict{analyzers.Invalid, ExitInvalid, e.integrity}
	}
	reasons := failures(e)
	switch {
	case len(reasons) > 0:
		return Verdict{analyzers.Fail, ExitFail, append(reasons, e.unfired...)}
	case len(e.unfired) > 0:
		return Verdict{analyzers.Invalid, ExitInvalid, e.unfired}
	}
	return Verdict{analyzers.Pass, ExitPass, nil}
}

func failures(e evidence) []string {
	var reasons []string
	if e.violations > 0 {
		reasons = append(reasons, plural(e.violations, "violation"))
	}
	if e.strict && e.warnings > 0 {
		reasons = append(reasons, plural(e.warnings, "warning")+" (--strict)")
	}
	return append(reasons, e.unmet...)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
