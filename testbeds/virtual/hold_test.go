package virtual

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// collector records arriving packets by PSN.
type collector struct{ order []string }

func (c *collector) receive(_ clock.Time, _ uint16, p *packet.Packet) {
	c.order = append(c.order, fmt.Sprint(uint32(p.BTH.PSN)))
}

func TestHeldPacketsLeaveWhenTheyAreDueAndKeepTheRunGoing(t *testing.T) {
	pl, err := pipeline.New(pipeline.Config{Ports: 2})
	if err != nil {
		t.Fatal(err)
	}
	var e engine
	got := &collector{}
	sw := newInjectorSwitch(pl, &e, new(pool), 0)
	sw.out = []*link{nil, newLink(&e, 100*clock.Gbps, 0, got, 0)}
	pk := func(psn int) *packet.Packet {
		return &packet.Packet{
			Derived: true, HasUDP: true, Headers: packet.HasBTH,
			Eth: packet.Ethernet{Dst: packet.MAC{2}, Type: packet.EtherTypeIPv4},
			IP:  packet.IP{Version: 4, Protocol: packet.ProtocolUDP, Src: loopback(1), Dst: loopback(2)},
			UDP: packet.UDP{DstPort: packet.Port}, BTH: packet.BTH{Opcode: packet.SendMiddle, PSN: packet.PSN(psn)},
		}
	}
	set := func(table uint32, k p4.Key, a p4.Action) {
		if err := pl.Set(table, k, a); err != nil {
			t.Fatal(err)
		}
	}
	set(p4.TableConnectionV4, p4.Key{p4.AddrValue(loopback(1)), p4.AddrValue(loopback(2)), p4.Uint(0)},
		p4.NewAction(p4.ActionSetFlow, 0, 1, 1, 1))
	set(p4.TableL2Forward, p4.KeyOf(packet.MAC{2}.Uint48()), p4.NewAction(p4.ActionForward, 1))
	for i, a := range []p4.Action{
		p4.NewAction(p4.ActionDelay, 50_000), p4.NewAction(p4.ActionDelay, 10_000), p4.NewAction(p4.ActionReorder, 3),
		p4.NewAction(p4.ActionReorder, 1), p4.NewAction(p4.ActionDelay, 10_000), p4.NewAction(p4.ActionReorder, 9),
	} {
		set(p4.TableEvent, p4.KeyOf(0, 0, uint64(i+1), 1), a)
	}
	for psn := 1; psn <= 6; psn++ {
		sw.receive(0, 0, pk(psn))
	}
	for e.next() != clock.Never {
		e.step()
	}
	if order := strings.Join(got.order, " "); order != "4 3 2 5 1 6" {
		t.Errorf("order %s, want 4 3 (overtaken), 2 5 1 (by time), 6 (by the limit)", order)
	}
	if limit := clock.Time(0).Add(trace.ReorderLimitNS * clock.Nanosecond); e.now < limit-1 || sw.lastRoCE != limit-1 {
		t.Errorf("the end is at %v, quiet since %v; want the limit %v", e.now, sw.lastRoCE, limit)
	}
}

func loopback(host byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, host}) }
