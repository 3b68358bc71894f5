package orchestrator

import (
	"net/netip"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds"
)

func specOf(p *plan.Plan) testbeds.Spec {
	t, bed := p.Test, p.Test.Testbed
	spec := testbeds.Spec{
		Seed:        t.Seed,
		BarrierSync: t.Traffic.BarrierSync, RxDepth: t.Traffic.RxDepth, RxRepostDelay: t.Traffic.RxRepostDelay,
		Quiesce: p.Quiesce, Deadline: p.Deadline,
		Switch: testbeds.Switch{Latency: bed.Switch.Latency, EgressBuffer: bed.Switch.EgressBuffer, Snap: p.Snap},
	}
	if e := t.Traffic.External; e != nil {
		spec.External = &testbeds.External{Pause: e.Pause, Wait: e.Wait}
	}
	for i, side := range []config.Side{config.Requester, config.Responder} {
		spec.Hosts[i] = hostSpec(t, side)
	}
	for _, d := range bed.Dumpers {
		spec.Dumpers = append(spec.Dumpers, testbeds.Dumper{
			Name: d.Name, Weight: d.Weight, Rate: d.Rate, Cores: d.Cores, PPSPerCore: d.PPSPerCore, Buffer: d.Buffer,
		})
	}
	for i, c := range p.Connections {
		spec.Connections = append(spec.Connections, testbeds.Connection{
			IPs: c.IPs, Traffic: c.Traffic, InitialPSN: c.InitialPSN, MTU: t.Traffic.MTU,
			AckTimeout: uint8(t.Traffic.AckTimeout), RetryCount: uint8(t.Traffic.RetryCount),
			RNRRetry: uint8(t.Traffic.RNRRetry), MinRNRTimer: uint8(t.Traffic.MinRNRTimer),
			MaxRDAtomic: t.Traffic.MaxRDAtomic, FlowLabel: uint32(t.Traffic.FlowLabelOf(i + 1)),
			SourcePort: uint16(t.Traffic.SourcePortOf(i + 1)),
		})
	}
	return spec
}

func hostSpec(t *config.Test, side config.Side) testbeds.Host {
	h, link := t.Host(side), t.Testbed.Link(side)
	host := testbeds.Host{
		Name: side.String(), MAC: h.NIC.MAC, IPs: addresses(h.NIC.IPs), Profile: h.NIC.Profile, Bugs: h.NIC.Bugs,
		DCQCNRP: h.RoCE.DCQCNRP, DCQCNNP: h.RoCE.DCQCNNP, MinTimeBetweenCNPs: h.RoCE.MinTimeBetween,
		CNPPacing: h.RoCE.Pacing.String(), SlowRestart: h.RoCE.SlowRestart, AdaptiveRetrans: h.RoCE.AdaptiveRetrans,
		TrimReaction: h.RoCE.TrimReaction, TrimDSCP: uint8(h.RoCE.TrimDSCP),
		ECN: packet.ECN(t.Traffic.ECN), DSCP: uint8(t.Traffic.DSCP), HopLimit: uint8(t.Traffic.HopLimit),
		Rate: link.Rate, Propagation: link.Propagation,
	}
	if p := h.NIC.Settings.DCQCNPriority; p != nil {
		host.DCQCNPriority = uint8(*p)
	}
	for _, s := range h.NIC.Settings.List() {
		host.Settings = append(host.Settings, testbeds.Setting(s))
	}
	return host
}

func addresses(prefixes []netip.Prefix) []netip.Addr {
	list := make([]netip.Addr, len(prefixes))
	for i, p := range prefixes {
		list[i] = p.Addr()
	}
	return list
}
