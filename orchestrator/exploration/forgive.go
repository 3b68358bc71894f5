package exploration

import (
	"context"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
)

// forgive judges a test whose events exhausted the retries of a queue pair a second time, as one that expects errors:
// otherwise every unfinished request would be a violation.
func forgive(ctx context.Context, t *config.Test, o *orchestrator.Outcome, run reduction.Runner) (*config.Test,
	*orchestrator.Outcome, error) {
	if o.Analysis == nil || o.Analysis.Verdict != analyzers.Fail {
		return t, o, nil
	}
	c := *t
	c.Expect.Completion = failures(o.Generator)
	if c.Expect.Completion == nil {
		return t, o, nil
	}
	rejudged, ok, err := o.Expecting(ctx, &c)
	if err == nil && !ok {
		rejudged, err = run(ctx, &c)
	}
	return &c, rejudged, err
}

// failures lists the completions of queue pairs that ended in error.
func failures(g generator.Report) (list []config.CompletionExpect) {
	for i := range g.Streams {
		s := &g.Streams[i]
		if s.Failure == generator.StatusNone || s.Failure == generator.Success {
			continue
		}
		from := config.Requester
		if s.Side == config.Responder.String() {
			from = config.Responder
		}
		list = append(list, config.CompletionExpect{QPN: s.Connection, From: from, Status: s.Failure})
	}
	return list
}

// forgiving returns run with forgiveness, so that a reduction cannot turn its failure into exhausted retries.
func forgiving(run reduction.Runner) reduction.Runner {
	return func(ctx context.Context, t *config.Test) (*orchestrator.Outcome, error) {
		o, err := run(ctx, t)
		if err != nil {
			return nil, err
		}
		_, o, err = forgive(ctx, t, o, run)
		return o, err
	}
}
