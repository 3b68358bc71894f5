// Package lumina has the tests that reproduce Lumina's evaluation, one file per figure or table, and their testbeds.
package lumina

import "embed"

// FS holds the tests, and the testbeds below testbeds/.
//
//go:embed *.yml testbeds/*.yml
var FS embed.FS
