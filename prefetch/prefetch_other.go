//go:build !amd64 && !arm64

package prefetch

// Works says that Fetch does something on this processor.
const Works = false

func fetch([]uintptr) {}
