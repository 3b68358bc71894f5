package pipeline_test

import (
	"testing"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func TestSoftwareActionsTellTheOwnerHowThePacketLeaves(t *testing.T) {
	for _, tt := range []struct {
		name   string
		action p4.Action
		event  trace.EventType
		want   pipeline.Forward
		runt   bool
	}{
		{"delay", p4.NewAction(p4.ActionDelay, 1500), trace.EventDelay, pipeline.Forward{DelayNS: 1500}, false},
		{"duplicate", p4.NewAction(p4.ActionDuplicate, 3), trace.EventDuplicate, pipeline.Forward{Copies: 3}, false},
		{"reorder", p4.NewAction(p4.ActionReorder, 2), trace.EventReorder, pipeline.Forward{Behind: 2}, false},
		{"rewrite", p4.NewAction(p4.ActionRewrite, uint64(packet.RewriteDSCP), 46), trace.EventRewrite, pipeline.Forward{},
			false},
		{"corrupt_payload", p4.NewAction(p4.ActionCorruptPayload, 1023, 1), trace.EventCorrupt, pipeline.Forward{}, false},
		{"corrupt_payload after the payload finds nothing", p4.NewAction(p4.ActionCorruptPayload, 1024, 1), trace.EventNone,
			pipeline.Forward{}, true},
		{"rewrite of a header that the packet lacks finds nothing",
			p4.NewAction(p4.ActionRewrite, uint64(packet.RewriteMSN), 1), trace.EventNone, pipeline.Forward{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := decide(t, tt.action, dataPacket(ipsn))
			equal(t, "event", r.Event, tt.event)
			equal(t, "runt", r.Runt, tt.runt)
			got := pipeline.Forward{DelayNS: r.Forward.DelayNS, Copies: r.Forward.Copies, Behind: r.Forward.Behind}
			if got.DelayNS != tt.want.DelayNS || got.Copies != tt.want.Copies || got.Behind != tt.want.Behind {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestSoftwareActionsEditTheForwardedCopy(t *testing.T) {
	pk := dataPacket(ipsn)
	r := decide(t, p4.NewAction(p4.ActionRewrite, uint64(packet.RewritePSN), 77), pk)
	r.Apply(pk)
	equal(t, "PSN", pk.BTH.PSN, packet.PSN(77))
	equal(t, "iCRC", pk.CheckICRC(), packet.ICRCValid)

	pk = dataPacket(ipsn)
	r = decide(t, p4.NewAction(p4.ActionCorruptPayload, 5, 0x80), pk)
	before := pk.Payload[5]
	r.Apply(pk)
	equal(t, "payload byte", pk.Payload[5], before^0x80)
	equal(t, "iCRC", pk.CheckICRC(), packet.ICRCInvalid)
}

func TestParametersThatMeanNothingAreRefused(t *testing.T) {
	p := newPipeline(t, 4)
	for name, a := range map[string]p4.Action{
		"no delay": p4.NewAction(p4.ActionDelay, 0), "no copies": p4.NewAction(p4.ActionDuplicate, 0),
		"by nothing": p4.NewAction(p4.ActionReorder, 0),
		"no field":   p4.NewAction(p4.ActionRewrite, 0, 1), "an unknown field": p4.NewAction(p4.ActionRewrite, 99, 1),
		"too wide a value": p4.NewAction(p4.ActionRewrite, uint64(packet.RewriteECN), 4),
		"no bits":          p4.NewAction(p4.ActionCorruptPayload, 1, 0),
	} {
		if err := p.Set(p4.TableEvent, p4.KeyOf(0, 0, ipsn, 1), a); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
