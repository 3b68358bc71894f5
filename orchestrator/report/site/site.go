// Package site writes many reports as one static site: an index with filters, and a page for each run and each sweep.
// It needs neither server nor network. The same runs give the same bytes.
package site

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"candela.dev/candela/orchestrator/report"
)

//go:embed index.gohtml sweep.gohtml
var templates embed.FS

//go:embed index.js sweep.js site.js
var scripts embed.FS

//go:embed site.css
var style string

// Marker is the file that marks a directory as a site, which may be overwritten.
const Marker = "site.json"

// Schema names the format of the marker.
const Schema = "candela.site/v1"

// IndexFile is the site's first page.
const IndexFile = "index.html"

// Site is the content of a site.
type Site struct {
	Title   string
	Tool    string
	Command string // that writes the site again; empty: unknown
	Runs    []Run
	Sweeps  []Sweep
	// Tables and Charts precede the runs: results over all runs of a command.
	Tables []report.Table
	Charts []report.Chart
	// Figures are finished drawings.
	Figures []Figure
	Facts   []report.Fact
	// Notes list the input that is not on the site, with reasons.
	Notes []string
	// Workers is the number of pages made in parallel; 0: one.
	Workers int
}

// Figure is a drawing as SVG.
type Figure struct {
	Name  string // of its file, without suffix
	Title string
	Write func(io.Writer) error
}

// File returns the path of the figure on the site.
func (f *Figure) File() string { return figuresDir + "/" + slug(f.Name) + ".svg" }

// Run is one page.
type Run struct {
	ID    string // preferred name of its page; empty: from the report's name
	Group string // in the index: the sweep or the directory; empty: none
	Dir   string // the run directory; empty: none, and no file is linked
	// Load returns the report. It is called once, possibly concurrently with that of other runs.
	Load func() (*report.Report, error)

	file   string // of its page
	entry  report.Entry
	values []measure
	curves map[string]report.Series
	copied bool // its files are within the site
	linked bool // its files can be reached
}

// Loaded is a run whose report is in memory.
func Loaded(r *report.Report, group string) Run {
	return Run{Group: group, Dir: r.Dir, Load: func() (*report.Report, error) { return r, nil }}
}

// Write writes the site into dir and returns the path of the first page. dir must not exist, be empty or hold an older
// site.
func (s *Site) Write(dir string) (string, error) {
	if err := prepare(dir); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("write site: %w", err)
	}
	w := writer{site: s, dir: dir, root: root}
	if err := errors.Join(w.all(), root.Close()); err != nil {
		return "", fmt.Errorf("write site: %w", err)
	}
	return filepath.Join(dir, IndexFile), nil
}

// IsSite reports whether dir holds a site.
func IsSite(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, Marker))
	return err == nil && info.Mode().IsRegular()
}

// prepare makes dir, or removes the pages of an older site.
func prepare(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.MkdirAll(dir, 0o777)
	case err != nil:
		return fmt.Errorf("write site: %w", err)
	case len(entries) == 0:
		return nil
	case !IsSite(dir):
		return fmt.Errorf("write site: %s holds other files and no %s: name a new directory", dir, Marker)
	}
	for _, name := range []string{runsDir, sweepsDir, filesDir, figuresDir} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("write site: %w", err)
		}
	}
	return nil
}

// Directories of a site.
const (
	runsDir   = "runs"
	sweepsDir = "sweeps"
	filesDir  = "files"

	figuresDir = "figures"
)

type writer struct {
	site *Site
	dir  string
	root *os.Root
}

func (w *writer) all() error {
	if err := w.write(Marker, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "{\"schema\": %q, \"tool_version\": %q}\n", Schema, w.site.Tool)
		return err
	}); err != nil {
		return err
	}
	w.name()
	if err := w.runs(); err != nil {
		return err
	}
	for i := range w.site.Sweeps {
		if err := w.sweep(i); err != nil {
			return err
		}
	}
	for i := range w.site.Figures {
		f := &w.site.Figures[i]
		if err := w.write(f.File(), f.Write); err != nil {
			return err
		}
	}
	return errors.Join(w.index(), w.assets())
}

// name assigns a page name to each run.
func (w *writer) name() {
	taken := map[string]bool{}
	for i := range w.site.Runs {
		r := &w.site.Runs[i]
		r.file = unique(slug(cmp.Or(r.ID, filepath.Base(r.Dir))), taken) + ".html"
	}
	for i := range w.site.Sweeps {
		w.site.Sweeps[i].number = i + 1
	}
}

func unique(name string, taken map[string]bool) string {
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	taken[free] = true
	return free
}

// slug converts text to a file name that needs no escaping.
func slug(text string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	const longest = 80
	name := strings.Trim(b.String()[:min(b.Len(), longest)], "-")
	return cmp.Or(name, "run")
}

