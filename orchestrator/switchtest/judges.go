package switchtest

import (
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
)

// A judge is an analyzer of a run. It sees every packet at every tap.
type judge interface {
	name() string
	observe(at fabric.Point, now clock.Time, p *fabric.Packet)
	// changed is told what a switch is set to from now on.
	changed(now clock.Time, sw int, v parameter.Values)
	finish(r *run) (analyzers.Result, error)
}

// analyzer is what the registry knows of an analyzer.
type analyzer struct {
	name  string
	rules []analyzers.Rule
	// applies says whether a run has anything for it to judge.
	applies func(r *run) bool
	build   func(r *run) (judge, error)
	// ofSwitch says that it judges switches, rather than hosts.
	ofSwitch bool
}

// deviceOf returns the model of those whom a rule is about: that of the switch, or a transport.
func deviceOf(rule, ofSwitch string) string {
	switch analyzer, _, _ := strings.Cut(rule, "."); {
	case analyzer == tcp.Name, analyzer == ndp.Name && !ndp.OfNetwork(ndp.Rule(rule)):
		return analyzer // as the transport is called
	}
	return ofSwitch
}

// judgeTable lists every analyzer of switch tests, in the order of reports.
func judgeTable() []analyzer {
	devices := deviceAnalyzers()
	return slices.Concat(devices[:1], []analyzer{ndpAnalyzer()}, devices[1:len(devices)-1], []analyzer{tcpAnalyzer()}, devices[len(devices)-1:])
}

// AnalyzerNames lists the analyzers of switch tests in the order of reports.
func AnalyzerNames() []string {
	var names []string
	for _, a := range judgeTable() {
		names = append(names, a.name)
	}
	return names
}

// Rules lists every rule that an analyzer of switch tests checks, by analyzer, each with a sorted list.
func Rules() []analyzers.Rule {
	var all []analyzers.Rule
	for _, a := range judgeTable() {
		rules := slices.Clone(a.rules)
		slices.SortStableFunc(rules, func(a, b analyzers.Rule) int { return strings.Compare(a.ID, b.ID) })
		all = append(all, rules...)
	}
	return all
}

// newJudges makes the analyzers that apply to the run.
func newJudges(r *run) ([]judge, error) {
	var all []judge
	for _, a := range judgeTable() {
		if !a.applies(r) {
			continue
		}
		j, err := a.build(r)
		if err != nil {
			return nil, err
		}
		all = append(all, j)
	}
	return all, nil
}
