package history

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/orchestrator/history/statistics"
)

// State is what became of a finding or a metric between two sets of runs.
type State string

// States, in the order in which they are listed.
const (
	New    State = "new"
	Flaky  State = "flaky" // in some runs and not in others, without a change
	NotRun State = "not run"
	Fixed  State = "fixed"
	Still  State = "still"
	Waived State = "waived"
)

// states lists all of them in the order of a report.
func states() []State { return []State{New, Flaky, NotRun, Fixed, Still, Waived} }

// ComparisonSchema names the format of a Comparison as JSON.
const ComparisonSchema = "candela.comparison/v1"

// A Comparison of two sets of runs. The environment comes first, because a difference there may explain all others.
type Comparison struct {
	Schema      string              `json:"schema"`
	A           string              `json:"a"`
	B           string              `json:"b"`
	RunsA       int                 `json:"runs_a"`
	RunsB       int                 `json:"runs_b"`
	Environment []EnvironmentChange `json:"environment"`
	Counts      map[State]int       `json:"counts"` // of findings
	Findings    []ComparedFinding   `json:"findings"`
	Tests       []ComparedTest      `json:"tests"` // that were not judged in B, or are new
	Metrics     []ComparedMetric    `json:"metrics"`
	// Alike counts metrics without a difference beyond chance and their own noise; TooFew those of which too few runs
	// measured them to tell.
	Alike  int `json:"metrics_alike"`
	TooFew int `json:"metrics_too_few"`
}

// Same reports whether nothing is new, fixed or not run, and no metric changed.
func (c *Comparison) Same() bool {
	return c.Counts[New]+c.Counts[Fixed]+c.Counts[NotRun]+c.Counts[Flaky] == 0 && len(c.Metrics) == 0 &&
		!slices.ContainsFunc(c.Tests, func(t ComparedTest) bool { return t.State == NotRun })
}

// EnvironmentChange is a property that differs for some tests.
type EnvironmentChange struct {
	Testbed string `json:"testbed"`
	Name    string `json:"name"`
	A       string `json:"a"` // empty: absent
	B       string `json:"b"`
	Tests   int    `json:"tests"`
}

// Times is how many judged runs have something.
type Times struct {
	Runs int `json:"runs"`
	Of   int `json:"of"`
}

func (t Times) String() string { return fmt.Sprintf("%d/%d", t.Runs, t.Of) }

// ComparedFinding is a finding in both sets.
type ComparedFinding struct {
	State State  `json:"state"`
	ID    string `json:"finding"`
	Subject
	Rule     string `json:"rule"`
	Cause    string `json:"cause"`
	Role     string `json:"role,omitempty"`
	A        Times  `json:"in_a"`
	B        Times  `json:"in_b"`
	Waiver   string `json:"waiver,omitempty"`
	Headline string `json:"headline"`
	Run      string `json:"run"` // one that has it
}

// ComparedTest is a test that one set did not judge.
type ComparedTest struct {
	State State `json:"state"` // not run, or new
	Subject
	Reason string `json:"reason,omitempty"`
}

// ComparedMetric is a metric that changed.
type ComparedMetric struct {
	State State `json:"state"` // new: worse or different; fixed: better; not run: not measured
	Subject
	Name   string  `json:"metric"`
	Unit   string  `json:"unit"`
	A      float64 `json:"median_a"`
	B      float64 `json:"median_b"`
	NA     int     `json:"runs_in_a"`
	NB     int     `json:"runs_in_b"`
	Change float64 `json:"change"` // relative, of the medians
	P      float64 `json:"p"`
	Noise  float64 `json:"noise,omitempty"` // greatest usual change from night to night; 0: not known
}

