package live

import (
	"encoding/binary"
	"testing"

	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// A kernel writes no rank into its packets: the switch gives those of the client what its table says of the flow, and
// those of the server 0.
func TestTheSwitchRanksPacketsOfKernelsByFlow(t *testing.T) {
	x := parser{codecs: codecs, hosts: 5, ranks: rankTable([]Connection{
		{Number: 2, Rank: wire.Ranking{Kind: wire.RankFixed, Value: 7}}, {Number: 1},
		{Number: 3, Rank: wire.Ranking{Kind: wire.RankByDeadline, Value: 9000}},
	})}
	for _, c := range []struct {
		from, to uint16
		ranked   bool
		rank     uint64
	}{
		{40000, FirstPort + 1, false, 0}, {FirstPort + 1, 40000, false, 0},
		{40000, FirstPort + 2, true, 7}, {FirstPort + 2, 40000, true, 0},
		{40000, FirstPort + 3, true, 9000}, {FirstPort + 3, 40000, true, 0},
	} {
		var p fabric.Packet
		p.Src, p.Dst, p.Protocol, p.Size, p.Original, p.TTL = 1, 4, fabric.TCP, 200, 200, 64
		p.TCP = tcp.Header{Seq: 1, Ack: 2, Flags: tcp.FlagACK}
		frame := codecs.AppendTagged(nil, &p.Header)
		ports := frame[packet.EthernetLen+packet.IPv4Len:]
		binary.BigEndian.PutUint16(ports, c.from)
		binary.BigEndian.PutUint16(ports[2:], c.to)
		var h fabric.Header
		if _, ok := x.parse(frame, &h); !ok || h.Flags&fabric.Ranked != 0 != c.ranked || h.Rank != c.rank {
			t.Errorf("from port %d to %d: ok %v, flags %v, rank %d; want ranked %v, rank %d", c.from, c.to, ok, h.Flags, h.Rank,
				c.ranked, c.rank)
		}
	}
}
