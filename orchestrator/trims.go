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

// trimReactions returns how the hosts of a test react to trimmed packets that carry the expected DSCP.
func trimReactions(t *config.Test) trace.TrimReactions {
	of := func(s config.Side) trace.TrimReaction {
		if t.Host(s).RoCE.TrimReaction {
			return trace.TrimAnswered
		}
		return trace.TrimIgnored
	}
	return trace.TrimReactions{Requester: of(config.Requester), Responder: of(config.Responder)}
}

// cuts lists the trims of a run that hit a packet, according to the hits of their entries.
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

// trimConfig configures analyzer trim from the test and the trims that happened.
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

// ComparisonSchema is the schema of comparison.json.
const ComparisonSchema = "candela.comparison/v1"

// comparisonFile holds a Comparison in a run directory; pairedDir is the directory of the paired run in it.
const (
	comparisonFile = "comparison.json"
	pairedDir      = "paired"
)

// Comparison compares the repair of trimmed packets with that of the same packets in a paired run, which loses them in
// another way.
type Comparison struct {
	Schema  string       `json:"schema"`
	TrimAs  string       `json:"trim_as"` // the event in the paired run
	Packets []ComparedTo `json:"packets"`
}

// ComparedTo is one trimmed packet and the same packet in the paired run. Times are from loss to delivery; nil: not
// delivered, or not lost in the paired run.
type ComparedTo struct {
	trim.Packet
	TrimNS  *int64 `json:"trim_recovery_ns"`
	OtherNS *int64 `json:"paired_recovery_ns"`
	GainNS  *int64 `json:"gain_ns"` // paired recovery minus trim recovery
}

// compare runs the test again with its trims replaced, if the test asks for it, and compares the repairs.
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

// repair returns the time from loss to delivery; nil if not delivered.
func repair(p *trim.Packet) *int64 {
	if p.RecoveredID == 0 {
		return nil
	}
	ns := p.RecoveredNS - p.TimeNS
	return &ns
}

// loadComparison reads comparison.json; nil if there is none.
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

func (f *facts) followed() []trim.Packet {
	if f.losses == nil {
		return nil
	}
	return f.losses()
}

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
