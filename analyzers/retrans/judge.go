package retrans

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// judge checks the timers and counts of a restart.
func (a *Analyzer) judge(r *trace.Record, step *rounds.Step) {
	p := a.params[step.Flow.Connection()-1]
	switch step.Cause {
	case rounds.Timeout:
		// Without a timer, the earlier restart was the NAK's for certain.
		sure := step.DoubtNS == 0 || p.timeoutNS() == 0 || step.DoubtNS+a.jitterNS(p) < p.timeoutNS()
		if p.Known && step.Certain && sure {
			a.judgeTimeout(r, step, p)
		}
	case rounds.RNR:
		a.judgeRNR(r, step, p)
	case rounds.Nack, rounds.Implied, rounds.None:
	}
	if !p.Known {
		return
	}
	if step.Retries == 1 {
		a.reloaded[step.Flow] = step.Cause == rounds.Nack && a.expiredBefore(step, p)
	}
	if limit := int(p.RetryCount); step.Cause != rounds.RNR && a.counted(step) > limit {
		a.finding(r, step, p, RuleRetryCount, text{
			expected: fmt.Sprintf("at most %d retries without progress", limit),
			actual:   fmt.Sprintf("retry %d, by %v", a.counted(step), step.Cause),
			message:  "retransmission goes on where the queue pair should be in error",
			why:      causeRetries(cause.Requester(step.Flow), psn(step.Place), a.counted(step), limit),
		})
	}
	// The RNR NAK's restart, or a timeout.
	vague := !step.Certain && p.timeoutNS() != 0 && step.QuietNS+a.jitterNS(p) >= p.timeoutNS()
	if limit := int(p.RNRRetry); step.Cause == rounds.RNR && limit != 7 && step.RNRRetries > limit && !vague {
		a.finding(r, step, p, RuleRNRRetry, text{
			expected: fmt.Sprintf("at most %d retries after RNR NAKs without progress", limit),
			actual:   fmt.Sprintf("retry %d", step.RNRRetries),
			message:  "retransmission goes on where the queue pair should be in error",
			why:      causeRNRRetries(cause.Requester(step.Flow), psn(step.Place), step.RNRRetries, limit),
		})
	}
}

// expiredBefore reports whether the timer may have expired just before the progress that a NAK, or an acknowledgement
// before it, made.
func (a *Analyzer) expiredBefore(step *rounds.Step, p Params) bool {
	if p.TimeoutExponent == 0 || step.ProgressNS == rounds.Never ||
		step.CauseNS-step.ProgressNS > bounds.SlowestReactionNS {
		return false
	}
	return max(step.QuietNS, step.StallNS)+a.jitterNS(p) >= p.timeoutNS()
}

// counted returns the least number of retries that a restart without progress counts. The first may be a timeout just
// before the progress that came with a NAK: a requester whose restart is still due then resets its retries and obeys
// the NAK with the same restart.
func (a *Analyzer) counted(step *rounds.Step) int {
	if a.reloaded[step.Flow] {
		return step.Retries - 1
	}
	return step.Retries
}

// timerStart returns the earliest observed time at which the timer of a restart may have been started.
func (a *Analyzer) timerStart(step *rounds.Step, p Params) int64 {
	if step.TimerNS == rounds.Never {
		return step.ProgressNS
	}
	return max(step.ProgressNS, step.TimerNS-a.jitterNS(p))
}

// mayBeOlder reports whether the timer may have expired before the progress that made step.Place the oldest reached the
// sender: the retransmission then starts at that place, but the timer ran for longer.
func (a *Analyzer) mayBeOlder(r *trace.Record, step *rounds.Step, p Params) bool {
	delay := a.hostDelayNS(p)
	recent := step.ProgressNS != rounds.Never && r.TimeNS-step.ProgressNS <= 2*delay+bounds.SlowestReactionNS
	return recent && step.StallNS+2*delay >= p.timeoutNS()
}

