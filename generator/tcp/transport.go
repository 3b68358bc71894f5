package tcp

import (
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/trace"
)

// Transport declares TCP as a transport of switch tests.
func Transport() wire.Transport {
	codec := Codec()
	return wire.Transport{
		Model: parameter.Model{
			Name: "tcp",
			Doc:  "TCP; a trimmed packet is a lost one to it. The MSS is packet-size less 66 bytes of headers, 86 over IPv6.",
			Parameters: append(parameter.Table{
				wire.PacketSize(),
				{Name: "congestion-control", Kind: parameter.Word, Words: []string{"cubic", "reno", "dctcp", "swift"},
					Default: "cubic",
					Doc: "How the congestion window grows and shrinks; dctcp: RFC 8257, which grows as reno; " +
						"swift: SIGCOMM 2020."},
				{Name: "ecn", Kind: parameter.Word, Words: []string{"not-ect", "ect0", "ect1"}, Optional: true,
					Doc: "ECN codepoint of new data; not-ect: no ECN (RFC 3168). By default ect0 with dctcp, else not-ect."},
				{Name: "ecn-everything", Kind: parameter.Boolean, Default: "false",
					Doc: "Retransmissions and ACKs carry ECT, too, as those of Linux do with DCTCP; RFC 3168 forbids it."},
				{Name: "dctcp-gain", Kind: parameter.Number, Default: "0.0625", Max: 1,
					Doc: "g of DCTCP: the weight of the latest window in alpha; above 0. RFC 8257 has 1/16."},
				{Name: "dctcp-alpha", Kind: parameter.Number, Default: "1", Max: 1,
					Doc: "alpha of DCTCP at the start. RFC 8257 and Linux have 1."},
				{Name: "initial-window", Kind: parameter.Integer, Unit: "packets", Default: "10", Min: 1, Max: 1 << 20,
					Doc: "Packets that a connection sends before it has heard anything."},
				{Name: "initial-ssthresh", Kind: parameter.Integer, Unit: "packets", Default: "0", Max: 1 << 20,
					Doc: "Window at which the first slow start ends, at least 2; 0: only a loss or a mark ends it. Swift has none."},
				{Name: "min-rto-us", Kind: parameter.Duration, Unit: "us", Default: "200000", Min: 1, Max: 10_000_000,
					Doc: "Least retransmission timeout; Linux has 200 ms."},
				{Name: "delayed-ack-us", Kind: parameter.Duration, Unit: "us", Default: "40000", Max: 1_000_000,
					Doc: "How long an ACK waits for a second packet; 0: not at all."},
				{Name: "first-sequence", Kind: parameter.Integer, Default: "0", Max: 1<<32 - 1,
					Doc: "Sequence number at which each direction of a connection begins; they wrap at 2^32."},
				{Name: "send-jitter-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 1000,
					Doc: "Most that a packet takes from the host's decision to its NIC; drawn for each, " +
						"without changing their order."},
				{Name: "receive-window-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "6291456", Min: 9216,
					Max: 67_107_840, Doc: "What a receiver is ready to take beyond what it has acknowledged."},
			}, append(options(), swiftOptions()...)...),
			Bugs: bugModels(),
		},
		Protocol: trace.ProtocolTCP, Reliable: true, OnePacketSize: true, Ranks: true, Codec: codec,
		Data: func(h *wire.Header) bool { return int(h.Original) > codec.HeaderSize(h.IPv6) }, // not ACKs
	}
}

// options returns the parameters by which other TCPs differ from Linux's.
func options() parameter.Table {
	return parameter.Table{
		{Name: "handshake", Kind: parameter.Boolean, Default: "false",
			Doc: "Connections begin with SYN, SYN-ACK and ACK, which the FCT includes. false: they are established from the " +
				"start."},
		{Name: "handshake-needs-ack", Kind: parameter.Boolean, Default: "false",
			Doc: "Data that overtakes the ACK of the handshake is dropped, as NetBench's hosts do, whose data carry no ACK. " +
				"RFC 9293 takes it."},
		{Name: "window-scaling", Kind: parameter.Boolean, Default: "true",
			Doc: "Windows are scaled by 2^10. false: receive-window-bytes is at most 65535."},
		{Name: "initial-rto-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 10_000_000,
			Doc: "Retransmission timeout without an RTT sample, also of a SYN; 0: min-rto-us."},
		{Name: "max-rto-us", Kind: parameter.Duration, Unit: "us", Default: "120000000", Min: 1, Max: 120_000_000,
			Doc: "Greatest retransmission timeout, at which doubling ends."},
		{Name: "rto", Kind: parameter.Word, Words: []string{"rfc6298", "3-srtt"}, Default: "rfc6298",
			Doc: "Retransmission timeout above the minimum: SRTT + 4 RTTVAR, or 3 SRTT."},
		{Name: "timestamps", Kind: parameter.Boolean, Default: "false",
			Doc: "Every ACK without data gives an RTT sample by RFC 7323's option, also of retransmissions; handshakes give " +
				"none. With loss-detection: new-reno, as SACK has the option's place."},
		{Name: "rto-restart", Kind: parameter.Word, Words: []string{"acks", "transmissions"}, Default: "acks",
			Doc: "What restarts the retransmission timer: acks: new ACKs (RFC 6298). transmissions: also data that is sent."},
		{Name: "max-retries", Kind: parameter.Integer, Default: "0", Max: 100,
			Doc: "Retransmissions by timeouts in a row after which the next one gives the connection up; 0: never."},
		{Name: "loss-detection", Kind: parameter.Word, Words: []string{"sack", "new-reno", "per-packet"}, Default: "sack",
			Doc: "sack: RFC 6675. new-reno: RFC 6582, by duplicate ACKs, without SACK. per-packet: a packet is lost when one " +
				"sent three later is acknowledged (best with delayed-ack-us: 0)."},
		{Name: "fast-retransmit", Kind: parameter.Boolean, Default: "true",
			Doc: "Losses are detected before a timeout. false: only the timeout retransmits."},
		{Name: "limited-transmit", Kind: parameter.Boolean, Default: "true",
			Doc: "The first two duplicate ACKs let new segments go (RFC 3042)."},
		{Name: "ack-every", Kind: parameter.Integer, Unit: "packets", Default: "2", Min: 1, Max: 64,
			Doc: "Packets in order after which an ACK is no longer delayed."},
		{Name: "quick-acks", Kind: parameter.Integer, Default: "16", Max: 1 << 20,
			Doc: "ACKs of a new connection that are not delayed."},
	}
}

