// Package fair has the scenarios of hierarchical core-stateless fair queueing that `candela reproduce hcsfq` measures.
package fair

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
