package fabric

import (
	"sync"

	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// HostID numbers hosts from 0.
type HostID = wire.HostID

// Protocol is what a packet carries.
type Protocol = trace.Protocol

// Protocols. PFC frames exist between neighbours only: no mechanism and no stack ever sees one.
const (
	Raw       = trace.ProtocolRaw
	NDP       = trace.ProtocolNDP
	TCP       = trace.ProtocolTCP
	RoCE      = trace.ProtocolRoCE
	Echo      = trace.ProtocolEcho
	PFC       = trace.ProtocolPFC
	protocols = trace.Protocols
)

// Flags say what switches did to a packet.
type Flags = trace.PacketFlags

// Flags, as trace describes them.
const (
	Trimmed        = trace.Trimmed
	Returned       = trace.Returned
	ChecksumStale  = trace.ChecksumStale
	LengthStale    = trace.LengthStale
	Deflected      = trace.Deflected
	Mirrored       = trace.Mirrored
	Notification   = trace.Notification
	HeaderSumStale = trace.HeaderSumStale
	TrimmedMark    = trace.TrimmedMark
	Ranked         = trace.Ranked
	PortsSwapped   = trace.PortsSwapped
	Made           = trace.Made
)

// Packet is a frame in flight as a switch sees it: the parsed headers that simulations act on, without payload. It
// belongs to whoever holds it: a queue, a link, or the mechanism or stack that a call handed it to, for the length of
// that call.
//
// A Packet is compact, because its size times the bandwidth-delay product is the working set of a simulation, and is
// recycled: keep values, never the pointer.
type Packet struct {
	next, prev *Packet // in its queue
	number     uint32  // in the pool
	owed       bool    // of a host's backlog: see egress
	_          [3]byte
	Header
}

// Header is what of a packet may be read and set, and what a copy copies.
type Header = wire.Header

// SetRank gives the packet a rank; lower is served first.
func (p *Packet) SetRank(rank uint64) {
	p.Rank = rank
	p.Flags |= Ranked
}

// Trim cuts the packet to size bytes; one that is no longer stays whole. It sets Trimmed, remembers the original size,
// and reports whether anything was cut. The transport checksum can't hold afterwards.
func (p *Packet) Trim(size int) bool {
	if int(p.Size) <= size {
		return false
	}
	p.Size = int32(size)
	p.Flags |= Trimmed | ChecksumStale
	return true
}

// Return reverses the packet's addresses, so that it goes back to its sender.
func (p *Packet) Return() {
	p.Src, p.Dst = p.Dst, p.Src
	p.Flags |= Returned
}

// Kind distinguishes what counters and conservation laws keep apart: the protocol, and for NDP its kind.
type Kind uint8

const (
	ndpKinds = 8
	kinds    = protocols * ndpKinds
)

// Kind returns the packet's kind.
func (p *Packet) Kind() Kind {
	if p.Protocol == NDP {
		return Kind(NDP)*ndpKinds + Kind(p.NDP.Kind)%ndpKinds
	}
	return Kind(p.Protocol) * ndpKinds
}

// Protocol returns the protocol of packets of kind k.
func (k Kind) Protocol() Protocol { return Protocol(k / ndpKinds) }

// String returns the protocol and for NDP its kind.
func (k Kind) String() string {
	if k.Protocol() == NDP {
		return "ndp " + ndp.Kind(k%ndpKinds).String()
	}
	return k.Protocol().String()
}

// identities numbers the packets that a host or a switch makes: the ID of a packet is (node, sequence) as one number of
// decimal digits, below 2⁵³ so that every reader of JSON has it whole. Hosts are the nodes from 0, then come switches.
type identities struct{ last uint64 }

const perNode = trace.PacketsPerNode

// PacketID returns the ID of a packet that a host sent: it counts its packets from 1.
func PacketID(h HostID, sequence uint64) uint64 { return uint64(h)*perNode + sequence }

func identitiesOf(node int) identities { return identities{uint64(node) * perNode} }

// next returns the ID of the next packet.
func (i *identities) next() uint64 {
	i.last++
	return i.last
}

// pool recycles packets, so that a steady state allocates nothing, and numbers them.
type pool struct {
	slabs *slabs
	free  []*Packet // the one that was used last is taken first: it is still in the caches
	full  func()    // called when there are more packets than have numbers
}

// slabs are all packets of a network, free ones included. Partitions share them, because packets pass from one to
// another: then all has its final length, and a worker that takes a slab does not touch what others read.
type slabs struct {
	mutex sync.Mutex
	all   []*[slab]Packet
	count int
}

const maxSlabs = 1 << packetBits / slab

// take makes a slab of new packets; false: there are no numbers left, and they all have the first.
func (s *slabs) take() (packets *[slab]Packet, ok bool) {
	packets = new([slab]Packet)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.count == maxSlabs {
		return packets, false
	}
	if s.count == len(s.all) {
		s.all = append(s.all, nil)
	}
	s.all[s.count] = packets
	for i := range packets {
		packets[i].number = uint32(s.count*slab + i)
	}
	s.count++
	return packets, true
}

const slab = 256 // packets made at a time

// at returns a packet by its number.
func (l *pool) at(i uint) *Packet { return &l.slabs.all[i/slab][i%slab] }

// get returns a packet whose headers are zero.
func (l *pool) get() *Packet {
	n := len(l.free)
	if n == 0 {
		l.grow()
		n = len(l.free)
	}
	p := l.free[n-1]
	l.free = l.free[:n-1]
	p.Header = Header{}
	return p
}

func (l *pool) grow() {
	packets, ok := l.slabs.take()
	if !ok {
		l.full() // ends the run before any of these is looked up
	}
	for i := range packets {
		l.free = append(l.free, &packets[i])
	}
}

func (l *pool) put(p *Packet) { l.free = append(l.free, p) }
