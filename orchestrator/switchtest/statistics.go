package switchtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

// Statistics sums up flows, in memory that does not grow with their number.
type Statistics struct {
	Flows    int64 `json:"flows"`
	Finished int64 `json:"finished"`
	Open     int64 `json:"open"`              // that have an end and did not come to it
	Stopped  int64 `json:"stopped,omitempty"` // that have no end and were stopped
	// CompletedFraction is Finished over the flows that have an end.
	CompletedFraction float64 `json:"completed_fraction"`
	Payload           int64   `json:"payload"`              // bytes that arrived
	OpenPayload       int64   `json:"open_payload"`         // of them those of open flows
	OpenMissing       int64   `json:"open_missing"`         // bytes that open flows lack
	FirstNS           int64   `json:"first_ns"`             // start of the first flow that finished
	LastNS            int64   `json:"last_ns"`              // end of the last one
	Groups            []Group `json:"groups"`               // all, by size, by item
	Dropped           int64   `json:"dropped"`              // packets, where taps see them
	OpenFlows         []Left  `json:"open_flows,omitempty"` // the first of them
	SizeClasses       []int64 `json:"size_class_bytes"`     // upper edges

	edges  []int64
	groups map[groupKey]*group
	order  []groupKey
	values map[string]*analyzers.Distribution // by name in the analysis
	table  []metric
	trips  *analyzers.Distribution

	queries map[queryKey]*query // that are in progress
	qct     *analyzers.Distribution
}

type statistics = Statistics

// Left is a flow that is open at the end.
type Left struct {
	Flow    int   `json:"flow"`
	Bytes   int64 `json:"bytes"`
	Payload int64 `json:"payload"` // bytes that arrived
}

// Group is the flows that have something in common.
type Group struct {
	By              string  `json:"by"` // all, size, item
	Name            string  `json:"name"`
	Flows           int64   `json:"flows"`
	Finished        int64   `json:"finished"`
	Payload         int64   `json:"payload"`
	Sent            int64   `json:"sent"`
	Retransmissions int64   `json:"retransmissions"`
	Timeouts        int64   `json:"timeouts"`
	Reordered       int64   `json:"reordered"`
	FCT             *Spread `json:"fct_ns,omitempty"` // of transfers, and of the flows of queries
	Goodput         *Spread `json:"goodput_bps,omitempty"`
	Slowdown        *Spread `json:"slowdown_permille,omitempty"` // completion times over the ideal ones
	// Fairness is Jain's index of goodput over weight of transfers, to six digits (Jain, Chiu, Hawe: DEC-TR-301, 1984):
	// 1 if each has its share by weight, 1/n if one of n has everything.
	Fairness float64 `json:"fairness,omitempty"`
	// Of queries: a query is completed when all its flows are; QCT is from its start to the end of the last of them.
	Queries          int64   `json:"queries,omitempty"`
	QueriesCompleted int64   `json:"queries_completed,omitempty"`
	QCT              *Spread `json:"qct_ns,omitempty"`
}

// Spread describes values by an HDR histogram of three digits, up to 1000 values exactly.
type Spread struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Min   int64   `json:"min"`
	P50   int64   `json:"p50"`
	P95   int64   `json:"p95"`
	P99   int64   `json:"p99"`
	P999  int64   `json:"p999"`
	Max   int64   `json:"max"`
}

func spreadOf(d *analyzers.Distribution) *Spread {
	if d.Count() == 0 {
		return nil
	}
	least, most := d.Range()
	return &Spread{d.Count(), d.Mean(), least, d.Quantile(0.5), d.Quantile(0.95), d.Quantile(0.99),
		d.Quantile(0.999), most}
}

type groupKey struct {
	by    string
	place int
}

type group struct {
	Group
	fct, goodput, slowdown, qct *analyzers.Distribution
	shares, squares             float64 // sums of goodput over weight, and of its square
}

