package report

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
)

// maxPassingRuns bounds the lines of passing runs in a summary. Other runs are always shown.
const maxPassingRuns = 30

const maxSeeds = 8

// SuiteText writes the summary of several runs: a line for each, the counts of verdicts, the violated rules with the
// number of runs, tests whose repeats disagree, and the first run to inspect. Runs of sweeps have their own tables and
// are only counted.
func SuiteText(w io.Writer, reports, swept []*Report, o TextOptions) error {
	s := suite{printer: newPrinter(w, o), reports: reports, swept: swept, names: newNaming(reports), verbose: o.Verbose}
	s.runs()
	s.counts()
	s.rules()
	s.flaky()
	s.next()
	return s.Flush()
}

type suite struct {
	*printer
	reports []*Report
	swept   []*Report // runs of sweeps
	names   naming
	verbose bool
}

func (s *suite) runs() {
	tab := table{columns: []column{{"", false}, {"test", false}, {"repeat", true}, {"seed", true}, {"packets", true},
		{"", false}}, keys: 2}
	passing, hidden := 0, 0
	for _, r := range s.reports {
		if r.Verdict == analyzers.Pass {
			if passing++; passing > maxPassingRuns && !s.verbose {
				hidden++
				continue
			}
		}
		repeat, seed, packets := "", "", ""
		if r.Repeat > 0 {
			repeat = strconv.Itoa(r.Repeat)
		}
		if r.unrun() == "" {
			packets = grouped(r.Packets)
		}
		if r.Testbed != "" && r.unrun() == "" {
			seed = strconv.FormatUint(r.Seed, 10)
		}
		tab.add(cell{r.word(), verdictStyle(r.Verdict)}, cell{s.names.of(r), bold}, cell{repeat, plain},
			cell{seed, plain}, cell{packets, plain}, cell{r.inBrief(), plain})
	}
	if len(tab.rows) > 0 {
		tab.dropEmpty()
		s.table(0, &tab)
	}
	if hidden > 0 {
		s.labelled(0, 0, cell{}, "and "+moreOf(hidden, "passing run"), dim)
	}
}

// testName returns the name of the test, else of its file or directory.
func testName(r *Report) string {
	name := oneLine(r.Name)
	for _, path := range []string{r.File, r.Dir} {
		if name == "" && path != "" {
			name = oneLine(filepath.Base(path))
		}
	}
	return cmp.Or(name, "(no name)")
}

// naming distinguishes tests of the same name: test name → files that have such a test.
type naming map[string][]string

func newNaming(reports []*Report) naming {
	files := make(naming)
	for _, r := range reports {
		if name := testName(r); !slices.Contains(files[name], r.File) {
			files[name] = append(files[name], r.File)
		}
	}
	return files
}

// of returns the name of the test, with its file if another file has a test of that name.
func (n naming) of(r *Report) string {
	name := testName(r)
	if len(n[name]) > 1 && r.File != "" {
		name += " (" + oneLine(r.File) + ")"
	}
	return name
}

// inBrief returns the remark on r in a suite: the reason that it does not pass, or notable events.
func (r *Report) inBrief() string {
	if why := r.unrun(); why != "" {
		return why
	}
	if len(r.Reasons) > 0 {
		text := r.Reasons[0]
		if rules := ruleNames(r.violations()); r.Verdict == analyzers.Fail && len(rules) > 0 {
			text += " (" + strings.Join(rules, ", ") + ")"
		}
		if more := len(r.Reasons) - 1; more > 0 {
			text += ", and " + moreOf(more, "reason")
		}
		return text
	}
	fired := int64(len(r.Events) - len(r.unfired()))
	parts := []string{}
	if len(r.Events) > 0 {
		parts = append(parts, plural(fired, "event")+" fired")
	}
	return strings.Join(append(parts, r.asides()...), ", ")
}

