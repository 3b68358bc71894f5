package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/trace"
)

// bugViews are the columns of the table: ways to observe a device under test. The first is the run itself, with all its
// knowledge.
var bugViews = []string{mirrorView, "plain", "counted", "pair-named", "hosts-named", "missing", "doubled", "ipsn0"}

// profile is that of the NICs whose bugs are looked for.
const profile = "spec"

// found is how an analysis shows a bug.
type found string

// Ways of showing it.
const (
	byRule  found = "yes"     // a violation of the rule that the bug breaks
	byOther found = "other"   // a violation of another rule
	warned  found = "warning" // a warning
	nothing found = "-"
)

// bugLine is a line of the table.
type bugLine struct {
	bug   rdma.BugInfo
	cells []found
	// alarms are the views in which the same test without the bug is blamed.
	alarms []string
}

func bugs(fl *flag.FlagSet, args []string, out io.Writer) error {
	configs := fl.String("configs", "configs", "directory of the tests that come with Candela")
	only := fl.String("bugs", "", "bugs instead of all, separated by commas")
	page := fl.String("page", "", "file to write the table to instead of standard output")
	if err := fl.Parse(args); err != nil {
		return err
	}
	lines, err := bugLines(*configs, *only)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if len(l.alarms) > 0 {
			return fmt.Errorf("the test of bug %s without the bug: a violation through %s", l.bug.Name,
				strings.Join(l.alarms, ", "))
		}
	}
	if *page != "" {
		var b strings.Builder
		writeTable(&b, lines)
		return os.WriteFile(*page, []byte(b.String()), 0o644)
	}
	writeTable(out, lines)
	return nil
}

