package orchestrator

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/trace"
)

func (r *facts) report(v Verdict) *report.Report {
	t := r.plan.Test
	rep := &report.Report{
		Name: t.Title(), Metadata: MetadataFacts(t.Metadata), File: r.file,
		Testbed: t.Testbed.Name, Seed: t.Seed, Repeat: r.repeat,
		Verdict: v.Verdict, Broken: v.Exit == ExitInfrastructure, Reasons: v.Reasons, PacketIDs: trace.PacketIDsMirror,
		Facts: []report.Fact{
			{Name: "tool", Value: r.version},
			{Name: "config sha256", Value: t.Hash()},
			{Name: "requester", Value: nicFact(t.Requester.NIC.Profile, t.Requester.NIC.Bugs)},
			{Name: "responder", Value: nicFact(t.Responder.NIC.Profile, t.Responder.NIC.Bugs)},
		},
	}
	rep.Notes = r.cableNotes()
	if r.integrity != nil {
		rep.Packets, rep.SpanNS, rep.OriginNS = r.integrity.Packets, r.integrity.EndNS-r.integrity.StartNS,
			r.integrity.StartNS
	}
	for i := range r.hits {
		in := &r.plan.Intents[i]
		event := report.Event{Where: eventPath(in), What: fmt.Sprintf("%s %s", in.Action.Type, in), Hits: r.hits[i]}
		if event.Hits == 0 && r.summary != nil {
			event.Why = r.whyUnfired(in)
		}
		rep.Events = append(rep.Events, event)
	}
	if r.analysis == nil {
		return rep
	}
	rep.Metrics, rep.Coverage, rep.Analyzers = r.analysis.Metrics, r.analysis.Coverage, analyzerNames
	if r.follow == trace.EventNone {
		rep.Trims = r.trimReport()
	}
	rep.Notes, rep.Stories = append(rep.Notes, r.checked.Meta().Notes...), r.summary.stories.lines()
	if note := r.counters.hostDelayNote(t.Testbed.SoftwareHosts()); note != "" {
		rep.Notes = append(rep.Notes, note)
	}
	rep.Unjudged = r.timed().reported
	if s := t.TimeScale; s > 1 {
		rep.Facts = append(rep.Facts, report.Fact{Name: "time scale",
			Value: fmt.Sprintf("%d: the testbed's timeout-floor is %d", s, t.Testbed.Floor())})
	}
	wanted := judgements(&t.Expect)
	for _, f := range r.analysis.Findings {
		finding := report.Finding{Finding: f, Wanted: allows(wanted[f.Analyzer], f.Rule)}
		if f.Severity == analyzers.Violation && !finding.Wanted {
			if w := r.waivers.excuse(t, f.Rule); w != nil {
				finding.Waiver = fmt.Sprintf("%s, %s, until %s", w.Reference, w.Owner, w.Expires)
				rep.Waived++
			}
		}
		rep.Findings = append(rep.Findings, finding)
	}
	for i := range r.connections {
		rep.Connections = append(rep.Connections, r.connectionReport(i))
	}
	return rep
}

func nicFact(profile string, bugs []string) string {
	if len(bugs) == 0 {
		return "model " + profile
	}
	return fmt.Sprintf("model %s with seeded bugs %s", profile, strings.Join(bugs, ", "))
}

func (r *facts) connectionReport(i int) report.Connection {
	c := summarise(r.summary, r.analysis, i+1)
	c.Requester, c.Responder = endpoint(r.connections[i].Requester), endpoint(r.connections[i].Responder)
	c.OK = true
	if r.external() {
		t := r.plan.Connections[i].Traffic[testbeds.Requester]
		c.Traffic = fmt.Sprintf("%v of an application, mtu %d", t.Verbs[0], t.MTU)
		return c // how it ended, the application knows
	}
	c.Traffic = trafficText(r.plan.Connections[i].Traffic)
	var outcomes []string
	for s := range r.generator.Streams {
		stream := &r.generator.Streams[s]
		if stream.Connection != i+1 {
			continue
		}
		side := testbeds.Requester
		if stream.Side == generator.Responder.String() {
			side = testbeds.Responder
		}
		total := r.plan.Connections[i].Traffic[side].Messages
		outcomes = append(outcomes, outcomeOf(stream, total))
		c.OK = c.OK && successes(stream) == total
	}
	c.Outcome = strings.Join(outcomes, "; back: ")
	return c
}

