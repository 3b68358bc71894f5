package pipeline

import "math/bits"

// exact is an exact-match table: open addressing with linear probing, at most half full, keys separate from values so
// that a miss touches one cache line. The zero K marks an empty slot, so keys in use must not be zero.
//
// Lookups take the key's hash as an argument because a hash passed as a function value cannot be inlined; the table
// keeps the function for moving keys.
type exact[K comparable, V any] struct {
	keys  []K
	vals  []V
	n     int
	shift uint8
	hash  func(K) uint64
}

const minSlots = 16

func newExact[K comparable, V any](hash func(K) uint64) exact[K, V] {
	t := exact[K, V]{hash: hash}
	t.alloc(minSlots)
	return t
}

func (t *exact[K, V]) alloc(slots int) {
	t.keys, t.vals = make([]K, slots), make([]V, slots)
	t.shift = uint8(64 - bits.TrailingZeros(uint(slots)))
}

// find returns the value stored under k, whose hash is h, or nil. The pointer is valid until the next put or remove.
func (t *exact[K, V]) find(h uint64, k K) *V {
	var empty K
	keys := t.keys
	mask := uint64(len(keys) - 1)
	for i := h >> t.shift; ; i++ {
		switch keys[i&mask] {
		case k:
			return &t.vals[i&mask]
		case empty:
			return nil
		}
	}
}

// put returns the place for k's value, which is zero if k is new.
func (t *exact[K, V]) put(k K) *V {
	if v := t.find(t.hash(k), k); v != nil {
		return v
	}
	if 2*(t.n+1) > len(t.keys) {
		t.grow()
	}
	t.n++
	i := t.freeSlot(k)
	t.keys[i] = k
	return &t.vals[i]
}

func (t *exact[K, V]) freeSlot(k K) int {
	var empty K
	mask := len(t.keys) - 1
	i := int(t.hash(k) >> t.shift)
	for t.keys[i] != empty {
		i = (i + 1) & mask
	}
	return i
}

func (t *exact[K, V]) grow() {
	var empty K
	keys, vals := t.keys, t.vals
	t.alloc(2 * len(keys))
	for i, k := range keys {
		if k != empty {
			j := t.freeSlot(k)
			t.keys[j], t.vals[j] = k, vals[i]
		}
	}
}

// remove deletes k and closes the gap, so that no tombstones slow later lookups.
func (t *exact[K, V]) remove(k K) {
	var empty K
	var zero V
	mask := len(t.keys) - 1
	i := int(t.hash(k) >> t.shift)
	for t.keys[i] != k {
		if t.keys[i] == empty {
			return
		}
		i = (i + 1) & mask
	}
	t.n--
	for j := (i + 1) & mask; t.keys[j] != empty; j = (j + 1) & mask {
		home := int(t.hash(t.keys[j]) >> t.shift)
		if (j-home)&mask >= (j-i)&mask { // i lies between home and j: the entry may move up
			t.keys[i], t.vals[i] = t.keys[j], t.vals[j]
			i = j
		}
	}
	t.keys[i], t.vals[i] = empty, zero
}

// Odd constants with well-spread bits (2⁶⁴ over the golden ratio, and from xxHash): the top bits of a product depend on
// all bits of the key.
const (
	mix1 = 0x9e3779b97f4a7c15
	mix2 = 0xc2b2ae3d27d4eb4f
	mix3 = 0x165667b19e3779f9
)

func hashInt(k uint64) uint64 { return k * mix1 }

// v4Key and v6Key name a flow. qpn carries occupied, so that no key in use is zero.
type v4Key struct {
	addrs uint64 // source, destination
	qpn   uint64
}

type v6Key struct {
	src, dst [2]uint64
	qpn      uint64
}

// occupied marks keys in use; no contract field reaches this bit.
const occupied = 1 << 63

func hashV4(k v4Key) uint64 { return k.addrs*mix1 ^ k.qpn*mix2 }

func hashV6(k v6Key) uint64 {
	return (k.src[0]^k.dst[1])*mix1 ^ (k.src[1]+k.dst[0])*mix3 ^ k.qpn*mix2
}
