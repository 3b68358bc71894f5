package deflect

// table finds what is known of a packet by its ID: a hash table with linear probing. A run of a large network asks
// several times a hop, for which a map is too slow. The zero value is an empty one.
type table[V any] struct {
	places []entry[V] // a power of two of them, at most half of them taken
	taken  int
	shift  uint8 // of hashes
}

type entry[V any] struct {
	id uint64
	of *V // nil: the place is free
}

const fewestPlaces = 64

func (t *table[V]) home(id uint64) int {
	const odd = 0x9e3779b97f4a7c15
	return int(id * odd >> (t.shift & 63))
}

// find returns the place of an ID, or the free place for it.
func (t *table[V]) find(id uint64) int {
	mask := len(t.places) - 1
	i := t.home(id)
	for t.places[i].of != nil && t.places[i].id != id {
		i = (i + 1) & mask
	}
	return i
}

// get returns what is known of a packet; nil: nothing.
func (t *table[V]) get(id uint64) *V {
	if t.taken == 0 {
		return nil
	}
	return t.places[t.find(id)].of
}

// put enters what is known of a packet, which is not nil.
func (t *table[V]) put(id uint64, of *V) {
	if 2*(t.taken+1) > len(t.places) {
		old := t.places
		n := max(fewestPlaces, 2*len(old))
		t.places, t.shift = make([]entry[V], n), 64
		for ; n > 1; n /= 2 {
			t.shift--
		}
		for _, e := range old {
			if e.of != nil {
				t.places[t.find(e.id)] = e
			}
		}
	}
	i := t.find(id)
	if t.places[i].of == nil {
		t.taken++
	}
	t.places[i] = entry[V]{id, of}
}

// remove forgets a packet. What was placed behind it, for want of its place, moves up.
func (t *table[V]) remove(id uint64) {
	if t.taken == 0 {
		return
	}
	mask := len(t.places) - 1
	i := t.find(id)
	if t.places[i].of == nil {
		return
	}
	t.taken--
	for j := i; ; {
		j = (j + 1) & mask
		if t.places[j].of == nil {
			break
		}
		if home := t.home(t.places[j].id); (j-home)&mask >= (j-i)&mask {
			t.places[i] = t.places[j]
			i = j
		}
	}
	t.places[i] = entry[V]{}
}

// all yields all packets, in an order that means nothing.
func (t *table[V]) all(yield func(id uint64, of *V) bool) {
	for i := range t.places {
		if e := &t.places[i]; e.of != nil && !yield(e.id, e.of) {
			return
		}
	}
}
