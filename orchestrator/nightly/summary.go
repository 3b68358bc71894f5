package nightly

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/report"
)

// SummarySchema names the format of a summary.
const SummarySchema = "candela.night/v1"

// State is what a night says of a case.
type State string

// States of cases, in the order in which they are listed.
const (
	Failing State = "failing"
	Flaky   State = "flaky"
	Lab     State = "no verdict" // of the lab or of Candela
	Invalid State = "invalid"    // the runs prove nothing about the device
	NotRun  State = "not run"
	Passing State = "passing"
)

func states() []State { return []State{Failing, Flaky, Lab, Invalid, NotRun, Passing} }

// Summary is what a night came to.
type Summary struct {
	Schema   string            `json:"schema"`
	Plan     string            `json:"plan"`
	Night    history.Night     `json:"night"`
	Previous *history.Night    `json:"previous_night"`
	Began    time.Time         `json:"began"`
	Ended    time.Time         `json:"ended"`
	Version  string            `json:"tool_version"`
	Exit     orchestrator.Exit `json:"exit"`
	Dir      string            `json:"dir"`
	History  string            `json:"history"`
	Runs     int               `json:"runs"`
	Counts   map[State]int     `json:"tests"` // by what became of them
	// Errors are for a person: expired quarantines, runs that are not recorded.
	Errors  []string  `json:"errors"`
	Refused []Refused `json:"refused"`
	// Tests are those that do not pass, those that last night did not, and those in quarantine.
	Tests       []Test                      `json:"test_results"`
	Testbeds    []Bed                       `json:"testbeds"`
	Environment []history.EnvironmentChange `json:"environment_changes"` // since the previous night
	Shifts      []history.Shift             `json:"metric_shifts"`       // found this night
	// Unused are quarantines that no test of the night fits.
	Unused []string `json:"unused_quarantines,omitempty"`
}

// Test is what a night says of a case.
type Test struct {
	history.Subject
	State State `json:"state"`
	// Change is new, still, flaky or fixed, compared with the nights before.
	Change     history.State `json:"change,omitempty"`
	Failed     int           `json:"failed"`
	Runs       int           `json:"runs"` // that were judged
	Broken     int           `json:"broken,omitempty"`
	Reasons    []string      `json:"reasons,omitempty"`
	Quarantine string        `json:"quarantine,omitempty"`

	Since *history.Night `json:"since,omitempty"`
	// Suspects say where to look first: device, host, lab, candela, test, or that nothing recorded has changed.
	Suspects []string          `json:"suspects,omitempty"`
	LastGood *history.BlameRun `json:"last_good,omitempty"`
	FirstBad *history.BlameRun `json:"first_bad,omitempty"`
	// Changes is what changed between the last good and the first bad run.
	Changes []history.EnvironmentChange `json:"changes,omitempty"`

	Rules     []string `json:"rules,omitempty"`
	Headline  string   `json:"headline,omitempty"`
	Packets   string   `json:"packets,omitempty"` // of the first finding, in the run's trace
	Run       string   `json:"run_id,omitempty"`
	Dir       string   `json:"dir,omitempty"`
	Show      string   `json:"show,omitempty"`      // command that shows the packet
	Reproduce string   `json:"reproduce,omitempty"` // command that runs the same again
}

// Bed is what a night says of a testbed.
type Bed struct {
	Name   string `json:"testbed"`
	Tests  int    `json:"tests"`
	Runs   int    `json:"runs"`
	Broken int    `json:"broken"`
	Dead   string `json:"given_up,omitempty"`
}

// Bad reports whether a person has to look at t.
func (t *Test) Bad() bool { return t.State != Passing && t.Quarantine == "" }

// Changed reports whether the night differs from the one before.
func (s *Summary) Changed() bool {
	return len(s.Shifts) > 0 || slices.ContainsFunc(s.Tests, func(t Test) bool {
		return t.Change == history.New || t.Change == history.Fixed || t.State == Lab || t.State == NotRun
	}) || len(s.Errors) > 0
}

// state is what the attempts of a case come to.
func (s *state) verdict() State {
	switch {
	case s.failed > 0 && s.passed > 0:
		return Flaky
	case s.failed > 0:
		return Failing
	case s.passed > 0:
		return Passing
	case s.invalid > 0:
		return Invalid
	case s.broken > 0:
		return Lab
	}
	return NotRun
}

