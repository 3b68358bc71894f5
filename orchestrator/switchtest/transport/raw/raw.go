// Package raw gives hosts of switch tests endpoints that send datagrams without a protocol.
package raw

import (
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration and endpoints.
func Transport() transport.Transport {
	return transport.Transport{Transport: raw.Transport(), Attach: attach}
}

func attach(s *transport.Setup, flows []*transport.Flow) error {
	headers, hosts := raw.Codec(), make(map[fabric.HostID]*stack.Raw)
	for _, f := range flows {
		if hosts[f.Src] == nil {
			hosts[f.Src] = stack.NewRaw()
			s.Add(f.Src, hosts[f.Src])
		}
		s.Own(fabric.Raw, f.Src, uint32(f.Number), f.Number)
		header := headers.HeaderSize(f.Mark.IPv6)
		flow := stack.Flow{ID: uint32(f.Number), To: f.Dst, Packets: f.Packets, Size: int32(f.PacketSize), Start: f.Start,
			Rate: f.Rate, Mark: f.Mark}
		if last := f.Payload - (f.Packets-1)*int64(f.PacketSize-header); f.Packets > 0 {
			flow.Last = int32(last) + int32(header)
		}
		hosts[f.Src].Send(flow)
	}
	return nil
}
