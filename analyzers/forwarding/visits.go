package forwarding

import (
	"math/bits"
	"slices"

	"candela.dev/candela/trace"
)

// identity is what a switch must not change. Retransmissions have the same identity: visits count them. Four words fit
// into registers.
type identity struct {
	number uint64
	hosts  uint64 // source, then destination
	flow   uint64 // then connection
	// returned, made, protocol and kind. A header on the way back to its sender is none of the packets of the other
	// direction, and what a switch makes is none of those that came in: they may have the same addresses and number.
	kind uint64
}

func identify(t *trace.SwitchTap) identity {
	return identity{t.Number, uint64(t.Src)<<32 | uint64(t.Dst), uint64(t.Flow)<<32 | uint64(t.Connection),
		uint64(t.Flags&(trace.Returned|trace.Made))<<16 | uint64(t.Protocol)<<8 | uint64(t.Kind)}
}

// forward returns the identity that a returned header had before it was returned.
func (k identity) forward() identity {
	k.hosts = bits.RotateLeft64(k.hosts, 32)
	k.kind &^= uint64(trace.Returned) << 16
	return k
}

// hash mixes all words; it is not 0. Collisions cost time only.
func (k identity) hash() uint32 {
	const odd1, odd2, odd3 = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb
	high, low := bits.Mul64(k.number^odd1, odd2^k.hosts)
	high, low = bits.Mul64(high^low^k.flow, odd3^k.kind)
	return uint32(high^low) | 1<<31
}

// visit is a packet inside a switch, or several with one identity: a retransmission can meet the header of a segment
// that another switch cut.
type visit struct {
	identity
	home  uint32  // hash of the identity; 0: the place is free
	size  int32   // with which it came in
	other []int32 // sizes of the others
}

func (v *visit) largest() int32 {
	if len(v.other) == 0 {
		return v.size
	}
	return max(v.size, slices.Max(v.other))
}

// take removes the packet that leaves or is dropped with a size, and reports whether one arrived with it. A packet of
// another size can only be the header of the largest.
func (v *visit) take(size int32) bool {
	same := v.size == size || slices.Contains(v.other, size)
	if !same {
		size = v.largest()
	}
	switch last := len(v.other) - 1; {
	case last < 0:
		v.home = 0
	case v.size == size:
		v.size, v.other = v.other[last], v.other[:last]
	default:
		i := slices.Index(v.other, size)
		v.other = slices.Delete(v.other, i, i+1)
	}
	return same
}

// visits are the packets inside a switch, by identity: a hash table with linear probing. A run of a large network
// enters and leaves it twice a hop, for which a map is too slow.
type visits struct {
	places []visit // a power of two of them, at most half of them taken
	taken  int
	// The table is made smaller when few places were taken for as many packets as it has places.
	most, entered int
}

const fewestPlaces = 16

// find returns the visit with identity k, or nil. It is valid until the next enter or leave.
func (t *visits) find(k identity) *visit {
	if t.taken == 0 {
		return nil
	}
	if v := t.place(k, k.hash()); v.home != 0 {
		return v
	}
	return nil
}

// of returns the visit of a packet that leaves or is dropped, or nil. A header that a switch returns may have come in
// as a packet on its way forward.
func (t *visits) of(tap *trace.SwitchTap) *visit {
	k := identify(tap)
	v := t.find(k)
	if v == nil && tap.Flags&trace.Returned != 0 {
		v = t.find(k.forward())
	}
	return v
}

// place returns the visit with identity k, which has that hash, or the free place for one.
func (t *visits) place(k identity, hash uint32) *visit {
	mask := uint32(len(t.places) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if v := &t.places[i]; v.home == 0 || v.home == hash && v.identity == k {
			return v
		}
	}
}

// enter adds a packet.
func (t *visits) enter(k identity, size int32) {
	t.entered++
	t.most = max(t.most, t.taken+1)
	if n := len(t.places); 2*(t.taken+1) > n {
		t.resize(max(fewestPlaces, 2*n))
	} else if t.entered >= n {
		if n > fewestPlaces && 8*t.most < n {
			t.resize(n / 2)
		}
		t.most, t.entered = 0, 0
	}
	hash := k.hash()
	v := t.place(k, hash)
	if v.home != 0 {
		v.other = append(v.other, size)
		return
	}
	v.identity, v.home, v.size, v.other = k, hash, size, nil
	t.taken++
}

func (t *visits) resize(places int) {
	old := t.places
	t.places = make([]visit, places)
	for i := range old {
		if v := &old[i]; v.home != 0 {
			*t.place(v.identity, v.home) = *v
		}
	}
}

// leave removes a packet of v, and reports whether one arrived with its size.
func (t *visits) leave(v *visit, size int32) bool {
	home := v.home
	same := v.take(size)
	if v.home == 0 {
		t.remove(v, home)
	}
	return same
}

// remove frees the place of v, whose identity has that hash, and moves others up so that none is behind a free place.
func (t *visits) remove(v *visit, hash uint32) {
	t.taken--
	mask := uint32(len(t.places) - 1)
	hole := hash & mask
	for &t.places[hole] != v {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.places[i].home != 0; i = (i + 1) & mask {
		if home := t.places[i].home & mask; (i-home)&mask >= (i-hole)&mask {
			t.places[hole], t.places[i] = t.places[i], visit{}
			hole = i
		}
	}
}