// Compare compares two sets of runs, b with a. s may be nil if both references are directories.
func (s *Store) Compare(ctx context.Context, a, b string) (*Comparison, error) {
	sideB, err := s.resolve(ctx, b)
	if err != nil {
		return nil, err
	}
	if sideB.lastGreen {
		return nil, usagef("last-green has no second reference that it is before: name it first")
	}
	sideA, err := s.resolve(ctx, a)
	if err != nil {
		return nil, err
	}
	for _, x := range []*side{sideA, sideB} {
		if x.night != 0 && x.runs == 0 {
			if err := s.load(ctx, x); err != nil {
				return nil, err
			}
		}
	}
	if sideA.lastGreen {
		if err := s.loadGreen(ctx, sideA, sideB); err != nil {
			return nil, err
		}
	}
	// One map serves both: an environment that both have is the same.
	for hash, p := range sideB.properties {
		sideA.properties[hash] = p
	}
	sideB.properties = sideA.properties
	c := &comparer{store: s, a: sideA, b: sideB, courses: map[[2]int64]*course{}, failed: map[issueNight]int{},
		tests: map[*sample]statistics.Test{}, out: &Comparison{Schema: ComparisonSchema, A: sideA.label, B: sideB.label,
			RunsA: sideA.runs, RunsB: sideB.runs, Environment: []EnvironmentChange{}, Counts: map[State]int{},
			Findings: []ComparedFinding{}, Tests: []ComparedTest{}, Metrics: []ComparedMetric{}}}
	return c.out, c.compare(ctx)
}

type comparer struct {
	store *Store
	a, b  *side
	out   *Comparison
	noise map[int64][]float64 // medians of earlier nights, by series

	courses map[[2]int64]*course // of tests before B
	failed  map[issueNight]int   // judged runs with a finding
	tests   map[*sample]statistics.Test
}

// pair is a subject on both sides; nil: not there.
type pair struct{ a, b *outcomes }

func (c *comparer) compare(ctx context.Context) error {
	pairs := c.pairs()
	if err := c.environment(ctx, pairs); err != nil {
		return err
	}
	if err := cmp.Or(c.history(ctx, pairs), c.before(ctx, pairs)); err != nil {
		return err
	}
	for _, p := range pairs {
		c.findings(p)
		c.metrics(p)
	}
	rank := func(s State) int { return slices.Index(states(), s) }
	slices.SortStableFunc(c.out.Findings, func(x, y ComparedFinding) int {
		return cmp.Or(cmp.Compare(rank(x.State), rank(y.State)), compareSubjects(&x.Subject, &y.Subject),
			cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.ID, y.ID))
	})
	slices.SortStableFunc(c.out.Tests, func(x, y ComparedTest) int {
		return cmp.Or(cmp.Compare(rank(x.State), rank(y.State)), compareSubjects(&x.Subject, &y.Subject))
	})
	slices.SortStableFunc(c.out.Metrics, func(x, y ComparedMetric) int {
		return cmp.Or(cmp.Compare(rank(x.State), rank(y.State)), -cmp.Compare(math.Abs(x.Change), math.Abs(y.Change)),
			compareSubjects(&x.Subject, &y.Subject), cmp.Compare(x.Name, y.Name))
	})
	for i := range c.out.Findings {
		c.out.Counts[c.out.Findings[i].State]++
	}
	return nil
}

func compareSubjects(x, y *Subject) int {
	return cmp.Or(cmp.Compare(x.Test, y.Test), cmp.Compare(x.Point, y.Point), cmp.Compare(x.Testbed, y.Testbed),
		cmp.Compare(x.Key, y.Key))
}

// pairs matches the subjects of both sides. A test that ran on one testbed here and on one other there is one subject.
func (c *comparer) pairs() []pair {
	var list []pair
	onlyA, onlyB := make(map[[2]string][]*outcomes), make(map[[2]string][]*outcomes)
	for key, o := range c.a.subjects {
		if c.b.subjects[key] == nil {
			k := [2]string{key[0], key[1]}
			onlyA[k] = append(onlyA[k], o)
		} else {
			list = append(list, pair{o, c.b.subjects[key]})
		}
	}
	for key, o := range c.b.subjects {
		if c.a.subjects[key] == nil {
			k := [2]string{key[0], key[1]}
			onlyB[k] = append(onlyB[k], o)
		}
	}
	for k, as := range onlyA {
		if bs := onlyB[k]; len(as) == 1 && len(bs) == 1 {
			list = append(list, pair{as[0], bs[0]})
			delete(onlyB, k)
			continue
		}
		for _, o := range as {
			list = append(list, pair{a: o})
		}
	}
	for _, bs := range onlyB {
		for _, o := range bs {
			list = append(list, pair{b: o})
		}
	}
	slices.SortFunc(list, func(x, y pair) int {
		return compareSubjects(&cmp.Or(x.b, x.a).subject, &cmp.Or(y.b, y.a).subject)
	})
	return list
}

