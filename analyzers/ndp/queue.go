package ndp

// fifo is a queue in a ring that grows, and shrinks if most of it is not needed: a small ring stays in the caches.
type fifo[T any] struct {
	ring       []T
	head, tail uint32
}

const smallestRing = 64

func (f *fifo[T]) len() int { return int(f.tail - f.head) }

func (f *fifo[T]) push(v T) {
	if f.len() == len(f.ring) {
		f.resize(max(smallestRing, 2*len(f.ring)))
	}
	f.ring[f.tail&uint32(len(f.ring)-1)] = v
	f.tail++
}

// pushAfter adds v. If the ring is full, it first removes the oldest entries that are over.
func (f *fifo[T]) pushAfter(v T, over func(*T) bool) {
	if f.len() == len(f.ring) {
		for f.len() > 0 && over(f.front()) {
			f.head++
		}
		if size := len(f.ring); size > smallestRing && f.len() <= size/8 {
			f.resize(size / 4)
		} else if f.len() > size/4*3 {
			f.resize(max(smallestRing, 2*size))
		}
	}
	f.push(v)
}

func (f *fifo[T]) resize(size int) {
	ring := make([]T, size)
	n := f.len()
	for i := range n {
		ring[i] = f.ring[(f.head+uint32(i))&uint32(len(f.ring)-1)]
	}
	f.ring, f.head, f.tail = ring, 0, uint32(n)
}

// front returns the oldest entry, of which there must be one.
func (f *fifo[T]) front() *T { return &f.ring[f.head&uint32(len(f.ring)-1)] }

func (f *fifo[T]) pop() T {
	v := *f.front()
	f.head++
	return v
}