// maxGroups bounds the groups by item and tenant.
const maxGroups = 256

// openListed is how many open flows are named.
const openListed = 1000

func newStatistics(p *Plan) *statistics {
	s := &statistics{edges: p.Test.SizeClasses, groups: make(map[groupKey]*group), FirstNS: -1,
		values: make(map[string]*analyzers.Distribution), trips: analyzers.NewDistribution("flows.rtt", analyzers.UnitNS, 0),
		queries: make(map[queryKey]*query), qct: newQCT()}
	for _, m := range builtin() {
		if m.ofFlow != nil {
			s.table = append(s.table, m)
			s.values[m.of] = analyzers.NewDistribution("flows."+m.of, m.unit, 0)
		}
	}
	return s
}

// add books a flow.
func (s *statistics) add(f *FlowResult) {
	s.Flows++
	s.Payload += f.Payload
	s.Dropped += f.Dropped
	switch {
	case f.Finished:
		s.Finished++
		if s.FirstNS < 0 || f.StartNS < s.FirstNS {
			s.FirstNS = f.StartNS
		}
		s.LastNS = max(s.LastNS, f.StartNS+f.FCTNS)
	case f.Stopped:
		s.Stopped++
	case !f.endless():
		s.Open++
		s.OpenPayload += f.Payload
		s.OpenMissing += max(0, f.Bytes-f.Payload)
		if len(s.OpenFlows) < openListed {
			s.OpenFlows = append(s.OpenFlows, Left{f.Flow, f.Bytes, f.Payload})
		}
	}
	for i := range s.table {
		if v, ok := s.table[i].ofFlow(f); ok {
			s.values[s.table[i].of].Record(v)
		}
	}
	took, queried := s.query(f)
	add := func(by string, place int, name string) {
		g := s.group(by, place, name)
		g.add(f)
		if queried {
			g.addQuery(took)
		}
	}
	add("all", 0, "")
	if f.Kind == Transfer {
		if place, found := slices.BinarySearch(s.edges, f.Bytes); f.Bytes > 0 {
			if found {
				place++ // an edge is the first size of the class above it
			}
			s.group("size", place, s.sizeClass(place)).add(f)
		}
	}
	if f.Item < maxGroups {
		add("item", f.Item, strconv.Itoa(f.Item))
	}
	if f.Tenant > 0 {
		add("tenant", f.Tenant, strconv.Itoa(f.Tenant))
	}
}

// sizeClass names a class of sizes.
func (s *statistics) sizeClass(place int) string {
	switch {
	case len(s.edges) == 0:
		return "all"
	case place == 0:
		return fmt.Sprintf("below %d B", s.edges[0])
	case place == len(s.edges):
		return fmt.Sprintf("%d B and more", s.edges[place-1])
	}
	return fmt.Sprintf("%d to %d B", s.edges[place-1], s.edges[place]-1)
}

func (s *statistics) group(by string, place int, name string) *group {
	k := groupKey{by, place}
	g := s.groups[k]
	if g == nil {
		g = &group{Group: Group{By: by, Name: name},
			fct:      analyzers.NewDistribution("fct", analyzers.UnitNS, 0),
			goodput:  analyzers.NewDistribution("goodput", analyzers.UnitBPS, 0),
			slowdown: analyzers.NewDistribution("slowdown", analyzers.UnitCount, 0), qct: newQCT()}
		s.groups[k], s.order = g, append(s.order, k)
	}
	return g
}

func (g *group) add(f *FlowResult) {
	g.Flows++
	g.Payload += f.Payload
	g.Sent += f.Sent
	g.Retransmissions += f.Retransmissions
	g.Timeouts += f.Timeouts
	g.Reordered += f.Reordered
	if f.Finished {
		g.Finished++
		if f.Kind == Transfer || f.Query > 0 {
			g.fct.Record(f.FCTNS)
			if f.IdealNS > 0 {
				g.slowdown.Record(permille(f.Slowdown()))
			}
		}
	}
	if f.Kind == Transfer {
		g.goodput.Record(f.GoodputBPS)
		share := float64(f.GoodputBPS)
		if f.Weight > 0 {
			share /= f.Weight
		}
		g.shares, g.squares = g.shares+share, g.squares+share*share
	}
}

