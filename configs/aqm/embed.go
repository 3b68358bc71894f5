// Package aqm has the scenarios of active queue management that `candela reproduce afd` measures: and B-1.
package aqm

import "embed"

// FS holds the tests.
//
//go:embed *.yml
var FS embed.FS
