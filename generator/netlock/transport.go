// Package netlock is the hosts of a lock manager in a switch: clients, which run transactions that take locks
// (reference model netlock.md, section 7), and what their packets are like in a network. They are state machines
// without I/O.
package netlock

import (
	"net/netip"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/packet/tcp"
	"candela.dev/candela/trace"
)

// Name is that of the transport in test files.
const Name = "netlock"

// LeastGap is the parameter that is the least time between two packets of a host.
const LeastGap = "client-ns"

// Transport declares the transport.
func Transport() wire.Transport {
	return wire.Transport{
		Model: parameter.Model{
			Name: Name,
			Doc: "NetLock's hosts: clients take and release locks, lock servers grant those that the switch does not have " +
				"and buffer what it has no room for. Packets have the size of their header; `packet-size` bounds it.",
			Parameters: parameter.Table{
				{Name: "packet-size", Kind: parameter.Integer, Unit: "bytes", Default: "128", Min: 128, Max: 9216,
					Doc: "Most bytes of a frame without FCS."},
				{Name: "server-cores", Kind: parameter.Integer, Default: "8", Min: 1, Max: 256,
					Doc: "Cores of a lock server; one core serves all packets of a lock."},
				{Name: "server-ns", Kind: parameter.Duration, Unit: "ns", Default: "444", Max: 1_000_000_000,
					Doc: "How long a core takes for each packet (18 million requests/s with 8 cores)."},
				{Name: "server-drain-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 1_000_000,
					Doc: "How often a core of a lock server sends its answers, or as soon as there are 32; 0: each at once."},
				{Name: LeastGap, Kind: parameter.Duration, Unit: "ns", Default: "55", Max: 1_000_000_000,
					Doc: "Least time between two packets that a host sends (18 million packets/s)."},
				{Name: "host-delay-ns", Kind: parameter.Duration, Unit: "ns", Default: "0", Max: 1_000_000_000,
					Doc: "How long a packet takes from the NIC to the client or lock server, and back, each way."},
				{Name: "host-jitter-ns", Kind: parameter.Duration, Unit: "ns", Default: "0", Max: 1_000_000_000,
					Doc: "Most that is added to host-delay-ns at random, each time; packets of a host stay in order."},
				{Name: "lease-us", Kind: parameter.Duration, Unit: "us", Default: "10000", Max: 1_000_000_000,
					Doc: "After which holders lose a lock that a server owns; 0: never."},
				{Name: "poll-us", Kind: parameter.Duration, Unit: "us", Default: "1000", Min: 1, Max: 1_000_000_000,
					Doc: "How often a server looks for ended leases."},
				{Name: "server-not-before-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 1_000_000_000,
					Doc: "Lock servers grant nothing before: locks of a server that failed may still be held."},
				{Name: "loss", Kind: parameter.Number, Default: "0", Max: 1,
					Doc: "Share of packets that are lost at random between a host's NIC and its client or lock server, each way."},
				{Name: "duplicates", Kind: parameter.Number, Default: "0", Max: 1,
					Doc: "Share of requests and releases that a client sends twice."},
			},
			Bugs: []parameter.Bug{
				{Name: "keeps-buffer", Rule: "lock.single-queue",
					Doc: "A lock server keeps what it buffers when the switch has lost its registers."},
				{Name: "keeps-granting", Rule: "lock.placement",
					Doc: "A lock server goes on to grant a lock that it has given to the switch."},
				{Name: "server-grants-early", Rule: "lock.failover",
					Doc: "A lock server that replaces a failed one grants before the leases of holders have ended."},
				{Name: "server-forgets-queue", Rule: "lock.lost",
					Doc: "When a hold ends, a lock server forgets who else has the lock and who waits."},
				{Name: "server-one-by-one", Rule: "lock.batch",
					Doc: "Whatever happens to a lock, a lock server grants at most one request of it."},
				{Name: "server-no-dedup", Rule: "lock.exactly-once",
					Doc: "Lock servers queue requests that are already queued again."},
				{Name: "server-buffers-copies", Rule: "lock.exactly-once",
					Doc: "Lock servers buffer requests that they have already again."},
				{Name: "server-counts-copies", Rule: "lock.lost",
					Doc: "Lock servers count requests that they do not buffer, as they have them already, as received."},
			},
		},
		Protocol: trace.ProtocolNetLock, Reliable: true, OnePacketSize: true, Codec: Codec(),
		Data: func(*wire.Header) bool { return false },
	}
}

