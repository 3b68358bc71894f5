package detection

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
)

// FalseAlarm is a scenario with a finding against a compliant NIC.
type FalseAlarm struct {
	Scenario uint64   `json:"scenario"`
	Profile  string   `json:"profile"`
	Findings []string `json:"findings"`
	Reasons  []string `json:"reasons"`
	Config   string   `json:"config"`
}

// ScenarioResult is what random scenarios came to.
type ScenarioResult struct {
	Scenarios int          `json:"scenarios"`
	Events    int          `json:"events"` // that fired; without them scenarios test nothing
	Alarms    []FalseAlarm `json:"false_alarms"`

	Took time.Duration `json:"-"` // of all
}

// Scenarios runs n random scenarios from the first on, alternating between the profiles. A NIC without faults must get
// no finding.
func (b *Bench) Scenarios(ctx context.Context, first uint64, n int, profiles []string) (ScenarioResult, error) {
	start, alarms := b.wall(), make([]*FalseAlarm, n)
	var events atomic.Int64
	options := make([]config.Options, len(profiles))
	for i, p := range profiles {
		options[i] = b.options(p)
	}
	err := b.each(ctx, n, func(ctx context.Context, run reduction.Runner, i int) error {
		number, k := first+uint64(i), (first+uint64(i))%uint64(len(profiles))
		o, err := scenario(ctx, run, number, profiles[k], options[k])
		if err != nil {
			return fmt.Errorf("scenario %d on profile %s: %w", number, profiles[k], err)
		}
		events.Add(int64(o.events))
		alarms[i] = alarm(number, profiles[k], &o)
		return nil
	})
	r := ScenarioResult{Scenarios: n, Events: int(events.Load()), Took: b.wall().Sub(start)}
	for _, a := range alarms {
		if a != nil {
			r.Alarms = append(r.Alarms, *a)
		}
	}
	return r, err
}

func scenario(ctx context.Context, run reduction.Runner, number uint64, profile string, o config.Options) (outcome,
	error) {
	t, err := scenarioTest(number, profile, o)
	if err != nil {
		return outcome{}, err
	}
	return measured(ctx, run, t)
}

// ScenarioTest returns the test of a random scenario on a profile without faults.
func (b *Bench) ScenarioTest(number uint64, profile string) (*config.Test, error) {
	return scenarioTest(number, profile, b.options(profile))
}

func scenarioTest(number uint64, profile string, o config.Options) (*config.Test, error) {
	t, err := config.Parse("scenario.yml", []byte(Scenario(number)), o)
	if err != nil {
		return nil, err
	}
	distances(number).apply(t)
	return on(t, profile, true), nil
}

// alarm returns the findings against the device, nil if there are none. Warnings count for the profile that follows the
// specification; others earn some by being late.
func alarm(number uint64, profile string, o *outcome) *FalseAlarm {
	said := len(o.violations()) > 0 || !o.analysed || o.unmet("expect.completion") || profile == defaultProfile &&
		len(o.fired) > 0
	if !said {
		return nil
	}
	return &FalseAlarm{Scenario: number, Profile: profile, Findings: o.details, Reasons: o.reasons,
		Config: Scenario(number)}
}

// distances are the propagation delays of both hosts' links.
type distances uint64

// apply draws them for every other scenario: up to 10 ms a side, so that packets cross in every way. The local ACK
// timeout stays above the round trip; a shorter one would exhaust the retries of any NIC.
func (d distances) apply(test *config.Test) {
	if d/2%2 == 0 { // not d%2: profiles take turns by number, too
		return
	}
	r := rand.New(rand.NewPCG(uint64(d), 0xd157))
	const longest = int64(10 * clock.Millisecond)
	bed := *test.Testbed
	bed.Requester.Propagation = clock.Duration(r.Int64N(longest))
	bed.Responder.Propagation = clock.Duration(r.Int64N(longest))
	test.Testbed = &bed
	test.Traffic.AckTimeout = 14
}
