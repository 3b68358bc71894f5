package sai_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/generator/parameter"
	model "candela.dev/candela/testbeds/switches/sai"
)

func TestTheParameterTableIsSound(t *testing.T) {
	if err := model.Model().Parameters.Check(); err != nil {
		t.Error(err)
	}
}

func TestAnIncastIsTrimmedAndEveryPacketCounted(t *testing.T) {
	o := run(t, scenario{hosts: 5, set: trimming(), flows: incast(4, 200, 1500)})
	if diff := cmp.Diff([]string(nil), o.rules()); diff != "" {
		t.Errorf("the correct switch is blamed: %v", o.Findings)
	}
	q := o.counters.Ports[0].Queues[1]
	if q.Trim == 0 || q.Trim != q.DroppedPackets || q.TxTrim != q.Trim || q.DroppedTrim != 0 {
		t.Errorf("counters of the trimming queue: %+v", q)
	}
	if q.Trim+q.Packets != 800 {
		t.Errorf("%d trimmed and %d whole of 800", q.Trim, q.Packets)
	}
}

// shaped limits a queue of port 0 to a rate.
func shaped(queue int64, gbps string) func(parameter.Values) {
	return func(v parameter.Values) {
		s := item("shapers", map[string][]int64{"ports": {0}, "queues": {queue}}, "rate-gbps", gbps)
		v.SetList("shapers", append(v.List("shapers"), s))
	}
}

func TestOneSenderCongestsAQueueThatIsHeldToARate(t *testing.T) {
	for _, blind := range []bool{false, true} {
		o := run(t, scenario{hosts: 3, set: trimming(shaped(1, "10")), flows: incast(1, 400, 1500), blind: blind})
		if got := o.rules(); got != nil {
			t.Errorf("the correct switch violates %v: %v", got, o.Findings)
		}
		q := o.counters.Ports[0].Queues[1]
		if q.TxTrim < 300 || q.DroppedTrim != 0 || q.Trim+q.Packets != 400 {
			t.Errorf("a queue of 10 Gb/s under 100 Gb/s: %+v", q)
		}
	}
}

func TestABlockedTrimQueueLosesCopiesWhichTheOriginalsQueueCounts(t *testing.T) {
	set := trimming(shaped(1, "10"), shaped(6, "0.1"), smallTrimQueue)
	o := run(t, scenario{hosts: 3, set: set, flows: incast(1, 400, 1500)})
	if got := o.rules(); got != nil {
		t.Errorf("the correct switch violates %v: %v", got, o.Findings)
	}
	q, trimQueue := o.counters.Ports[0].Queues[1], o.counters.Ports[0].Queues[6]
	if q.DroppedTrim < 200 || q.Trim != q.TxTrim+q.DroppedTrim || trimQueue.DroppedTrim != 0 {
		t.Errorf("queue 1: %+v, trim queue: %+v", q, trimQueue)
	}
}
