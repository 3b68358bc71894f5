package lock

// key identifies a request.
type key struct {
	client      Client
	transaction uint32
}

// place is where a request is: a queue of a lock, and a position in it.
type place struct {
	at    uint64
	class uint8
}

// index finds the entries of a lock by their requests. It grows to twice as many cells as the lock ever had entries
// at a time, so that a lock with many slots and few entries stays in the caches.
type index struct {
	cells []indexCell
	used  int
	// The key of the latest search, and the cell that has it or where it belongs: a request is looked for before it is put
	// there, a release before it is removed.
	latest key
	found  int // unknown: a cell has got another key since
}

const unknown = -1

type indexCell struct {
	key   key
	used  bool
	place place
}

func newIndex() *index {
	const least = 8
	return &index{cells: make([]indexCell, least), found: unknown}
}

// grow doubles the cells.
func (x *index) grow() {
	old := x.cells
	x.cells, x.found = make([]indexCell, 2*len(old)), unknown
	for i := range old {
		if old[i].used {
			x.cells[x.find(old[i].key)] = old[i]
		}
	}
}

// home returns the cell where a key should be.
func (x *index) home(k key) int {
	h := uint64(k.client.Host)<<32 | uint64(k.transaction)
	h = (h ^ uint64(k.client.Thread)<<56) * 0x9e3779b97f4a7c15
	return int(h >> 33 & uint64(len(x.cells)-1))
}

// find returns the cell that has a key, or the empty one where it belongs.
func (x *index) find(k key) int {
	if x.found != unknown && x.latest == k {
		return x.found
	}
	for i := x.home(k); ; i = (i + 1) & (len(x.cells) - 1) {
		if c := &x.cells[i]; !c.used || c.key == k {
			x.latest, x.found = k, i
			return i
		}
	}
}

// get returns where a request is.
func (x *index) get(k key) (p place, ok bool) {
	if x == nil {
		return p, false
	}
	c := &x.cells[x.find(k)]
	return c.place, c.used
}

// put notes where a request is.
func (x *index) put(k key, p place) {
	if x == nil {
		return
	}
	i := x.find(k)
	if !x.cells[i].used {
		if x.used++; 2*x.used > len(x.cells) {
			x.grow()
			i = x.find(k)
		}
	}
	c := &x.cells[i]
	c.key, c.used, c.place = k, true, p
}

// remove forgets a request.
func (x *index) remove(k key) {
	if x == nil {
		return
	}
	i := x.find(k)
	if !x.cells[i].used {
		return
	}
	// Entries after it move up, unless that puts them before their home.
	mask := len(x.cells) - 1
	for j := (i + 1) & mask; x.cells[j].used; j = (j + 1) & mask {
		if (j-x.home(x.cells[j].key))&mask >= (j-i)&mask {
			x.cells[i] = x.cells[j]
			i = j
		}
	}
	x.cells[i] = indexCell{}
	x.used--
	x.found = unknown
}
