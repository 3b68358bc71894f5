package orchestrator

import (
	"context"
	"errors"
	"fmt"

	"candela.dev/candela/orchestrator/report"
)

// Progress returns the results of a step as key-value pairs.
func (r *run) Progress(step string) []any {
	switch step {
	case stepPrepare:
		return []any{"connections", len(r.connections)}
	case stepProgram:
		cookie, pushed := r.client.Cookie()
		return []any{
			"entries", len(r.program.Entries), "epoch", r.program.Epoch, "p4runtime", r.client.APIVersion(),
			"cookie", fmt.Sprintf("%016x", cookie), "pushed", pushed,
		}
	case stepTraffic:
		return []any{"goodput_bps", r.generator.GoodputBPS, "mirrored", r.counters.Switch.Mirrored().Packets}
	case stepCollect:
		return []any{"shards", len(r.dump.Shards)}
	case stepReconstruct:
		return []any{"packets", r.merge.Packets, "duplicates", r.merge.Duplicates, "regressions", r.merge.Regressions}
	case stepCheck:
		return []any{"valid", r.integrity.Valid}
	case stepAnalyse:
		if r.analysis != nil {
			return []any{"findings", len(r.analysis.Findings)}
		}
	}
	return nil
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

// Verdict judges the run.
func (r *run) Verdict(failure error) Verdict { return judge(r.evidence(failure)) }

// Outcome keeps the facts of a failed in-memory run, for [Outcome.Expecting].
func (r *run) Outcome(v Verdict) *Outcome {
	o := r.outcome(v)
	if r.memory != nil && v.Exit == ExitFail {
		r.memory.part(traceFile)
		o.facts = &r.facts
	}
	return o
}

func (r *facts) outcome(v Verdict) *Outcome {
	return &Outcome{Verdict: v, Analysis: r.analysis, Generator: r.generator, EventsFired: r.fired(), losses: r.followed()}
}

// Report builds the report of the run in dir.
func (r *run) Report(v Verdict, dir string) *report.Report {
	rep := r.report(v)
	rep.Dir, rep.Next = dir, r.next(dir)
	return rep
}

// Write illustrates the report and writes it in every format.
func (r *run) Write(ctx context.Context, rep *report.Report, complete bool) error {
	var err error
	if r.analysis != nil && complete {
		err = report.Illustrate(ctx, rep, r.checked, true)
	}
	return errors.Join(err, r.WriteReports(rep))
}
