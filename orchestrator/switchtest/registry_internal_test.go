package switchtest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

func TestTransportsAreDistinguished(t *testing.T) {
	names, first := map[string]bool{}, map[fabric.Protocol]string{}
	for _, tr := range transports() {
		if names[tr.Name] || tr.Protocol == 0 {
			t.Errorf("%s: the name is there twice, or the protocol missing", tr.Name)
		}
		names[tr.Name] = true
		if other := first[tr.Protocol]; other != "" && (other != "tcp" || tr.Name != "kernel-tcp") { // which share no test
			t.Errorf("%s has the protocol of %s: a packet would not tell whose it is", tr.Name, other)
		} else if other == "" {
			first[tr.Protocol] = tr.Name
		}
		if (tr.Attach == nil) == (tr.Open == nil) || tr.HeaderSize(true)-tr.HeaderSize(false) != 20 {
			t.Errorf("%s: no endpoints, or headers of %d and %d bytes", tr.Name, tr.HeaderSize(false), tr.HeaderSize(true))
		}
		if j := tr.Judge; j != nil && (j.New == nil || j.Recorded == nil || len(j.Rules) == 0) {
			t.Errorf("%s: its judge is not complete", tr.Name)
		}
	}
	if all := transports(); Options().Transports[0].Name != "ndp" || len(Options().Transports) != len(all)-1 {
		t.Errorf("%d of %d transports can be named", len(Options().Transports), len(all))
	}
}

// A column of decisions.csv has a name of its own: readers of tables go by it.
func TestColumnsOfDecisionsAreDistinguished(t *testing.T) {
	for _, f := range families() {
		var file bytes.Buffer
		if _, err := trace.NewDecisionWriter(&file, "csv", f.Decisions, nil); err != nil {
			t.Fatal(err)
		}
		columns := strings.Split(strings.TrimSpace(file.String()), ",")
		slices.Sort(columns)
		if twice := len(columns) - len(slices.Compact(columns)); twice > 0 {
			t.Errorf("family %s: %d columns are there twice: %v", f.Name, twice, file.String())
		}
	}
}

// A metric has one source, and what the analysis has of it a unit and a scale.
func TestMetricsHaveOneSourceEach(t *testing.T) {
	names, titles := map[string]bool{}, map[string]bool{}
	for _, m := range builtin() {
		sources := 0
		for _, has := range []bool{m.ofFlow != nil, m.ofRun != nil, m.sample != nil || m.spread != nil} {
			if has {
				sources++
			}
		}
		if sources != 1 || names[m.name] || m.doc == "" {
			t.Errorf("%s: %d sources, or twice, or not described", m.name, sources)
		}
		if recorded := m.ofRun == nil; recorded != (m.of != "") || recorded != (m.scale != 0) || recorded != (m.unit != "") {
			t.Errorf("%s: name %q, unit %q, scale %v", m.name, m.of, m.unit, m.scale)
		}
		if m.chart != "" && (titles[m.chart] || m.axis == "") {
			t.Errorf("%s: chart %q is there twice, or has no unit", m.name, m.chart)
		}
		names[m.name], titles[m.chart] = true, true
	}
	for _, f := range families() {
		for _, m := range ofFamily(&f) {
			if names[m.name] || m.scale == 0 || m.inAnalysis() != m.of {
				t.Errorf("family %s: metric %s", f.Name, m.name)
			}
			names[m.name] = true
		}
	}
}

// Waivers are of the device that a rule is about.
func TestRulesAreOfTheHostsOrOfTheSwitch(t *testing.T) {
	for rule, want := range map[string]string{
		"ndp.send-without-pull": "ndp", "ndp.silent-loss": "model", "tcp.sack": "tcp", "sai.size": "model",
		"switch.duplicated": "model", "no.such": "model",
	} {
		if got := deviceOf(rule, "model"); got != want {
			t.Errorf("%s is of %s, want %s", rule, got, want)
		}
	}
	var rules []analyzers.Rule
	for _, a := range judgeTable() {
		rules = append(rules, a.rules...)
	}
	if len(rules) != len(Rules()) || len(rules) < 50 {
		t.Errorf("%d rules, %d listed", len(rules), len(Rules()))
	}
}

// Rules that a registered judge checks are in the tables, and so in the reference, and have causes.
func TestRulesOfEveryJudgeAreListedWithTheirCauses(t *testing.T) {
	listed, explained := map[string]bool{}, map[string]bool{}
	for _, r := range orchestrator.SwitchRules() {
		listed[r.ID] = true
	}
	for _, c := range orchestrator.Causes() {
		explained[c.Rule] = true
	}
	for _, a := range judgeTable() {
		for _, r := range a.rules {
			if !listed[r.ID] || !explained[r.ID] {
				t.Errorf("rule %s of %s: listed %v, has a cause %v", r.ID, a.name, listed[r.ID], explained[r.ID])
			}
		}
	}
}

func TestCountersAreWrittenAsAnyJSON(t *testing.T) {
	for _, c := range []map[string]int64{nil, {}, {"switch.port-0.sent": 1 << 60, "flows.sent": -1, "a": 0}} {
		doc := &CountersDocument{Schema: CountersSchema, Counters: c}
		var got, want bytes.Buffer
		if err := doc.Write(&got); err != nil {
			t.Fatal(err)
		}
		if err := writeJSON(&want, doc); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%v\n%s\nwant\n%s", err, &got, &want)
		}
	}
}
