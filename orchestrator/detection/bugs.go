package detection

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/reduction"
)

// Catch says how a seeded fault was noticed.
type Catch string

// Ways of noticing a fault.
const (
	Right  Catch = "right rule"
	Other  Catch = "another rule"
	Missed Catch = "missed"
	// NotApplicable: the profile behaves like the bug by design, or its vendor does not offer the counter.
	NotApplicable Catch = "not applicable"
	// Unobservable: software hosts don't show what the bug does; see BugResult.Why.
	Unobservable Catch = "not observable"
	// Unjudged: no run could be judged; BugResult.Why has the reason.
	Unjudged Catch = "not judged"
)

// BugResult is a line of the matrix.
type BugResult struct {
	Bug     rdma.BugInfo `json:"-"`
	Name    string       `json:"bug"`
	Rule    string       `json:"rule"`
	Profile string       `json:"profile"`
	Catch   Catch        `json:"catch"`
	Fired   []Fired      `json:"fired"`
	// Sound are the rules that fired on the same test without the fault. There must be none.
	Sound []string `json:"sound,omitempty"`
	// Why the bug cannot be observed on the testbed.
	Why string `json:"why,omitempty"`
	// Took is the time of the runs.
	Took time.Duration `json:"-"`
}

// Bugs runs the test of every fault on a profile, once with the fault and once without.
func (b *Bench) Bugs(ctx context.Context, profile string) ([]BugResult, error) {
	catalogue := rdma.Catalogue()
	if b.Only != nil {
		for _, name := range b.Only {
			if !slices.ContainsFunc(catalogue, func(c rdma.BugInfo) bool { return c.Name == name }) {
				return nil, fmt.Errorf("there is no seeded bug %q", name)
			}
		}
		catalogue = slices.DeleteFunc(catalogue, func(c rdma.BugInfo) bool { return !slices.Contains(b.Only, c.Name) })
	}
	results := make([]BugResult, len(catalogue))
	err := b.each(ctx, len(catalogue), func(ctx context.Context, run reduction.Runner, i int) error {
		start := b.wall()
		r, err := b.bug(ctx, run, catalogue[i], profile)
		if err != nil {
			return fmt.Errorf("bug %s on profile %s: %w", catalogue[i].Name, profile, err)
		}
		r.Took = b.wall().Sub(start)
		results[i] = r
		return nil
	})
	return results, err
}

// Config returns the file of a fault's test.
func (b *Bench) Config(bug rdma.BugInfo) string {
	return filepath.Join(b.Configs, "detect", bug.Name+".yml")
}

func (b *Bench) bug(ctx context.Context, run reduction.Runner, bug rdma.BugInfo, profile string) (BugResult, error) {
	r := BugResult{Bug: bug, Name: bug.Name, Rule: bug.Rule, Profile: profile}
	t, err := b.load(bug, profile)
	if why := unobservable[bug.Name]; err != nil && b.SoftwareHosts && why != "" {
		r.Catch, r.Why = Unobservable, why
		return r, nil
	}
	if err != nil {
		return r, err
	}
	broken, err := b.provoked(ctx, run, on(t, profile, false))
	var sound outcome
	if err == nil {
		sound, err = measured(ctx, run, on(t, profile, true))
	}
	if err != nil && b.SoftwareHosts && ctx.Err() == nil {
		r.Catch, r.Why = Unjudged, err.Error() // of one bug; the others are tried
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Fired, r.Sound = broken.fired, sound.violations()
	r.Catch = judge(bug.Rule, &broken, &sound)
	if r.Catch != Right && !applies(bug, profile, &sound) {
		r.Catch = NotApplicable
	}
	if why := unobservable[bug.Name]; b.SoftwareHosts && why != "" && r.Catch != Right && r.Catch != NotApplicable {
		r.Catch, r.Why = Unobservable, why
	}
	return r, nil
}

// softwareTries is how often the test of a fault runs on software hosts until its events have occurred.
const softwareTries = 3

// provoked runs the test of a fault. On software hosts the machine decides the order of packets: a run in which an
// event found no packet did not provoke the fault, and without a finding the test is repeated. Findings of any run are
// kept.
func (b *Bench) provoked(ctx context.Context, run reduction.Runner, t *config.Test) (o outcome, err error) {
	for try := 1; ; try++ {
		o, err = measured(ctx, run, t)
		all := o.events == len(t.Traffic.DataEvents)+len(t.Traffic.ControlEvents)
		if err != nil || !b.SoftwareHosts || all || len(o.fired) > 0 || try == softwareTries {
			return o, err
		}
	}
}

// load reads the test of a fault, for the other testbed if the first refuses it.
func (b *Bench) load(bug rdma.BugInfo, profile string) (t *config.Test, err error) {
	options := []config.Options{b.options(profile)}
	if b.Fallback != nil {
		options = append(options, as(*b.Fallback, profile))
	}
	for _, o := range options {
		if t, err = config.Load(b.Config(bug), o); err == nil {
			err = unambiguous(t, b.Config(bug))
		}
		if err == nil {
			break
		}
	}
	return t, err
}

// unambiguous reports whether the test of a file can run and says which transmissions its events name.
func unambiguous(t *config.Test, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return plan.Unambiguous([]*config.Test{t}, data)
}

// BugTest returns the test of a fault on a profile, with sound without the fault.
func (b *Bench) BugTest(bug rdma.BugInfo, profile string, sound bool) (*config.Test, error) {
	t, err := b.load(bug, profile)
	if err != nil {
		return nil, err
	}
	return on(t, profile, sound), nil
}

// unobservable are the faults that software hosts do not show, with the reason.
var unobservable = map[string]string{
	"slow-nack":      "500 us more are within what a host may wait for a CPU",
	"slow-reaction":  "500 us more are within what a host may wait for a CPU",
	"trim-slow-nack": "500 us more are within what a host may wait for a CPU",
	"rate-never-cut": noLineRate, "rate-never-recovers": noLineRate, "rate-cut-unasked": noLineRate,
	"rate-cut-when-off": noLineRate,
}

const noLineRate = "a software host sends at the rate of its CPU, not at that of its port, so a cut does not show"

// judge decides whether rule caught a fault. An expectation of the test (expect.…) is written for the broken NIC: it
// catches the fault if it holds with it and does not without it.
func judge(rule string, broken, sound *outcome) Catch {
	caught := broken.has(rule)
	if strings.HasPrefix(rule, "expect.") {
		caught = !broken.unmet(rule) && sound.unmet(rule)
	}
	switch {
	case caught && !sound.has(rule):
		return Right
	case len(broken.fired) > 0:
		return Other
	}
	return Missed
}

// applies reports whether a bug makes a difference on a profile: not if the compliant profile breaks the same rule by
// design, which warnings allow, and not if it is in a counter that the profile's vendor does not offer.
func applies(bug rdma.BugInfo, profile string, sound *outcome) bool {
	if sound.has(bug.Rule) && !slices.Contains(sound.violations(), bug.Rule) {
		return false
	}
	p, err := rdma.ProfileByName(profile)
	return err != nil || !strings.HasPrefix(bug.Rule, counters.Name+".") || counters.Offers(p.Vendor, bug.Rule)
}

// unmet reports whether the verdict says that an expectation failed.
func (o *outcome) unmet(expectation string) bool {
	return slices.ContainsFunc(o.reasons, func(reason string) bool {
		return strings.HasPrefix(reason, expectation) ||
			expectation == "expect.completion" && strings.HasPrefix(reason, "completion of ")
	})
}

func cmpString(a, b string) int { return cmp.Compare(a, b) }
