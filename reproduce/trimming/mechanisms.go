package trimming

import (
	"context"
	"fmt"
	"strings"

	"candela.dev/candela/reproduce/comparison"
)

// mechanisms are the switches compared in figure 5, in its order.
var mechanisms = [...]string{"ideal", "mod", "dod", "tofino"}

// incast holds the headers of each mechanism for one traffic pattern of figure 5.
type incast struct {
	id       string
	arrivals map[string][]float64 // sorted, us
	delays   map[string][]float64 // sorted, us
	points   map[string]*point
}

// startUp measures one part of figure 5 and plots it.
func startUp(ctx context.Context, l *lab, id, figure, title string) (*incast, error) {
	var files []string
	for _, m := range mechanisms {
		files = append(files, strings.ToLower(id)+"-"+m+".yml")
	}
	points, err := l.measureAll(ctx, files, (*probe).followHeaders)
	if err != nil {
		return nil, err
	}
	in := &incast{id, make(map[string][]float64), make(map[string][]float64), make(map[string]*point)}
	when := comparison.Plot{Name: figure + "-arrival", Title: title + ": arrival of headers", X: "us from the start",
		Y: "share of headers"}
	delay := comparison.Plot{Name: figure + "-delay", Title: title + ": headers in the switch",
		X: "us from packet to header", Y: "share of headers"}
	const steps = 200
	for i, m := range mechanisms {
		in.points[m], in.arrivals[m], in.delays[m] = points[i], points[i].probe.arrivals(), points[i].probe.delays()
		when.Series = append(when.Series, comparison.CDF(m, in.arrivals[m], steps))
		delay.Series = append(delay.Series, comparison.CDF(m, in.delays[m], steps))
	}
	l.plot(when)
	l.plot(delay)
	in.account(l)
	return in, nil
}

// account checks that no packet was lost silently: each sent packet arrived, whole or as a header.
func (in *incast) account(l *lab) {
	missing := 0.0
	for _, m := range mechanisms {
		for _, f := range in.points[m].Flows.Flows {
			missing += float64(f.Sent - f.Whole - f.Headers - f.Returned)
		}
	}
	l.row(follows, comparison.NewRow(in.id, "packets that arrive neither whole nor as a header, all four switches", "",
		0, 0, 0, missing))
}

// later returns how much later headers arrive than on the ideal switch: the mean over the deciles from 10 to 90 %.
func (in *incast) later(m string) float64 {
	sum := 0.0
	for d := 1; d <= 9; d++ {
		share := float64(d) / 10
		sum += quantile(in.arrivals[m], share) - quantile(in.arrivals["ideal"], share)
	}
	return sum / 9
}

// slower returns a quantile of a mechanism's header delays minus that of the ideal switch.
func (in *incast) slower(m string, share float64) float64 {
	return quantile(in.delays[m], share) - quantile(in.delays["ideal"], share)
}

// ratio compares a quantile of two mechanisms' header delays.
func (in *incast) ratio(a, b string, share float64) float64 {
	return quantile(in.delays[a], share) / quantile(in.delays[b], share)
}

// alike is the maximum distance, in us, of arrivals that the source's plots show as one curve: a tenth of the delay
// that mirroring adds.
const alike = 0.1

var (
	similar = comparison.FromChoice("bound ours: the source says similar, or closely tracks")
	latency = comparison.FromConstant("recirculation-ns of mod")
)

func t1(ctx context.Context, l *lab) error {
	in, err := startUp(ctx, l, "T1", "fig-5a", "64 senders to one receiver")
	if err != nil {
		return err
	}
	for _, m := range []string{"dod", "tofino"} {
		l.row(similar, comparison.NewRow(in.id, m+": headers arrive later than on the ideal switch (mean of deciles)", "us",
			-alike, alike, 0.5, in.later(m)))
		p := in.points[m]
		l.row(comparison.Unjudged("the source contradicts itself: a third, or 300 of 6400 Gb/s"), comparison.NewRow(in.id,
			m+": share of trims that were deflected", "%", 6.25, 33, 0, 100*p.counter("trims-deflected")/p.trims()))
	}
	l.row(latency, comparison.NewRow(in.id, "mod: the first header arrives later than on the ideal switch", "us", 1, 1,
		0.15, quantile(in.arrivals["mod"], 0)-quantile(in.arrivals["ideal"], 0)))
	l.row(follows, comparison.NewRow(in.id,
		"mod: headers arrive later than on the ideal switch (mean of deciles)", "us", 1, 1, 0.15, in.later("mod")).
		Noted("the source: 1 us for every header; but 64 headers in a packet's time are 2.7 times what the link carries, "+
			"and their queue hides it"))
	return nil
}

