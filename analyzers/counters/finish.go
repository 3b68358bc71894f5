package counters

import (
	"fmt"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// Finish compares.
func (a *Analyzer) Finish() analyzers.Result {
	report := analyzers.NewReporter(Name, Rules())
	judged := int64(0)
	switch {
	case a.discards(report):
	case !a.meta.EventsKnown:
		add(report, causeNoEvents(), analyzers.Finding{
			Expected: "a trace that shows which packets were delivered",
			Actual:   a.meta.Kind.String() + " trace",
			Message:  "counters are not compared: the trace does not show what the injector did",
		})
	default:
		a.settle()
		for i := range a.input.Hosts {
			judged += a.judge(report, i)
		}
	}
	m := analyzers.NewDistribution("counters.judged", analyzers.UnitCount, 0)
	m.Record(judged)
	return analyzers.Result{Findings: report.Findings(), Metrics: []analyzers.Metric{m.Metric()}}
}

func add(report *analyzers.Reporter, c cause.Cause, f analyzers.Finding) {
	if report.Wants(c.Rule, f.Connection) {
		report.Tell(c, f)
	}
}

// discards reports hosts that discarded packets, after which nothing can be compared.
func (a *Analyzer) discards(report *analyzers.Reporter) bool {
	found := false
	for i := range a.input.Hosts {
		h := &a.input.Hosts[i]
		for _, c := range [...]Counter{TxDiscards, RxDiscards} {
			name := namings[h.Naming][c]
			n, ok := h.Delta(name)
			if !ok || n == 0 {
				continue
			}
			found = true
			add(report, causeDiscards(h.Name, name, n), analyzers.Finding{
				Expected: "0", Actual: fmt.Sprint(n),
				Message: fmt.Sprintf("host %s: %s is not 0, so no counter of this test is compared", h.Name, name),
			})
		}
	}
	return found
}

// settle adds what only the end of the trace shows.
func (a *Analyzer) settle() {
	for f, at := range a.flows {
		if d := &a.duplicates[f]; !d.unsure {
			a.expected[at.to][DuplicateRequest].least += d.served
		}
		if a.stalled[f] || a.tracker.Outstanding(trace.FlowID(f)) {
			// The last expiry of the timer finds no retry left and moves the queue pair to error. A requester that ignores a NAK
			// after all that it sent gets there although the trace shows everything acknowledged.
			a.expected[at.from][LocalAckTimeout].maybe(1)
		}
	}
	for i := range a.input.Hosts {
		h, want := &a.input.Hosts[i], &a.expected[i]
		for c := range want {
			want[c].most = max(want[c].most, want[c].least)
		}
		if h.NPOff {
			want[ECNMarked].least = 0
		}
		want[CNPIgnored] = interval{0, want[CNPHandled].most}
		if n, ok := h.Delta(namings[h.Naming][CNPIgnored]); ok && n > 0 {
			// Both counters together are exact; which of them counts depends on the reaction point.
			want[CNPHandled].least = max(0, want[CNPHandled].least-n)
			want[CNPHandled].most = max(0, want[CNPHandled].most-n)
		}
		if h.RPOff {
			want[CNPHandled].least = 0
		}
	}
}

// movable are the counters that the number or order of arrivals decides.
func movable(c Counter) bool { return c != TxPackets && c != CNPSent && c != RNRSent }

// judge compares one host's counters and returns how many.
func (a *Analyzer) judge(report *analyzers.Reporter, host int) (judged int64) {
	h := &a.input.Hosts[host]
	var missing, skipped []string
	for c := range TxDiscards {
		name := namings[h.Naming][c]
		if name == "" {
			continue
		}
		got, ok := h.Delta(name)
		switch {
		case !ok:
			missing = append(missing, name)
		case got < 0:
			add(report, causeWentBack(h.Name, name, h.Start[name], h.Finish[name]), analyzers.Finding{
				Expected: fmt.Sprintf("at least %d", h.Start[name]), Actual: fmt.Sprint(h.Finish[name]),
				Message: fmt.Sprintf("host %s: %s went back during the test", h.Name, name),
			})
		case a.moved > 0 && movable(c), a.strays > 0 && (c == TxPackets || c == RxPackets || c == CNPSent):
			skipped = append(skipped, name)
		default:
			judged++
			a.compare(report, h, c, got, a.expected[host][c])
		}
	}
	a.notes(report, h, missing, skipped)
	return judged
}

func (a *Analyzer) compare(report *analyzers.Reporter, h *Host, c Counter, got int64, want interval) {
	if got >= want.least && got <= want.most {
		return
	}
	add(report, causeDiffers(c, h.Name, namings[h.Naming][c], got, want), analyzers.Finding{
		Expected: want.String(), Actual: fmt.Sprint(got),
		Message: fmt.Sprintf("host %s: %s counted %d, the trace shows %v", h.Name, namings[h.Naming][c], got, want),
	})
}

// notes reports what was not compared.
func (a *Analyzer) notes(report *analyzers.Reporter, h *Host, missing, skipped []string) {
	if len(missing) > 0 {
		add(report, causeMissing(h.Name, missing), analyzers.Finding{
			Expected: strings.Join(missing, ", "), Actual: "not offered",
			Message: fmt.Sprintf("host %s: %d counters of naming %q are missing", h.Name, len(missing), h.Naming),
		})
	}
	if len(skipped) > 0 {
		add(report, causeSkipped(h.Name, skipped, a.strays, a.moved), analyzers.Finding{
			Expected: "a trace that shows what they should be", Actual: strings.Join(skipped, ", "),
			Message: fmt.Sprintf("host %s: not compared: %d packets of no known connection, %d packets delayed, duplicated, "+
				"reordered or rewritten", h.Name, a.strays, a.moved),
		})
	}
}
