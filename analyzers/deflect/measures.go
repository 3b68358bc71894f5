package deflect

import (
	"strconv"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// measures are the distributions that the judge measures.
type measures struct{ path, longer, deflections, queue *analyzers.Distribution }

func newMeasures() measures {
	return measures{
		path:        analyzers.NewDistribution("deflect.path", analyzers.UnitCount, 0),
		longer:      analyzers.NewDistribution("deflect.detour", analyzers.UnitCount, 0),
		deflections: analyzers.NewDistribution("deflect.deflections", analyzers.UnitCount, 0),
		queue:       analyzers.NewDistribution("deflect.queue", analyzers.UnitBytes, 0),
	}
}

func (m *measures) metrics() []analyzers.Metric {
	return []analyzers.Metric{m.path.Metric(), m.longer.Metric(), m.deflections.Metric(), m.queue.Metric()}
}

// delivered measures the path of a packet that has arrived.
func (m *measures) delivered(w *journey) {
	m.path.Record(int64(w.visits))
	m.longer.Record(int64(w.longer))
	m.deflections.Record(int64(w.deflections))
}

// deflected measures what a deflected packet finds where it goes.
func (m *measures) deflected(_ *device, r *trace.Decision) { m.queue.Record(r.Occupancy) }

// tables are what records show of each port.
func (m *measures) tables(j *Judge) []analyzers.Table {
	t := analyzers.Table{File: "deflections", Title: "Deflections and drops by port",
		Columns: []string{"switch", "port", "leads-to", "arrived", "deflected-from", "deflected-to", "no-port", "tail",
			"displaced", "avoidable", "preemptive", "extracted", "bounced-back", "second-or-more"}}
	for _, d := range j.switches {
		for i := range d.total {
			c := &d.total[i]
			if *c == (deflect.PortCounters{}) {
				continue
			}
			to := "switch"
			if host, ok := j.view.HostAt(d.number, i); ok {
				to = "host " + strconv.Itoa(int(host))
			} else if n := j.network; n != nil && d.place >= 0 {
				if peer := n.Peers[d.place][i]; peer >= 0 && n.sees(peer) {
					to = j.view.SwitchName(n.by[peer])
				}
			}
			row := []string{j.view.SwitchName(d.number), strconv.Itoa(i), to}
			for _, v := range []uint64{c.Arrived, c.From, c.To, c.NoPort, c.Tail, c.Displaced, c.Avoidable, c.Preemptive,
				c.Extracted, c.BouncedBack, c.SecondOrMore} {
				row = append(row, strconv.FormatUint(v, 10))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []analyzers.Table{t}
}