// fairness returns Jain's index of what the transfers of a group had by weight; 0: they had nothing.
func (g *group) fairness() float64 {
	if g.squares == 0 {
		return 0
	}
	return math.Round(g.shares*g.shares/(float64(g.goodput.Count())*g.squares)*1e6) / 1e6
}

// permille returns a ratio in thousandths.
func permille(ratio float64) int64 { return int64(math.Round(1000 * ratio)) }

// close completes the document.
func (s *statistics) close() *statistics {
	if ending := s.Finished + s.Open; ending > 0 {
		s.CompletedFraction = float64(s.Finished) / float64(ending)
	}
	rank := []string{"all", "size", "item", "tenant"}
	slices.SortFunc(s.order, func(a, b groupKey) int {
		return cmp.Or(slices.Index(rank, a.by)-slices.Index(rank, b.by), a.place-b.place)
	})
	s.Groups, s.SizeClasses = nil, s.edges
	for _, k := range s.order {
		g := s.groups[k]
		g.FCT, g.Goodput, g.Slowdown = spreadOf(g.fct), spreadOf(g.goodput), spreadOf(g.slowdown)
		g.QCT, g.Fairness = spreadOf(g.qct), g.fairness()
		s.Groups = append(s.Groups, g.Group)
	}
	slices.SortFunc(s.OpenFlows, func(a, b Left) int { return a.Flow - b.Flow })
	return s
}

// sizes returns the groups by size of which something finished, if there are several.
func (s *statistics) sizes() (list []*group) {
	for _, k := range s.order {
		if g := s.groups[k]; k.by == "size" && g.fct.Count() > 0 {
			list = append(list, g)
		}
	}
	if len(list) < 2 {
		return nil
	}
	return list
}

// bySize returns the completion times and slowdowns of each class of sizes as metrics: flows.fct-below-100000-B.
func (s *statistics) bySize() (list []analyzers.Metric) {
	for _, g := range s.sizes() {
		for _, d := range []struct {
			name string
			of   *analyzers.Distribution
		}{{"fct", g.fct}, {"slowdown-permille", g.slowdown}} {
			m := d.of.Metric()
			m.Name = "flows." + d.name + "-" + strings.ReplaceAll(g.Name, " ", "-")
			if m.Count > 0 {
				list = append(list, m)
			}
		}
	}
	return list
}

// linesBySize returns the distributions of completion times of each class of sizes.
func (s *statistics) linesBySize() (list []report.Series) {
	for _, g := range s.sizes() {
		line := report.Series{Name: g.Name}
		points := min(chartPoints, int(g.fct.Count()))
		for q := range points {
			line.Values = append(line.Values, float64(g.fct.Quantile(float64(q+1)/float64(points)))/1e3)
		}
		list = append(list, line)
	}
	return list
}

// kept reports whether there is a result of every flow.
func (d *FlowsDocument) kept() bool {
	return d.Statistics == nil || int64(len(d.Flows)) == d.Statistics.Flows
}

// totals returns the sums over all flows, of a document of an older version from its flows.
func (d *FlowsDocument) totals() *Statistics {
	if d.Statistics == nil {
		s := &Statistics{FirstNS: -1, groups: make(map[groupKey]*group), queries: make(map[queryKey]*query), qct: newQCT()}
		for i := range d.Flows {
			s.add(&d.Flows[i])
		}
		d.Statistics = s
	}
	return d.Statistics
}

// endless reports whether the flow has no end.
func (f *FlowResult) endless() bool { return f.Kind == Transfer && f.Bytes == 0 }
