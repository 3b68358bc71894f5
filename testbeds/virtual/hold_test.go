package virtual

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
)

// collector notes which packets arrive, by PSN.
type collector struct{ order []string }

func (c *collector) receive(_ clock.Time, _ uint16, p *packet.Packet) {
	c.order = append(c.order, fmt.Sprint(uint32(p.BTH.PSN)))
}

func TestHeldPacketsLeaveInTheirOrder(t *testing.T) {
	var e engine
	got := &collector{}
	sw := &injectorSwitch{pool: new(pool), out: []*link{newLink(&e, 100*clock.Gbps, 0, got, 0)}}
	sw.holder = newHolder(sw, &e)
	pk := func(psn packet.PSN) *packet.Packet { return &packet.Packet{BTH: packet.BTH{PSN: psn}} }
	hold := func(now clock.Time, psn packet.PSN, f pipeline.Forward) {
		sw.holder.hold(now, &pipeline.Result{Flow: 2, Forward: f}, pk(psn))
	}
	hold(0, 1, pipeline.Forward{DelayNS: 50_000})
	hold(0, 2, pipeline.Forward{DelayNS: 10_000})
	hold(0, 3, pipeline.Forward{Behind: 2})
	hold(0, 4, pipeline.Forward{Behind: 1})
	hold(0, 5, pipeline.Forward{DelayNS: 10_000})
	hold(0, 6, pipeline.Forward{Behind: 9})
	if n := len(sw.holder.Overtaken(3)); n != 0 {
		t.Errorf("a packet of another flow set %d free", n)
	}
	for range 2 {
		for _, x := range sw.holder.Overtaken(2) {
			sw.transmit(0, x.port, x.p)
		}
	}
	for e.next() != clock.Never {
		e.step()
	}
	if order := strings.Join(got.order, " "); order != "4 3 2 5 1 6" {
		t.Errorf("order %s, want 4 3 (overtaken), 2 5 1 (by time), 6 (by the limit)", order)
	}
	if limit := clock.Time(0).Add(pipeline.ReorderLimitNS * clock.Nanosecond); e.now < limit-1 || sw.lastRoCE != limit-1 {
		t.Errorf("the end is at %v, quiet since %v; want the limit %v", e.now, sw.lastRoCE, limit)
	}
}
