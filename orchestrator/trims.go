package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/trim"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/trace"
)

// trimReactions says how the hosts of a test take trimmed packets that carry the mark that they look for.
func trimReactions(t *config.Test) trace.TrimReactions {
	of := func(s config.Side) trace.TrimReaction {
		if t.Host(s).RoCE.TrimReaction {
			return trace.TrimAnswered
		}
		return trace.TrimIgnored
	}
	return trace.TrimReactions{Requester: of(config.Requester), Responder: of(config.Responder)}
}

// cuts lists the trims of a run that happened, as its entries say.
func cuts(p *plan.Plan, known *trace.Connections, hits []uint64) []trace.Cut {
	var list []trace.Cut
	for i := range p.Intents {
		in := &p.Intents[i]
		if in.Action.Type != trace.EventTrim || i >= len(hits) || hits[i] == 0 {
			continue
		}
		receiver := config.Responder
		if in.Flow.Reverse() {
			receiver = config.Requester
		}
		size, dscp, flags := int(in.Action.Params[0]), uint8(in.Action.Params[1]), injector.TrimFlags(in.Action.Params[2])
		list = append(list, trace.Cut{
			Flow: in.Flow, PSN: known.InitialPSN(in.Flow, in.Space).Add(int(in.RelPSN - 1)), Nth: in.Nth,
			Size: size, DSCP: dscp, Flags: flags,
			Unmarked: flags&injector.TrimSetDSCP == 0 || int(dscp) != p.Test.Host(receiver).RoCE.TrimDSCP,
		})
	}
	return list
}

// trimConfig tells analyzer trim what a test says, and the entries of its run about its trims.
func trimConfig(p *plan.Plan, happened []trace.Cut) trim.Config {
	cfg := trim.Config{TimeoutNS: p.AckTimeout.Nanoseconds(), Cuts: happened}
	for c := 1; c <= len(p.Connections); c++ {
		cfg.ErrorsExpected = cfg.ErrorsExpected || failureExpected(p.Test, c)
	}
	return cfg
}

// trimBounds checks the bounds on the repair of trimmed packets against the metrics over all connections.
func (u *unmet) trimBounds(e *config.TrimExpect, a *analyzers.Analysis, c *Comparison) {
	gain := analyzers.NewDistribution("gain", analyzers.UnitNS, 0)
	if c != nil {
		for i := range c.Packets {
			if g := c.Packets[i].GainNS; g != nil {
				gain.Record(*g)
			}
		}
	}
	for _, b := range []struct {
		key    string
		metric analyzers.Metric
		bound  *config.Bound
	}{
		{"nack-us", findMetric(a, "trim.nack-generation", 0), e.Nack},
		{"reaction-us", findMetric(a, "trim.nack-reaction", 0), e.Reaction},
		{"recovery-us", findMetric(a, "trim.recovery", 0), e.Recovery},
		{"gain-us", gain.Metric(), e.Gain},
	} {
		u.bound("expect.trim."+b.key, b.bound, b.metric)
	}
}

// ComparisonSchema names the format of comparison.json.
const ComparisonSchema = "candela.comparison/v1"

// comparisonFile holds a Comparison in a run directory; pairedDir is the run directory of the paired run in that of the
// run.
const (
	comparisonFile = "comparison.json"
	pairedDir      = "paired"
)

// Comparison holds the repair of trimmed packets against that of the same packets in a paired run, which lost them
// otherwise.
type Comparison struct {
	Schema  string       `json:"schema"`
	TrimAs  string       `json:"trim_as"` // what happened to them in the paired run
	Packets []ComparedTo `json:"packets"`
}

// ComparedTo is one trimmed packet and its fate in the paired run. Times are from the loss to the delivery; nil: not
// delivered, or the packet was not lost in the paired run.
type ComparedTo struct {
	trim.Packet
	TrimNS  *int64 `json:"trim_recovery_ns"`
	OtherNS *int64 `json:"paired_recovery_ns"`
	GainNS  *int64 `json:"gain_ns"` // by which the trimmed packet was sooner repaired
}

