package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const runtimePath = "candela.dev/candela/bench/mutate/mutant"

// A source is a package of which mutants are made.
type source struct {
	Path  string // import path
	Dir   string
	Files []*file

	fset     *token.FileSet
	info     *types.Info
	importer types.Importer
	made     []string // generated files, of which no mutants are made
}

// generated parses the generated files for each check of the package.
func (s *source) generated(fset *token.FileSet) ([]*ast.File, error) {
	var trees []*ast.File
	for _, path := range s.made {
		tree, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
	}
	return trees, nil
}

type file struct {
	Path string // absolute
	Text []byte
	tree *ast.File
}

type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Error                   *struct{ Err string }
}

// load reads and checks the packages that the patterns name.
func load(ctx context.Context, dir string, patterns []string) ([]*source, error) {
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Error", runtimePath},
		patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	exports := map[string]string{}
	var roots []listed
	for d := json.NewDecoder(&out); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if l.Error != nil {
			return nil, fmt.Errorf("package %s: %s", l.ImportPath, l.Error.Err)
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly && l.ImportPath != runtimePath {
			roots = append(roots, l)
		}
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("no package matches %s", strings.Join(patterns, " "))
	}
	var sources []*source
	for _, l := range roots {
		s, err := parse(l, exports)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

func parse(l listed, exports map[string]string) (*source, error) {
	s := &source{Path: l.ImportPath, Dir: l.Dir, fset: token.NewFileSet()}
	s.importer = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	s.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	var trees []*ast.File
	for _, name := range l.GoFiles {
		path := filepath.Join(l.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(s.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
		if ast.IsGenerated(tree) {
			s.made = append(s.made, path)
		} else {
			s.Files = append(s.Files, &file{Path: path, Text: text, tree: tree})
		}
	}
	conf := types.Config{Importer: s.importer}
	if _, err := conf.Check(s.Path, s.fset, trees, s.info); err != nil {
		return nil, err
	}
	return s, nil
}
