package generator

import (
	"cmp"
	"slices"
)

// MergeReports merges reports of generators on different machines. Times of different reports are on different clocks,
// so only durations are merged. Percentiles over several reports are exact if every message is listed; otherwise they
// are the largest of the reports'.
func MergeReports(reports []Report) Report {
	all := Report{Schema: ReportSchema, Streams: []StreamReport{}}
	var measured []CompletionTimes
	for _, r := range reports {
		all.Bytes += r.Bytes
		all.GoodputBPS += r.GoodputBPS
		all.Streams = append(all.Streams, r.Streams...)
		if r.Times.Count > 0 {
			measured = append(measured, r.Times)
		}
	}
	slices.SortStableFunc(all.Streams, func(a, b StreamReport) int {
		return cmp.Or(cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.Side, b.Side))
	})
	switch {
	case len(measured) == 1:
		all.Times = measured[0]
	case !slices.ContainsFunc(all.Streams, func(s StreamReport) bool { return s.Truncated }):
		var s summary
		for _, stream := range all.Streams {
			for _, m := range stream.Messages {
				s.add(m)
			}
		}
		all.Times = s.times()
	default:
		all.Times = boundTimes(measured)
	}
	return all
}

// boundTimes merges summaries: counts, extremes and mean are exact, percentiles are upper bounds.
func boundTimes(list []CompletionTimes) CompletionTimes {
	all := CompletionTimes{Min: list[0].Min}
	sum := 0.0
	for _, t := range list {
		all.Count += t.Count
		sum += float64(t.Mean) * float64(t.Count)
		all.Min = min(all.Min, t.Min)
		all.P50, all.P99, all.Max = max(all.P50, t.P50), max(all.P99, t.P99), max(all.Max, t.Max)
	}
	all.Mean = int64(sum / float64(all.Count))
	return all
}
