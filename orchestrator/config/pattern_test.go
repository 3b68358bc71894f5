package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Patterns are compiled on first use; this test compiles all of them.
func TestAllPatternsCompile(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "newPattern" {
				return true
			}
			literal, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: the argument of newPattern is not a literal", e.Name())
				return true
			}
			source, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			p := newPattern(source)
			if p.MatchString("\x00"); p.String() != source {
				t.Errorf("%s: pattern %q", e.Name(), p)
			}
			n++
			return true
		})
	}
	if n < 15 {
		t.Errorf("only %d patterns were found", n)
	}
}
