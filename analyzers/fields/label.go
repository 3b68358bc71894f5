package fields

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// labels judges the IPv6 flow labels of the trace. A record has no room for them: package trace lists those that each
// flow carries, by their first packet.
func (a *Analyzer) labels() {
	first := map[trace.FlowID]trace.FlowLabel{}
	for _, l := range a.meta.FlowLabels {
		if int(l.Flow) >= len(a.flows) {
			continue
		}
		if s := a.flows[l.Flow].settings; s != nil && s.FlowLabel != nil {
			if l.Label != *s.FlowLabel {
				a.label(causeFlowLabel(l.Flow, l.Label, *s.FlowLabel), l, *s.FlowLabel, "as its queue pair is set to", l.ID)
			}
			continue
		}
		switch was, seen := first[l.Flow]; {
		case !seen:
			first[l.Flow] = l
		default:
			a.label(causeFlowLabelChanged(l.Flow, was.Label, l.Label), l, was.Label, "as in the packets before", l.ID, was.ID)
		}
	}
}

func (a *Analyzer) label(why cause.Cause, l trace.FlowLabel, want uint32, because string, packets ...uint64) {
	connection := l.Flow.Connection()
	if !a.report.Wants(why.Rule, connection) {
		return
	}
	f := analyzers.Finding{
		Connection: connection, Packets: packets, TimeNS: l.TimeNS, Message: statement(why.Rule),
		Expected: fmt.Sprintf("flow label 0x%05x, %s", want, because), Actual: fmt.Sprintf("flow label 0x%05x", l.Label),
	}
	if a.meta.Kind != trace.KindMirror {
		f.Doubt(analyzers.Warning, " Or a switch before the tap changed it.")
	}
	a.report.Tell(why, f)
}
