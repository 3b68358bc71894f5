// Package lock has the experiments of NetLock that `candela reproduce netlock` measures.
package lock

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
