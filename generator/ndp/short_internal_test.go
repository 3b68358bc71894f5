package ndp

import (
	"runtime"
	"testing"

	"candela.dev/candela/runtimetest"
)

// Of flows of a few packets, of which an overloaded network has hundreds of thousands at once, a sender keeps little.
func TestShortFlowsInFlightHoldLittle(t *testing.T) {
	const flows, packets = 4096, 5
	before := runtimetest.Heap()
	h, err := New(Config{Address: 1, InitialWindow: 30, Payload: 1000, PullGap: 100, Paths: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range flows {
		if _, err := h.Send(Flow{To: 2, Bytes: packets * 1000}); err != nil {
			t.Fatal(err)
		}
	}
	h.HandleTimer(0)
	for p := new(Packet); h.Poll(0, p); {
	}
	held := (runtimetest.Heap() - before) / flows
	if sent := h.Counters().DataSent; sent != flows*packets {
		t.Fatalf("%d packets were sent, want %d", sent, flows*packets)
	}
	if held > 480 {
		t.Errorf("a flow of %d packets in flight holds %d bytes", packets, held)
	}
	t.Log(held)
	runtime.KeepAlive(h)
}
