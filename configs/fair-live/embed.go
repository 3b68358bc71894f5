// Package live has the experiments of HCSFQ that need a kernel's TCP.
package live

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
