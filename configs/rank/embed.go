// Package rank has the scenarios of scheduling by rank that `candela reproduce aifo` measures.
package rank

import "embed"

// FS holds the tests.
//
//go:embed f*.yml s*.yml t*.yml
var FS embed.FS
