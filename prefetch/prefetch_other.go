//go:build !amd64 && !arm64

package prefetch

// Works reports whether Fetch has an effect on this processor.
const Works = false

func fetch([]uintptr) {}