// judgeTimeout checks a restart that nothing but a timeout explains.
func (a *Analyzer) judgeTimeout(r *trace.Record, step *rounds.Step, p Params) {
	t := p.timeoutNS()
	if t == 0 {
		a.finding(r, step, p, RuleTimerOff, text{
			expected: "no timeout: the local ACK timeout is 0",
			actual:   "retransmission that no NAK asked for",
			message:  "a timeout without a timer",
			why:      causeTimerOff(cause.Requester(step.Flow), psn(step.Place)),
		})
		return
	}
	start := a.timerStart(step, p)
	switch {
	case start != rounds.Never && r.TimeNS-start < t && !a.mayBeOlder(r, step, p):
		a.finding(r, step, p, RuleTimeoutEarly, text{
			expected: fmt.Sprintf("retransmission at least %s after the last progress", micros(t)),
			actual:   fmt.Sprintf("at most %s after it", micros(r.TimeNS-start)),
			message:  "the local ACK timer expired early" + a.allowance(step, start, p),
			why: causeTimeoutEarly(cause.Requester(step.Flow), psn(step.Place), duration(r.TimeNS-start),
				duration(t)),
		})
	case step.ActivityNS != rounds.Never && r.TimeNS-step.ActivityNS > 4*t+a.jitterNS(p):
		a.finding(r, step, p, RuleTimeoutLate, text{
			expected: fmt.Sprintf("retransmission at most %s after the last progress (4 T)", micros(4*t)),
			actual:   fmt.Sprintf("%s after the latest packet of the connection", micros(r.TimeNS-step.ActivityNS)),
			message:  "the local ACK timer expired late",
			why: causeTimeoutLate(cause.Requester(step.Flow), psn(step.Place), duration(r.TimeNS-step.ActivityNS),
				duration(4*t)),
		})
	}
}

// allowance says which bound of the timer's start was used.
func (a *Analyzer) allowance(step *rounds.Step, start int64, p Params) string {
	if start == step.ProgressNS {
		return ""
	}
	return fmt.Sprintf(" (%s granted for jitter between host and switch)", micros(a.jitterNS(p)))
}

// judgeRNR checks the wait after an RNR NAK. A restart that is too early may answer an older NAK, or be a timeout that
// crossed the NAK if there was time for one.
func (a *Analyzer) judgeRNR(r *trace.Record, step *rounds.Step, p Params) {
	waited := r.TimeNS - step.CauseNS
	if waited >= step.RNRTimerNS || step.Carried {
		return
	}
	severity := analyzers.Violation
	switch {
	case !p.Known:
		severity = analyzers.Note // a local ACK timeout of any length may have crossed the NAK
	case !step.Certain && a.mayBeTimeout(r, step, p):
		return
	}
	a.finding(r, step, p, RuleRNREarly, text{
		severity: severity,
		expected: fmt.Sprintf("retransmission at least %s after the RNR NAK", micros(step.RNRTimerNS)),
		actual:   fmt.Sprintf("%s after it", micros(waited)),
		message:  "the requester did not wait for the RNR timer",
		why: causeRNREarly(cause.Requester(step.Flow), psn(step.Place), duration(waited),
			duration(step.RNRTimerNS)),
	})
}

// mayBeTimeout reports whether a local ACK timer of known length could have caused a restart, whatever else passed.
func (a *Analyzer) mayBeTimeout(r *trace.Record, step *rounds.Step, p Params) bool {
	t := p.timeoutNS()
	start := a.timerStart(step, p)
	return p.Adaptive || t != 0 && (start == rounds.Never || r.TimeNS-start >= t || a.mayBeOlder(r, step, p))
}

// text is what distinguishes one finding from another of its rule.
type text struct {
	severity                  analyzers.Severity
	expected, actual, message string
	why                       cause.Cause
}

func (a *Analyzer) finding(r *trace.Record, step *rounds.Step, p Params, rule string, t text) {
	c := step.Flow.Connection()
	if !a.report.Wants(rule, c) {
		return
	}
	if p.Adaptive {
		t.severity = analyzers.Note
		t.message += "; allowed to adaptive retransmission"
	}
	a.report.Tell(t.why, analyzers.Finding{
		Severity: t.severity, Connection: c, Packets: []uint64{r.ID}, TimeNS: r.TimeNS,
		PSN: step.Place, PSNAbs: uint32(r.PSN), Expected: t.expected, Actual: t.actual, Message: t.message,
		About: step.Flow + 1,
	})
}

// micros prints nanoseconds for people.
func micros(ns int64) string { return clock.TextNS(ns) }