func t2(ctx context.Context, l *lab) error {
	in, err := startUp(ctx, l, "T2", "fig-5c", "64 senders to 16 receivers")
	if err != nil {
		return err
	}
	l.row(latency, comparison.NewRow(in.id, "mod: header delay beyond the ideal switch (median)", "us", 1, 1, 0.15,
		in.slower("mod", 0.5)))
	l.row(comparison.FromChoice("bound ours: the source says \"huge latency\""), comparison.NewBound(in.id,
		"dod: header delay, as a multiple of mod's (median)", "", comparison.AtLeast, 10, 0, in.ratio("dod", "mod", 0.5)))
	l.row(comparison.Unjudged("no number in the source"), comparison.NewRow(in.id,
		"dod: headers that come after the whole incast has", "%", 75, 100, 0, in.lateShare("dod")))
	l.row(comparison.FromChoice("bound and percentile ours: the source says that it tracks mod below the 90th percentile"),
		comparison.NewBound(in.id, "tofino: header delay less mod's (75th percentile)", "us", comparison.AtMost, 0, 0,
			quantile(in.delays["tofino"], 0.75)-quantile(in.delays["mod"], 0.75)))
	l.row(follows, comparison.NewBound(in.id,
		"tofino: header delay, as a multiple of mod's (95th percentile)", "", comparison.AtLeast, 1, 0,
		in.ratio("tofino", "mod", 0.95)).Noted("the source: higher from the 90th percentile on"))
	return nil
}

// lateShare returns the share of headers, in percent, that arrive after the last packet has entered the switch.
func (in *incast) lateShare(m string) float64 {
	const packets, packetMicros = 100, 0.12
	late := 0
	for _, at := range in.arrivals[m] {
		if at > packets*packetMicros+1.5 {
			late++
		}
	}
	return 100 * float64(late) / float64(len(in.arrivals[m]))
}

func t3(ctx context.Context, l *lab) error {
	in, err := startUp(ctx, l, "T3", "fig-5b", "64 senders to 4 receivers")
	if err != nil {
		return err
	}
	fast, slow := in.modes("dod")
	l.row(comparison.FromChoice("bound ours: the source shows two modes"), comparison.NewBound(in.id,
		"dod: delay of deflected headers, as a multiple of that of ingress-trimmed ones (medians)", "", comparison.AtLeast,
		2, 0, slow/fast))
	l.row(similar, comparison.NewRow(in.id, "tofino: header delay beyond the ideal switch (median)", "us", -alike, alike,
		0.5, in.slower("tofino", 0.5)))
	l.row(follows, comparison.NewBound(in.id, "tofino: header delay less mod's (median)",
		"us", comparison.AtMost, 0, 0, quantile(in.delays["tofino"], 0.5)-quantile(in.delays["mod"], 0.5)).
		Noted("the source: slightly faster than mod"))
	share := in.points["tofino"].counter("trims-deflected") / in.points["tofino"].trims()
	l.row(comparison.FromChoice("bound ours: the source says few"), comparison.NewBound(in.id,
		"tofino: share of trims that were deflected", "%", comparison.AtMost, 10, 0, 100*share).
		Noted(fmt.Sprintf("dod deflects %.0f %%",
			100*in.points["dod"].counter("trims-deflected")/in.points["dod"].trims())))
	return nil
}

// modes returns the median delays of headers trimmed in ingress and of deflected ones.
func (in *incast) modes(m string) (ingress, deflected float64) {
	var lists [2]probe
	for _, h := range in.points[m].probe.headers {
		i := 0
		if h.deflected {
			i = 1
		}
		lists[i].headers = append(lists[i].headers, h)
	}
	return quantile(lists[0].delays(), 0.5), quantile(lists[1].delays(), 0.5)
}
