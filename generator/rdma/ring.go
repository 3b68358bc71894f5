package rdma

// ring is a FIFO that allocates only to grow.
type ring[T any] struct {
	buf  []T // length is zero or a power of two
	head int
	n    int
}

func (r *ring[T]) len() int { return r.n }

// at returns the i-th oldest element, which must exist. The pointer is invalid after the next push, remove or pop.
func (r *ring[T]) at(i int) *T { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// push appends v.
func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.n++
	*r.at(r.n - 1) = v
}

// extend appends a zero or stale element and returns it, to save a copy of large elements.
func (r *ring[T]) extend() *T {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.n++
	return r.at(r.n - 1)
}

// shrink undoes the latest extend.
func (r *ring[T]) shrink() { r.n-- }

// drop removes the oldest element, which must exist.
func (r *ring[T]) drop() {
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
}

// pop removes and returns the oldest element, which must exist.
func (r *ring[T]) pop() T {
	v := r.buf[r.head]
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return v
}

// remove removes the i-th oldest element.
func (r *ring[T]) remove(i int) {
	for ; i < r.n-1; i++ {
		*r.at(i) = *r.at(i + 1)
	}
	r.n--
}

func (r *ring[T]) clear() { r.head, r.n = 0, 0 }

func (r *ring[T]) grow() {
	buf := make([]T, max(8, 2*len(r.buf)))
	for i := range r.n {
		buf[i] = *r.at(i)
	}
	r.buf, r.head = buf, 0
}
