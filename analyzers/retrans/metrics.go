package retrans

import (
	"fmt"

	"candela.dev/candela/analyzers"
)

// kind is one of the analyzer's metrics.
type kind int

const (
	generation kind = iota
	reaction
	retransmission
	timeout
	rnrDelay
	generationCorrected
	reactionCorrected
	expiry     // of the local ACK timer, whatever was lost; its values count the restarts without progress so far
	firstRetry // retry 1; the others follow
)

const (
	maxRetryIndex = 15 // further retries share one metric: no NIC that respects a retry count has that many
	kinds         = int(firstRetry) + maxRetryIndex
)

// retry returns the metric of the n-th timeout of one packet, from 1.
func retry(n int) kind { return firstRetry + kind(min(n, maxRetryIndex)-1) }

// corrected returns the metric without the half RTT of a generation or a reaction.
func (k kind) corrected() kind {
	if k == generation {
		return generationCorrected
	}
	return reactionCorrected
}

// always reports whether the sum over all connections is listed even if empty.
func (k kind) always() bool { return k <= rnrDelay }

// unit returns what the values are.
func (k kind) unit() string {
	if k == expiry {
		return analyzers.UnitCount
	}
	return analyzers.UnitNS
}

func (k kind) String() string {
	switch k {
	case generation:
		return "retrans.nack-generation"
	case reaction:
		return "retrans.nack-reaction"
	case retransmission:
		return "retrans.retransmission"
	case timeout:
		return "retrans.timeout"
	case rnrDelay:
		return "retrans.rnr-delay"
	case generationCorrected:
		return "retrans.nack-generation.corrected"
	case reactionCorrected:
		return "retrans.nack-reaction.corrected"
	case expiry:
		return "retrans.timer-restarts"
	default: // from firstRetry on
		return fmt.Sprintf("retrans.timeout.retry-%d", int(k-firstRetry)+1)
	}
}

// metrics are all distributions, by connection (0: all together) and kind; nil without values.
type metrics [][kinds]*analyzers.Distribution

func newMetrics(connections int) metrics {
	m := make(metrics, connections+1)
	for k := generation; k.always(); k++ {
		m[0][k] = analyzers.NewDistribution(k.String(), k.unit(), 0)
	}
	return m
}

func (m metrics) record(k kind, connection int, value int64) {
	for _, c := range [...]int{0, connection} {
		d := m[c][k]
		if d == nil {
			d = analyzers.NewDistribution(k.String(), k.unit(), c)
			m[c][k] = d
		}
		d.Record(value)
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
