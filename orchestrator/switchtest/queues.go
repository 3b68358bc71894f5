package switchtest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// QueuesSchema names the format of queues.json.
const QueuesSchema = "candela.queues/v1"

// QueuesDocument is queues.json: what queues held over time. Of many queues it lists those that held most on average.
type QueuesDocument struct {
	Schema   string        `json:"schema"`
	Measured string        `json:"measured"` // exact or sampled
	EndNS    int64         `json:"end_ns"`
	Used     int           `json:"used"` // queues that carried a packet
	Queues   []QueueResult `json:"queues"`

	all []QueueResult // by switch, port and queue
}

// QueueResult is what one queue held, in bytes unless it says otherwise, and what became of its packets.
type QueueResult struct {
	Switch      string           `json:"switch"`
	Port        int              `json:"port"` // recirculation ports follow the front ports
	Queue       int              `json:"queue"`
	Mean        float64          `json:"mean_bytes"` // over time
	MeanPackets float64          `json:"mean_packets"`
	P50         int64            `json:"p50_bytes"` // not exceeded half of the time
	P95         int64            `json:"p95_bytes"`
	P99         int64            `json:"p99_bytes"`
	P999        int64            `json:"p999_bytes"`
	Max         int64            `json:"max_bytes"` // an instant counts
	MaxPackets  int64            `json:"max_packets"`
	WaitedNS    int64            `json:"waited_ns"` // how long something waited
	Enqueued    int64            `json:"enqueued"`  // packets
	Dequeued    int64            `json:"dequeued"`
	Dropped     int64            `json:"dropped"`
	Marked      int64            `json:"marked"` // set to CE
	Reasons     map[string]int64 `json:"dropped_by_reason,omitempty"`
	// Series has the mean and the greatest occupancy of stretches of time of equal length, from the start of the run.
	Series *QueueSeries `json:"series,omitempty"`

	of *fabric.Occupancy
}

// QueueSeries is the course of a queue.
type QueueSeries struct {
	StretchNS int64     `json:"stretch_ns"`
	Mean      []float64 `json:"mean_bytes"`
	Max       []int64   `json:"max_bytes"`
}

// Limits of queues.json.
const (
	listedQueues = 256
	drawnQueues  = 32 // with a series
)

// measureQueues begins the measurement.
func (r *run) measureQueues() {
	switch {
	case r.plan.Test.QueueStatistics() == config.QueuesOff:
	case r.plan.live || r.plan.Test.QueueStatistics() == config.QueuesExactly:
		r.net.Meter(true)
	default:
		r.net.Meter(false)
		r.sampling = firstSampling
	}
}

// Samples of queues: the distance doubles when a run has so many.
const (
	firstSampling = clock.Microsecond
	mostSamples   = 2048
)

// simulateTo lets the network run, and looks at its queues on the way if they are sampled.
func (r *run) simulateTo(until clock.Time) error {
	for r.sampling > 0 && r.sampled < until {
		if err := r.net.Run(r.sampled); err != nil {
			return err
		}
		r.net.Sample(r.sampled)
		r.sampled = r.sampled.Add(r.sampling)
		if r.sampled.Sub(0) >= mostSamples*r.sampling {
			r.sampling *= 2
			r.sampled = clock.Time(0).Add((r.sampled.Sub(0) + r.sampling - 1) / r.sampling * r.sampling)
		}
	}
	return r.net.Run(until)
}

// queuesMeasured ends the measurement with the run.
func (r *run) queuesMeasured() {
	if !r.net.Metered() { // not asked for, or the run is repeated to be drawn
		return
	}
	r.sampling = 0
	r.net.Unmeter(r.end)
	doc := &QueuesDocument{Schema: QueuesSchema, Measured: r.plan.Test.QueueStatistics(), EndNS: r.end.Nanoseconds()}
	for i := range devices(r.net) {
		sw := deviceAt(r.net, i)
		ports := sw.Ports()
		if sw.Recirculation(0) != nil {
			ports += sw.Pipelines()
		}
		for port := range ports {
			for q := range sw.Port(port).Queues() {
				if res, used := r.queueResult(i, port, q); used {
					doc.all = append(doc.all, res)
				}
			}
		}
	}
	doc.Used = len(doc.all)
	doc.Queues = slices.Clone(doc.all)
	slices.SortStableFunc(doc.Queues, func(a, b QueueResult) int { return cmp.Compare(b.Mean, a.Mean) })
	doc.Queues = doc.Queues[:min(len(doc.Queues), listedQueues)]
	for i := range doc.Queues[:min(len(doc.Queues), drawnQueues)] {
		doc.Queues[i].Series = seriesOf(doc.Queues[i].of)
	}
	r.queues = doc
}

