// Package trimming has the tests that reproduce the evaluation of packet trimming in programmable switches, one file
// per result: T1 to T16 of the specification.
package trimming

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
