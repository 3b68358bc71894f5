package ndp

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
)

// events counts events by kind.
type events [TimedOut + 1]int

func (e *events) NDPEvent(_ clock.Time, what Event) { e[what.Kind]++ }

func TestFinishedConnectionsLeaveAndLateCopiesAreAnswered(t *testing.T) {
	var seen events
	hosts := make([]*Host, 2)
	for i := range hosts {
		var err error
		hosts[i], err = New(Config{Address: Endpoint(i), InitialWindow: 2, Payload: 1000, PullGap: 100, RTO: 1_000_000,
			Paths: 4}, &seen)
		if err != nil {
			t.Fatal(err)
		}
	}
	var late Packet // the first data packet
	now := clock.Time(0)
	const flows, packets = 100, 5
	for range flows {
		if _, err := hosts[0].Send(Flow{To: 1, Bytes: packets * 1000, Start: now}); err != nil {
			t.Fatal(err)
		}
		for range 10 * packets {
			now = now.Add(100)
			for i, h := range hosts {
				h.HandleTimer(now)
				for p := new(Packet); h.Poll(now, p); {
					if late.To == 0 && i == 0 {
						late = *p
					}
					hosts[1-i].HandlePacket(now, p)
				}
			}
		}
	}
	if seen[Received] != flows || seen[Finished] != flows {
		t.Fatalf("%d flows were received and %d finished, of %d", seen[Received], seen[Finished], flows)
	}
	distinct := make(map[*sender]bool)
	for _, s := range hosts[0].senders {
		distinct[s] = true
	}
	if len(distinct) != 1 || len(hosts[1].known) != 0 {
		t.Errorf("%d senders and %d receivers are left of finished flows", len(distinct), len(hosts[1].known))
	}

	var answer Packet
	hosts[1].HandlePacket(now, &late)
	if !hosts[1].Poll(now, &answer) || answer.Header.Kind != ndp.Ack || answer.Header.Counter != packets {
		t.Errorf("a late copy is answered with %+v, not with an ACK of all %d packets", answer.Header, packets)
	}
	if hosts[1].Poll(now, &answer) || seen[Received] != flows || len(hosts[1].known) != 0 {
		t.Errorf("a late copy opens its connection again: %+v, %d events", answer.Header, seen[Received])
	}
	before := hosts[0].Counters()
	hosts[0].HandlePacket(now, &answer)
	if after := hosts[0].Counters(); after.AcksReceived != before.AcksReceived+1 || after.Unclaimed != before.Unclaimed {
		t.Errorf("the late ACK is not taken for one of a connection: %+v, before %+v", after, before)
	}
	if at, ok := hosts[0].NextTimer(); ok || hosts[0].Poll(now, &answer) {
		t.Errorf("a finished sender sends or waits, until %v", at)
	}
}
