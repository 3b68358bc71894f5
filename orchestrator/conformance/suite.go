package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	tests "candela.dev/candela/configs/conformance"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/report"
)

// Suite says what to qualify, and how.
type Suite struct {
	Build   orchestrator.Builder
	Options config.Options // the models and rules that exist
	Profile string         // of both hosts
	Bugs    []string       // seeded bugs of the hosts with Profile
	// Peer is the profile of the other host if two NICs are tested together; empty: both have Profile. Findings are then
	// about the pair: the trace shows what was wrong between them, and its packets who sent what.
	Peer string
	Role config.Side // of Profile's host if there is a Peer
	// Device replaces the models on the testbed; nil: models. Its runs are sequential, and one that the testbed breaks off
	// is repeated once.
	Device *Device
	// Real says that the models exchange real packets: runs are sequential, and one that the machine breaks off is
	// repeated.
	Real bool
	// BuildFor makes the testbed of a description if it differs between tests; nil: use Build.
	BuildFor func(*config.Testbed) orchestrator.Builder
	// Fallback are options with another testbed, for tests that the one of Options refuses; nil: none.
	Fallback *config.Options
	// MaxNAK and MaxReaction bound the latencies at the injector; 0: twice the profile's Declared value, plus 20 us for
	// the path and for earlier packets.
	MaxNAK, MaxReaction clock.Duration
	// nil: without a bound of the user's the latencies are not judged
	Declared func(profile string) rdma.Latencies
	Out      string // parent of the run directories
	Workers  int    // runs at a time; 0: one for each CPU
	Version  string // of the tool
	Command  string // how the tool was called
	Wall     func() time.Time
	// Begun is called with the number of runs, Done after each run, by several goroutines; may be nil.
	Begun func(runs int)
	Done  func()
	// NoReports leaves the HTML and JUnit reports out of the run directories.
	NoReports bool
}

// outcome is what one run has to say about the rules that it stimulates.
type outcome struct {
	name   string
	why    string // it says nothing, and why; empty if it does
	run    *orchestrator.Outcome
	tries  int  // how often it was tried
	broken bool // a component failed, also when the run was repeated
	census map[string]int64
	// bounded are the latencies that the test bounds.
	bounded map[Bound]bool
	took    time.Duration // of all tries
}

