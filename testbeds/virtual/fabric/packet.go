package fabric

import (
	"sync"
	"unsafe"

	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// HostID numbers hosts from 0.
type HostID = wire.HostID

// Protocol is the protocol of a packet.
type Protocol = trace.Protocol

// Protocols. PFC frames exist between neighbours only: no mechanism and no stack ever sees one.
const (
	Raw       = trace.ProtocolRaw
	NDP       = trace.ProtocolNDP
	TCP       = trace.ProtocolTCP
	RoCE      = trace.ProtocolRoCE
	Echo      = trace.ProtocolEcho
	PFC       = trace.ProtocolPFC
	PFabric   = trace.ProtocolPFabric
	Bolt      = trace.ProtocolBolt
	NetLock   = trace.ProtocolNetLock
	protocols = trace.Protocols
)

// Flags record what switches did to a packet.
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
	Shimmed        = trace.Shimmed
)

// Packet is a frame in flight as a switch sees it: parsed headers without payload. It belongs to its holder: a queue, a
// link, or, during a call, the mechanism or stack that received it.
//
// A Packet is small, because its size times the bandwidth-delay product is the working set of a simulation. It is
// recycled: copy values, never keep the pointer.
type Packet struct {
	next, prev *Packet // in its queue
	number     uint32  // in the pool
	owed       bool    // counted in a host's backlog: see egress
	_          [1]byte
	share      uint16 // number of the weight of its flow: see Network.SetWeights
	Header
}

// Header holds the fields of a packet that can be read, set and copied.
type Header = wire.Header

// Trim cuts the packet to size bytes and reports whether it did; a packet of at most size bytes is unchanged. It sets
// Trimmed and ChecksumStale, since the transport checksum no longer matches.
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

// Kind is the key of counters and conservation laws: the protocol, and for NDP the packet kind.
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

// identities numbers the packets that a host or a switch makes. A packet ID is (node, sequence) as one decimal number
// below 2⁵³, so that every JSON reader keeps it exact. Hosts are nodes from 0; switches follow.
type identities struct{ last uint64 }

const perNode = trace.PacketsPerNode

// PacketID returns the ID of a packet that a host sent: it counts its packets from 1.
func PacketID(h HostID, sequence uint64) uint64 { return uint64(h)*perNode + sequence }

func identitiesOf(node int) identities { return identities{uint64(node) * perNode} }

func (i *identities) next() uint64 {
	i.last++
	return i.last
}

// pool recycles and numbers packets. In a steady state it allocates nothing.
type pool struct {
	slabs *slabs
	free  []*Packet // a stack: the packet used last is still in the caches
	full  func()    // called when packet numbers run out
}

// slabs are all packets of a network, including free ones. Partitions share them, because packets pass from one to
// another. With several partitions, all has its final length, so a worker that takes a slab does not touch what others
// read.
type slabs struct {
	mutex sync.Mutex
	all   []*Packet // the first of each slab
	count int
}

const maxSlabs = 1 << packetBits / slab

// take makes a slab of new packets; false: numbers have run out, and all the packets have number 0.
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
	s.all[s.count] = &packets[0]
	for i := range packets {
		packets[i].number = uint32(s.count*slab + i)
	}
	s.count++
	return packets, true
}

const slab = 256 // packets made at a time

// at returns packet number i. An index into an array would first read the array's beginning, to see that it exists; the
// beginnings of all slabs compete for a few places of the caches.
func (l *pool) at(i uint) *Packet {
	return (*Packet)(unsafe.Add(unsafe.Pointer(l.slabs.all[i/slab]), uintptr(i%slab)*unsafe.Sizeof(Packet{})))
}

// get returns a packet whose headers are zero.
func (l *pool) get() *Packet {
	n := len(l.free)
	if n == 0 {
		l.grow()
		n = len(l.free)
	}
	p := l.free[n-1]
	l.free = l.free[:n-1]
	p.Header, p.share = Header{}, 0
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
