// Package live has the scenario of AIFO's testbed that needs a kernel's TCP.
package live

import "embed"

// FS holds the tests.
//
//go:embed t2*.yml
var FS embed.FS