// rank orders exit statuses as candela run does.
func worse(a, b orchestrator.Exit) orchestrator.Exit {
	rank := []orchestrator.Exit{orchestrator.ExitPass, orchestrator.ExitInvalid, orchestrator.ExitFail,
		orchestrator.ExitUsage, orchestrator.ExitInfrastructure}
	if slices.Index(rank, b) > slices.Index(rank, a) {
		return b
	}
	return a
}

// exit is what a case contributes to the exit status. A quarantine excuses failures of the device, not of the lab. A
// flaky test fails: a device that violates a rule now and then violates it.
func (s *state) exit(quarantined bool, dead bool) orchestrator.Exit {
	switch s.verdict() {
	case Failing, Flaky:
		if !quarantined {
			return orchestrator.ExitFail
		}
	case Lab:
		return orchestrator.ExitInfrastructure
	case Invalid:
		return orchestrator.ExitInvalid
	case NotRun:
		if dead {
			return orchestrator.ExitInfrastructure
		}
		return orchestrator.ExitInvalid
	case Passing:
	}
	return orchestrator.ExitPass
}

// maxBlamed bounds the questions about one night; whoever has more failing tests looks for one cause.
const maxBlamed = 200

func (n *night) summarise(ctx context.Context) (*Summary, error) {
	s := &Summary{Schema: SummarySchema, Plan: n.Plan.Name, Night: n.date, Began: n.began.UTC(), Ended: n.Now().UTC(),
		Version: n.Version, Dir: n.dir, History: n.Store.Place(), Counts: make(map[State]int), Errors: []string{},
		Refused: n.Refused, Tests: []Test{}, Testbeds: []Bed{}, Environment: []history.EnvironmentChange{},
		Shifts: []history.Shift{}}
	for i := range n.Refused {
		if n.Refused[i].Wrong {
			s.Exit = worse(s.Exit, orchestrator.ExitUsage)
		}
	}
	if n.failure != nil {
		s.Exit = orchestrator.ExitInfrastructure
		s.Errors = append(s.Errors, fmt.Sprintf("runs are not in the results store: %v; record them with\n"+
			"  %s history import %s --history %s", n.failure, n.Command, report.ShellWord(n.dir),
			report.ShellWord(n.Store.Place())))
	}
	n.judge(s)
	if err := n.compare(ctx, s); err != nil {
		s.Exit = orchestrator.ExitInfrastructure
		s.Errors = append(s.Errors, fmt.Sprintf("the night could not be compared with others: %v", err))
	}
	if n.Metrics != nil {
		n.Metrics.night(s)
	}
	return s, ctx.Err()
}

// judge fills in what the attempts of this night come to.
func (n *night) judge(s *Summary) {
	beds := make(map[string]int)
	used := make([]bool, len(n.Plan.Quarantine))
	expired := make(map[int]bool)
	for _, c := range n.states {
		i, ok := beds[c.Bed]
		if !ok {
			i = len(s.Testbeds)
			beds[c.Bed], s.Testbeds = i, append(s.Testbeds, Bed{Name: c.Bed, Dead: n.dead[c.Bed]})
		}
		b := &s.Testbeds[i]
		b.Tests, b.Runs, b.Broken = b.Tests+1, b.Runs+len(c.list), b.Broken+c.broken
		s.Runs += len(c.list)
		q := n.quarantined(c, used, expired)
		v := c.verdict()
		s.Counts[v]++
		s.Exit = worse(s.Exit, c.exit(q != "", n.dead[c.Bed] != ""))
		t := Test{Subject: history.Subject{Key: c.Test.Key(), Test: cmp.Or(c.Test.ID, c.Test.Name), Point: c.Values,
			Testbed: c.Bed, Owner: c.Test.Owner}, State: v, Failed: c.failed, Runs: c.failed + c.passed,
			Broken: c.broken, Quarantine: q}
		t.Reasons = c.reasons(v)
		s.Tests = append(s.Tests, t)
	}
	for i := range n.Plan.Quarantine {
		q := &n.Plan.Quarantine[i]
		switch {
		case expired[i]:
			s.Exit = worse(s.Exit, orchestrator.ExitUsage)
			s.Errors = append(s.Errors, fmt.Sprintf("%s: the quarantine of %s expired on %s (%s): %s has to repair the "+
				"test, or renew the quarantine", q.Where, q.Test, q.Expires, q.Reason, q.Owner))
		case !used[i]:
			s.Unused = append(s.Unused, fmt.Sprintf("%s: no test of this night is %s", q.Where, q.Test))
		}
	}
}

