// Package tna runs the injector's P4 program for Tofino as its sources say: a model of the language, of the parts of
// the architecture that the program uses, and of the rules whose breach the compiler reports late, such as a register
// that one packet touches twice. It knows nothing of stages or containers: whether the program fits is the compiler's
// to say.
package tna

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

// macro is a #define.
type macro struct {
	params []string // nil: without parentheses
	body   []token
	called bool
}

// token is a word, a number, a string or a sign of the sources.
type token struct {
	text string
	at   string // file:line
}

var tokens = regexp.MustCompile(`^(?:[A-Za-z_]\w*|\d+[ws](?:0x[0-9a-fA-F]+|\d+)|0x[0-9a-fA-F]+|\d+|"[^"]*"|` +
	`\|\+\||\|-\||&&&|\+\+|<<|==|!=|<=|>=|&&|\|\||\.\.|[-+*/%&|^~!<>=(){}\[\];:,.@?#])`)

// scan cuts a line into tokens.
func scan(line, at string) ([]token, error) {
	var out []token
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" || strings.HasPrefix(line, "//") {
			return out, nil
		}
		word := tokens.FindString(line)
		if word == "" {
			return nil, fmt.Errorf("%s: no token of the language: %q", at, line)
		}
		out = append(out, token{word, at})
		line = line[len(word):]
	}
}

// preprocessor is the part of cpp that the sources use.
type preprocessor struct {
	sources fs.FS
	defines map[string]*macro
	out     []token
}

// preprocess returns the tokens of a source file with one macro defined. Files of the compiler, in angle brackets, are
// left out.
func preprocess(sources fs.FS, name, macroName string, number int) ([]token, error) {
	pp := &preprocessor{sources: sources, defines: map[string]*macro{
		macroName: {body: []token{{strconv.Itoa(number), "command line"}}},
	}}
	err := pp.file(name)
	return pp.out, err
}

func (pp *preprocessor) file(name string) error {
	text, err := fs.ReadFile(pp.sources, name)
	if err != nil {
		return err
	}
	var taken []bool // by nesting of #if: whether its lines count
	counts := func() bool {
		for _, t := range taken {
			if !t {
				return false
			}
		}
		return true
	}
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		line, at := lines[i], fmt.Sprintf("%s:%d", name, i+1)
		for strings.HasSuffix(line, `\`) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + lines[i]
		}
		ts, err := scan(line, at)
		if err != nil {
			return err
		}
		if len(ts) < 2 || ts[0].text != "#" {
			if counts() {
				pp.out = append(pp.out, pp.expand(ts)...)
			}
			continue
		}
		rest := ts[2:]
		switch ts[1].text {
		case "if":
			rest = pp.expand(rest)
			if len(rest) != 3 || rest[1].text != "==" {
				return fmt.Errorf("%s: only A == B is known", at)
			}
			taken = append(taken, rest[0].text == rest[2].text)
		case "ifdef", "ifndef":
			taken = append(taken, (pp.defines[rest[0].text] != nil) == (ts[1].text == "ifdef"))
		case "else":
			taken[len(taken)-1] = !taken[len(taken)-1]
		case "endif":
			taken = taken[:len(taken)-1]
		default:
			if counts() {
				if err := pp.directive(ts[1].text, rest); err != nil {
					return fmt.Errorf("%s: %w", at, err)
				}
			}
		}
	}
	return nil
}

func (pp *preprocessor) directive(name string, rest []token) error {
	switch name {
	case "include":
		if rest = pp.expand(rest); rest[0].text == "<" {
			return nil
		}
		return pp.file(strings.Trim(rest[0].text, `"`))
	case "define":
		m := &macro{body: rest[1:]}
		// Of sources that one formats by hand, NAME(A) without a blank has parameters only if A are all words.
		if len(m.body) > 2 && m.body[0].text == "(" {
			if params, body, ok := parameters(m.body); ok {
				m.params, m.body = params, body
			}
		}
		pp.defines[rest[0].text] = m
		return nil
	}
	return fmt.Errorf("#%s is not known", name)
}

// parameters cuts "(a, b) body" into its parts.
func parameters(ts []token) (params []string, body []token, ok bool) {
	params = []string{}
	for i := 1; i < len(ts); i++ {
		switch t := ts[i].text; {
		case t == ")" && i+1 <= len(ts):
			return params, ts[i+1:], true
		case t == ",":
		case regexp.MustCompile(`^[a-z_]\w*$`).MatchString(t):
			params = append(params, t)
		default:
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// expand replaces macros in ts.
func (pp *preprocessor) expand(ts []token) (out []token) {
	for i := 0; i < len(ts); i++ {
		m := pp.defines[ts[i].text]
		if m == nil || m.called || m.params != nil && (i+1 >= len(ts) || ts[i+1].text != "(") {
			out = append(out, ts[i])
			continue
		}
		body := m.body
		if m.params != nil {
			args, end := arguments(ts, i+2)
			i = end
			var with []token
			for _, t := range body {
				if p := indexOf(m.params, t.text); p >= 0 {
					with = append(with, pp.expand(args[p])...)
				} else {
					with = append(with, t)
				}
			}
			body = with
		}
		m.called = true
		for _, t := range pp.expand(body) {
			out = append(out, token{t.text, ts[min(i, len(ts)-1)].at})
		}
		m.called = false
	}
	return out
}

// arguments returns the arguments of a macro from ts[i] on, and where they end.
func arguments(ts []token, i int) (args [][]token, end int) {
	var arg []token
	for depth := 0; ; i++ {
		switch t := ts[i].text; {
		case t == ")" && depth == 0:
			return append(args, arg), i
		case t == "," && depth == 0:
			args, arg = append(args, arg), nil
			continue
		case t == "(":
			depth++
		case t == ")":
			depth--
		}
		arg = append(arg, ts[i])
	}
}

func indexOf(list []string, s string) int {
	for i, l := range list {
		if l == s {
			return i
		}
	}
	return -1
}
