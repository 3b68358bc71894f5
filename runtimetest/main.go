package runtimetest

import (
	"os"
	"runtime/debug"
	"testing"
)

// Main runs the tests of a package that simulates much and writes many small files: [QuickFiles], and a heap that is
// collected at five times what is live instead of twice. Heaps of simulations are a few MB, and collecting them took a
// fifth of the CPU time.
func Main(m *testing.M) {
	QuickFiles()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