// queueResult returns what became of a queue, and whether a packet was ever there.
func (r *run) queueResult(device, port, queue int) (res QueueResult, used bool) {
	sw := deviceAt(r.net, device)
	q := sw.Port(port).Queue(queue)
	c := q.Counters()
	o := sw.Port(port).Occupancy(queue)
	res = QueueResult{Switch: sw.Name(), Port: port, Queue: queue, Max: int64(c.MaxBytes), MaxPackets: int64(c.MaxPackets),
		Enqueued: int64(c.Enqueued), Dequeued: int64(c.Dequeued), Dropped: int64(c.Dropped), Marked: int64(c.Marked), of: o}
	if o != nil {
		res.Mean, res.MeanPackets = o.Mean()
		at := func(q float64) int64 { return int64(min(o.Quantile(q), c.MaxBytes)) }
		res.P50, res.P95, res.P99, res.P999 = at(0.5), at(0.95), at(0.99), at(0.999)
		res.WaitedNS = o.Waited().Nanoseconds()
		f := &r.familyAt(device).Family
		for why := fabric.ReasonTail; why < fabric.Reasons; why++ {
			if n := o.Dropped(why); n > 0 {
				if res.Reasons == nil {
					res.Reasons = make(map[string]int64)
				}
				res.Reasons[f.Reason(why).Name] = int64(n)
			}
		}
	}
	return res, c.Enqueued > 0 || c.Dropped > 0
}

func seriesOf(o *fabric.Occupancy) *QueueSeries {
	if o == nil {
		return nil
	}
	points, width := o.Series()
	s := &QueueSeries{StretchNS: width.Nanoseconds()}
	for _, p := range points {
		s.Mean, s.Max = append(s.Mean, p.Mean), append(s.Max, int64(p.Max))
	}
	return s
}

// Write writes the document.
func (d *QueuesDocument) Write(w io.Writer) error { return writeJSON(w, d) }

// queueMetric is a metric with a value of each queue that carried a packet.
func queueMetric(name, of, doc string, value func(q *QueueResult) int64) metric {
	return metric{name: name, worse: config.WorseMore, of: of, unit: analyzers.UnitBytes, scale: 1, doc: doc,
		ofQueues: true,
		sample: func(r *run) []int64 {
			if r.queues == nil {
				return nil
			}
			list := make([]int64, len(r.queues.all))
			for i := range r.queues.all {
				list[i] = value(&r.queues.all[i])
			}
			return list
		}}
}

// writeQueues writes the table of queues and that of their series.
func (r *run) writeQueues() error {
	format := r.plan.Test.Results.Queues()
	if r.queues == nil || format == "" {
		return nil
	}
	if err := writeTable(r.Dir, "queues", format, r.queueColumns(), r.queues.all); err != nil {
		return err
	}
	w, err := newTable(r.Dir, "queue-series", format, stretchColumns())
	if err != nil {
		return err
	}
	for i := range r.queues.all {
		q := &r.queues.all[i]
		if s := seriesOf(q.of); s != nil {
			for j := range s.Mean {
				w.write(&stretch{q, int64(j) * s.StretchNS, s.Mean[j], s.Max[j]})
			}
		}
	}
	return w.close()
}