// The header's fields are in the packet where NDP and TCP have their own, and ranks: a packet has one of them.
//
//	Flow, Number         lock, transaction
//	Rank                 time stamp
//	NDP.Kind, Flags      operation; mode, mark, last
//	NDP.Path, Length     tenant; client in the upper half, priority in the lower
//	NDP.Connection       avail
//	NDP.Seq, Counter     index
//	TCP.Seq, Ack         sent
//	TCP.SACK             received
//	TCP.Window           client's host plus 1, 0: none

const (
	exclusive = 1 << iota
	last
	markShift = iota
	half      = 8
	word      = 32
)

// Fill writes a header into that of a packet.
func Fill(n *netlock.Header, h *wire.Header) {
	h.NDP, h.TCP = ndp.Header{}, tcp.Header{}
	FillBlank(n, h)
}

// FillBlank writes a header into that of a packet in which it is zero.
func FillBlank(n *netlock.Header, h *wire.Header) {
	flags := ndp.Flags(n.Mark) << markShift
	if n.Mode == netlock.Exclusive {
		flags |= exclusive
	}
	if n.Last {
		flags |= last
	}
	client := wire.Nobody
	if n.Address.IsValid() {
		client = wire.HostOf(n.Address.AsSlice())
	}
	h.Flow, h.Number, h.Rank = n.Lock, n.Transaction, n.Timestamp
	// Field by field: a processor waits for narrow stores before it copies a struct that was made of them.
	h.NDP.Kind, h.NDP.Flags, h.NDP.Path, h.NDP.Connection = ndp.Kind(n.Op), flags, n.Tenant, n.Avail
	h.NDP.Length = uint16(n.Client)<<half | uint16(n.Priority)
	h.NDP.Seq, h.NDP.Counter = uint32(n.Index>>word), uint32(n.Index)
	h.TCP.Seq, h.TCP.Ack, h.TCP.Window = uint32(n.Sent>>word), uint32(n.Sent), uint16(client+1)
	h.TCP.SACK.Start, h.TCP.SACK.End = uint32(n.Received>>word), uint32(n.Received)
}

// FromHeader returns the header of a packet.
func FromHeader(h *wire.Header) (n netlock.Header) {
	Read(h, &n)
	return n
}

// Read sets n to the header of a packet.
func Read(h *wire.Header, n *netlock.Header) {
	long := func(upper, lower uint32) uint64 { return uint64(upper)<<word | uint64(lower) }
	n.Passes, n.Op, n.Mode, n.Client = 0, netlock.Op(h.NDP.Kind), netlock.Shared, uint8(h.NDP.Length>>half)
	n.Transaction, n.Lock, n.Timestamp = h.Number, h.Flow, h.Rank
	n.Mark, n.Last = netlock.Mark(h.NDP.Flags>>markShift), h.NDP.Flags&last != 0
	n.Priority, n.Tenant = uint8(h.NDP.Length), h.NDP.Path
	n.Avail, n.Sent = h.NDP.Connection, long(h.TCP.Seq, h.TCP.Ack)
	n.Received, n.Index = long(h.TCP.SACK.Start, h.TCP.SACK.End), long(h.NDP.Seq, h.NDP.Counter)
	if h.NDP.Flags&exclusive != 0 {
		n.Mode = netlock.Exclusive
	}
	n.Address = netip.Addr{}
	if c := h.TCP.Window; c != 0 {
		if host := wire.HostID(c - 1); h.IPv6 {
			n.Address = host.IPv6()
		} else {
			n.Address = host.IPv4()
		}
	}
}

// Size returns the bytes of a frame without FCS.
func Size(n *netlock.Header, v6 bool) int32 {
	return int32(codec.HeaderSize(v6) - netlock.Size + n.Len())
}

var codec = Codec()

// Codec returns the codec.
func Codec() *wire.Codec {
	return wire.UDP{
		Port: netlock.Port, Reply: netlock.ReplyPort, Len: netlock.Size,
		Append: func(b []byte, h *wire.Header) []byte {
			n := FromHeader(h)
			return n.AppendTo(b)
		},
		Parse: func(body []byte, h *wire.Header) bool {
			var n netlock.Header
			if n.Parse(body) != nil {
				return false
			}
			Fill(&n, h)
			return true
		},
	}.Codec()
}
