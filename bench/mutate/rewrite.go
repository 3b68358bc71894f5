package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// runtimeName is the name under which a rewritten file imports the switch of mutants.
const runtimeName = "mutant_"

// An edit inserts text at a position, or replaces text. It keeps every line in place, so that errors and panics of the
// rewritten file name lines of the original.
type edit struct {
	at, until token.Pos
	text      string   // "%d" is the mutant's number
	node      ast.Node // what an insertion wraps
	closes    bool     // after the node, not before it
}

// A placed edit belongs to a mutant.
type placed struct {
	edit
	mutant *mutant
	order  int
}

// nest orders insertions at one position: closing ones first, the smallest node first; then opening ones, the largest
// first.
func nest(a, b placed) int {
	if c := cmp.Compare(a.at, b.at); c != 0 {
		return c
	}
	if a.closes != b.closes {
		if a.closes {
			return -1
		}
		return 1
	}
	if a.node == nil || b.node == nil {
		return cmp.Compare(a.order, b.order)
	}
	if a.closes {
		return cmp.Or(cmp.Compare(b.node.Pos(), a.node.Pos()), cmp.Compare(b.order, a.order))
	}
	return cmp.Or(cmp.Compare(b.node.End(), a.node.End()), cmp.Compare(a.order, b.order))
}

// A span is where a mutant is in the rewritten file.
type span struct {
	mutant   *mutant
	from, to int
}

// rewrite returns the file with all these mutants in it, and where they are.
func (s *source) rewrite(f *file, mutants []*mutant) ([]byte, []span) {
	var edits []placed
	for i, m := range mutants {
		for _, e := range m.edits {
			edits = append(edits, placed{edit: e, mutant: m, order: i})
		}
	}
	slices.SortStableFunc(edits, nest)
	var out bytes.Buffer
	done := 0
	copyTo := func(p token.Pos) {
		at := s.fset.Position(p).Offset
		out.Write(f.Text[done:at])
		done = at
	}
	copyTo(f.tree.Name.End())
	if len(mutants) > 0 {
		fmt.Fprintf(&out, "; import %s %q", runtimeName, runtimePath)
	}
	var spans []span
	index := map[*mutant]int{}
	for _, e := range edits {
		copyTo(e.at)
		i, ok := index[e.mutant]
		if !ok {
			i = len(spans)
			index[e.mutant] = i
			spans = append(spans, span{mutant: e.mutant, from: out.Len()})
		}
		out.WriteString(strings.ReplaceAll(e.text, "%d", fmt.Sprint(e.mutant.ID)))
		if e.until != 0 {
			done = s.fset.Position(e.until).Offset
		}
		spans[i].to = out.Len()
	}
	out.Write(f.Text[done:])
	return out.Bytes(), spans
}

// compile drops the mutants that do not type-check, and returns the others and the rewritten files by path.
func (s *source) compile(mutants []*mutant) ([]*mutant, map[string][]byte, error) {
	for range 100 {
		fset := token.NewFileSet()
		var trees []*ast.File
		texts := map[string][]byte{}
		spans := map[string][]span{}
		for _, f := range s.Files {
			in := slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool { return m.file != f })
			texts[f.Path], spans[f.Path] = s.rewrite(f, in)
			tree, err := parser.ParseFile(fset, f.Path, texts[f.Path], parser.SkipObjectResolution)
			if err != nil {
				return nil, nil, fmt.Errorf("rewritten file: %w", err)
			}
			trees = append(trees, tree)
		}
		broken := map[*mutant]bool{}
		var lost error
		conf := types.Config{Importer: s.importer, Error: func(err error) {
			var te types.Error
			if !errors.As(err, &te) {
				return
			}
			p := te.Fset.Position(te.Pos)
			if m := innermost(spans[p.Filename], p.Offset); m != nil {
				broken[m] = true
			} else {
				lost = err
			}
		}}
		made, err := s.generated(fset)
		if err != nil {
			return nil, nil, err
		}
		if _, err = conf.Check(s.Path, fset, append(trees, made...), nil); err == nil {
			return mutants, texts, nil
		}
		if len(broken) == 0 {
			return nil, nil, fmt.Errorf("rewritten package %s: %w", s.Path, cmp.Or(lost, err))
		}
		mutants = slices.DeleteFunc(mutants, func(m *mutant) bool { return broken[m] })
	}
	return nil, nil, fmt.Errorf("package %s: mutants still do not compile after 100 attempts", s.Path)
}

func innermost(spans []span, offset int) *mutant {
	var best *span
	for i := range spans {
		s := &spans[i]
		if s.from <= offset && offset < s.to && (best == nil || s.to-s.from < best.to-best.from) {
			best = s
		}
	}
	if best == nil {
		return nil
	}
	return best.mutant
}
