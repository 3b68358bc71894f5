package trace

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"candela.dev/candela/packet"
)

// flowKey is (source, destination, destination QPN) in words that compare quickly. An IPv4 key has both addresses in a
// and zeros in b to d; the version is above the QPN, so that no IPv6 key equals it.
type flowKey struct {
	a, b, c, d uint64
	qpn        uint64
}

const flowKeyV6 = 1 << 32

func makeFlowKey(src, dst netip.Addr, qpn packet.QPN) flowKey {
	if src.Is4() && dst.Is4() {
		s, d := src.As4(), dst.As4()
		return flowKey{a: uint64(be32(s[:]))<<32 | uint64(be32(d[:])), qpn: uint64(qpn)}
	}
	s, d := src.As16(), dst.As16()
	return flowKey{a: be64(s[:]), b: be64(s[8:]), c: be64(d[:]), d: be64(d[8:]), qpn: uint64(qpn) | flowKeyV6}
}

// equal is == that compares the words that differ most often first, inlined.
func (k *flowKey) equal(o *flowKey) bool {
	return k.qpn == o.qpn && k.a == o.a && k.b == o.b && k.c == o.c && k.d == o.d
}

func (k *flowKey) hash() uint64 {
	hi, lo := bits.Mul64(k.a^0x9e3779b97f4a7c15, k.qpn^0xd1b54a32d192ed03)
	h := hi ^ lo
	if k.qpn&flowKeyV6 != 0 {
		hi, lo = bits.Mul64(k.b^k.c^h, k.d^0x8cb92ba72f3d8dd7)
		h ^= hi ^ lo
	}
	return h ^ h>>29
}

// addrs returns the addresses and the QPN that k was made from.
func (k *flowKey) addrs() (src, dst netip.Addr, qpn packet.QPN) {
	qpn = packet.QPN(k.qpn & maxUint24)
	if k.qpn&flowKeyV6 == 0 {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], k.a)
		return netip.AddrFrom4([4]byte(b[:4])), netip.AddrFrom4([4]byte(b[4:])), qpn
	}
	var s, d [16]byte
	binary.BigEndian.PutUint64(s[:8], k.a)
	binary.BigEndian.PutUint64(s[8:], k.b)
	binary.BigEndian.PutUint64(d[:8], k.c)
	binary.BigEndian.PutUint64(d[8:], k.d)
	return netip.AddrFrom16(s), netip.AddrFrom16(d), qpn
}

// flowTable is an open-addressing hash table from flow keys to small numbers, at half the cost of a Go map with this
// key.
type flowTable struct {
	slots []flowSlot // a power of two, at most half full
	n     int
}

type flowSlot struct {
	key  flowKey
	flow FlowID
	used bool
}

func newFlowTable(n int) flowTable {
	size := 8
	for size < 2*n {
		size *= 2
	}
	return flowTable{slots: make([]flowSlot, size)}
}

// find returns the flow of key, or NoFlow.
func (t *flowTable) find(key *flowKey) FlowID {
	mask := uint64(len(t.slots) - 1)
	for i := key.hash() & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if !s.used {
			return NoFlow
		}
		if s.key.equal(key) {
			return s.flow
		}
	}
}

// insert adds key. If it is there already, insert does nothing and returns its flow, otherwise NoFlow.
func (t *flowTable) insert(key flowKey, flow FlowID) FlowID {
	if 2*(t.n+1) > len(t.slots) {
		t.grow()
	}
	mask := uint64(len(t.slots) - 1)
	for i := key.hash() & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if !s.used {
			*s = flowSlot{key: key, flow: flow, used: true}
			t.n++
			return NoFlow
		}
		if s.key == key {
			return s.flow
		}
	}
}

func (t *flowTable) grow() {
	old := t.slots
	*t = flowTable{slots: make([]flowSlot, 2*len(old))}
	for i := range old {
		if old[i].used {
			t.insert(old[i].key, old[i].flow)
		}
	}
}

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
