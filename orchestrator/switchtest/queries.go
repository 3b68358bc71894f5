package switchtest

import "candela.dev/candela/analyzers"

// queryKey names a query of a run.
type queryKey struct{ item, query int }

// query is what is known of a query some of whose flows are not booked yet.
type query struct {
	left       int // flows that are not booked
	open       bool
	start, end int64 // nanoseconds
}

func newQCT() *analyzers.Distribution {
	return analyzers.NewDistribution("flows.qct", analyzers.UnitNS, 0)
}

// query books a flow of a query. With the last one it reports that the query is over, and how long it took; below 0:
// some of its flows did not finish.
func (s *statistics) query(f *FlowResult) (took int64, over bool) {
	if f.Query == 0 {
		return 0, false
	}
	k := queryKey{f.Item, f.Query}
	q := s.queries[k]
	if q == nil {
		q = &query{left: f.QueryFlows, start: f.StartNS}
		s.queries[k] = q
	}
	q.left--
	q.open = q.open || !f.Finished
	q.start, q.end = min(q.start, f.StartNS), max(q.end, f.StartNS+f.FCTNS)
	if q.left > 0 {
		return 0, false
	}
	delete(s.queries, k)
	if q.open {
		return -1, true
	}
	s.qct.Record(q.end - q.start)
	return q.end - q.start, true
}

// addQuery books a query, which took below 0 if it was not completed.
func (g *group) addQuery(took int64) {
	g.Queries++
	if took >= 0 {
		g.QueriesCompleted++
		g.qct.Record(took)
	}
}