// compare runs the test once more with its trims replaced, if it asks for that, and holds the repairs against each
// other.
func (r *run) compare(ctx context.Context) error {
	as := r.plan.Test.Compare.TrimAs
	if as == trace.EventNone || r.analysis == nil {
		return nil
	}
	p, err := plan.New(r.plan.Test.WithTrimsAs(as))
	if err != nil {
		return fmt.Errorf("paired run: %w", err)
	}
	o := Options{Out: r.Dir.Path(), ID: pairedDir, NoReports: true, Version: r.Version, Command: r.Command, Wall: r.Wall,
		follow: as}
	if r.memory != nil {
		o.memory, o.session = new(memory), r.session
	}
	out, err := Run(ctx, p, r.build, o)
	switch {
	case err != nil:
		return fmt.Errorf("paired run: %w", err)
	case out.Analysis == nil:
		return fmt.Errorf("paired run: nothing to compare with: %v", out.Verdict.Reasons)
	}
	r.comparison = newComparison(as, r.followed(), out.losses)
	return r.Dir.WriteJSON(comparisonFile, r.comparison)
}

func newComparison(as trace.EventType, trimmed, other []trim.Packet) *Comparison {
	type key struct {
		flow     trace.FlowID
		psn      int64
		response bool
		nth      int
	}
	keyOf := func(p *trim.Packet) key { return key{p.Flow, p.PSN, p.Response, p.Nth} }
	paired := map[key]*trim.Packet{}
	for i := range other {
		paired[keyOf(&other[i])] = &other[i]
	}
	c := &Comparison{Schema: ComparisonSchema, TrimAs: as.String(), Packets: []ComparedTo{}}
	for i := range trimmed {
		t := ComparedTo{Packet: trimmed[i], TrimNS: repair(&trimmed[i])}
		if o := paired[keyOf(&trimmed[i])]; o != nil {
			t.OtherNS = repair(o)
		}
		if t.TrimNS != nil && t.OtherNS != nil {
			gain := *t.OtherNS - *t.TrimNS
			t.GainNS = &gain
		}
		c.Packets = append(c.Packets, t)
	}
	return c
}

// repair returns the time from a loss to the delivery, nil if there was none.
func repair(p *trim.Packet) *int64 {
	if p.RecoveredID == 0 {
		return nil
	}
	ns := p.RecoveredNS - p.TimeNS
	return &ns
}

// loadComparison reads what an earlier run compared; nil: nothing.
func loadComparison(path string) (*Comparison, error) {
	c := new(Comparison)
	err := readJSON(path, c)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && c.Schema != ComparisonSchema {
		err = fmt.Errorf("%s: schema %q, want %q", path, c.Schema, ComparisonSchema)
	}
	return c, err
}

// followed returns the packets that analyzer trim followed.
func (f *facts) followed() []trim.Packet {
	if f.losses == nil {
		return nil
	}
	return f.losses()
}

// trimReport lists the trimmed packets for people.
func (f *facts) trimReport() (list []report.Trim) {
	for i, p := range f.followed() {
		t := report.Trim{ID: p.ID, Connection: p.Connection, PSN: p.PSN, Response: p.Response, Size: p.Size, TimeNS: p.TimeNS,
			NackNS: p.NackNS, Nacked: p.NackID != 0, ResentNS: p.ResentNS, Resent: p.ResentID != 0, RecoveredNS: p.RecoveredNS,
			Recovered: p.RecoveredID != 0}
		if c := f.comparison; c != nil && i < len(c.Packets) {
			t.PairedNS, t.GainNS, t.As = c.Packets[i].OtherNS, c.Packets[i].GainNS, c.TrimAs
		}
		list = append(list, t)
	}
	return list
}
