package config

import "fmt"

// CounterMetric returns what the names of metrics that are counters of a side's NIC start with.
func CounterMetric(s Side) string { return fmt.Sprintf("counters.%s.", s) }

// storedMetrics are the metrics that the results store has of NIC tests. A test of package orchestrator holds them
// against what runs measure.
func storedMetrics() []StoredMetric {
	list := []StoredMetric{
		{Metric: "retrans.nack-generation", Worse: WorseMore, Doc: "From the first out-of-order packet to the NAK."},
		{Metric: "retrans.nack-reaction", Worse: WorseMore, Doc: "From the NAK to the retransmission."},
		{Metric: "retrans.retransmission", Worse: WorseMore, Doc: "From the lost packet to its retransmission."},
		{Metric: "retrans.timeout", Worse: WorseMore, Doc: "From the last transmission to the retransmission by timeout."},
		{Metric: "retrans.rnr-delay", Worse: WorseMore, Doc: "From the RNR NAK to the retransmission."},
		{Metric: "retrans.nack-generation.corrected", Worse: WorseMore,
			Doc: "`retrans.nack-generation` without the way to the host and back, with --calibrate."},
		{Metric: "retrans.nack-reaction.corrected", Worse: WorseMore,
			Doc: "`retrans.nack-reaction` without the way to the host and back, with --calibrate."},
		{Metric: "cnp.interval", Doc: "Between two CNPs of a connection."},
		{Metric: "cnp.latency", Worse: WorseMore, Doc: "From a packet with CE to its CNP."},
		{Metric: "rp.reaction", Worse: WorseMore, Doc: "From a CNP to the lower rate."},
		{Metric: "trim.nack-generation", Worse: WorseMore, Doc: "From the trimmed header to the NAK."},
		{Metric: "trim.nack-reaction", Worse: WorseMore, Doc: "From that NAK to the retransmission."},
		{Metric: "trim.recovery", Worse: WorseMore, Doc: "From the trimmed header to the whole packet."},
		{Metric: "traffic.mct", Worse: WorseMore, Doc: "Message completion time."},
	}
	for i := range list {
		list[i].Key = list[i].Metric + "-us"
	}
	list = append(list,
		StoredMetric{Metric: "retrans.timeout.retry-", Key: "retrans.timeout.retry-us", Worse: WorseMore,
			Doc:   "`retrans.timeout` of the first, second, … retry of a packet.",
			Parts: ByRetry},
		StoredMetric{Metric: "traffic.goodput", Key: "traffic.goodput-gbps", Worse: WorseLess,
			Doc: "Bytes of messages that succeeded, over the time from the first post to the last success."})
	for _, m := range []StoredMetric{
		{Metric: "retrans.timer-restarts", Worse: WorseMore, Doc: "Expiries of the ACK timer without progress between."},
		{Metric: "cnp.count", Doc: "CNPs."}, {Metric: "cnp.marked", Doc: "Delivered packets with CE."},
		{Metric: "cnp.predicted.destination-ip", Doc: "CNPs that pacing by destination IP explains."},
		{Metric: "cnp.predicted.ip-pair", Doc: "CNPs that pacing by pair of IPs explains."},
		{Metric: "cnp.predicted.qp", Doc: "CNPs that pacing by QP explains."},
		{Metric: "cnp.predicted.port", Doc: "CNPs that pacing by port explains."},
		{Metric: "trim.size", Doc: "Bytes that trimmed packets keep."},
		{Metric: "counters.judged", Worse: WorseLess, Doc: "Counters of NICs that were compared with the trace."},
	} {
		m.Key = m.Metric
		list = append(list, m)
	}
	for _, s := range []Side{Requester, Responder} {
		list = append(list, StoredMetric{Metric: CounterMetric(s), Key: "counters." + s.String(),
			Doc: fmt.Sprintf("Growth of counters of the %s's NIC.", s), Parts: ByCounter})
	}
	return list
}
