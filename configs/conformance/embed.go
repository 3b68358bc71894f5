// Package conformance holds the tests of the conformance suite, each of which stimulates one or more rules of the catalogue in
// orchestrator/conformance.
package conformance

import "embed"

// FS holds the tests, and the testbeds below testbeds/.
//
//go:embed *.yml testbeds/*.yml
var FS embed.FS
