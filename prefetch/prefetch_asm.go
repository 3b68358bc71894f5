//go:build amd64 || arm64

package prefetch

// Works reports whether Fetch has an effect on this processor.
const Works = true

//go:noescape
func fetch(lines []uintptr)
