package trace

// window is a queue whose elements have numbers that never change.
type window[T any] struct {
	items []T // ring, a power of two
	base  int64
	n     int64
}

func (w *window[T]) len() int      { return int(w.n) }
func (w *window[T]) end() int64    { return w.base + w.n }
func (w *window[T]) at(i int64) *T { return &w.items[i&int64(len(w.items)-1)] }
func (w *window[T]) first() *T     { return w.at(w.base) }
func (w *window[T]) latest() *T    { return w.at(w.base + w.n - 1) }

// push appends v and returns its number.
func (w *window[T]) push(v T) int64 {
	if int(w.n) == len(w.items) {
		grown := window[T]{items: make([]T, max(64, 2*len(w.items))), base: w.base, n: w.n}
		for i := w.base; i < w.end(); i++ {
			*grown.at(i) = *w.at(i)
		}
		*w = grown
	}
	i := w.end()
	w.n++
	*w.at(i) = v
	return i
}

func (w *window[T]) pop() {
	w.base++
	w.n--
}
