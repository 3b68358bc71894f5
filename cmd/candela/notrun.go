package main

import (
	"context"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// giveUp records the tests without a run after the run last ended the command by err. recorded: that run has a report;
// otherwise it is recorded as an error, unless the command was stopped.
func (s *suite) giveUp(ctx context.Context, last aheadKey, recorded bool, err error) {
	stopped := ctx.Err() != nil
	passed := false
	for i := range s.plans {
		for repeat := 1; repeat <= s.flags.repeat; repeat++ {
			key := aheadKey{&s.plans[i], repeat}
			switch {
			case key == last && !recorded && !stopped:
				s.missing(key, &report.Report{Broken: true, Verdict: analyzers.Invalid, Reasons: []string{err.Error()}})
			case key == last && !recorded, passed:
				s.missing(key, &report.Report{NotRun: whyNotRun(stopped)})
			}
			passed = passed || key == last
		}
	}
}

func whyNotRun(stopped bool) string {
	if stopped {
		return "the command was stopped"
	}
	return "an error ended the command before this run"
}

// missing records a test, or a point of a sweep, without a run; rep contains the reason.
func (s *suite) missing(key aheadKey, rep *report.Report) {
	rep.File = key.plan.file
	var metadata *config.Metadata
	if t := key.plan.ofSwitch; t != nil {
		rep.Name, metadata = t.Test.Title(), t.Test.Metadata
	} else {
		rep.Name, metadata = key.plan.Test.Title(), key.plan.Test.Metadata
	}
	rep.Metadata = orchestrator.MetadataFacts(metadata)
	if s.flags.repeat > 1 {
		rep.Repeat = key.repeat
	}
	s.reports = append(s.reports, rep)
	sweep, err := s.sweepOf(key.plan)
	_, point := key.plan.named()
	if err != nil || sweep == nil {
		s.singles = append(s.singles, rep)
		return
	}
	sweep.AddUnrun(point, rep)
}