func ruleNames(findings []*Finding) []string {
	var rules []string
	for _, f := range findings {
		rules = append(rules, f.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func (s *suite) counts() {
	n := map[analyzers.Verdict]int64{}
	var refused, wrong, notRun, broken int64
	all := slices.Concat(s.reports, s.swept)
	for _, r := range all {
		switch {
		case r.Refused != "":
			refused++
		case r.Wrong != "":
			wrong++
		case r.NotRun != "":
			notRun++
		case r.Broken:
			broken++
		default:
			n[r.Verdict]++
		}
	}
	s.newline()
	s.styled(plural(int64(len(all))-refused-wrong-notRun, "run"), plain)
	if n := ran(s.swept); n > 0 {
		s.styled(", "+grouped(n)+" of them of sweeps", plain)
	}
	s.styled(": ", plain)
	for i, v := range []analyzers.Verdict{analyzers.Pass, analyzers.Fail, analyzers.Invalid} {
		if i > 0 {
			s.styled(", ", plain)
		}
		st := dim
		if n[v] > 0 {
			st = verdictStyle(v)
		}
		s.styled(grouped(n[v])+" "+string(v), st)
	}
	if broken > 0 {
		s.styled(", ", plain)
		s.styled(plural(broken, "error"), boldYellow)
	}
	if wrong > 0 {
		s.styled("; ", plain)
		s.styled(plural(wrong, "error")+": a file is wrong", boldYellow)
	}
	if notRun > 0 {
		s.styled("; ", plain)
		s.styled(grouped(notRun)+" not run", boldYellow)
	}
	if refused > 0 {
		s.styled("; "+plural(refused, "test")+" refused: not for this testbed", plain)
	}
	s.newline()
}

func ran(reports []*Report) (n int64) {
	for _, r := range reports {
		if r.unrun() == "" {
			n++
		}
	}
	return n
}

// test holds the runs of one test: repeats or points of a sweep.
type test struct {
	name string
	runs []*Report
}

// tests groups the runs by name, in the order of their first run.
func (s *suite) tests() []*test {
	var all []*test
	byName := map[string]*test{}
	for _, r := range s.reports {
		if r.unrun() != "" {
			continue
		}
		name := s.names.of(r)
		if byName[name] == nil {
			byName[name] = &test{name: name}
			all = append(all, byName[name])
		}
		byName[name].runs = append(byName[name].runs, r)
	}
	return all
}

func (s *suite) rules() {
	tab := table{columns: []column{{"", false}, {"", false}, {"", false}}}
	for _, t := range s.tests() {
		n := map[string]int{}
		var rules []string
		for _, r := range t.runs {
			for _, rule := range ruleNames(r.violations()) {
				n[rule]++
				rules = append(rules, rule)
			}
		}
		slices.Sort(rules)
		for _, rule := range slices.Compact(rules) {
			tab.add(cell{rule, red}, cell{fmt.Sprintf("%d of %d", n[rule], len(t.runs)), bold}, cell{"runs of " + t.name, plain})
		}
	}
	if len(tab.rows) > 0 {
		s.section("Rules violated")
		s.table(2, &tab)
	}
}

// flaky lists tests whose runs have different verdicts, with the seeds that do not pass.
func (s *suite) flaky() {
	titled := false
	for _, t := range s.tests() {
		n := map[analyzers.Verdict]int{}
		var seeds []string
		for _, r := range t.runs {
			n[r.Verdict]++
			if r.Verdict != analyzers.Pass {
				seeds = append(seeds, strconv.FormatUint(r.Seed, 10))
			}
		}
		if len(n) < 2 {
			continue
		}
		if !titled {
			s.section("Flaky")
			titled = true
		}
		if len(seeds) > maxSeeds {
			seeds = append(seeds[:maxSeeds], "…")
		}
		s.labelled(2, 2, cell{"-", dim},
			fmt.Sprintf("%s: %d of %d pass, %d fail, %d invalid; seeds that don't pass: %s", t.name,
				n[analyzers.Pass], len(t.runs), n[analyzers.Fail], n[analyzers.Invalid], strings.Join(seeds, ", ")), plain)
	}
}

// next names the first run to inspect: the first failure, else the first invalid run.
func (s *suite) next() {
	var first *Report
	for _, r := range s.reports {
		if r.Verdict == analyzers.Fail {
			first = r
			break
		}
		if r.Verdict != analyzers.Pass && r.unrun() == "" && first == nil {
			first = r
		}
	}
	if first == nil {
		return
	}
	t := textReport{printer: s.printer, Report: &Report{Dir: first.Dir, Next: first.Next}}
	t.steps()
}
