//go:build linux

package live_test

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// A stack that sends through sockets of its kernel is seen by the switch as one with a ring is.
func TestRealFramesOfSocketsGoThroughALiveSwitch(t *testing.T) {
	const packets, size = 300, 200
	link := fabric.LinkSpec{Rate: clock.Gbps / 100, Delay: clock.Microsecond}
	b := newBed(t, 3, link)
	b.cfg.Datagrams = &wire.Codecs{fabric.Raw: raw.Codec()}
	for h := 1; h < 3; h++ {
		sender := stack.NewRaw()
		sender.Send(stack.Flow{ID: uint32(h), To: 0, Packets: packets, Size: size})
		b.cfg.Stacks[h] = sender
	}
	b.cfg.Stacks[0] = stack.NewRaw()
	_, report := b.run(t, 5*clock.Second)
	in, out, dropped := b.seen[fabric.Ingress], b.seen[fabric.Egress], b.seen[fabric.Dropped]
	if in != 2*packets || out+dropped != in || out < packets || report.Mismatched > 0 {
		t.Errorf("%d packets came, %d left, %d were dropped; %s", in, out, dropped, report.Differences())
	}
}
