package nightly

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/report"
)

// maxListed is how many tests of a state people see; summary.json has all.
const maxListed = 20

// Headline is the night in one line.
func (s *Summary) Headline() string {
	var parts []string
	fresh := 0
	for i := range s.Tests {
		if t := &s.Tests[i]; t.Bad() && t.Change == history.New {
			fresh++
		}
	}
	for _, state := range states() {
		if n := s.Counts[state]; n > 0 {
			text := fmt.Sprintf("%d %s", n, state)
			if state == Failing && fresh > 0 {
				text += fmt.Sprintf(" (%d new)", fresh)
			}
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		parts = []string{"no test"}
	}
	return fmt.Sprintf("candela %s, night %v: %s", s.Plan, s.Night, strings.Join(parts, ", "))
}

// Text writes the summary for people: what to act on first.
func (s *Summary) Text(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", s.Headline())
	took := s.Ended.Sub(s.Began).Round(time.Second)
	before := "the first night of this store"
	if s.Previous != nil {
		before = "compared with " + s.Previous.String()
	}
	line("%d runs in %v, %s", s.Runs, took, before)
	for _, e := range s.Errors {
		line("\nerror: %s", e)
	}
	for i := range s.Testbeds {
		if bed := &s.Testbeds[i]; bed.Dead != "" {
			line("\ntestbed %s: %s", report.OneLine(bed.Name), report.OneLine(bed.Dead))
		}
	}
	listed, left := make(map[State]int), 0
	for i := range s.Tests {
		t := &s.Tests[i]
		if listed[t.State]++; listed[t.State] > maxListed {
			left++
			continue
		}
		t.text(line)
	}
	if left > 0 {
		line("\n… and %d more tests: %s", left, s.Dir+"/"+summaryFile)
	}
	for i, r := range s.Refused {
		if i == maxListed {
			line("… and %d more", len(s.Refused)-i)
			break
		}
		word := "refused"
		if r.Wrong {
			word = "wrong file"
		}
		line("\n%s: %s", word, r.Reason)
	}
	if len(s.Environment) > 0 {
		line("\nenvironment, changed since the last night")
		for _, c := range s.Environment {
			line("  %s", change(&c, true))
		}
	}
	if len(s.Shifts) > 0 {
		line("\nmetrics that shifted")
		for i, x := range s.Shifts {
			if i == maxListed {
				line("  … and %d more: candela history trend", len(s.Shifts)-i)
				break
			}
			line("  %s on %s: %s %+.1f %% since %v", name(&x.Subject), report.OneLine(x.Testbed),
				cmp.Or(x.Name, "most metrics"), 100*x.Change, x.First)
		}
	}
	for _, u := range s.Unused {
		line("\nwarning: %s", u)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func name(s *history.Subject) string {
	if s.Point != "" {
		return report.OneLine(s.Test + " " + s.Point)
	}
	return report.OneLine(s.Test)
}

func change(c *history.EnvironmentChange, bed bool) string {
	text := fmt.Sprintf("%s %s → %s", c.Name, cmp.Or(c.A, "(none)"), cmp.Or(c.B, "(none)"))
	if bed {
		text = c.Testbed + ": " + text
	}
	return report.OneLine(text)
}

// text writes what a person needs to act on a test.
func (t *Test) text(line func(format string, args ...any)) {
	head := string(t.State)
	if t.Change != "" && string(t.Change) != head {
		head += " (" + string(t.Change) + ")"
	}
	line("\n%s: %s on %s", strings.ToUpper(head[:1])+head[1:], name(&t.Subject), report.OneLine(t.Testbed))
	if t.Quarantine != "" {
		line("  quarantine  %s", report.OneLine(t.Quarantine))
	}
	if t.Owner != "" {
		line("  owner       %s", report.OneLine(t.Owner))
	}
	if t.State == Failing || t.State == Flaky {
		line("  failed      %d of %d runs%s", t.Failed, t.Runs, since(t.Since))
	}
	if t.Headline != "" {
		line("  finding     %s", report.OneLine(strings.Join(t.Rules, " ")+": "+t.Headline))
	} else if len(t.Reasons) > 0 {
		line("  reason      %s", report.OneLine(strings.Join(t.Reasons, "; ")))
	}
	if len(t.Suspects) > 0 {
		line("  suspect     %s", strings.Join(t.Suspects, ", "))
	}
	const most = 5
	for i := range t.Changes {
		if i == most {
			line("              … and %d more", len(t.Changes)-i)
			break
		}
		line("  changed     %s", change(&t.Changes[i], false))
	}
	if t.LastGood != nil && t.FirstBad != nil {
		line("  last good   %v (run %.12s), first bad %v (run %.12s)", t.LastGood.Night, t.LastGood.ID, t.FirstBad.Night,
			t.FirstBad.ID)
	}
	if t.Packets != "" {
		line("  packets     %s of %s", t.Packets, report.OneLine(t.Dir+"/trace.pcap"))
	}
	if t.Show != "" {
		line("  show        %s", t.Show)
	}
	if t.Reproduce != "" {
		line("  reproduce   %s", t.Reproduce)
	}
}

func since(n *history.Night) string {
	if n == nil {
		return ""
	}
	return ", since " + n.String()
}
