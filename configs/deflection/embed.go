// Package deflection has the scenarios of packet deflection that `candela reproduce deflection` measures.
package deflection

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
