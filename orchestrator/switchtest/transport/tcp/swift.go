package tcp

import (
	judge "candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// swiftOf returns the hosts' Swift.
func swiftOf(v parameter.Values) tcp.Swift {
	return tcp.Swift{
		BaseTarget: v.Duration("swift-base-target-us"), HopScale: v.Duration("swift-hop-scale-us"),
		FlowRange: v.Duration("swift-fs-range-us"), FlowMin: v.Number("swift-fs-min-cwnd"),
		FlowMax: v.Number("swift-fs-max-cwnd"), EndpointTarget: v.Duration("swift-endpoint-target-us"),
		Increase: v.Number("swift-ai"), Beta: v.Number("swift-beta"), MaxDecrease: v.Number("swift-max-mdf"),
		MinWindow: v.Number("swift-min-cwnd"), MaxWindow: v.Number("swift-max-cwnd"),
		ResetAfter: v.Int("swift-retx-reset-threshold"),
	}
}

// judgedSwift says what the analyzer has to know of the hosts' Swift.
func judgedSwift(t *transport.Trial, immediate bool) judge.Swift {
	if t.Values.Word("congestion-control") != "swift" {
		return judge.Swift{}
	}
	c := swiftOf(t.Values)
	return judge.Swift{
		On: true, Immediate: immediate, InitialTTL: fabric.InitialTTL,
		BaseTarget: c.BaseTarget, HopScale: c.HopScale, FlowRange: c.FlowRange, FlowMin: c.FlowMin, FlowMax: c.FlowMax,
		EndpointTarget: c.EndpointTarget, Increase: c.Increase, Beta: c.Beta, MaxDecrease: c.MaxDecrease,
		MinWindow: c.MinWindow, MaxWindow: c.MaxWindow, ResetAfter: c.ResetAfter,
	}
}
