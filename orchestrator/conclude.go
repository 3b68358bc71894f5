package orchestrator

import (
	"context"
	"errors"
	"io"
	"time"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// RunSchema names the format of run.json.
const RunSchema = "candela.run/v1"

// RunDocument is run.json: what a run was, when, and what it came to.
type RunDocument struct {
	Schema       string `json:"schema"`
	Name         string `json:"name"`
	ToolVersion  string `json:"tool_version"`
	ConfigSHA256 string `json:"config_sha256"`
	Testbed      string `json:"testbed"`
	Seed         uint64 `json:"seed"`
	Repeat       int    `json:"repeat,omitempty"`
	// Point has the values of the point of a sweep.
	Point        []config.Assigned `json:"point,omitempty"`
	ClockEpochNS int64             `json:"clock_epoch_ns"` // since 1970, of mirror stamp 0
	Started      time.Time         `json:"started"`
	Finished     time.Time         `json:"finished"`
	Complete     bool              `json:"complete"`
	Verdict
}

// fired returns how many events hit a packet.
func (r *facts) fired() (n int) {
	for _, hits := range r.hits {
		if hits > 0 {
			n++
		}
	}
	return n
}

// conclude judges, writes what is left to write and gives the directory its final name. failure is an infrastructure
// failure or nil.
func (r *run) conclude(ctx context.Context, failure error) (*Outcome, error) {
	e := r.evidence(failure)
	verdict := judge(e)
	if r.o.memory != nil {
		o := r.outcome(verdict)
		if verdict.Exit == ExitFail {
			r.o.memory.part(traceFile)
			o.facts = &r.facts
		}
		return o, nil
	}
	rep := r.report(verdict)
	rep.Dir = r.dir.Final()
	err := errors.Join(
		r.present(ctx, rep, failure),
		r.dir.WriteJSON("run.json", RunDocument{
			Schema: RunSchema, Name: r.plan.Test.Name, ToolVersion: r.o.Version, ConfigSHA256: r.plan.Test.Hash(),
			Testbed: r.plan.Test.Testbed.Name, Seed: r.plan.Test.Seed, Repeat: r.o.Repeat, Point: pointValues(r.plan.Test),
			Started: r.started.UTC(), Finished: r.o.Wall().UTC(), Complete: failure == nil && len(r.miscabled) == 0, Verdict: verdict,
		}),
	)
	out := &Outcome{Verdict: verdict, Report: rep, Analysis: r.analysis, Generator: r.generator, losses: r.followed()}
	if err != nil || failure != nil || len(r.miscabled) > 0 {
		out.Dir = r.dir.Abandon()
		rep.Dir = out.Dir
		return out, err
	}
	out.Dir, err = r.dir.Complete()
	return out, err
}

// outcome is what a run in memory came to.
func (r *facts) outcome(v Verdict) *Outcome {
	return &Outcome{Verdict: v, Analysis: r.analysis, Generator: r.generator, EventsFired: r.fired(), losses: r.followed()}
}

// present illustrates the report and writes it in every format.
func (r *run) present(ctx context.Context, rep *report.Report, failure error) error {
	rep.Next = r.next(rep.Dir)
	if r.o.NoReports {
		return nil
	}
	var err error
	if r.analysis != nil && failure == nil {
		err = report.Illustrate(ctx, rep, r.checked, true)
	}
	return errors.Join(err,
		r.dir.WriteFile("junit.xml", func(w io.Writer) error { return report.JUnit(w, []*report.Report{rep}) }),
		r.dir.WriteFile("report.html", func(w io.Writer) error { return report.HTML(w, rep) }),
	)
}

func pointValues(t *config.Test) []config.Assigned {
	if t.Point == nil {
		return nil
	}
	return t.Point.Values
}
