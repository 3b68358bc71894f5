package lock

import (
	"fmt"
	"math"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
)

// million is the scale of Jain's index.
const million = 1_000_000

// measures are what the judge counts and measures.
type measures struct {
	packets, requests, bySwitch, byServer, rejects, released, buffered, pushed int64
	orders, delays, others, toDatabase                                         int64
	// from the first ACQUIRE to the grant, at the switch
	atSwitch, atServer *analyzers.Distribution
	wait               *analyzers.Distribution // in the queue: without the pipeline
	shares             map[uint16]int64        // grants of tenants
}

func newMeasures() measures {
	return measures{
		atSwitch: analyzers.NewDistribution("lock.latency-switch", analyzers.UnitNS, 0),
		atServer: analyzers.NewDistribution("lock.latency-server", analyzers.UnitNS, 0),
		wait:     analyzers.NewDistribution("lock.wait", analyzers.UnitNS, 0),
		shares:   make(map[uint16]int64),
	}
}

func (m *measures) grant(server bool, of uint16) {
	if server {
		m.byServer++
	} else {
		m.bySwitch++
	}
	m.shares[of]++
}

func (m *measures) latency(server bool, r *request, d *device) {
	if r.arrived == unknown {
		return
	}
	took := r.at.Sub(r.arrived)
	if server {
		m.atServer.Record(took.Nanoseconds())
		return
	}
	m.atSwitch.Record(took.Nanoseconds())
	m.wait.Record(max(0, took-d.Pipeline).Nanoseconds())
}

// jain is Jain's index over the grants of tenants.
func (m *measures) jain() float64 {
	var shares []float64
	for _, n := range m.shares {
		shares = append(shares, float64(n))
	}
	return waterfill.Jain(shares)
}

func (m *measures) metrics() []analyzers.Metric {
	jain := analyzers.NewDistribution("lock.jain", analyzers.UnitCount, 0)
	if x := m.jain(); !math.IsNaN(x) {
		jain.Record(int64(math.Round(x * million)))
	}
	return []analyzers.Metric{m.atSwitch.Metric(), m.atServer.Metric(), m.wait.Metric(), jain.Metric()}
}

func (m *measures) tables(j *Judge) []analyzers.Table {
	seconds := float64(j.now.Sub(j.begun)) / float64(clock.Second)
	row := func(who string, n int64) []string {
		rate := "-"
		if seconds > 0 {
			rate = fmt.Sprintf("%.0f", float64(n)/seconds)
		}
		return []string{who, fmt.Sprint(n), rate}
	}
	rows := [][]string{row("switch", m.bySwitch), row("server", m.byServer)}
	if len(m.shares) > 1 {
		for n := range 1 << 16 {
			if g, ok := m.shares[uint16(n)]; ok {
				rows = append(rows, row(fmt.Sprintf("tenant %d", n), g))
			}
		}
	}
	return []analyzers.Table{{File: "lock-grants", Title: "Grants", Columns: []string{"by", "grants", "per second"},
		Rows: rows}}
}
