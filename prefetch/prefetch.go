// Package prefetch loads memory into the caches ahead of its use. A program that knows its next reads, and whose state
// exceeds the caches, then waits for memory once for many reads instead of once for each. A prefetch itself never
// waits. It affects only the run time.
package prefetch

import (
	"cmp"
	"unsafe"
)

// Line is the size of a cache line in bytes.
const Line = 64

// Cache is the size in bytes of a core's second cache, of which all state is at hand that fits into it.
var Cache = cmp.Or(secondCache(), 1<<20)

// Lines are addresses of cache lines to prefetch. They are not pointers: they keep nothing alive, and prefetching a
// freed address or address 0 is harmless.
type Lines []uintptr

// And returns the list with the line at p added.
func (l Lines) And(p unsafe.Pointer) Lines { return append(l, uintptr(p)) }

// AndTwo returns the list with the line at p and the following one added.
func (l Lines) AndTwo(p unsafe.Pointer) Lines { return append(l, uintptr(p), uintptr(p)+Line) }

// Fetch prefetches all lines.
func (l Lines) Fetch() { fetch(l) }
