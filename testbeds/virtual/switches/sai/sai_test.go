package sai_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	model "candela.dev/candela/testbeds/virtual/switches/sai"
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