// reasons returns the names of all reasons for which a device of the run may drop packets, in the order of their codes:
// those of the switches first.
func (r *run) reasons() (names []string) {
	for device := range devices(r.net) {
		for why := fabric.ReasonTail; why < fabric.Reasons; why++ {
			reason := r.familyAt(device).Reason(why)
			if loses(why, reason) && reason.Name != "" && !slices.Contains(names, reason.Name) {
				names = append(names, reason.Name)
			}
		}
	}
	return names
}

// queueColumns are those of queues.csv and queues.parquet: a column for each reason of drops.
func (r *run) queueColumns() []tableColumn[QueueResult] {
	type result = QueueResult
	number := func(name string, of func(q *result) int64) tableColumn[result] {
		return tableColumn[result]{name: name, number: of}
	}
	columns := []tableColumn[result]{
		{name: "switch", text: func(q *result) string { return q.Switch }},
		number("port", func(q *result) int64 { return int64(q.Port) }),
		number("queue", func(q *result) int64 { return int64(q.Queue) }),
		{name: "mean_bytes", real: func(q *result) float64 { return q.Mean }},
		{name: "mean_packets", real: func(q *result) float64 { return q.MeanPackets }},
		number("p50_bytes", func(q *result) int64 { return q.P50 }),
		number("p95_bytes", func(q *result) int64 { return q.P95 }),
		number("p99_bytes", func(q *result) int64 { return q.P99 }),
		number("p999_bytes", func(q *result) int64 { return q.P999 }),
		number("max_bytes", func(q *result) int64 { return q.Max }),
		number("max_packets", func(q *result) int64 { return q.MaxPackets }),
		number("waited_ns", func(q *result) int64 { return q.WaitedNS }),
		number("enqueued", func(q *result) int64 { return q.Enqueued }),
		number("dequeued", func(q *result) int64 { return q.Dequeued }),
		number("dropped", func(q *result) int64 { return q.Dropped }),
		number("marked", func(q *result) int64 { return q.Marked }),
	}
	for _, name := range r.reasons() {
		columns = append(columns, number("dropped_"+strings.ReplaceAll(name, "-", "_"),
			func(q *result) int64 { return q.Reasons[name] }))
	}
	return columns
}

// stretch is a row of queue-series.csv and queue-series.parquet.
type stretch struct {
	queue *QueueResult
	at    int64
	mean  float64
	most  int64
}

func stretchColumns() []tableColumn[stretch] {
	return []tableColumn[stretch]{
		{name: "switch", text: func(s *stretch) string { return s.queue.Switch }},
		{name: "port", number: func(s *stretch) int64 { return int64(s.queue.Port) }},
		{name: "queue", number: func(s *stretch) int64 { return int64(s.queue.Queue) }},
		{name: "t_ns", number: func(s *stretch) int64 { return s.at }},
		{name: "mean_bytes", real: func(s *stretch) float64 { return s.mean }},
		{name: "max_bytes", number: func(s *stretch) int64 { return s.most }},
	}
}

// queuesExpected refuses expectations of queues that are not measured.
func (p *Plan) queuesExpected() error {
	for _, e := range p.Test.Expect.Metrics {
		for _, m := range builtin() {
			if m.name == e.Name && m.ofQueues && p.Test.QueueStatistics() == config.QueuesOff {
				return fmt.Errorf("%s: queues are not measured: set queue-statistics to exact or sampled",
					p.Test.Where("expect."+e.Name))
			}
		}
	}
	return nil
}

// queueChart draws what the queues held that held most.
func (r *run) queueChart() (report.Chart, bool) {
	if r.queues == nil {
		return report.Chart{}, false
	}
	var lines []report.Series
	for i := range r.queues.Queues[:min(len(r.queues.Queues), maxLines)] {
		q := &r.queues.Queues[i]
		if q.Series == nil || q.Mean == 0 {
			continue
		}
		line := report.Series{Name: fmt.Sprintf("%s.port-%d.queue-%d", q.Switch, q.Port, q.Queue), Values: q.Series.Mean}
		for j := range q.Series.Mean {
			line.Times = append(line.Times, float64(int64(j)*q.Series.StretchNS)/1e3)
		}
		lines = append(lines, line)
	}
	return report.Over("Queues", "bytes", lines), len(lines) > 0
}
