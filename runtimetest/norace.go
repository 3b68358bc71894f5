//go:build !race

package runtimetest

// Race reports whether the race detector is enabled.
const Race = false
