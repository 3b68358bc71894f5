package ndp

// fifo is a FIFO in a ring buffer that grows.
type fifo[T any] struct {
	ring       []T
	head, tail uint32 // never wrapped to the ring; their difference is the length
}

func (f *fifo[T]) len() int { return int(f.tail - f.head) }

func (f *fifo[T]) push(v T) { *f.add() = v }

// add makes room for an entry, which the caller writes.
func (f *fifo[T]) add() *T {
	if f.len() == len(f.ring) {
		f.grow()
	}
	f.tail++
	return &f.ring[(f.tail-1)&uint32(len(f.ring)-1)]
}

// front returns the oldest entry. There must be one.
func (f *fifo[T]) front() *T { return &f.ring[f.head&uint32(len(f.ring)-1)] }

func (f *fifo[T]) pop() T {
	v := *f.front()
	f.head++
	return v
}

func (f *fifo[T]) grow() {
	ring := make([]T, max(16, 2*len(f.ring)))
	n := f.len()
	for i := range n {
		ring[i] = f.ring[(f.head+uint32(i))&uint32(len(f.ring)-1)]
	}
	f.ring, f.head, f.tail = ring, 0, uint32(n)
}