// runs writes the pages of runs on Workers goroutines.
func (w *writer) runs() error {
	errs := make([]error, len(w.site.Runs))
	next := make(chan int)
	var all sync.WaitGroup
	for range max(1, w.site.Workers) {
		all.Go(func() {
			for i := range next {
				errs[i] = w.run(i)
			}
		})
	}
	for i := range w.site.Runs {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}

func (w *writer) run(i int) error {
	run := &w.site.Runs[i]
	r, err := run.Load()
	if err != nil {
		return err
	}
	if err := w.files(run, r); err != nil {
		return err
	}
	run.entry, run.values, run.curves = r.Entry(), append(run.values, measures(r)...), curvesOf(r)
	links := report.Links{Index: "../" + IndexFile, Assets: "../", Title: w.site.title()}
	if run.linked {
		links.HasFiles, links.Files = true, w.filesPrefix(run)
	}
	if i > 0 {
		links.Previous = &report.Link{Href: w.site.Runs[i-1].file, Text: "previous"}
	}
	if i+1 < len(w.site.Runs) {
		links.Next = &report.Link{Href: w.site.Runs[i+1].file, Text: "next"}
	}
	if sweep := w.site.sweepOf(i); sweep != nil {
		links.Up = &report.Link{Href: "../" + sweep.href(), Text: sweep.Name}
	}
	return w.write(path.Join(runsDir, run.file), func(out io.Writer) error { return report.SitePage(out, r, &links) })
}

func (s *Site) title() string { return cmp.Or(s.Title, "Candela report") }

func (s *Site) sweepOf(run int) *Sweep {
	for i := range s.Sweeps {
		if slices.ContainsFunc(s.Sweeps[i].Points, func(p Point) bool { return p.Run == run }) {
			return &s.Sweeps[i]
		}
	}
	return nil
}

// MaxCopied is the maximum size, in bytes, of a file copied from a run directory outside the site's parent.
const MaxCopied = 4 << 20

// files makes the files of a run reachable: by links if the run directory is next to the site and moves with it,
// otherwise by copies of small files.
func (w *writer) files(run *Run, r *report.Report) error {
	if run.Dir == "" {
		return nil
	}
	if _, ok := w.beside(run.Dir); ok {
		run.linked = true
		return nil
	}
	source, err := os.OpenRoot(run.Dir)
	if err != nil {
		return nil // the run directory was deleted; the report remains
	}
	for _, name := range r.FileNames() {
		data, err := readSmall(source, name)
		if err != nil {
			return errors.Join(err, source.Close())
		}
		if data == nil {
			continue
		}
		run.copied, run.linked = true, true
		target := path.Join(filesDir, strings.TrimSuffix(run.file, ".html"), name)
		if err := w.write(target, func(out io.Writer) error { _, err := out.Write(data); return err }); err != nil {
			return errors.Join(err, source.Close())
		}
	}
	return source.Close()
}

// readSmall returns a file of at most MaxCopied bytes; nil: missing or larger.
func readSmall(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > MaxCopied {
		return nil, nil
	}
	return root.ReadFile(name)
}

// beside returns the relative path from the site to dir if dir is the site's parent directory or in it.
func (w *writer) beside(dir string) (string, bool) {
	site, err := filepath.Abs(w.dir)
	if err != nil {
		return "", false
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	way, err := filepath.Rel(site, full)
	if err != nil {
		return "", false
	}
	way = filepath.ToSlash(way)
	return way, strings.HasPrefix(way, "../") && !strings.HasPrefix(way, "../../") || way == ".."
}

// filesPrefix returns the prefix of the names of a run's files on its page.
func (w *writer) filesPrefix(run *Run) string {
	if run.copied {
		return "../" + filesDir + "/" + strings.TrimSuffix(run.file, ".html") + "/"
	}
	way, _ := w.beside(run.Dir)
	return "../" + way + "/"
}

func (w *writer) write(name string, fill func(io.Writer) error) error {
	if err := w.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return w.root.WriteFile(name, b.Bytes(), 0o666)
}

func (w *writer) assets() error {
	err := w.write("style.css", func(out io.Writer) error {
		_, err := io.WriteString(out, report.Style()+style)
		return err
	})
	for _, name := range []string{"site.js", "index.js", "sweep.js"} {
		text, readErr := scripts.ReadFile(name)
		err = errors.Join(err, readErr, w.write(name, func(out io.Writer) error {
			_, err := out.Write(text)
			return err
		}))
	}
	return err
}

// script writes data as a script, because browsers do not let a page read local files.
func (w *writer) script(name string, data any) error {
	return w.write(name, func(out io.Writer) error {
		text, err := json.Marshal(data)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "\"use strict\";\nconst candela = %s;\n", text)
		return err
	})
}

func (w *writer) page(name, template string, data any) error {
	t, err := parse()
	if err != nil {
		return err
	}
	return w.write(name, func(out io.Writer) error { return t.ExecuteTemplate(out, template, data) })
}

var parse = sync.OnceValues(func() (*template.Template, error) {
	t := template.New("site").Funcs(template.FuncMap{"clean": report.OneLine})
	return report.WithParts(t).ParseFS(templates, "*.gohtml")
})