func (c *comparer) environment(ctx context.Context, pairs []pair) error {
	var differ []pair
	for _, p := range pairs {
		if p.a != nil && p.b != nil && !slices.Equal(p.a.environments, p.b.environments) {
			differ = append(differ, p)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	load := []*side{{subjects: map[[3]string]*outcomes{}, properties: c.a.properties}}
	for i, p := range differ {
		load[0].subjects[[3]string{fmt.Sprint(i), "a"}], load[0].subjects[[3]string{fmt.Sprint(i), "b"}] = p.a, p.b
	}
	if err := c.store.loadProperties(ctx, load...); err != nil {
		return err
	}
	counted := make(map[EnvironmentChange]int)
	for _, p := range differ {
		before, after := c.valuesOf(p.a), c.valuesOf(p.b)
		if p.a.subject.Testbed != p.b.subject.Testbed {
			before["testbed"], after["testbed"] = p.a.subject.Testbed, p.b.subject.Testbed
		}
		for _, ch := range propertyChanges(before, after) {
			ch.Testbed = p.b.subject.Testbed
			counted[ch]++
		}
	}
	for ch, n := range counted {
		ch.Tests = n
		c.out.Environment = append(c.out.Environment, ch)
	}
	sortChanges(c.out.Environment)
	return nil
}

// sortChanges puts what was installed before what was set.
func sortChanges(list []EnvironmentChange) {
	slices.SortFunc(list, func(x, y EnvironmentChange) int {
		return cmp.Or(-compareFlags(telling(x.Name), telling(y.Name)), cmp.Compare(x.Testbed, y.Testbed),
			cmp.Compare(x.Name, y.Name), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
}

func compareFlags(a, b bool) int { return flag(a) - flag(b) }

// valuesOf joins the environments of a subject's runs: a property with several values has all of them.
func (c *comparer) valuesOf(o *outcomes) map[string]string {
	values := make(map[string][]string)
	for _, hash := range o.environments {
		for name, value := range c.a.properties[hash] {
			if !slices.Contains(values[name], value) {
				values[name] = append(values[name], value)
			}
		}
	}
	joined := make(map[string]string, len(values))
	for name, list := range values {
		slices.Sort(list)
		joined[name] = list[0]
		for _, v := range list[1:] {
			joined[name] += " or " + v
		}
	}
	return joined
}

func propertyChanges(a, b map[string]string) []EnvironmentChange {
	list := []EnvironmentChange{}
	for _, name := range sortedKeys(a) {
		if b[name] != a[name] {
			list = append(list, EnvironmentChange{Name: name, A: a[name], B: b[name]})
		}
	}
	for _, name := range sortedKeys(b) {
		if _, ok := a[name]; !ok && b[name] != "" {
			list = append(list, EnvironmentChange{Name: name, B: b[name]})
		}
	}
	return list
}

func (c *comparer) findings(p pair) {
	switch {
	case p.a == nil || p.a.judged() == 0 && p.b != nil && p.b.judged() > 0:
		if p.b.judged() > 0 {
			c.out.Tests = append(c.out.Tests, ComparedTest{State: New, Subject: p.b.subject})
		}
	case p.b == nil:
		c.out.Tests = append(c.out.Tests, ComparedTest{State: NotRun, Subject: p.a.subject})
	case p.b.judged() == 0:
		c.out.Tests = append(c.out.Tests, ComparedTest{State: NotRun, Subject: p.b.subject, Reason: p.b.reason})
	}
	p.matchPorts()
	var all []string
	for _, o := range []*outcomes{p.a, p.b} {
		if o != nil {
			all = append(all, sortedKeys(o.issues)...)
		}
	}
	slices.Sort(all)
	for _, id := range slices.Compact(all) {
		f, a, b := ComparedFinding{ID: id}, &occurrence{}, &occurrence{}
		if p.a != nil {
			f.Subject, f.A.Of = p.a.subject, p.a.judged()
			a = cmp.Or(p.a.issues[id], a)
		}
		if p.b != nil {
			f.Subject, f.B.Of = p.b.subject, p.b.judged()
			b = cmp.Or(p.b.issues[id], b)
		}
		shown := a
		if b.counting+b.waived > 0 {
			shown = b
		}
		f.Rule, f.Cause, f.Role, f.Headline, f.Run, f.Waiver = shown.rule, shown.cause, shown.role, shown.headline, shown.in,
			shown.waiver
		f.A.Runs, f.B.Runs = a.counting, b.counting
		state := c.state(p, a, b, &f)
		if state == "" {
			continue
		}
		f.State = state
		c.out.Findings = append(c.out.Findings, f)
	}
}

// matchPorts gives findings of a former version, which have no port's role, the identity of the first of the other side
// that differs only in that.
func (p pair) matchPorts() {
	if p.a == nil || p.b == nil {
		return
	}
	for _, of := range [][2]*outcomes{{p.a, p.b}, {p.b, p.a}} {
		former, now := of[0].issues, of[1].issues
		for _, id := range sortedKeys(former) {
			old := former[id]
			if _, ok := portless(old.role); ok || now[id] != nil {
				continue
			}
			best := ""
			for _, other := range sortedKeys(now) {
				o := now[other]
				plain, ok := portless(o.role)
				if ok && plain == old.role && o.rule == old.rule && o.cause == old.cause && former[other] == nil &&
					(best == "" || o.role < now[best].role) {
					best = other
				}
			}
			if best != "" {
				former[best] = old
				delete(former, id)
			}
		}
	}
}

// state says what became of a finding; empty: nothing to say.
func (c *comparer) state(p pair, a, b *occurrence, f *ComparedFinding) State {
	switch {
	case f.B.Of == 0:
		if a.counting == 0 {
			return "" // it was waived
		}
		return NotRun
	case b.counting == 0 && b.waived > 0:
		return Waived
	case b.counting == 0 && a.counting == 0:
		return "" // it was waived and is gone
	case 0 < f.B.Runs && f.B.Runs < f.B.Of:
		return Flaky
	}
	before := statistics.Nightly{Failed: f.A.Runs, Runs: f.A.Of}
	after := statistics.Nightly{Failed: f.B.Runs, Runs: f.B.Of}
	if 0 < before.Failed && before.Failed < before.Runs && !statistics.Unlikely(before, after) {
		return Flaky
	}
	if before.Failed > 0 && after.Failed > 0 {
		return Still
	}
	flaky, there := c.wasFlaky(p, cmp.Or(a.row, b.row), after)
	switch {
	case flaky:
		return Flaky
	case p.a == nil && c.a.lastGreen && there:
		return Still // no night was green
	case after.Failed > 0:
		return New
	}
	return Fixed
}

// lookBack is how many nights before B say whether a finding comes and goes. A choice.
const lookBack = 30

// wasFlaky reports whether a finding came and went on the nights before B, at a rate with which B is no surprise, and
// whether it was there at all.
func (c *comparer) wasFlaky(p pair, issue int64, after statistics.Nightly) (flaky, there bool) {
	if issue == 0 || p.b == nil {
		return false, false
	}
	course := c.courses[[2]int64{p.b.variant, p.b.testbed}]
	if course == nil || len(course.results) == 0 {
		return false, false
	}
	nights := make([]statistics.Nightly, len(course.results))
	for i, n := range course.results {
		nights[i] = statistics.Nightly{Failed: c.failed[issueNight{issue, course.nights[i]}], Runs: n.Runs}
		there = there || nights[i].Failed > 0
	}
	segments := statistics.Segments(nights)
	last := segments[len(segments)-1]
	rate := statistics.Nightly{Failed: last.Failed, Runs: last.Runs}
	return cameAndWent(nights[last.First:]) && !statistics.Unlikely(rate, after), there
}

type issueNight struct {
	issue int64
	night Night
}

// before reads how findings that one side lacks went on the nights before B.
func (c *comparer) before(ctx context.Context, pairs []pair) error {
	if c.store == nil {
		return nil
	}
	variants := make(map[int64]bool)
	var end Night
	for _, p := range pairs {
		if p.b == nil || p.b.variant == 0 || p.b.judged() == 0 {
			continue
		}
		for _, sides := range [][2]*outcomes{{p.a, p.b}, {p.b, p.a}} {
			if sides[0] == nil {
				continue
			}
			for id, x := range sides[0].issues {
				if x.counting > 0 && (sides[1] == nil || sides[1].issues[id] == nil || sides[1].issues[id].counting == 0) {
					variants[p.b.variant], end = true, max(end, p.b.night)
				}
			}
		}
	}
	if len(variants) == 0 {
		return nil
	}
	list, err := c.store.courses(ctx, end-lookBack, end-1, idsOf(variants))
	if err != nil {
		return err
	}
	for _, x := range list {
		c.courses[[2]int64{x.variant, x.testbed}] = x
	}
	return c.store.query(ctx, func(row *sql.Rows) error {
		var k issueNight
		var n int
		err := row.Scan(&k.issue, &k.night, &n)
		c.failed[k] += n
		return err
	}, `SELECT f.issue, r.night, count(DISTINCT r.id) FROM run r CROSS JOIN finding f WHERE f.run = r.id AND
		+r.variant IN (`+numbers(idsOf(variants))+`) AND r.night >= $1 AND r.night < $2 AND r.verdict = 1 AND
		f.severity = 1 AND f.expected = 0 AND f.waiver IS NULL GROUP BY f.issue, r.night`, int64(end-lookBack), int64(end))
}

// cameAndWent reports whether failures were followed by a night without, or nights had both.
func cameAndWent(nights []statistics.Nightly) bool {
	failed := false
	for _, n := range nights {
		if n.Failed > 0 && n.Failed < n.Runs || failed && n.Failed == 0 {
			return true
		}
		failed = n.Failed > 0
	}
	return false
}

// history reads the nights before B from which the usual changes of metrics follow.
func (c *comparer) history(ctx context.Context, pairs []pair) error {
	c.noise = make(map[int64][]float64)
	if c.store == nil {
		return nil
	}
	var candidates []int64
	var end Night
	for _, p := range pairs {
		if p.a == nil || p.b == nil {
			continue
		}
		end = max(end, p.b.night)
		for name, m := range p.b.samples {
			from := p.a.samples[name]
			if from == nil || m.row == 0 && from.row == 0 {
				continue
			}
			if _, test := c.different(m, from); test.Different() {
				candidates = append(candidates, cmp.Or(m.row, from.row))
			}
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	slices.Sort(candidates)
	return c.store.query(ctx, func(row *sql.Rows) error {
		var series int64
		var median float64
		err := row.Scan(&series, &median)
		c.noise[series] = append(c.noise[series], median)
		return err
	}, `SELECT series, median FROM nightly WHERE series IN (`+numbers(candidates)+`) AND night >= $1 AND night < $2
		ORDER BY series, night`, int64(end-lookBack), int64(end))
}

// different reports whether a metric differs beyond chance, and by how much.
func (c *comparer) different(to, from *sample) (change float64, test statistics.Test) {
	if from.median != 0 {
		change = to.median/from.median - 1
	}
	test, ok := c.tests[to]
	if !ok {
		test = statistics.MannWhitney(to.values, from.values)
		c.tests[to] = test
	}
	return change, test
}

func (c *comparer) metrics(p pair) {
	if p.a == nil || p.b == nil || p.b.judged() == 0 || p.a.judged() == 0 {
		return
	}
	for _, name := range sortedKeys(p.a.samples) {
		from, to := p.a.samples[name], p.b.samples[name]
		m := ComparedMetric{Subject: p.b.subject, Name: name, Unit: from.unit, A: from.median, NA: from.n, P: 1}
		if to == nil {
			m.State = NotRun
			c.out.Metrics = append(c.out.Metrics, m)
			continue
		}
		change, test := c.different(to, from)
		noise, known := statistics.Noise(c.noise[cmp.Or(to.row, from.row)])
		switch {
		case test.TooFew && !slices.Equal(from.values, to.values):
			c.out.TooFew++
			continue
		case !test.Different() || known && math.Abs(change) <= noise || !known && math.Abs(change) < leastChange:
			c.out.Alike++
			continue
		}
		m.B, m.NB, m.Change, m.P, m.State = to.median, to.n, change, test.P, New
		if known {
			m.Noise = noise
		}
		if worse := worseBy(m.Unit, change); worse < 0 {
			m.State = Fixed
		}
		c.out.Metrics = append(c.out.Metrics, m)
	}
}

// leastChange is the relative change below which a metric without enough nights of its own has not changed: two nights
// of one lab differ by a few percent. A choice.
const leastChange = 0.05

// worseBy is positive if a change of a metric is for the worse, negative if for the better, 0 if nobody can say.
func worseBy(unit string, change float64) float64 {
	switch unit {
	case "ns":
		return change
	case "bps":
		return -change
	}
	return 0
}
