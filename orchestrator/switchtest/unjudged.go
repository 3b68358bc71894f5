package switchtest

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
)

// NotJudged lists the rules that are not judged because not everything is seen, and why.
func (p *Plan) NotJudged() []string {
	var list []string
	j := p.Test.Judge
	all := func(rules []analyzers.Rule, why string) {
		for i := range rules {
			list = append(list, rules[i].ID+": "+why)
		}
	}
	if p.shut(p.family) {
		why := "packets that the switch makes are unknown to it (bolt-src)"
		if p.family.RecordsMade {
			why = "needs decision records (`taps: {decisions: csv}`), which show packets that the switch makes (bolt-src)"
		}
		all(p.family.rules, why)
	}
	list = slices.Concat(list, p.withoutRecords(), p.withChanges(), p.onRealFrames())
	if !p.Streamed() {
		return list
	}
	for _, a := range judgeTable() {
		switch t := a.transport; {
		case t != nil && !p.speaks(t):
		case t != nil && j.Flows == 0:
			all(a.rules, "no flows are judged (judge.flows)")
		case t != nil:
			for i := range a.rules {
				if why := p.unseen(t, &a.rules[i]); why != "" {
					list = append(list, a.rules[i].ID+": "+why)
				}
			}
		case a.family != nil && (!p.judges(a.family) || p.shut(a.family)):
		case a.decides && p.Test.Taps.Decisions() == "":
		case !j.Ports.Some():
			all(a.rules, "no ports are seen (judge.ports)")
		case !j.Ports.All:
			all(a.rules, "judged only at switches all of whose ports are seen (judge.ports)")
		}
	}
	return list
}

// withoutRecords lists what decision records would add to the rules of the family, if the test has none.
func (p *Plan) withoutRecords() (list []string) {
	if p.Test.Taps.Decisions() != "" || !p.judges(p.family) || p.shut(p.family) {
		return nil
	}
	for i := range p.family.rules {
		switch r := &p.family.rules[i]; {
		case !p.breaks(r):
		case r.RecordsOnly:
			list = append(list, r.ID+": needs decision records (`taps: {decisions: csv}`), which show "+r.Records)
		case r.Records != "":
			list = append(list, r.ID+": judged from what becomes of packets; decision records would show "+r.Records)
		}
	}
	return list
}

// withChanges lists the rules of the family that are not judged of ports whose links have changed.
func (p *Plan) withChanges() (list []string) {
	if !p.Test.ChangesTrunks() || !p.judges(p.family) || p.shut(p.family) {
		return nil
	}
	for i := range p.family.rules {
		if r := &p.family.rules[i]; r.SteadyLinks && p.breaks(r) {
			list = append(list, r.ID+": not judged of a port once its link has changed (changes)")
		}
	}
	return list
}

// onRealFrames lists the rules of the family that need exact times, if the switch passes on real frames.
func (p *Plan) onRealFrames() (list []string) {
	if !p.live || !p.judges(p.family) || p.shut(p.family) {
		return nil
	}
	for i := range p.family.rules {
		if r := &p.family.rules[i]; r.ExactTimes && p.breaks(r) {
			list = append(list, r.ID+": not judged on real frames, whose times are not exact")
		}
	}
	return list
}

// breaks reports whether a bug of the model breaks a rule: otherwise the rule is not about that model.
func (p *Plan) breaks(r *analyzers.Rule) bool {
	return slices.ContainsFunc(p.model.Bugs, func(b parameter.Bug) bool { return b.Rule == r.ID })
}

// shut reports whether a family is not judged because an option of every model has its switches make packets.
// Records may show them.
func (p *Plan) shut(f *family) bool {
	return f.Closed && p.declared.Bolt.SRC && (!f.RecordsMade || p.Test.Taps.Decisions() == "")
}

// unseen says why a rule about the hosts of a transport is not judged; empty: it is.
func (p *Plan) unseen(t *transport.Transport, rule *analyzers.Rule) string {
	j := p.Test.Judge
	switch {
	case !p.Streamed():
	case j.Flows < config.WholeFlows && rule.Needs != analyzers.NeedsFlow:
		return fmt.Sprintf("needs all packets of a host; %g %% of the flows are judged (judge.flows)",
			float64(j.Flows)*100/config.WholeFlows)
	case !j.Ports.All && p.Test.Outages() && t.Judge.OfNetwork != nil && t.Judge.OfNetwork(rule.ID):
		return "needs what stopped switches lose (judge.ports: all)"
	}
	return ""
}

// seen returns the findings of rules that are judged.
func (p *Plan) seen(t *transport.Transport, findings []analyzers.Finding) []analyzers.Finding {
	return slices.DeleteFunc(findings, func(f analyzers.Finding) bool {
		i := slices.IndexFunc(t.Judge.Rules, func(r analyzers.Rule) bool { return r.ID == f.Rule })
		return i >= 0 && p.unseen(t, &t.Judge.Rules[i]) != ""
	})
}