// quarantined returns why the failures of a case are excused on this night; empty: they are not.
func (n *night) quarantined(c *state, used []bool, expired map[int]bool) (reason string) {
	for i := range n.Plan.Quarantine {
		q := &n.Plan.Quarantine[i]
		if !quarantines(q, c.Case) {
			continue
		}
		used[i] = true
		last, err := history.ParseNight(q.Expires)
		if err != nil || n.date > last {
			expired[i] = true
			continue
		}
		reason = fmt.Sprintf("%s, %s, until %s", q.Reason, q.Owner, q.Expires)
	}
	return reason
}

func quarantines(q *config.Quarantine, c *Case) bool {
	if q.Testbed != "" && q.Testbed != c.Bed {
		return false
	}
	return slices.ContainsFunc([]string{c.Test.ID, c.Test.Name, c.Test.Key(), c.Test.Path + "#" + c.Test.Name},
		func(name string) bool { return name != "" && alike(q.Test, name) })
}

// alike reports whether a name fits a pattern in which * is any text. It takes time in proportion to both.
func alike(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	last := parts[len(parts)-1]
	if !strings.HasPrefix(name, parts[0]) || !strings.HasSuffix(name[len(parts[0]):], last) {
		return false
	}
	name = name[len(parts[0]) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}

// reasons are those of the latest attempt that shows the state, or why the case did not run.
func (s *state) reasons(v State) []string {
	want := history.Fail
	switch v {
	case Lab:
		want = history.Broken
	case Invalid:
		want = history.Invalid
	case NotRun:
		return []string{cmp.Or(s.skipped, "it was not reached")}
	case Passing:
		return nil
	case Failing, Flaky:
	}
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].Verdict == want {
			return s.list[i].Reasons
		}
	}
	return nil
}

// compare asks the results store what is new since the last nights, since when, and where to look.
func (n *night) compare(ctx context.Context, s *Summary) error {
	date := n.date
	before := date - 1
	last, err := n.Store.List(ctx, history.Filter{To: &before, Limit: 1})
	if err != nil {
		return err
	}
	fixed := make(map[subject]bool)
	if len(last) > 0 {
		s.Previous = &last[0].Night
		if fixed, err = failedOn(ctx, n.Store, *s.Previous); err != nil {
			return err
		}
		c, err := n.Store.Compare(ctx, "night-"+s.Previous.String(), "night-"+date.String())
		if err != nil && !errors.Is(err, history.ErrUsage) { // nothing of this night was recorded
			return err
		} else if err == nil {
			s.Environment = append(s.Environment, c.Environment...)
		}
		shifts, err := n.Store.Shifts(ctx, history.Window{Last: &date})
		if err != nil {
			return err
		}
		for _, x := range shifts.Shifts {
			if x.Found == date {
				s.Shifts = append(s.Shifts, x)
			}
		}
	}
	owners, err := n.Store.Owners(ctx, history.Window{Last: &date})
	if err != nil {
		return err
	}
	found := make(map[subject]*history.OwnedTest)
	for _, o := range owners.Owners {
		for i := range o.Tests {
			x := &o.Tests[i]
			found[subject{x.Key, x.Point, x.Testbed}] = x
		}
	}
	asked := 0
	var kept []Test
	for i := range s.Tests {
		t := &s.Tests[i]
		at := subject{t.Key, t.Point, t.Testbed}
		if x := found[at]; x != nil && (t.State == Failing || t.State == Flaky) {
			t.Change, t.Since, t.Rules = x.State, &x.Since, x.Rules
			if asked++; asked <= maxBlamed {
				if err := n.explain(ctx, t); err != nil {
					return err
				}
			}
		}
		if t.State == Lab {
			t.Suspects = []string{"lab"}
		}
		if t.State == Passing && fixed[at] {
			t.Change = history.Fixed
		}
		if t.State != Passing || t.Change != "" || t.Quarantine != "" {
			kept = append(kept, *t)
		}
	}
	s.Tests = append([]Test{}, kept...)
	slices.SortStableFunc(s.Tests, func(a, b Test) int { return cmp.Compare(a.order(), b.order()) })
	return nil
}

