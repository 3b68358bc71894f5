// Package conformance has the tests of the conformance suite. Each tests one or more rules of the catalogue in
// orchestrator/conformance.
package conformance

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