// swiftOptions returns the parameters of Swift. Those that its paper does not give are csg-htsim's.
func swiftOptions() parameter.Table {
	return parameter.Table{
		{Name: "swift-base-target-us", Kind: parameter.Duration, Unit: "us", Default: "20", Min: 1, Max: 1_000_000,
			Doc: "Target of Swift's fabric delay before scaling."},
		{Name: "swift-hop-scale-us", Kind: parameter.Duration, Unit: "us", Default: "3", Max: 100_000,
			Doc: "What each switch of the path adds to the target; its number is that of the ACK's path, by its TTL."},
		{Name: "swift-fs-range-us", Kind: parameter.Duration, Unit: "us", Default: "100", Max: 1_000_000,
			Doc: "Most that flow scaling adds to the target (fs_range); 0: none."},
		{Name: "swift-fs-min-cwnd", Kind: parameter.Number, Unit: "packets", Default: "0.1", Max: 1 << 20,
			Doc: "Window at which flow scaling adds fs_range; above 0."},
		{Name: "swift-fs-max-cwnd", Kind: parameter.Number, Unit: "packets", Default: "100", Max: 1 << 20,
			Doc: "Window from which flow scaling adds nothing; above swift-fs-min-cwnd."},
		{Name: "swift-endpoint-target-us", Kind: parameter.Duration, Unit: "us", Default: "100", Min: 1, Max: 1_000_000,
			Doc: "Target of Swift's endpoint delay, which is not scaled."},
		{Name: "swift-ai", Kind: parameter.Number, Unit: "packets", Default: "1", Max: 1000,
			Doc: "Additive increment of a round trip; above 0."},
		{Name: "swift-beta", Kind: parameter.Number, Default: "0.8", Max: 1,
			Doc: "Multiplicative decrease: its weight of (delay - target) / delay; above 0."},
		{Name: "swift-max-mdf", Kind: parameter.Number, Default: "0.5", Max: 1,
			Doc: "Greatest part of the window that a decrease takes; above 0, below 1."},
		{Name: "swift-min-cwnd", Kind: parameter.Number, Unit: "packets", Default: "0.01", Max: 1,
			Doc: "Least window; above 0. Below one packet, packets are paced."},
		{Name: "swift-max-cwnd", Kind: parameter.Number, Unit: "packets", Default: "1000", Min: 1, Max: 1 << 20,
			Doc: "Greatest window."},
		{Name: "swift-retx-reset-threshold", Kind: parameter.Integer, Default: "5", Min: 1, Max: 100,
			Doc: "Timeouts in a row that reset the window to the least one."},
	}
}

// bugModels returns the seeded bugs of TCP hosts.
func bugModels() []parameter.Bug {
	var list []parameter.Bug
	for _, b := range Catalogue() {
		list = append(list, parameter.Bug{Name: b.Name, Doc: b.What + "."})
	}
	return list
}

// Codec returns the codec of TCP. Both ends of a connection have the same port, because data flows both ways and
// neither end is a client.
func Codec() *wire.Codec {
	return &wire.Codec{IPv4: wire.ProtocolTCP, IPv6: wire.ProtocolTCP, Len: HeaderLen,
		Append: func(b []byte, h *wire.Header, payload []byte, length, whole int) []byte {
			at := len(b)
			b = append(h.TCP.AppendTo(b, h.Port(), h.Port()), payload...)
			if h.Flags&trace.ChecksumStale == 0 {
				whole = length
			}
			h.Checksum(b[at:], wire.ProtocolTCP, 16, whole)
			return b
		}}
}
