package trace

import "candela.dev/candela/packet"

// DefaultPKey is the partition key of every RoCE port: full membership of the default partition (IBTA volume 1, 10.9).
const DefaultPKey = 0xffff

const (
	partitionOfPKey = 0x7fff
	fullMember      = 0x8000
)

// SamePartition reports whether a queue pair with one key accepts packets with the other: both name one partition, and
// at least one is a full member (IBTA volume 1, 10.9.3).
func SamePartition(a, b uint16) bool { return (a^b)&partitionOfPKey == 0 && (a|b)&fullMember != 0 }

// Partitions learns the partition key of each queue pair from the first packet that it sends. The zero Partitions knows
// none.
type Partitions struct {
	keys []uint32 // key + 1 by flow that the queue pair sends on; 0: not known
}

// Key returns the key of the queue pair that sends on flow.
func (p *Partitions) Key(flow FlowID) (key uint16, known bool) {
	if flow < 0 || int(flow) >= len(p.keys) || p.keys[flow] == 0 {
		return 0, false
	}
	return uint16(p.keys[flow] - 1), true
}

// Shows reports whether r shows the key of the queue pair that sent it. CNPs don't: NICs may send them for the port.
// Nor do damaged packets.
func (p *Partitions) Shows(r *Record) bool {
	return r.Flags&Sent != 0 && r.Flow >= 0 && r.ICRC != packet.ICRCInvalid && r.Opcode != packet.CNP
}

// Learn keeps the key of the sender of r if r is its first packet that shows it, and reports whether it is. 0 names no
// partition, and is the key of records without one.
func (p *Partitions) Learn(r *Record) (first bool) {
	if r.PKey == 0 || !p.Shows(r) {
		return false
	}
	if _, known := p.Key(r.Flow); known {
		return false
	}
	if n := int(r.Flow) + 1 - len(p.keys); n > 0 {
		p.keys = append(p.keys, make([]uint32, n)...)
	}
	p.keys[r.Flow] = uint32(r.PKey) + 1
	return true
}

// Usual reports whether r carries the key that both sides are known to have, as full members, and is not marked.
func (p *Partitions) Usual(r *Record) bool {
	if uint(r.Flow|1) >= uint(len(p.keys)) {
		return false
	}
	key := uint32(r.PKey) + 1
	return p.keys[r.Flow] == key && p.keys[r.Flow^1] == key && r.PKey&fullMember != 0 && r.Flags&ForeignPKey == 0
}

// Mark sets or clears ForeignPKey. The receiver accepts r by its own key or, before it has sent anything, by that of
// the sender's first packet. If these two name different partitions it is unknown what either accepts.
func (p *Partitions) Mark(r *Record) {
	if p.Usual(r) {
		return
	}
	p.Learn(r)
	if r.Flags&Passed == 0 || r.Flow < 0 || r.Opcode == packet.CNP {
		return
	}
	own, known := p.Key(r.Flow.Peer())
	first, ok := p.Key(r.Flow)
	switch {
	case !known && !ok:
		return
	case !known:
		own = first | fullMember
	}
	r.Flags &^= ForeignPKey
	if !SamePartition(own, r.PKey) && (!ok || SamePartition(own|fullMember, first)) {
		r.Flags |= ForeignPKey
	}
}
