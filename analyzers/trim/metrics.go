package trim

import "candela.dev/candela/analyzers"

// kind is one of the analyzer's metrics.
type kind int

const (
	generation kind = iota // trim → NACK
	reaction               // NACK → retransmission
	recovery               // trim → delivered whole
	size                   // bytes left, as entries say
	kinds
)

var kindNames = [kinds]string{"trim.nack-generation", "trim.nack-reaction", "trim.recovery", "trim.size"}

// metrics are all distributions, by connection (0: all together) and kind; nil without values.
type metrics [][kinds]*analyzers.Distribution

func newMetrics(connections int) metrics { return make(metrics, connections+1) }

func (m metrics) record(k kind, connection int, v int64) {
	unit := analyzers.UnitNS
	if k == size {
		unit = analyzers.UnitBytes
	}
	for _, c := range [...]int{0, connection} {
		if m[c][k] == nil {
			m[c][k] = analyzers.NewDistribution(kindNames[k], unit, c)
		}
		m[c][k].Record(v)
	}
}

// list returns the sums first, then the connections in order.
func (m metrics) list() []analyzers.Metric {
	var list []analyzers.Metric
	for c := range m {
		for _, d := range m[c] {
			if d != nil {
				list = append(list, d.Metric())
			}
		}
	}
	return list
}