// order puts first what is new and excused by nothing.
func (t *Test) order() int {
	o := slices.Index(states(), t.State) * 8
	if t.Quarantine != "" {
		o += 1000
	}
	return o + slices.Index([]history.State{history.New, history.Flaky, history.Still, "", history.Fixed}, t.Change)
}

// failedOn returns the tests that failed on a night.
func failedOn(ctx context.Context, s *history.Store, night history.Night) (map[subject]bool, error) {
	owners, err := s.Owners(ctx, history.Window{Last: &night})
	if err != nil {
		return nil, err
	}
	failed := make(map[subject]bool)
	for _, o := range owners.Owners {
		for i := range o.Tests {
			t := &o.Tests[i]
			failed[subject{t.Key, t.Point, t.Testbed}] = true
		}
	}
	return failed, nil
}

// explain finds since when a case fails, what changed then, and where the packet is.
func (n *night) explain(ctx context.Context, t *Test) error {
	const nights = 90
	list, err := n.Store.Blame(ctx, t.Key, t.Testbed, history.Window{Last: &n.date, Nights: nights})
	if err != nil {
		return err
	}
	for i := range list.Blames {
		if b := &list.Blames[i]; b.Point == t.Point && b.Testbed == t.Testbed {
			t.LastGood, t.FirstBad, t.Changes, t.Headline = b.LastGood, b.FirstBad, b.Environment, b.Headline
			t.Suspects = suspects(b)
		}
	}
	fail := history.Fail
	rows, err := n.Store.List(ctx, history.Filter{Tests: []string{t.Key}, Testbed: t.Testbed, Verdict: &fail,
		From: &n.date, To: &n.date})
	if err != nil {
		return err
	}
	slices.Reverse(rows) // the first failure of the night
	for _, row := range rows {
		if row.Point == t.Point {
			return n.locate(ctx, t, row.ID)
		}
	}
	return nil
}

// locate fills in the finding, its packets and the commands for a run.
func (n *night) locate(ctx context.Context, t *Test, id string) error {
	run, err := n.Store.Show(ctx, id)
	if err != nil {
		return err
	}
	t.Run = run.ID
	for _, a := range run.Artefacts {
		if a.Kind == "directory" {
			t.Dir = a.Location
		}
	}
	for _, f := range run.Findings {
		if f.Severity == "violation" && !f.Expected && f.Waiver == "" {
			t.Headline, t.Packets = f.Headline, f.Packets
			break
		}
	}
	if t.Dir == "" {
		return nil
	}
	dir := report.ShellWord(t.Dir)
	if first, _, _ := strings.Cut(t.Packets, ","); first != "" {
		first, _, _ = strings.Cut(first, " ")
		t.Show = fmt.Sprintf("%s trace show %s --around %s", n.Command, dir, first)
	}
	t.Reproduce = fmt.Sprintf("%s run %s", n.Command, report.ShellWord(filepath.Join(t.Dir, "config.yml")))
	return nil
}

// suspects says where to look first, by what changed between the last good and the first bad run.
func suspects(b *history.Blame) (list []string) {
	if b.LastGood == nil || b.FirstBad == nil {
		return []string{"unknown: it passed on none of the nights before"}
	}
	for _, c := range b.Environment {
		component, _, _ := strings.Cut(c.Name, ".")
		switch {
		case c.Name == "tool":
			list = append(list, "candela")
		case component == "injector", strings.HasPrefix(component, "dumper"):
			list = append(list, "lab")
		default:
			list = append(list, "device")
		}
	}
	if !b.ConfigSame {
		list = append(list, "test")
	}
	slices.Sort(list)
	if list = slices.Compact(list); len(list) == 0 {
		list = []string{"unknown: nothing that is recorded has changed"}
	}
	return list
}

// save writes the summary; with it the night is over.
func (n *night) save(s *Summary) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(n.dir, summaryFile)
	if err := os.WriteFile(name+".partial", append(data, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(name+".partial", name)
}
