package workload

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
)

// Pace says how a flow departs from an even rate.
type Pace struct {
	Jitter  float64 // gaps are drawn from 1 - Jitter to 1 + Jitter of the even one
	On, Off clock.Duration
	Random  bool      // times on and off are exponential with these means
	Steps   *[]Step   // rates from instants on; nil: one rate
	Seed    [2]uint64 // of what is drawn
}

// Step is a rate from an instant after the start of the flow on.
type Step struct {
	At   clock.Duration
	Rate clock.BitRate
}

func cbr() Kind {
	return Kind{
		Model: parameter.Model{Name: "cbr",
			Doc: "Flows at a constant bit rate that nothing slows down (raw): with jitter, on and off, or a schedule of " +
				"rates. They join at start-us and leave at stop-us; without packets, bytes or stop-us they are endless.",
			Parameters: parameter.Table{
				{Name: "src", Kind: parameter.Ranges, Required: true, Max: MaxHosts - 1, Doc: "Hosts that send."},
				{Name: "dst", Kind: parameter.Integer, Optional: true, Max: MaxHosts - 1, Doc: "Host that receives; or shift."},
				{Name: "shift", Kind: parameter.Integer, Optional: true, Min: 1, Max: MaxHosts - 1,
					Doc: "Host i sends to host i + shift, modulo the hosts of the topology; or dst."},
				{Name: "count", Kind: parameter.Integer, Default: "1", Min: 1, Max: MaxFlows, Doc: "Flows of each host of src."},
				{Name: "jitter", Kind: parameter.Number, Default: "0", Max: 1,
					Doc: "Gaps between packets are equally likely from 1 - jitter to 1 + jitter times the even gap, and the first " +
						"packet comes within a gap: 0.5 is 50 % more or less."},
				{Name: "on-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 3_600_000_000,
					Doc: "How long a flow sends before it rests for off-us; 0: it never rests."},
				{Name: "off-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 3_600_000_000, Doc: "How long it rests."},
				{Name: "on-off", Kind: parameter.Word, Words: []string{"fixed", "exponential"}, Default: "fixed",
					Doc: "exponential: on-us and off-us are means of times that are drawn."},
				{Name: "rates", Kind: parameter.List, Items: parameter.Table{
					{Name: "at-us", Kind: parameter.Duration, Unit: "us", Required: true, Max: 3_600_000_000,
						Doc: "Instant after the start of the flow."},
					{Name: "gbps", Kind: parameter.Rate, Unit: "Gbps", Required: true, Max: 1600,
						Doc: "Rate from then on; 0: a pause."},
				}, Doc: "Schedule of rates, in the order of time; instead of rate-gbps."},
			}},
		For: Transfer, Transport: "raw", Paced: true, Counts: []string{"count"},
		Sample: "src: 0, dst: 1, rate-gbps: 1, packets: 1",
		Check:  checkCBR, Flows: constant, Single: singleCBR,
	}
}

func checkCBR(v parameter.Values, hosts int) (int, []Problem) {
	src := v.Ranges("src")
	var problems []Problem
	if len(src) > 0 {
		problems = exists("src", slices.Max(src), hosts)
	}
	switch {
	case v.Has("dst") == v.Has("shift"):
		problems = append(problems, Problem{"dst", "needs one of dst and shift", "dst: 3, or shift: 1"})
	case v.Has("dst"):
		problems = append(problems, exists("dst", v.Int("dst"), hosts)...)
		if slices.Contains(src, v.Int("dst")) {
			problems = append(problems, Problem{"dst", fmt.Sprintf("host %d would send to itself", v.Int("dst")),
				"src and dst differ"})
		}
	case hosts > 0 && v.Int("shift")%hosts == 0:
		problems = append(problems, Problem{"shift",
			fmt.Sprintf("by %d every host would send to itself", v.Int("shift")), ""})
	}
	if (v.Duration("on-us") > 0) != (v.Duration("off-us") > 0) {
		problems = append(problems, Problem{"on-us", "needs on-us and off-us", "give both, or neither"})
	}
	return len(src) * v.Int("count"), append(problems, checkRates(v.List("rates"))...)
}

// checkRates checks a schedule.
func checkRates(rates []parameter.Values) (problems []Problem) {
	sends := len(rates) == 0
	for i, r := range rates {
		sends = sends || r.Rate("gbps") > 0
		if i > 0 && r.Duration("at-us") <= rates[i-1].Duration("at-us") {
			problems = append(problems, Problem{"rates", fmt.Sprintf("rate %d does not come after the one before", i),
				"rates are in the order of time"})
		}
		if rate := r.Rate("gbps"); rate > 0 && rate < minRate {
			problems = append(problems, Problem{"rates", fmt.Sprintf("rate %d is too slow", i), "rates start at 0.001 Gb/s"})
		}
	}
	if !sends {
		problems = append(problems, Problem{"rates", "are all 0: nothing would be sent", ""})
	}
	return problems
}

// minRate is the slowest rate of a flow.
const minRate = 1_000_000

// constant returns the flows of each host, one host after the other.
func constant(v parameter.Values, in Scope) []Flow {
	pace := Pace{Jitter: v.Number("jitter"), On: v.Duration("on-us"), Off: v.Duration("off-us"),
		Random: v.Word("on-off") == "exponential"}
	if rates := v.List("rates"); len(rates) > 0 {
		steps := make([]Step, len(rates))
		for i, r := range rates {
			steps[i] = Step{r.Duration("at-us"), r.Rate("gbps")}
		}
		pace.Steps = &steps
	}
	even := pace.Jitter == 0 && pace.Off == 0 && pace.Steps == nil
	var list []Flow
	for _, src := range v.Ranges("src") {
		for range v.Int("count") {
			f := Flow{Kind: Transfer, Src: src}
			if v.Has("dst") {
				f.Dst = v.Int("dst")
			} else {
				f.Dst = (src + v.Int("shift")) % in.Hosts
			}
			if !even {
				own := pace
				own.Seed = in.seeds(paceStream, len(list))
				f.Pace = &own
			}
			list = append(list, f)
		}
	}
	return list
}

// singleCBR is an item for one flow of an item.
func singleCBR(v parameter.Values, f *Flow) (string, parameter.Values) {
	one := v.Clone()
	one.SetRanges("src", [][2]int64{{int64(f.Src), int64(f.Src)}})
	one.SetStep("count", 1)
	return "cbr", one
}
