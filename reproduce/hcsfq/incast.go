package hcsfq

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// request is what became of a request for 4.5 MB, in ms.
type request struct {
	Whole    float64 `json:"whole_ms"` // until the last flow has ended
	Flow     float64 `json:"flow_ms"`  // mean of the flows that ended
	Late     int     `json:"unfinished"`
	Timeouts int     `json:"timeouts"`
	Flows    int     `json:"flows"`
}

// requestOnWireMS is how long 4.5 MB take at 1 Gb/s, with 120 bytes of headers for each 1380.
const requestOnWireMS = 36.0 * 1500 / 1380

// requests measures a scheme, by number of flows; each point has so many seeds.
func (l *lab) requests(ctx context.Context, s scheme) (map[int][]*request, error) {
	tests, err := l.Tests(s.file)
	if err != nil {
		return nil, err
	}
	if l.Config.Quick { // the first seed
		first := tests[0].Seed
		var quick []*config.SwitchTest
		for _, t := range tests {
			if t.Seed == first {
				quick = append(quick, t)
			}
		}
		tests = quick
	}
	all := make([]*request, len(tests))
	err = l.Batch(ctx, len(tests), func(i int) error {
		run, r := experiments.NewRun(tests[i], 1), new(request)
		all[i] = r
		if known, err := l.Recall(s.file, &run, r); known || err != nil {
			return err
		}
		err := l.Do(ctx, &run, nil, func(out *orchestrator.Outcome) error {
			return r.read(filepath.Join(out.Dir, "flows.csv"), tests[i])
		})
		if err != nil {
			return err
		}
		return l.Keep(s.file, &run, r)
	})
	if err != nil {
		return nil, err
	}
	by := make(map[int][]*request)
	for _, r := range all {
		by[r.Flows] = append(by[r.Flows], r)
	}
	return by, nil
}

// read takes a request from a table of flows. One that is not complete has taken the whole test.
func (r *request) read(path string, t *config.SwitchTest) error {
	sum, ended := 0.0, 0
	err := experiments.ReadTable(path, []string{"fct_ns", "finished", "timeouts"}, func(fields []string) error {
		timeouts, err := strconv.Atoi(fields[2])
		if err != nil {
			return err
		}
		r.Flows++
		r.Timeouts += timeouts
		if fields[1] != "1" {
			r.Late++
			r.Whole = max(r.Whole, float64(t.Deadline)/float64(ms))
			return nil
		}
		ns, err := strconv.ParseInt(fields[0], 10, 64)
		took := float64(ns) / 1e6
		r.Whole = max(r.Whole, took)
		sum += took
		ended++
		return err
	})
	r.Flow = sum / float64(ended)
	return err
}

// meanOf is the mean over seeds.
func meanOf(list []*request, of func(r *request) float64) float64 {
	var values []float64
	for _, r := range list {
		values = append(values, of(r))
	}
	return experiments.Mean(values)
}

// s3 is an incast: Q14.
func (h setting) s3(ctx context.Context, l *lab) error {
	const set = "Q14: "
	id := "S3" + h.mark
	list := h.schemes("s3")
	measured := make(map[string]map[int][]*request)
	for _, s := range list {
		var err error
		if measured[s.name], err = l.requests(ctx, s); err != nil {
			return err
		}
	}
	whole := func(r *request) float64 { return r.Whole }
	flow := func(r *request) float64 { return r.Flow }
	plots := []comparison.Plot{
		{Name: "fig-3-17" + h.suffix + "-request", Title: "Figure 3-17a: completion of the request", X: "flows",
			Y: "completion time, ms"},
		{Name: "fig-3-17" + h.suffix + "-flow", Title: "Figure 3-17b: completion of flows, mean", X: "flows",
			Y: "completion time, ms"},
	}
	shown := comparison.Unjudged("figure 3-17 gives no numbers").Of(comparison.PaperStatement)
	computed := comparison.FromMechanism("4.5 MB with headers at 1 Gb/s: nothing can be " +
		"faster").Of(comparison.SpecCalibration)
	for _, s := range list {
		lines := []comparison.Series{{Name: s.name}, {Name: s.name}}
		for n := 30; n <= 180; n += 30 {
			r := measured[s.name][n]
			late, timeouts := 0, 0
			for _, of := range r {
				late += of.Late
				timeouts += of.Timeouts
			}
			l.Row(shown, comparison.NewRow(id, fmt.Sprintf("%s%d flows, %s: request", set, n, s.name), "ms", 0, 0, 0,
				meanOf(r, whole)).Noted(fmt.Sprintf("flows %.3g ms on average; %d timeouts, %d flows unfinished in %d seeds",
				meanOf(r, flow), timeouts, late, len(r))))
			l.Row(computed, comparison.NewBound(id, fmt.Sprintf("%s%d flows, %s: request, least of the seeds", set, n, s.name),
				"ms", comparison.AtLeast, requestOnWireMS, 0, least(r)))
			for i, of := range []func(r *request) float64{whole, flow} {
				lines[i].X, lines[i].Y = append(lines[i].X, float64(n)), append(lines[i].Y, meanOf(r, of))
			}
		}
		for i := range plots {
			plots[i].Series = append(plots[i].Series, lines[i])
		}
	}
	stated := h.origin("")
	for n := 120; n <= 180; n += 30 {
		mean := func(name string) float64 { return meanOf(measured[name][n], whole) }
		for _, slower := range []string{"TCP", "DCTCP", "SP-PIFO"} {
			l.Row(stated, comparison.NewBound(id, fmt.Sprintf("%s%d flows, %s beside HCSFQ, order: request", set, n, slower),
				"times", comparison.AtLeast, 1, 0, mean(slower)/mean("HCSFQ")))
		}
		l.Row(h.origin("the source says close; 15 % is ours"),
			comparison.NewRow(id,
				fmt.Sprintf("%s%d flows, HCSFQ beside AFQ: request", set, n), "times", 1, 1, 0.15, mean("HCSFQ")/mean("AFQ")))
	}
	for _, p := range plots {
		l.Plot(p)
	}
	return nil
}

// least returns the fastest request.
func least(list []*request) float64 {
	fastest := list[0].Whole
	for _, r := range list {
		fastest = min(fastest, r.Whole)
	}
	return fastest
}
