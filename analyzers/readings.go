package analyzers

import (
	"context"
	"slices"

	"candela.dev/candela/trace"
)

// unseenExplains are the rules whose breach is explained by one or two frames that a tap did not record: an unseen
// acknowledgement, NAK, request or retransmission.
var unseenExplains = map[string]bool{
	"gbn.ack-beyond": true, "gbn.ack-decreasing": true, "gbn.atomic-unexpected": true, "gbn.msn": true,
	"gbn.psn-skip":    true,
	"gbn.read-opcode": true, "gbn.read-order": true, "gbn.read-unexpected": true, "gbn.resend-acknowledged": true,
	"gbn.retransmit-first": true, "gbn.retry-exceeded": true, "gbn.rnr-early": true, "gbn.round-gap": true,
	"gbn.timeout-early": true, "gbn.timeout-start": true,
	"retrans.retry-exceeded": true, "retrans.rnr-early": true, "retrans.rnr-retry-exceeded": true,
	"retrans.timeout-early": true,
	"retrans.timeout-late":  true,
}

// UnseenExplains lists those rules, for documentation and tests.
func UnseenExplains() map[string]bool {
	list := make(map[string]bool, len(unseenExplains))
	for rule := range unseenExplains {
		list[rule] = true
	}
	return list
}

// SoftenUnseen makes warnings of the violations in a that frames missed by a tap may explain: those of rules for which
// one or two frames suffice, and those that disappear when the trace is read as one that may lack frames, by the
// analyzers that fresh returns. A violation remains only if every reading contains it, unless the taps are known to be
// complete: see [trace.Checked.WithUnseenFrames] and [trace.Checked.OtherReadings]. Workers is that of [RunParallel].
//
// Findings about a single capture get the severity that its observer knows: see [Observed].
func SoftenUnseen(ctx context.Context, checked *trace.Checked, workers int, a *Analysis,
	fresh func(trace.Meta) []Analyzer) error {
	for _, other := range checked.OtherReadings() {
		if err := soften(ctx, other, workers, a, fresh, elsewhere); err != nil {
			return err
		}
	}
	if checked.Meta().Kind == trace.KindPlain && len(a.Observed) > 0 {
		meta := checked.Meta()
		a.weigh(meta.Complete, meta.CountedUnseen())
		return nil
	}
	if checked.Meta().HostsInferred {
		a.softenLostFirst()
	}
	lossy, ok := checked.WithUnseenFrames()
	if !ok || a.Verdict != Fail {
		return nil
	}
	other, err := RunParallel(ctx, lossy, workers, fresh(lossy.Meta())...)
	if err != nil {
		return err
	}
	if checked.Meta().Agreed && !other.showsUnseen() && !slices.ContainsFunc(a.Findings, undelivered) {
		return nil
	}
	a.keep(other, true, missed)
	return nil
}

// undelivered reports whether f is a violation that one frame missed by the second capture explains.
func undelivered(f Finding) bool { return f.Undelivered && f.Severity == Violation }

// What else may explain a finding.
const (
	missed = " Or the capture missed it: frames that a tap did not record explain this, too (--complete rules that " +
		"out)."
	elsewhere = " Or the captures were taken elsewhere: the packets do not show the places for certain (--tap names " +
		"them), " +
		"one capture starts later or ends earlier than the other, or packets were cut so that damage does not show."
	nearSwitch = " Or frames were lost before both captures: nothing shows that each was taken at the port of its host " +
		"(--tap requester=FILE --tap responder=FILE says so)."
)

// lostFirst are the rules whose breach is explained by frames lost or damaged between their sender and the first tap.
var lostFirst = map[string]bool{
	"gbn.psn-skip": true, "gbn.round-gap": true, "gbn.retransmit-first": true, "gbn.resend-acknowledged": true,
	"gbn.timeout-start":   true,
	"gbn.opcode-sequence": true, "gbn.nak-unanswered": true, "gbn.incomplete": true, "gbn.nak-missing": true,
	"gbn.nak-fatal-missing": true,
	"gbn.ack-missing":       true, "gbn.read-missing": true, "gbn.read-order": true, "gbn.read-unexpected": true,
	"gbn.read-opcode": true,
	"gbn.icrc":        true, "cnp.missing": true,
}

// softenLostFirst makes warnings of the violations in a that losses before both captures explain.
func (a *Analysis) softenLostFirst() {
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Severity == Violation && lostFirst[f.Rule] {
			f.Doubt(Warning, nearSwitch)
		}
	}
	a.Verdict = a.verdict()
}

// soften makes warnings of the violations in a that another reading of the trace lacks.
func soften(ctx context.Context, reading *trace.Checked, workers int, a *Analysis, fresh func(trace.Meta) []Analyzer,
	why string) error {
	if a.Verdict != Fail {
		return nil
	}
	other, err := RunParallel(ctx, reading, workers, fresh(reading.Meta())...)
	if err != nil {
		return err
	}
	if reading.Meta().HostsInferred {
		other.softenLostFirst()
	}
	a.keep(other, reading.Meta().MayMiss, why)
	return nil
}

// keep makes warnings of the violations in a that another reading lacks, or that frames missing there explain.
func (a *Analysis) keep(other *Analysis, mayMiss bool, why string) {
	certain := make(map[findingKey]bool)
	for i := range other.Findings {
		if f := &other.Findings[i]; f.Severity == Violation && !(mayMiss && unseenExplains[f.Rule]) {
			certain[f.key()] = true
		}
	}
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Severity == Violation && !certain[f.key()] {
			f.Doubt(Warning, why)
		}
	}
	a.Verdict = a.verdict()
}

// soften makes a warning of f: frames that a tap missed may explain it.
func (f *Finding) soften() { f.Doubt(Warning, missed) }

// findingKey names a finding across readings of a trace.
type findingKey struct {
	rule       string
	connection int
	packet     uint64
}

func (f *Finding) key() findingKey {
	k := findingKey{rule: f.Rule, connection: f.Connection}
	if len(f.Packets) > 0 {
		k.packet = f.Packets[0]
	}
	return k
}
