// Package prefetch asks the processor for memory before it is needed: a program that knows where it will read next, and
// whose state exceeds the caches, waits for memory once for many reads rather than once for each. Unlike a read, asking
// waits for nothing, whatever is done next. It changes nothing but the time that a program takes.
package prefetch

import "unsafe"

// Line is the size of a cache line in bytes.
const Line = 64

// Lines is addresses of cache lines to ask for. They are no pointers: they keep nothing alive, and asking for what is
// gone, or for address 0, does no harm.
type Lines []uintptr

// And returns the list with the line at p.
func (l Lines) And(p unsafe.Pointer) Lines { return append(l, uintptr(p)) }

// AndTwo returns the list with the line at p and the one behind it.
func (l Lines) AndTwo(p unsafe.Pointer) Lines { return append(l, uintptr(p), uintptr(p)+Line) }

// Fetch asks for all lines.
func (l Lines) Fetch() { fetch(l) }
