package prefetch

// Works says that Fetch does something on this processor.
const Works = true

// fetch asks for the first n lines.
//
//go:noescape
func fetch(lines *[capacity]uintptr, n uint)
