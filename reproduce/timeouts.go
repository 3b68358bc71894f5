package reproduce

import (
	"context"
	"fmt"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
)

// lossesPerMessage is the number of tail drops per message in figure 5-12.
const lossesPerMessage = 7

func adaptive(t *config.Test) bool { return t.Requester.RoCE.AdaptiveRetrans }

func fixed(t *config.Test) bool { return !adaptive(t) }

// timeouts measures L6: the duration of successive timeouts.
func timeouts(ctx context.Context, l *lab) error {
	results, err := l.runAll(ctx, "fig-5-12.yml")
	if err != nil {
		return err
	}
	for _, n := range []nic{cx5, cx6} {
		mine := of(results, n.profile)
		if n == cx5 {
			adaptiveRows(l, n, byMessage(with(mine, adaptive)))
			l.plot(timeoutPlot(byMessage(with(mine, adaptive)), "fig-5-12a", "CX5, adaptive retransmission"))
			l.plot(timeoutPlot(byMessage(with(mine, fixed)), "fig-5-12b", "CX5, fixed timeout"))
		}
		fixedRows(l, n, byMessage(with(mine, fixed)))
	}
	return nil
}

// byMessage returns the timeouts of each message in milliseconds.
func byMessage(results []*result) [][]float64 {
	all := byPlace(results, timeout)
	var messages [][]float64
	for len(all) >= lossesPerMessage {
		m := make([]float64, lossesPerMessage)
		for i := range m {
			m[i] = all[i] / 1e3
		}
		messages, all = append(messages, m), all[lossesPerMessage:]
	}
	return messages
}

func adaptiveRows(l *lab, n nic, messages [][]float64) {
	const id, tolerance = "L6", 0.05
	const note = "the source does not name the NIC; tolerance ours"
	for m, wants := range [][]float64{
		{5.6, 4.1, 8.4, 16.7, 25.1, 67.1, 134.2}, {267}, {671}, {671}, {671},
	} {
		for i, want := range wants {
			got := at(messages, m, i)
			l.row(comparison.FromConstant("AdaptiveSchedule lists these timeouts"),
				comparison.NewRow(id, fmt.Sprintf("%s adaptive, message %d, timeout %d", n.name, m+1, i+1), "ms", want,
					want, tolerance, got).Noted(note))
		}
	}
}

func fixedRows(l *lab, n nic, messages [][]float64) {
	const id, tolerance = "L6", 0.05
	var first, later []float64
	for _, m := range messages {
		first, later = append(first, m[0]), append(later, m[1:]...)
	}
	l.row(comparison.FromConstant("FirstTimeoutLow and FirstTimeoutHigh"), comparison.NewRow(id,
		n.name+" not adaptive, first timeout of a message (farthest from 300)", "ms", 200, 400, tolerance,
		farthest(first, 300)).Noted("tolerance ours"))
	l.row(comparison.FromConstant("TimeoutFactor"), comparison.NewRow(id,
		n.name+" not adaptive, later timeouts (farthest)", "ms", 537, 537, tolerance,
		farthest(later, 537)).Noted("tolerance ours"))
}

func timeoutPlot(messages [][]float64, name, title string) comparison.Plot {
	p := comparison.Plot{Name: name, Title: title, X: "timeout of the message", Y: "ms"}
	for i, m := range messages {
		p.Series = append(p.Series, comparison.Series{Name: fmt.Sprintf("message %d", i+1), X: upTo(len(m)), Y: m})
	}
	return p
}

// retryLimits measures L7: the retries before the queue pair fails.
func retryLimits(ctx context.Context, l *lab) error {
	results, err := l.runAll(ctx, "table-5-2-first.yml", "table-5-2.yml")
	if err != nil {
		return err
	}
	for _, n := range []struct {
		nic
		adaptive [5]float64
	}{
		{cx4, [5]float64{13, 8, 7, 7, 7}}, {cx5, [5]float64{13, 8, 8, 8, 8}}, {cx6, [5]float64{13, 8, 8, 8, 8}},
	} {
		mine := of(results, n.profile)
		limitRows(l, n.name+" adaptive", n.adaptive, with(mine, adaptive),
			comparison.FromConstant("AdaptiveFreeUpTo and AdaptiveFirstFree, fitted to the table"))
		limitRows(l, n.name+" not adaptive", [5]float64{7, 7, 7, 7, 7}, with(mine, fixed),
			comparison.FromConstant("retry_cnt of the test"))
	}
	return nil
}

func limitRows(l *lab, what string, want [5]float64, results []*result, from comparison.Origin) {
	for _, r := range results {
		m := r.test.Traffic.Messages
		retries := r.count(timeout) - int64(lossesPerMessage*(m-1))
		l.row(from, comparison.NewRow("L7", fmt.Sprintf("%s, retries of message %d until error", what, m), "", want[m-1],
			want[m-1], 0, float64(retries)))
	}
}
