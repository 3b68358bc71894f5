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
				{Name: "congestion-control", Kind: parameter.Word, Words: []string{"cubic", "reno", "bbr"}, Default: "cubic",
					Doc: "As the kernel calls it."},
				{Name: "ecn", Kind: parameter.Word, Words: []string{"not-ect", "ect0"}, Default: "not-ect",
					Doc: "ect0: connections negotiate ECN (RFC 3168); not in a lab, where sysctl tcp_ecn of the machines decides."},
			},
		},
		Protocol: fabric.TCP, Reliable: true, OnePacketSize: true, Ranks: true, RankTable: true, Codec: tcp.Codec(),
	}, Attach: attach}
}

func attach(s *transport.Setup, flows []*transport.Flow) error {
	if !s.Live {
		return errors.New("is that of the kernel: run the test with --testbed netns")
	}
	for _, f := range flows {
		if f.Kind != workload.Transfer {
			return fmt.Errorf("flow %d: the kernel's TCP has transfers alone", f.Number)
		}
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			s.Own(fabric.TCP, h, uint32(f.Number), f.Number)
		}
		s.Weigh(f.Src, uint32(f.Number), f)
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
			Number: f.Number, Src: f.Src, Dst: f.Dst, Bytes: f.Payload, Start: f.Start, Congestion: v.Word("congestion-control"),
			DSCP: f.Mark.DSCP, IPv6: f.Mark.IPv6, Rank: f.Rank,
		})
	}
	slices.SortStableFunc(list, func(a, b live.Connection) int { return int(a.Start.Sub(b.Start)) })
	return list
}
