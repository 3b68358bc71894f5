// Package prefetch asks the processor for memory before it is needed: a program that knows where it will read next, and whose state
// exceeds the caches, waits for memory once for many reads rather than once for each. Unlike a read, asking waits for nothing,
// whatever is done next. It changes nothing but the time that a program takes.
package prefetch

import "unsafe"

// Line is the size of a cache line in bytes.
const Line = 64

// capacity is how many lines a List holds; beyond it the first are forgotten.
const capacity = 128

// List is addresses of cache lines to ask for. The zero value is an empty list.
type List struct {
	lines [capacity]uintptr // not pointers: nothing is kept alive, and asking for what is gone does no harm
	n     uint
}

// Add enters the line at p; nil is harmless.
func (l *List) Add(p unsafe.Pointer) {
	l.lines[l.n%capacity] = uintptr(p)
	l.n++
}

// AddTwo enters the line at p and the one behind it.
func (l *List) AddTwo(p unsafe.Pointer) {
	l.Add(p)
	l.lines[l.n%capacity] = uintptr(p) + Line
	l.n++
}

// Fetch asks for all lines and empties the list.
func (l *List) Fetch() {
	fetch(&l.lines, min(l.n, capacity))
	l.n = 0
}
