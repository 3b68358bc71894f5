package conformance

import (
	"slices"
	"strings"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
)

// Device is a real device under test, on its own testbed. It is judged by the defaults of Suite.Profile.
type Device struct {
	Name string // in the report, with versions
	// Emulated says that its machine is emulated: times are then reported and not judged, unless a bound was requested.
	Emulated bool
	// AckTimeout is the least local ACK timeout, as exponent, of tests: a machine that is suspended for longer than a
	// timer runs shows only the timer.
	AckTimeout int
	// Lacks are features that the specification leaves open and the device hasn't got.
	Lacks []Lack
}

// Lack is a feature that a device does not have. Its judges are ignored, and a rule without another judge is not
// exercised.
type Lack struct {
	Judges []string
	Reason string
}

// slow makes a test's timer slow enough for the device.
func (d *Device) slow(test *config.Test) {
	if d != nil && test.Traffic.AckTimeout > 0 {
		test.Traffic.AckTimeout = max(test.Traffic.AckTimeout, d.AckTimeout)
	}
}

// lacks returns why a judge says nothing about the device; empty: it judges.
func (d *Device) lacks(judge string) string {
	if d == nil {
		return ""
	}
	for _, l := range d.Lacks {
		if slices.Contains(l.Judges, judge) {
			return l.Reason
		}
	}
	return ""
}

// timesOnly reports whether what a judge says is to be reported only.
func (d *Device) timesOnly(judge string, bound Bound) bool {
	return d != nil && d.Emulated && bound == Unbounded &&
		(slices.Contains(orchestrator.TimeRules(), judge) || strings.HasPrefix(judge, expectTimes))
}

// expectTimes begins the names of the expectations of latencies.
const expectTimes = expectPrefix + "retrans."
