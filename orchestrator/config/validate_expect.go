package config

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
)

func keysOf[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

func (e *Expect) judgements() map[string]*Judgement {
	return map[string]*Judgement{
		"gbn": &e.GBN, "retrans": &e.Retrans.Judgement, "cnp": &e.CNP.Judgement, "rp": &e.RP, "fields": &e.Fields.Judgement,
		"trim": &e.Trim.Judgement, "counters": &e.Counters.Judgement,
	}
}

// Judgement returns what is expected of an analyzer, nil if tests cannot have expectations of it.
func (e *Expect) Judgement(analyzer string) *Judgement { return e.judgements()[analyzer] }

// Analyzers names the analyzers that tests can have expectations of, sorted.
func Analyzers() []string { return slices.Sorted(keysOf(new(Expect).judgements())) }

// finishExpectations sets the outcome implied by a list of violations and checks each judgement.
func (d *decoder) finishExpectations(t *Test) {
	for _, name := range Analyzers() {
		d.finishJudgement("expect."+name, name, t.Expect.Judgement(name))
	}
}

// finishJudgement sets the outcome of a judgement and checks its rules.
func (d *decoder) finishJudgement(path, name string, j *Judgement) {
	if !d.fine(path) {
		return
	}
	if len(j.Violations) > 0 {
		if j.Outcome != OutcomeUnset {
			d.problemAt(path+".verdict", "is given together with violations",
				"violations already lists the rules that must be violated")
		}
		j.Outcome = OutcomeRules
	}
	for i, rule := range j.Violations {
		d.validateRule(path+".violations["+itoa(i)+"]", name, rule, j.Violations[:i])
	}
	for i, rule := range j.Tolerated {
		d.validateRule(path+".tolerated["+itoa(i)+"]", name, rule, slices.Concat(j.Violations, j.Tolerated[:i]))
	}
}

func (d *decoder) validateRule(path, analyzer, rule string, before []string) {
	if prefix := analyzer + "."; !strings.HasPrefix(rule, prefix) {
		d.problemAt(path, rule+" is not a rule of "+analyzer, "its rules start with "+prefix)
	} else if d.options.Rules != nil {
		d.known(path, rule, rulesOf(analyzer, d.options.Rules), "rule")
	}
	if slices.Contains(before, rule) {
		d.problemAt(path, rule+" is given twice", "")
	}
}

func rulesOf(analyzer string, rules []string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return !strings.HasPrefix(r, analyzer+".") })
}

func (d *decoder) validateExpect(t *Test) {
	d.validateBounds(t)
	d.validateBaseline(&t.Expect.Baseline, "retrans.nack-reaction-us: {p99: +5 %}")
	d.validateCounters("expect.counters.requester", t.Expect.Counters.Requester)
	d.validateCounters("expect.counters.responder", t.Expect.Counters.Responder)
	if !d.fine("traffic.num-connections", "traffic.bidirectional") {
		return
	}
	if n, want := len(t.Expect.CNP.PerConnection), t.Traffic.Connections; n != 0 && n != want && d.fine("expect.cnp") {
		d.problemAt("expect.cnp.per-connection", fmt.Sprintf("has %d numbers for %d connections", n, want),
			"it takes one for each")
	}
	if d.fine("expect.completion") {
		for i := range t.Expect.Completion {
			d.validateCompletion(t, &t.Expect.Completion[i])
		}
	}
}

func (d *decoder) validateBounds(t *Test) {
	for _, b := range append(t.latencyBounds(), pathBound{"expect.trim.gain-us", &t.Expect.Trim.Gain}) {
		if *b.bound != nil && d.fine(b.path) {
			d.validateBound(b.path, *b.bound)
		}
	}
}

func (d *decoder) validateBound(path string, b *Bound) {
	if !b.LimitsTime() && b.Count == nil {
		d.problemAt(path, "is empty", "it takes min, max, mean, p50, p99 or count")
		return
	}
	for _, l := range b.Limits() {
		at := path
		if l.Key != "" {
			at = join(path, l.Key)
		}
		switch {
		case l.Key != "" && l.Min == nil && l.Max == nil:
			d.problemAt(at, "is empty", "it takes min or max")
		case l.Min != nil && l.Max != nil && *l.Min > *l.Max:
			low, high := clock.TextApart(*l.Min, *l.Max)
			d.problemAt(at, fmt.Sprintf("min %s is greater than max %s", low, high), "no value satisfies both")
		}
	}
}

func (d *decoder) validateCounters(path string, counters []CounterExpect) {
	for _, c := range counters {
		switch at := path + "." + c.Name; {
		case !d.fine(at):
		case c.Min == nil && c.Max == nil:
			d.problemAt(at, "is empty", "it takes a number, min or max")
		case c.Min != nil && c.Max != nil && *c.Min > *c.Max:
			d.problemAt(at, fmt.Sprintf("min %d is greater than max %d", *c.Min, *c.Max), "")
		}
	}
}

func (d *decoder) validateCompletion(t *Test, c *CompletionExpect) {
	path := fmt.Sprintf("expect.completion.qpn %d", c.QPN)
	if c.From == Responder {
		path += " responder"
	}
	switch n := t.Traffic.Connections; {
	case c.QPN > n:
		d.problemAt(path, fmt.Sprintf("%d is past the last connection (%d)", c.QPN, n), "")
	case c.From == Responder && !t.Traffic.Bidirectional:
		d.problemAt(path, "the responder posts no requests", "it does with traffic.bidirectional: true")
	case c.AfterRetries != nil && c.Status == generator.Success:
		d.problemAt(path+".after-retries", "is for errors only", "the status is IBV_WC_SUCCESS")
	}
}
