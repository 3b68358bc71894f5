package analyzers

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers/cause"
)

// Rule is one statement that an analyzer checks. Each analyzer lists its own in Rules; docs/reference/rules.md is made
// of these lists. An id, once published, keeps its meaning.
type Rule struct {
	ID        string   // analyzer.what: "retrans.timeout-early"
	Severity  Severity // of a finding, unless the finding has a lower one; empty: Violation
	Clause    string   // of IBTA volume 1, an RFC or Lumina's text
	Statement string   // what a conforming implementation does
	// Records is what decision records add to the judgement; empty: nothing. RecordsOnly: without them it is not judged.
	Records     string
	RecordsOnly bool
	// SteadyLinks: the rule is not judged of a port whose link has changed during the run.
	SteadyLinks bool
	// ExactTimes: the rule is not judged on real frames, whose times are not exact.
	ExactTimes bool
	Needs      Needs // of rules of switch tests; empty: all packets of a host, or of a switch
}

// Needs is what a rule of a switch test must see to be judged.
type Needs string

// What rules need.
const (
	NeedsFlow   Needs = "flow"   // all packets of a flow at the NICs of its hosts
	NeedsHost   Needs = "host"   // all packets of all flows at a host's NIC
	NeedsSwitch Needs = "switch" // all packets at all ports of a switch
)

// Reporter collects the findings of one analyzer in bounded memory: the first few of each rule and connection. The last
// one kept says how many were suppressed.
type Reporter struct {
	analyzer string
	limit    int
	rules    map[string]Rule
	kept     map[reportKey]*reported
	findings []Finding
}

type reportKey struct {
	rule       string
	connection int
}

type reported struct {
	count int
	last  int // index in findings of the last one kept
}

// keptFindings is how many findings of one rule on one connection are kept: what repeats more often is one fault.
const keptFindings = 8

// NewReporter returns an empty collector for the named analyzer, whose findings take clause and severity from rules.
func NewReporter(analyzer string, rules []Rule) *Reporter {
	r := &Reporter{
		analyzer: analyzer, limit: keptFindings,
		rules: make(map[string]Rule, len(rules)), kept: make(map[reportKey]*reported),
	}
	for _, rule := range rules {
		r.rules[rule.ID] = rule
	}
	return r
}

// Wants counts a finding of rule on connection and reports whether to keep it. Callers ask before they format texts, so
// that a trace with a million violations costs little; after true they must call Tell.
func (r *Reporter) Wants(rule string, connection int) bool {
	key := reportKey{rule, connection}
	seen := r.kept[key]
	if seen == nil {
		seen = &reported{}
		r.kept[key] = seen
	}
	seen.count++
	return seen.count <= r.limit
}

// Open reports whether a further finding of rule on connection would be kept, without counting one.
func (r *Reporter) Open(rule string, connection int) bool {
	seen := r.kept[reportKey{rule, connection}]
	return seen == nil || seen.count < r.limit
}

// Tell keeps f, for which Wants returned true. It fills in analyzer, rule, cause and headline, and clause and severity
// if they are empty. A finding without a severity is a violation, so that a forgotten one does not acquit.
func (r *Reporter) Tell(c cause.Cause, f Finding) {
	f.Rule = c.Rule
	f.Because(c)
	rule := r.rules[f.Rule]
	f.Analyzer = r.analyzer
	f.Clause = cmp.Or(f.Clause, rule.Clause)
	f.Severity = cmp.Or(f.Severity, rule.Severity, Violation)
	if f.Packets == nil {
		f.Packets = []uint64{}
	}
	if seen := r.kept[reportKey{f.Rule, f.Connection}]; seen != nil {
		seen.last = len(r.findings)
	}
	r.findings = append(r.findings, f)
}

// Findings returns what was kept, in the order of reporting. The last finding of a rule and connection says how many
// more were seen.
func (r *Reporter) Findings() []Finding {
	list := slices.Clone(r.findings)
	for _, seen := range r.kept {
		if more := seen.count - r.limit; more > 0 && seen.last < len(list) {
			list[seen.last].Message += fmt.Sprintf(" (%d more of this rule on this connection suppressed)", more)
		}
	}
	return list
}
