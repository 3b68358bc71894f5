//go:build race

package runtimetest

// Race reports whether the race detector watches the tests.
const Race = true
