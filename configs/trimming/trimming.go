// Package trimming holds the tests that reproduce the evaluation of packet trimming in programmable switches, one file
// for a result: T1 to T16 of the specification.
package trimming

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
