package lock

// fifo is a queue that uses its memory again.
type fifo[T any] struct {
	list  []T
	first int
}

// front returns the oldest entry; nil: there is none.
func (f *fifo[T]) front() *T {
	if f.first == len(f.list) {
		f.list, f.first = f.list[:0], 0
		return nil
	}
	return &f.list[f.first]
}

func (f *fifo[T]) pop() { f.first++ }

func (f *fifo[T]) push(v T) {
	if len(f.list) == cap(f.list) && f.first > len(f.list)/2 {
		f.list, f.first = f.list[:copy(f.list, f.list[f.first:])], 0
	}
	f.list = append(f.list, v)
}
