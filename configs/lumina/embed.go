// Package lumina holds the tests that reproduce Lumina's evaluation, one file for a figure or table, and the testbeds
// that they run on.
package lumina

import "embed"

// FS holds the tests, and the testbeds below testbeds/.
//
//go:embed *.yml testbeds/*.yml
var FS embed.FS
