package config

import (
	"regexp"
	"sync"
)

// A pattern is a regular expression that is compiled when it is first needed. Those that bound the length of a text
// are long programs, and most commands need few of them.
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
