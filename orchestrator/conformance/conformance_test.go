package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/conformance"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

var update = flag.Bool("update", false, "write configs/conformance/README.md")

func qualify(t *testing.T, profile string, bugs ...string) *conformance.Report {
	t.Helper()
	s := newSuite(t, profile, bugs...)
	return judgeRules(t, s, conformance.Catalogue())
}

func newSuite(t *testing.T, profile string, bugs ...string) *conformance.Suite {
	t.Helper()
	return &conformance.Suite{
		Build:   func(spec testbeds.Spec) (orchestrator.Testbed, error) { return virtual.New(spec) },
		Options: orchestrator.Models(), Profile: profile, Bugs: bugs, Out: t.TempDir(), NoReports: true, Version: "test",
		Command: "candela",
		Wall:    func() time.Time { return time.Unix(0, 0) }, Declared: declared,
	}
}

func declared(profile string) rdma.Latencies {
	p, err := rdma.ProfileByName(profile)
	if err != nil {
		return rdma.Latencies{}
	}
	return p.Latencies()
}

func judgeRules(t *testing.T, s *conformance.Suite, rules []conformance.Rule) *conformance.Report {
	t.Helper()
	r, err := s.Qualify(t.Context(), rules)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func withStatus(r *conformance.Report, s conformance.Status) []string {
	var ids []string
	for i := range r.Results {
		if r.Results[i].Status == s {
			ids = append(ids, r.Results[i].ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestEveryRuleIsComplete(t *testing.T) {
	known := append(orchestrator.Models().Rules, "expect.completion", "expect.retrans.timeout-us",
		"expect.retrans.nack-reaction-us",
		"expect.retrans.nack-generation-us")
	tests, err := conformance.Tests()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	clause := regexp.MustCompile(`^(A17|\d+)(\.\d+)+$|^9\.\d$`)
	rules := conformance.Catalogue()
	if len(rules) < 60 {
		t.Errorf("the catalogue has %d rules, want at least 60", len(rules))
	}
	for _, r := range rules {
		if seen[r.ID] {
			t.Errorf("%s: id used twice", r.ID)
		}
		seen[r.ID] = true
		if !clause.MatchString(r.Clause) {
			t.Errorf("%s: clause %q", r.ID, r.Clause)
		}
		if !strings.HasSuffix(strings.TrimSuffix(r.Statement, ")"), ".") || r.Stimulus == "" || len(r.Verbs) == 0 {
			t.Errorf("%s: lacks a statement, a stimulus or verbs", r.ID)
		}
		if !slices.Contains(tests, r.Test) {
			t.Errorf("%s: there is no test %s", r.ID, r.Test)
		}
		if len(r.Evidence) == 0 || len(r.Judges) == 0 {
			t.Errorf("%s: lacks evidence or judges", r.ID)
		}
		for _, id := range r.Judges {
			if !slices.Contains(known, id) {
				t.Errorf("%s: no analyzer has rule %s", r.ID, id)
			}
		}
	}
}

func TestEveryTestLoadsAndStimulatesSomeRule(t *testing.T) {
	tests, err := conformance.Tests()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		if _, err := conformance.Load(name, orchestrator.Models()); err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(conformance.Catalogue(), func(r conformance.Rule) bool { return r.Test == name }) {
			t.Errorf("no rule uses test %s", name)
		}
	}
}

func TestProfilesShowWhatTheirMechanismsImply(t *testing.T) {
	adaptive := []string{"retry-count-adaptive", "timeout-adaptive"}
	slow := []string{"retry-count-adaptive", "timeout-adaptive", "timeout-not-late"} // a timer of 8 T, and an adaptive one
	for i, c := range []struct {
		profile             string
		failed, unexercised []string
	}{
		{"spec", nil, adaptive},
		{"cx4-lx", slow, nil},
		{"cx5", slow, nil},
		{"cx6-dx", slow, nil},
		{"e810", nil, adaptive},
	} {
		if !runtimetest.Sampled(i) {
			continue
		}
		t.Run(c.profile, func(t *testing.T) {
			t.Parallel()
			r := qualify(t, c.profile)
			if diff := cmp.Diff(c.failed, withStatus(r, conformance.Fail)); diff != "" {
				t.Errorf("failed rules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.unexercised, withStatus(r, conformance.NotExercised)); diff != "" {
				t.Errorf("rules not exercised (-want +got):\n%s", diff)
			}
			if r.Passed+r.Failed < 60 || len(r.Outside) > 0 {
				t.Errorf("%d rules exercised, want at least 60; outside the catalogue: %v", r.Passed+r.Failed, r.Outside)
			}
		})
	}
}

func TestSeededBugsFailTheRulesThatTheyBreak(t *testing.T) {
	for _, c := range []struct {
		bug    string
		failed []string
	}{
		{"cnp-never", []string{"cnp-after-interval", "cnp-scope", "cnp-sent", "cnp-sent-read"}},
		{"pad-missing", []string{"pad-count"}},
		{"late-timeout", []string{"timeout-not-late"}},
		{"msn-not-coalesced", []string{"ack-coalesced-msn"}},
		{"immediate-lost", []string{"retransmit-immediate", "solicited-place"}},
		{"implied-nak-ignored", []string{"implied-nak-ack", "implied-nak-atomic", "implied-nak-read"}},
		{"ack-ignored", []string{"credits-accepted", "everything-completes", "implied-nak-ack", "implied-nak-atomic"}},
	} {
		t.Run(c.bug, func(t *testing.T) {
			if testing.Short() {
				t.Skip("takes half a second for each bug")
			}
			t.Parallel()
			r := qualify(t, "spec", c.bug)
			if diff := cmp.Diff(c.failed, withStatus(r, conformance.Fail)); diff != "" {
				t.Errorf("failed rules (-want +got):\n%s", diff)
			}
			if len(r.Outside) > 0 {
				t.Errorf("outside the catalogue: %v", r.Outside)
			}
		})
	}
}

func rule(t *testing.T, id string) conformance.Rule {
	t.Helper()
	for _, r := range conformance.Catalogue() {
		if r.ID == id {
			return r
		}
	}
	t.Fatalf("there is no rule %s", id)
	return conformance.Rule{}
}

func TestABoundOfTheUserIsJudgedInsteadOfTheProfiles(t *testing.T) {
	rules := []conformance.Rule{rule(t, "nak-latency"), rule(t, "nak-reaction-latency")}
	for _, c := range []struct {
		name          string
		nak, reaction clock.Duration
		declared      func(string) rdma.Latencies
		want          []conformance.Status
	}{
		{"nobody sets one", 0, 0, nil, []conformance.Status{conformance.NotExercised, conformance.NotExercised}},
		{"the profile does", 0, 0, declared, []conformance.Status{conformance.Pass, conformance.Pass}},
		{"a tight one for NAKs", clock.Microsecond, 0, declared, []conformance.Status{conformance.Fail, conformance.Pass}},
		{"a tight one for the reaction", 0, clock.Microsecond, nil,
			[]conformance.Status{conformance.NotExercised, conformance.Fail}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSuite(t, "spec")
			s.MaxNAK, s.MaxReaction, s.Declared = c.nak, c.reaction, c.declared
			r := judgeRules(t, s, rules)
			if got := []conformance.Status{r.Results[0].Status, r.Results[1].Status}; !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestTwoNICsThatPassAloneFailTogether(t *testing.T) {
	rules := []conformance.Rule{rule(t, "no-nak-in-order"), rule(t, "rate-cut"), rule(t, "everything-completes")}
	for _, profile := range []string{"cx5-slow-path", "e810-no-migreq"} {
		if r := judgeRules(t, newSuite(t, profile), rules); !r.OK() {
			t.Errorf("%s against itself: %v fail; outside the catalogue: %v", profile, withStatus(r, conformance.Fail),
				r.Outside)
		}
	}
	s := newSuite(t, "cx5-slow-path")
	s.Peer, s.Role = "e810-no-migreq", config.Responder
	if r := judgeRules(t, s, rules); r.OK() || r.Peer != "e810-no-migreq" || r.Role != "responder" {
		t.Errorf("cx5-slow-path as responder of e810-no-migreq passes %d rules, peer %q, role %q", r.Passed, r.Peer, r.Role)
	}
	s.Role = config.Requester
	if r := judgeRules(t, s, rules); !r.OK() {
		t.Errorf("with the roles changed %v fail, want nothing", withStatus(r, conformance.Fail))
	}
}

func TestReportsNameEveryRule(t *testing.T) {
	r := qualify(t, "spec", "double-nack")
	var text, md, js bytes.Buffer
	if err := r.Text(&text, true); err != nil {
		t.Fatal(err)
	}
	if err := r.Markdown(&md); err != nil {
		t.Fatal(err)
	}
	if err := r.JSON(&js); err != nil {
		t.Fatal(err)
	}
	for _, rule := range conformance.Catalogue() {
		if !strings.Contains(text.String(), rule.ID+": ") || !strings.Contains(md.String(), "| "+rule.ID+" |") {
			t.Errorf("the reports lack %s", rule.ID)
		}
	}
	var back conformance.Report
	if err := json.Unmarshal(js.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &back, cmp.Transformer("empty",
		func(s []string) string { return strings.Join(s, "\n") })); diff != "" {
		t.Errorf("JSON (-written +read):\n%s", diff)
	}
	if r.OK() || !strings.Contains(md.String(), "## Failures") {
		t.Error("a NIC that NAKs twice does not conform")
	}
}

func TestTheIndexOfTheSuiteIsUpToDate(t *testing.T) {
	const file = "../../configs/conformance/README.md"
	want := index(t)
	if *update {
		if err := os.WriteFile(file, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is out of date; go test ./orchestrator/conformance -update writes it (-want +got):\n%s", file, diff)
	}
}

func index(t *testing.T) []byte {
	t.Helper()
	rules := conformance.Catalogue()
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Conformance suite

`+"`candela conform --profile X`"+
		` runs the tests in this directory and judges %d rules: what IBTA volume 1, chapter 9, demands of
reliable connections and annex A17 of RoCEv2, as far as it shows on the wire. A rule passes if the trace proves that its
situation occurred (an event fired, a transition was taken, packets were seen) and none of the judges fired. Without that proof
it is *not exercised*.

The statements are in our words. Clause numbers are those that the analyzers use, from memory and public sources; nobody has compared
them with the text of the specification. After *in* stands the section that holds the rule, where the paragraph is not sure.

| clause | rule | verbs | statement | stimulus | test | judged by |
|---|---|---|---|---|---|---|
`, len(rules))
	for i := range rules {
		r := &rules[i]
		clause := r.Clause
		if r.SectionOnly {
			clause = "in " + clause
		}
		if r.Basis != "" {
			clause += "; " + r.Basis
		}
		stimulus := strings.ReplaceAll(r.Stimulus, "|", `\|`)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | [%s](%s.yml) | %s |\n", clause, r.ID, strings.Join(r.Verbs, ", "),
			strings.ReplaceAll(r.Statement, "*", `\*`), stimulus, r.Test, r.Test, strings.Join(r.Judges, ", "))
	}
	return b.Bytes()
}

// A device that takes its machine down has not qualified: nothing is known of it.
func TestADeviceWhoseRunsComeToNoEndIsNotQualified(t *testing.T) {
	s := newSuite(t, "spec")
	s.Device = &conformance.Device{Name: "a driver that panics on what it is sent"}
	good, builds := s.Build, 0
	s.Build = func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		if builds++; builds > 2 {
			return good(spec)
		}
		return nil, errors.New("the guest's console ends with: kernel panic")
	}
	s.Workers = 1
	report, err := s.Qualify(t.Context(), conformance.Catalogue())
	if err != nil {
		t.Fatal(err)
	}
	if report.Breached() || report.Passed == 0 {
		t.Fatalf("%d rules failed, %d passed: the other runs should be those of a compliant NIC", report.Failed, report.Passed)
	}
	if report.OK() || len(report.Broken) != 1 || !strings.Contains(report.Broken[0].Reason, "kernel panic") {
		t.Errorf("OK %v, broken runs %v; want one, which forbids to call the device qualified", report.OK(), report.Broken)
	}
}

// Only what a testbed cannot do is not exercised. A wrong or unreadable test or testbed description is an error and
// must not pass.
func TestOnlyWhatTheTestbedCannotHaveIsNotExercised(t *testing.T) {
	rules := conformance.Catalogue()[:1]
	for _, tt := range []struct {
		name, bed string
		read      error
		test      string
		wrong     string
	}{
		{"soft-RoCE has no send with invalidate", "kind: vm", nil, "invalidate", ""},
		{"a file that is not there", "", os.ErrNotExist, "invalidate", "read testbed"},
		{"a description that is wrong", "kind: quantum", nil, "invalidate", "quantum"},
		{"a test that is not there", "kind: vm", nil, "invalid", "invalid.yml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSuite(t, "spec")
			s.Device = &conformance.Device{Name: "a device"}
			s.Options.Testbed = "bed.yml"
			s.Options.ReadFile = func(string) ([]byte, error) { return []byte(tt.bed), tt.read }
			rules[0].Test = tt.test
			report, err := s.Qualify(t.Context(), rules)
			switch {
			case tt.wrong != "":
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("error %v, report %+v; want one about %q", err, report, tt.wrong)
				}
			case err != nil:
				t.Error(err)
			case report.NotExercised != len(rules) || report.OK():
				t.Errorf("%d of %d rules not exercised, OK %v", report.NotExercised, len(rules), report.OK())
			}
		})
	}
}