// Qualify runs the tests of all rules and judges each rule.
func (s *Suite) Qualify(ctx context.Context, rules []Rule) (*Report, error) {
	profile, peer := s.profile(s.Profile), s.profile(cmp.Or(s.Peer, s.Profile))
	if profile == nil || peer == nil {
		return nil, fmt.Errorf("profile %q or %q is unknown", s.Profile, s.Peer)
	}
	names := runsOf(rules)
	begun, outcomes := s.Wall(), make([]outcome, len(names))
	if s.Begun != nil {
		s.Begun(len(names))
	}
	err := s.each(ctx, len(names), func(ctx context.Context, i int) (err error) {
		start := s.Wall()
		if outcomes[i], err = s.run(ctx, names[i], rules, profile, peer); err != nil {
			return fmt.Errorf("test %s: %w", names[i], err)
		}
		outcomes[i].took = s.Wall().Sub(start)
		if s.Done != nil {
			s.Done()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := s.report(rules, outcomes)
	r.Took = s.Wall().Sub(begun)
	return r, nil
}

// runsOf lists the runs that rules need, each once.
func runsOf(rules []Rule) []string {
	var names []string
	for i := range rules {
		if name := rules[i].run(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (s *Suite) profile(name string) *config.Profile {
	i := slices.IndexFunc(s.Options.Profiles, func(p config.Profile) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Options.Profiles[i]
}

func (s *Suite) run(ctx context.Context, name string, rules []Rule, profile, peer *config.Profile) (outcome, error) {
	file, adaptive := strings.CutSuffix(name, adaptiveSuffix)
	o := outcome{name: name}
	if adaptive && !profile.Adaptive {
		o.why = "profile " + profile.Name + " has no adaptive retransmission"
		return o, nil
	}
	p, err := s.plan(file, name, adaptive, profile, peer)
	if err != nil && s.cannotHave(err, file, profile) {
		o.why = "the testbed can't have the test: " + strings.Join(strings.Fields(err.Error()), " ")
		return o, nil
	}
	if err != nil {
		return o, err
	}
	test := p.Test
	o.bounded = map[Bound]bool{
		NAKBound: test.Expect.Retrans.NackGeneration != nil, ReactionBound: test.Expect.Retrans.NackReaction != nil,
	}
	options := orchestrator.Options{
		Out: s.Out, Version: s.Version, Command: s.Command, File: path.Join("configs/conformance", file+".yml"),
		Wall: s.Wall, NoReports: s.NoReports,
	}
	build := s.Build
	if s.BuildFor != nil {
		build = s.BuildFor(test.Testbed)
	}
	for retry := true; retry; {
		o.tries++
		if o.run, err = orchestrator.Run(ctx, p, build, options); err == nil && o.judged() {
			o.census, err = takeCensus(ctx, o.run.Dir)
		}
		retry = err == nil && s.retry(&o, rules)
	}
	switch {
	case (s.Device != nil || s.Real) && err == nil && o.run.Verdict.Exit == orchestrator.ExitInfrastructure:
		o.why = "the testbed failed again: " + strings.Join(o.run.Verdict.Reasons, "; ")
		o.run, o.broken = nil, true
		return o, nil
	case err != nil:
		return o, err
	case o.run.Verdict.Exit == orchestrator.ExitInfrastructure:
		return o, errors.New(strings.Join(o.run.Verdict.Reasons, "; "))
	case !o.judged():
		o.why = "the run cannot be judged: " + strings.Join(o.run.Verdict.Reasons, "; ")
	}
	return o, nil
}

// judged reports whether analyzers had something to say about the run.
func (o *outcome) judged() bool {
	return o.run.Report != nil && o.run.Analysis != nil && o.run.Report.Packets > 0
}

// retry reports whether to repeat a run: one that a component broke off or, with models on real packets, one in which
// the machine lost something or the order of packets did not exercise every rule. A run with a finding against the
// device is never repeated.
func (s *Suite) retry(o *outcome, rules []Rule) bool {
	switch {
	case s.Real:
		return o.tries < realTries && (o.run.Analysis == nil || o.silent() && o.unexercised(rules))
	case s.Device != nil:
		return o.tries < 2 && o.run.Verdict.Exit == orchestrator.ExitInfrastructure
	}
	return false
}

// silent reports whether nothing in a run speaks against the device.
func (o *outcome) silent() bool {
	return o.judged() && o.run.Verdict.Exit != orchestrator.ExitFail &&
		!slices.ContainsFunc(o.run.Report.Findings,
			func(f report.Finding) bool { return f.Severity != analyzers.Note && !f.Wanted })
}

// unexercised reports whether a rule that is judged by the run lacks evidence in it.
func (o *outcome) unexercised(rules []Rule) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool {
		return r.run() == o.name && slices.ContainsFunc(r.Evidence, func(e Evidence) bool {
			n, _ := find(e, o)
			return n < e.Least
		})
	})
}

// realTries is how often a run of models on real packets is tried.
const realTries = 4

// plan plans a test with the NICs in it, for the other testbed if the first refuses it.
func (s *Suite) plan(file, name string, adaptive bool, profile, peer *config.Profile) (*plan.Plan, error) {
	p, err := s.planOn(s.Options, file, name, adaptive, profile, peer)
	if err != nil && s.Fallback != nil {
		p, err = s.planOn(*s.Fallback, file, name, adaptive, profile, peer)
	}
	return p, err
}

func (s *Suite) planOn(o config.Options, file, name string, adaptive bool, profile, peer *config.Profile) (*plan.Plan,
	error) {
	test, err := s.load(o, file, adaptive, profile, peer)
	if err != nil {
		return nil, err
	}
	test.Name = name
	return plan.New(test)
}

// cannotHave reports whether a test was refused for something that the device's testbed cannot do: the problems are in
// the test and not in the description of the testbed, and models have none.
func (s *Suite) cannotHave(err error, file string, profile *config.Profile) bool {
	var refused *config.Error
	if s.Device == nil || !errors.As(err, &refused) ||
		slices.ContainsFunc(refused.Problems, func(p config.Problem) bool { return p.File != file+".yml" }) {
		return false
	}
	o := as(s.Options, profile)
	o.Testbed = ""
	_, err = Load(file, o)
	return err == nil
}

// load reads a test and puts the NICs into it.
func (s *Suite) load(o config.Options, file string, adaptive bool, profile, peer *config.Profile) (*config.Test,
	error) {
	test, err := Load(file, as(o, profile))
	if err != nil {
		return nil, err
	}
	for _, h := range test.Hosts() {
		s.equip(h, profile, s.Bugs, adaptive)
	}
	if s.Peer != "" {
		other, err := Load(file, as(o, peer))
		if err != nil {
			return nil, err
		}
		h := test.Host(1 - s.Role)
		*h = *other.Host(1 - s.Role)
		s.equip(h, peer, nil, adaptive && peer.Adaptive)
	}
	s.Device.slow(test)
	s.bound(file, &test.Expect.Retrans)
	return test, nil
}

func (s *Suite) equip(h *config.Host, profile *config.Profile, bugs []string, adaptive bool) {
	h.NIC.Profile, h.NIC.Bugs = profile.Name, bugs
	h.RoCE.AdaptiveRetrans = h.RoCE.AdaptiveRetrans || adaptive
}

// bound bounds the latencies of a test that is there for that.
func (s *Suite) bound(file string, e *config.RetransExpect) {
	if file != latencyTest {
		return
	}
	nak, reaction := s.limits()
	if nak > 0 {
		e.NackGeneration = &config.Bound{Max: &nak, Firm: s.MaxNAK > 0}
	}
	if reaction > 0 {
		e.NackReaction = &config.Bound{Max: &reaction, Firm: s.MaxReaction > 0}
	}
}

// latencyTest is the test of rules with a [Bound].
const latencyTest = "nak-latency"

// limits returns the bounds of latencies at the injector, 0 for none: for a pair the slower profile's.
func (s *Suite) limits() (nak, reaction clock.Duration) {
	nak, reaction = s.MaxNAK, s.MaxReaction
	if s.Declared == nil {
		return nak, reaction
	}
	l, peer := s.Declared(s.Profile), s.Declared(cmp.Or(s.Peer, s.Profile))
	const way = 20 * clock.Microsecond
	return cmp.Or(nak, 2*max(l.NAK, peer.NAK)+way), cmp.Or(reaction, 2*max(l.Reaction, peer.Reaction)+way)
}

// as returns options that give tests without a profile the defaults of this one.
func as(o config.Options, profile *config.Profile) config.Options {
	o.Profiles = slices.Clone(o.Profiles)
	for i := range o.Profiles {
		o.Profiles[i].Defaults = profile.Defaults
	}
	return o
}

// Load reads a test of the suite. The tests name no testbed; the one of the options is the user's.
func Load(name string, o config.Options) (*config.Test, error) {
	file := name + ".yml"
	data, err := tests.FS.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return config.Parse(file, data, o)
}

// Tests lists the tests that come with the suite, sorted.
func Tests() ([]string, error) {
	files, err := fs.Glob(tests.FS, "*.yml")
	for i := range files {
		files[i] = strings.TrimSuffix(files[i], ".yml")
	}
	return files, err
}

// each calls do for 0 to n−1 on all workers and returns the errors in that order.
func (s *Suite) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	workers := s.Workers
	if s.Device != nil || s.Real {
		workers = 1
	} else if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return orchestrator.Batch(ctx, workers, n, func(_, i int) error { return do(ctx, i) })
}
