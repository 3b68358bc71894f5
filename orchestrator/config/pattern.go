package config

import (
	"regexp"
	"sync"
)

// A pattern is a regular expression that is compiled on first use. Expressions with length limits compile to large
// programs, and most commands use few of them.
type pattern struct {
	source   string
	compiled func() *regexp.Regexp
}

func newPattern(source string) *pattern {
	return &pattern{source, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })}
}

// MatchString reports whether s has the form.
func (p *pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }

// String returns the expression.
func (p *pattern) String() string { return p.source }
