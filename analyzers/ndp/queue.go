package ndp

// fifo is a queue in a ring that grows.
type fifo[T any] struct {
	ring       []T
	head, tail uint32
}

func (f *fifo[T]) len() int { return int(f.tail - f.head) }

func (f *fifo[T]) push(v T) {
	if f.len() == len(f.ring) {
		ring := make([]T, max(64, 2*len(f.ring)))
		n := f.len()
		for i := range n {
			ring[i] = f.ring[(f.head+uint32(i))&uint32(len(f.ring)-1)]
		}
		f.ring, f.head, f.tail = ring, 0, uint32(n)
	}
	f.ring[f.tail&uint32(len(f.ring)-1)] = v
	f.tail++
}

// front returns the oldest entry, of which there must be one.
func (f *fifo[T]) front() *T { return &f.ring[f.head&uint32(len(f.ring)-1)] }

func (f *fifo[T]) pop() T {
	v := *f.front()
	f.head++
	return v
}
