// Package conformance holds the tests of the conformance suite, each of which stimulates one or more rules of the
// catalogue in orchestrator/conformance.
package conformance

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