// bugLines looks for bugs through every view.
func bugLines(configs, only string) (lines []bugLine, err error) {
	b := newBed(configs)
	defer func() { err = errors.Join(err, b.close()) }()
	for _, bug := range rdma.Catalogue() {
		if only != "" && !slices.Contains(strings.Split(only, ","), bug.Name) {
			continue
		}
		line, err := b.bugLine(bug)
		if err != nil {
			return nil, fmt.Errorf("bug %s: %w", bug.Name, err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func (b *bed) bugLine(bug rdma.BugInfo) (bugLine, error) {
	line := bugLine{bug: bug}
	for _, name := range bugViews {
		v := viewNamed(name)
		cell, err := b.through(bug, v, false)
		if err != nil {
			return line, err
		}
		line.cells = append(line.cells, cell)
		if name == mirrorView {
			continue // candela detect counts its false alarms
		}
		sound, err := b.through(bug, v, true)
		if err != nil {
			return line, err
		}
		if (sound == byRule || sound == byOther) && !rewrites(bug) {
			line.alarms = append(line.alarms, name)
		}
	}
	return line, nil
}

// rewrites reports whether the switch changes packets in the test of a bug, so that their sender seems to have sent two
// versions.
func rewrites(bug rdma.BugInfo) bool {
	return bug.Name == "accepts-opcode-sequence" || bug.Name == "accepts-dma-length"
}

func viewNamed(name string) view {
	return views[slices.IndexFunc(views, func(v view) bool { return v.name == name })]
}

// through runs the test of a bug and analyses what a view shows of it.
func (b *bed) through(bug rdma.BugInfo, v view, sound bool) (found, error) {
	t, err := b.bench.BugTest(bug, profile, sound)
	if err != nil {
		return nothing, err
	}
	if v.equalIPSN {
		t = zeroPSN(t)
	}
	recording, outcome, err := b.run(context.Background(), t)
	if err != nil {
		return nothing, err
	}
	if v.name != mirrorView {
		if outcome, err = watch(v, recording, t, false); err != nil {
			return nothing, err
		}
	}
	return look(bug, v, outcome), nil
}

// watch analyses what a view shows of a recording, given the settings of the queue pairs and, with connections, their
// numbers.
func watch(v view, recording *traffic.Recording, t *config.Test, connections bool) (_ *orchestrator.Outcome,
	err error) {
	dir, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o, err := v.write(rand.New(rand.NewPCG(1, 1)), recording, dir)
	if err != nil {
		return nil, err
	}
	tr := &t.Traffic
	if o.Connections, o.MTU = "", tr.MTU; connections {
		o.Connections = filepath.Join(dir, "connections.json")
		if err := save(o.Connections, recording.WriteConnections); err != nil {
			return nil, err
		}
	}
	o.Settings = trace.Settings{Timeout: &tr.AckTimeout, Retry: &tr.RetryCount, RNRRetry: &tr.RNRRetry}
	outcome, err := orchestrator.Analyze(context.Background(), o)
	if errors.Is(err, orchestrator.ErrInput) { // nothing passed a tap
		return &orchestrator.Outcome{}, nil
	}
	return outcome, err
}

// look says how an outcome shows a bug.
func look(bug rdma.BugInfo, v view, o *orchestrator.Outcome) found {
	if v.name == mirrorView && strings.HasPrefix(bug.Rule, "expect.") && o.Verdict.Exit == orchestrator.ExitPass {
		return byRule // its test expects it
	}
	best := nothing
	if o.Analysis == nil || o.Analysis.Verdict == analyzers.Invalid {
		return best
	}
	for _, f := range o.Analysis.Findings {
		switch {
		case f.Severity == analyzers.Violation && f.Rule == bug.Rule:
			return byRule
		case f.Severity == analyzers.Violation:
			best = byOther
		case f.Severity == analyzers.Warning && best == nothing:
			best = warned
			if v.name == mirrorView && f.Rule == bug.Rule {
				return byRule // a rule that only warns
			}
		}
	}
	return best
}

// whyLost says what a view lacks to show a bug by a violation; "" if unknown.
func whyLost(bug, rule, view string, cell found) string {
	family, _, _ := strings.Cut(rule, ".")
	lone := view != "pair-named" && view != "hosts-named"
	switch {
	case reasonOf[bug] != "" && view != "ipsn0":
		return reasonOf[bug]
	case view == "counted" && olderExplains[bug]:
		return "the connection may be older than the capture (--connections rules that out)"
	case family == "expect":
		return "what a test expects of times and completions is not in a capture"
	case family == "counters":
		return "counters of the NIC are not in a capture"
	case family == "rp", rule == "cnp.missing", rule == "cnp.interval", rule == "cnp.excess", rule == "cnp.disabled":
		return "how congestion control is set is not in a capture"
	case bug == "cnp-unprovoked" && view == "pair-named":
		return "packets may be marked after the second capture"
	case family == "trim":
		return "only the switch knows what it trimmed"
	case severity(rule) == analyzers.Warning:
		return "the rule only warns"
	case strings.HasPrefix(bug, "accepts-foreign"), strings.HasPrefix(bug, "drops-foreign"), bug == "invalidate-ignored":
		return "which remote keys are valid is not in a capture"
	case rule == "gbn.rnr-timer", rule == "fields.dscp", rule == "fields.ecn", bug == "cnp-for-loss",
		rule == "fields.source-port-setting", rule == "fields.flow-label":
		return "what the test configured is not in a capture"
	case bug == "never-acknowledges", bug == "ack-wrong-qp":
		return "no answer shows the queue pair of the other direction (--connections names it)"
	case view == "ipsn0":
		return "which directions belong together does not show"
	case lone && analyzers.UnseenExplains()[rule] && view != "counted":
		return "one or two frames that the capture missed explain it"
	case !lone && rule == "gbn.resend-acknowledged":
		return "how long a host may hold a packet is not known"
	case !lone && cell == warned &&
		(analyzers.UnseenExplains()[rule] || rule == "gbn.read-missing" || rule == "gbn.nak-psn"):
		return "a frame that the second capture missed explains it (--complete rules that out)"
	case lone && responders[rule]:
		return "what reached the responder is not known"
	case lone && requesters[rule]:
		return "what reached the requester is not known"
	}
	return ""
}

// reasonOf says it of bugs whose rule is judged elsewhere.
var reasonOf = map[string]string{
	"payload-changes": "the application may have changed the memory, or the queue pair may have been connected " +
		"anew",
	"atomic-lost":             "something else may have written at the address of the atomics",
	"atomic-executed-again":   "the queue pair may have been connected anew, with the same numbers",
	"atomic-replays-latest":   "the queue pair may have been connected anew, with the same numbers",
	"access-error-as-invalid": "which remote keys are valid is not in a capture",
	"fatal-nak-ignored": "how long a host may hold a packet is not known: the NAK may not have reached the " +
		"requester's transport",
	"early-timeout": "how long a host may hold a packet is not known: it may have been sent long before it " +
		"passed the tap",
	"nack-restarts-neighbour": "how long a host may hold a packet is not known: it may have been sent long before it " +
		"passed the tap",
}

// olderExplains are the bugs that show in the first packets of their tests. If a connection may be older than the
// capture, its endpoints are judged only after their packets have shown their state. With --connections the view
// counted shows each of these bugs.
var olderExplains = map[string]bool{
	"psn-skip": true, "wrap-skips-zero": true, "read-skips-one": true, "read-opcode": true, "read-replay-from-start": true,
	"atomic-twice": true,
}

// severity returns that of a rule.
func severity(rule string) analyzers.Severity {
	for _, r := range orchestrator.Rules() {
		if r.ID == rule {
			return r.Severity
		}
	}
	return analyzers.Violation
}

// responders are the rules that depend on what the responder received, requesters those on what the requester received.
var (
	responders = map[string]bool{
		"gbn.ack-beyond": true, "gbn.ack-missing": true, "gbn.nak-missing": true, "gbn.nak-psn": true, "gbn.nak-repeat": true,
		"gbn.nak-unprovoked": true, "gbn.nak-fatal-missing": true, "gbn.nak-code": true, "gbn.read-missing": true,
		"gbn.rnr-unprovoked": true,
		"gbn.nak-duplicate":  true, "cnp.unprovoked": true, "cnp.wrong-qp": true, "retrans.atomic-replay": true,
		"gbn.ack-decreasing": true,
		"gbn.after-error":    true, "gbn.icrc": true, "gbn.rnr-timer": true, "gbn.msn": true,
	}
	requesters = map[string]bool{
		"gbn.retransmit-first": true, "gbn.round-gap": true, "gbn.timeout-start": true, "gbn.resend-acknowledged": true,
		"gbn.nak-unanswered": true, "gbn.incomplete": true, "retrans.timer-off": true, "gbn.retry-exceeded": true,
	}
)

func writeTable(out io.Writer, lines []bugLine) {
	fmt.Fprint(out, bugsHead)
	fmt.Fprintf(out, "| bug | rule | %s |\n|---|---|%s\n", strings.Join(bugViews, " | "),
		strings.Repeat("---|", len(bugViews)))
	totals := make([]int, len(bugViews))
	for _, l := range lines {
		writeLine(out, l)
		for i, c := range l.cells {
			if c == byRule || c == byOther {
				totals[i]++
			}
		}
	}
	fmt.Fprint(out, "| **violations** | |")
	for _, n := range totals {
		fmt.Fprintf(out, " %d |", n)
	}
	fmt.Fprint(out, "\n\n## Why bugs are not shown\n\n| bug | views | what is not known |\n|---|---|---|\n")
	for _, l := range lines {
		writeReasons(out, l)
	}
}

func writeLine(out io.Writer, l bugLine) {
	fmt.Fprintf(out, "| %s | `%s` |", l.bug.Name, l.bug.Rule)
	for _, c := range l.cells {
		fmt.Fprintf(out, " %s |", c)
	}
	fmt.Fprintln(out)
}

// writeReasons lists, for a bug that the mirror shows, the views that do not show it by a violation, and why.
func writeReasons(out io.Writer, l bugLine) {
	if l.cells[0] != byRule && l.cells[0] != byOther {
		return
	}
	var order []string
	byReason := map[string][]string{}
	for i, c := range l.cells {
		if c == byRule || c == byOther {
			continue
		}
		why := whyLost(l.bug.Name, l.bug.Rule, bugViews[i], c)
		if why == "" {
			why = "**open**: nothing that the view lacks explains it"
		}
		if byReason[why] == nil {
			order = append(order, why)
		}
		byReason[why] = append(byReason[why], bugViews[i])
	}
	for _, why := range order {
		fmt.Fprintf(out, "| %s | %s | %s |\n", l.bug.Name, strings.Join(byReason[why], ", "), why)
	}
}

const bugsHead = `# Seeded bugs through captures

Which bugs of [bugs.md](bugs.md) a capture shows. The test of each bug runs on the virtual testbed with NICs of profile
spec, once with the bug and once without; ` + "`candela analyze`" + ` judges what the taps saw, given the timeout, the
retry counts and the MTU. Without the bug no view may give a violation (but for accepts-opcode-sequence and
accepts-dma-length, in whose tests the switch rewrites packets). Made by ` + "`make bug-views`" + `; a test makes some
of the lines again.

| view | captures |
|---|---|
| mirror | the run itself, with counters, settings and expectations |
| plain | one pcap file at the switch, before its events |
| counted | the same as pcapng, whose statistics count no lost frame |
| pair-named | ` + "`--tap before=… --tap after=…`" + `, microsecond stamps, clocks up to 1 s and 100 ppm apart |
| hosts-named | ` + "`--tap requester=… --tap responder=…`" + `, clocks as above |
| missing | plain, 3 % of the frames missing |
| doubled | plain, every frame twice |
| ipsn0 | plain, three connections, every initial PSN 0 |

yes: a violation of the rule of the bug. other: a violation of another rule. warning: warnings only.

`
