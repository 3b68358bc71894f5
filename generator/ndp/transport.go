package ndp

import (
	"strings"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// Transport declares NDP as a transport of switch tests.
func Transport() wire.Transport {
	return wire.Transport{
		Model: parameter.Model{
			Name: "ndp",
			Doc:  "NDP: a first window at line rate, then a packet for each PULL of the receiver, which paces them.",
			Parameters: parameter.Table{
				wire.PacketSize(),
				{Name: "initial-window", Kind: parameter.Integer, Unit: "packets", Default: "30", Min: 1, Max: 1 << 20,
					Doc: "Packets that a flow sends before it has heard anything."},
				{Name: "pull-rate", Kind: parameter.Number, Default: "1", Max: 2,
					Doc: "Share of the receiver's link rate that PULLs ask for; above 0."},
				{Name: "rto-us", Kind: parameter.Duration, Unit: "us", Default: "1000", Max: 10_000_000,
					Doc: "When an unanswered packet is taken for lost; 0: never."},
				{Name: "paths", Kind: parameter.Integer, Default: "1", Min: 1, Max: 1 << 16,
					Doc: "Path tags that a sender deals out to its packets; ECMP sees them."},
				{Name: "path-penalty", Kind: parameter.Boolean, Default: "false",
					Doc: "Senders keep a scoreboard of ACKs, NACKs and losses of each of their paths, and exclude outliers for a " +
						"while. Switches must route by tag: ecmp or path."},
				{Name: "penalty-answers", Kind: parameter.Integer, Default: "64", Min: 1, Max: 1 << 16,
					Doc: "Answers for each path, on average, after which the scoreboard decides and begins anew: a period."},
				{Name: "penalty-share-percent", Kind: parameter.Integer, Unit: "%", Default: "25", Min: 1, Max: 100,
					Doc: "Least share of NACKs, returned headers and losses in what is heard of a path that makes it an outlier."},
				{Name: "penalty-factor-percent", Kind: parameter.Integer, Unit: "%", Default: "200", Min: 100, Max: 10_000,
					Doc: "The share of an outlier is greater than this percentage of that of all other paths together."},
				{Name: "penalty-periods", Kind: parameter.Integer, Default: "32", Min: 1, Max: 1 << 16,
					Doc: "Periods for which an outlier is excluded."},
				{Name: "control-dscp", Kind: parameter.Integer, Default: "0", Max: 63, Doc: "DSCP of ACK, NACK and PULL."},
				{Name: "control-tc", Kind: parameter.Integer, Default: "0", Max: 7, Doc: "Traffic class of ACK, NACK and PULL."},
				wire.ECN(),
			},
			Bugs: bugModels(),
		},
		Protocol: trace.ProtocolNDP, Reliable: true, OnePacketSize: true, Ranks: true, Codec: Codec(),
		Data:       func(h *wire.Header) bool { return h.NDP.Kind == ndp.Data },
		Connection: func(h *wire.Header) uint32 { return h.NDP.Connection },
		Sequence:   func(h *wire.Header) uint64 { return uint64(h.NDP.Seq) },
		Payload:    func(h *wire.Header) int { return int(h.NDP.Length) },
	}
}

// bugModels returns the seeded bugs of NDP hosts.
func bugModels() []parameter.Bug {
	var list []parameter.Bug
	for _, b := range Catalogue() {
		list = append(list, parameter.Bug{Name: b.Name, Doc: strings.ToUpper(b.What[:1]) + b.What[1:] + "."})
	}
	return list
}

// Codec returns the codec of NDP over UDP.
func Codec() *wire.Codec {
	const flags = 3 // byte of the header
	return wire.UDP{
		Port: ndp.Port, Len: ndp.Size,
		Append: func(b []byte, p *wire.Header) []byte {
			h := p.NDP
			if p.Flags&trace.ChecksumStale != 0 {
				h.Flags &^= ndp.FlagTrimmed | ndp.FlagReturned // as sent
			}
			return h.AppendTo(b)
		},
		Edit: func(body []byte, p *wire.Header) { body[flags] = byte(p.NDP.Flags) },
		Parse: func(body []byte, p *wire.Header) bool {
			if p.NDP.Parse(body) != nil {
				return false
			}
			p.Flow = FlowOf(p.Src, p.Dst, &p.NDP)
			return true
		},
	}.Codec()
}

// FlowOf returns the flow of a packet between two hosts, which is unique among all hosts: the sender of data in the
// upper half, its number of the connection in the lower half.
func FlowOf(src, dst wire.HostID, h *ndp.Header) uint32 {
	if h.Kind == ndp.Data {
		return uint32(src)<<16 ^ h.Connection
	}
	return uint32(dst)<<16 ^ h.Connection
}
