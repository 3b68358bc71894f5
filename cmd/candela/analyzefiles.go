package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/bundle"
	"candela.dev/candela/orchestrator/report"
)

// analysisFiles are the files that an analysis writes.
type analysisFiles struct {
	dir   string // of report.html, findings.json and junit.xml; empty: none
	junit string // another file for JUnit XML; empty: none

	made bool // the directory is new and still empty
}

const (
	reportFile   = "report.html"
	findingsFile = "findings.json"
	junitFile    = "junit.xml"
)

// prepare makes the directory: an error after a long analysis would be too late.
func (f *analysisFiles) prepare() error {
	if f.dir == "" {
		return nil
	}
	info, err := os.Stat(f.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.made = true
		return os.MkdirAll(f.dir, 0o777)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("--out %s is not a directory", f.dir)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "run.json")); err == nil {
		return fmt.Errorf("--out %s is a run directory, which has a report of its own: name another directory", f.dir)
	}
	return nil
}

// discard removes the directory if the analysis has left nothing in it.
func (f *analysisFiles) discard() {
	if f.made {
		_ = os.Remove(f.dir) // what is not empty stays
	}
}

// write writes the files. Older files are replaced when all new ones are complete.
func (f *analysisFiles) write(o *orchestrator.Outcome) error {
	var set fileSet
	defer set.discard()
	if f.dir != "" {
		page := *o.Report
		page.Apart = true
		page.Files = []report.File{
			{Name: findingsFile, What: "findings, metrics and coverage for programs (candela.analysis/v1)"},
			{Name: junitFile, What: "the result as JUnit XML"},
		}
		set.add(filepath.Join(f.dir, reportFile), func(w io.Writer) error { return report.HTML(w, &page) })
		set.add(filepath.Join(f.dir, findingsFile), o.Analysis.Write)
		set.add(filepath.Join(f.dir, junitFile), junitOf(o.Report))
	}
	if f.junit != "" {
		set.add(f.junit, junitOf(o.Report))
	}
	return set.commit()
}

func junitOf(reports ...*report.Report) func(io.Writer) error {
	return func(w io.Writer) error { return report.JUnit(w, reports) }
}

// writeJUnit writes reports as JUnit XML to a file, which is replaced once that is complete.
func writeJUnit(path string, reports []*report.Report) error {
	var set fileSet
	defer set.discard()
	set.add(path, junitOf(reports...))
	return set.commit()
}

// fileSet writes files under temporary names and renames them when all are complete.
type fileSet struct {
	paths, temporary []string
	err              error
}

func (s *fileSet) add(path string, write func(io.Writer) error) {
	if s.err != nil {
		return
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		s.err = through(path, info, write) // /dev/stdout, a pipe
		return
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	temporary := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.partial", filepath.Base(path), os.Getpid()))
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		s.err = fmt.Errorf("write %s: %w", path, err)
		return
	}
	s.paths, s.temporary = append(s.paths, path), append(s.temporary, file.Name())
	if err := errors.Join(buffered(file, write), file.Sync(), file.Close()); err != nil {
		s.err = fmt.Errorf("write %s: %w", path, err)
	}
}

// through writes to what is not a regular file.
func through(path string, info os.FileInfo, write func(io.Writer) error) error {
	if info.IsDir() {
		return fmt.Errorf("write %s: it is a directory", path)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(buffered(file, write), file.Close())
}

func buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriter(w)
	return errors.Join(write(b), b.Flush())
}

// commit gives the files their names.
func (s *fileSet) commit() error {
	if s.err != nil {
		return s.err
	}
	for i, path := range s.paths {
		if err := os.Rename(s.temporary[i], path); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		s.temporary[i] = ""
	}
	return nil
}

// discard removes temporary files that got no name.
func (s *fileSet) discard() {
	for _, name := range s.temporary {
		if name != "" {
			_ = os.Remove(name) // best effort
		}
	}
}

// analyzeUnpacked analyses what o names; an archive is unpacked into a temporary directory first.
func analyzeUnpacked(ctx context.Context, o orchestrator.AnalyzeOptions) (*orchestrator.Outcome, error) {
	unpacked, release, err := unpackArchive(ctx, o)
	if err != nil {
		return nil, err
	}
	outcome, err := analyzeAny(ctx, unpacked)
	if rerr := release(); rerr != nil && err == nil {
		return nil, infrastructure(rerr)
	}
	if err != nil {
		return nil, inputOrInfrastructure(err)
	}
	return outcome, nil
}

// stoppable is a reader that ends with a context.
type stoppable struct {
	ctx  context.Context
	from io.Reader
}

func (r stoppable) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.from.Read(p)
}

// unpackArchive unpacks an archive that o names instead of a run directory or a capture.
func unpackArchive(ctx context.Context, o orchestrator.AnalyzeOptions) (_ orchestrator.AnalyzeOptions,
	release func() error, err error) {
	release = func() error { return nil }
	if info, err := os.Stat(o.Trace); err != nil || !info.Mode().IsRegular() || len(o.More) > 0 {
		return o, release, nil
	}
	archive, err := bundle.OpenArchive(o.Trace)
	if archive == nil || err != nil {
		return o, release, err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	if o.Second != "" || o.Connections != "" {
		return o, release, fmt.Errorf("%s is a bundle, which contains its connections and events: analyse it alone, without "+
			"--connections", o.Trace)
	}
	dir, err := os.MkdirTemp("", "candela-bundle-*")
	if err != nil {
		return o, release, infrastructure(err)
	}
	release = func() error { return os.RemoveAll(dir) }
	u, err := bundle.Unpack(stoppable{ctx, archive}, dir)
	if err == nil && u.Bundle != nil {
		err = u.Bundle.Judgeable()
	}
	if err != nil {
		return o, release, errors.Join(fmt.Errorf("%s: %w", o.Trace, err), release())
	}
	o.Archive, o.Inner = o.Trace, u.Inner
	o.Trace = filepath.Join(dir, filepath.FromSlash(u.Inner))
	return o, release, nil
}
