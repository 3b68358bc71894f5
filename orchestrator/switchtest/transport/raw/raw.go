// Package raw is the transport without a protocol: plain UDP that nothing slows down.
package raw

import (
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport declares the transport.
func Transport() transport.Transport {
	return transport.Transport{
		Model: parameter.Model{
			Name:       "raw",
			Doc:        "Plain UDP that nothing slows down: an open loop at line rate or rate-gbps. Nothing is retransmitted.",
			Parameters: parameter.Table{transport.PacketSize(), transport.ECN()},
		},
		Protocol: fabric.Raw, ToItself: true, OpenLoop: true, Unanswered: true, Header: header, Attach: attach,
	}
}

var header = transport.UDPHeader(0)

func attach(s *transport.Setup, flows []*transport.Flow) error {
	hosts := make(map[fabric.HostID]*stack.Raw)
	for _, f := range flows {
		if hosts[f.Src] == nil {
			hosts[f.Src] = stack.NewRaw()
			s.Add(f.Src, hosts[f.Src])
		}
		s.Own(fabric.Raw, f.Src, uint32(f.Number), f.Number)
		header := header(f.Mark.IPv6)
		raw := stack.Flow{ID: uint32(f.Number), To: f.Dst, Packets: f.Packets, Size: int32(f.PacketSize), Start: f.Start,
			Rate: f.Rate, Mark: f.Mark}
		if last := f.Payload - (f.Packets-1)*int64(f.PacketSize-header); f.Packets > 0 {
			raw.Last = int32(last) + int32(header)
		}
		hosts[f.Src].Send(raw)
	}
	return nil
}