// summarise adds up both directions of a connection; connection counts from 1.
func summarise(s *Summary, a *analyzers.Analysis, connection int) report.Connection {
	c := report.Connection{Index: connection}
	for _, reverse := range []bool{false, true} {
		f := &s.Flows[trace.NewFlowID(connection, reverse)]
		c.Data += f.Data
		c.Resent += f.Resent
		c.Rounds = max(c.Rounds, int64(f.Rounds))
		c.Acks += f.Acks
		c.Naks += f.Naks
		c.RNRs += f.RNRs
		c.CNPs += f.CNPs
		c.Events += f.Events
	}
	c.Timeouts = findMetric(a, "retrans.timer-restarts", connection).Count
	return c
}

func endpoint(e injector.Endpoint) string {
	return fmt.Sprintf("%s qpn %s ipsn %d", e.IP, e.QPN, uint32(e.IPSN))
}

func trafficText(traffic [2]generator.Traffic) string {
	text := oneWay(traffic[testbeds.Requester])
	if back := traffic[testbeds.Responder]; back.Messages > 0 {
		text += ", both ways"
	}
	return text
}

func oneWay(t generator.Traffic) string {
	verbs := make([]string, len(t.Verbs))
	for i, v := range t.Verbs {
		verbs[i] = v.String()
	}
	return fmt.Sprintf("%s %d × %d B, mtu %d", strings.Join(verbs, "/"), t.Messages, t.MessageSize, t.MTU)
}

func (r *facts) next(dir string) []string {
	show := r.command + " trace show " + report.ShellWord(dir) + around(r.analysis)
	var list []string
	if r.integrity != nil { // there is a trace to look at
		list = append(list, show)
	}
	switch {
	case r.plan.Test.Point != nil:
		list = append(list, fmt.Sprintf("%s run %s", r.command, report.ShellWord(filepath.Join(dir, "config.yml"))))
	case r.file != "" && r.testbed != "":
		list = append(list, fmt.Sprintf("%s run --testbed %s %s --seed %d", r.command, report.ShellWord(r.testbed),
			report.ShellWord(r.file), r.plan.Test.Seed))
	case r.file != "":
		list = append(list, fmt.Sprintf("%s run %s --seed %d", r.command, report.ShellWord(r.file), r.plan.Test.Seed))
	}
	return list
}

// around returns the option that shows the packets of the first violation, or else of the first warning.
func around(a *analyzers.Analysis) string {
	if a == nil {
		return ""
	}
	for _, severity := range []analyzers.Severity{analyzers.Violation, analyzers.Warning} {
		for _, f := range a.Findings {
			if f.Severity == severity && len(f.Packets) > 0 && f.Packets[0] < trace.PairSecond {
				return fmt.Sprintf(" --around %d", f.Packets[0])
			}
		}
	}
	return ""
}

// nextOfArchive lists commands that inspect a run unpacked only for analysis, or repeat it.
func (r *facts) nextOfArchive(o AnalyzeOptions) []string {
	file := report.ShellWord(path.Join(o.Inner, traceFile))
	list := []string{fmt.Sprintf("tar -xf %s %s && %s trace show %s%s", report.ShellWord(o.Archive), file, r.command, file,
		around(r.analysis))}
	if o.Inner == "." && r.plan.Test.Testbed.Kind == config.KindVirtual {
		list = append(list, r.command+" replay "+report.ShellWord(o.Archive))
	}
	return list
}
