// Package kernel is the TCP of the machine's kernel as a transport. It has no model, so it runs only on live testbeds,
// and its hosts are not judged.
package kernel

import (
	"errors"
	"fmt"
	"slices"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Name is the name of the transport.
const Name = "kernel-tcp"

// Transport declares the transport.
func Transport() transport.Transport {
	return transport.Transport{Transport: wire.Transport{
		Model: parameter.Model{
			Name: Name,
			Doc: "The TCP of Linux: with --testbed netns, or in a lab without an injector. Only the switch is judged. Ranks " +
				"are a table of the switch, by flow.",
			Parameters: parameter.Table{
				wire.PacketSize(),
				{Name: "congestion-control", Kind: parameter.Word, Words: controls(), Default: "cubic",
					Doc: "As the kernel calls it."},
				{Name: "flows", Kind: parameter.List,
					Doc: "Flows with another congestion control; the first entry that applies counts.",
					Items: parameter.Table{
						{Name: "numbers", Kind: parameter.Ranges, Required: true, Min: 1, Max: 1 << 31, Doc: "Numbers of flows."},
						{Name: "congestion-control", Kind: parameter.Word, Words: controls(), Required: true,
							Doc: "As the kernel calls it."},
					}},
				{Name: "ecn", Kind: parameter.Word, Words: []string{"not-ect", "ect0"}, Default: "not-ect",
					Doc: "ect0: connections negotiate ECN (RFC 3168); not in a lab, where sysctl tcp_ecn of the machines decides."},
			},
		},
		Protocol: fabric.TCP, Reliable: true, OnePacketSize: true, Ranks: true, RankTable: true, Codec: tcp.Codec(),
	}, Attach: attach, Stops: true}
}

func controls() []string { return []string{"cubic", "reno", "bbr"} }

func attach(s *transport.Setup, flows []*transport.Flow) error {
	if !s.Live {
		return errors.New("is that of the kernel: run the test with --testbed netns")
	}
	last := 0
	for _, f := range flows {
		last = max(last, f.Number)
		if f.Kind != workload.Transfer {
			return fmt.Errorf("flow %d: the kernel's TCP has transfers alone", f.Number)
		}
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			s.Own(fabric.TCP, h, uint32(f.Number), f.Number)
		}
		s.Weigh(f.Src, uint32(f.Number), f)
	}
	for i, item := range s.Values.List("flows") {
		for _, span := range item.Spans("numbers") {
			if span[1] > int64(last) {
				return fmt.Errorf("flows[%d].numbers: there is no flow %d: the last one is %d", i, span[1], last)
			}
		}
	}
	return nil
}

// Connections returns the flows of the kernel's TCP in the order of their start.
func Connections(flows []transport.Flow, v parameter.Values) []live.Connection {
	var list []live.Connection
	for i := range flows {
		f := &flows[i]
		if f.Transport != Name {
			continue
		}
		list = append(list, live.Connection{
			Number: f.Number, Src: f.Src, Dst: f.Dst, Bytes: f.Payload, Start: f.Start, Stop: f.Stop,
			Congestion: controlOf(f.Number, v), DSCP: f.Mark.DSCP, IPv6: f.Mark.IPv6, Rank: f.Rank,
		})
	}
	slices.SortStableFunc(list, func(a, b live.Connection) int { return int(a.Start.Sub(b.Start)) })
	return list
}

// controlOf returns the congestion control of a flow.
func controlOf(flow int, v parameter.Values) string {
	for _, item := range v.List("flows") {
		for _, span := range item.Spans("numbers") {
			if span[0] <= int64(flow) && int64(flow) <= span[1] {
				return item.Word("congestion-control")
			}
		}
	}
	return v.Word("congestion-control")
}
