// Package site writes many reports as one static site: an index with filters, a page for each run and for each sweep.
// It needs no server and no network, and the same runs give the same bytes.
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

// Marker is the file that makes a directory one that a site may be written to again.
const Marker = "site.json"

// Schema names the format of the marker.
const Schema = "candela.site/v1"

// IndexFile is the site's first page.
const IndexFile = "index.html"

// Site is what a site shows.
type Site struct {
	Title   string
	Tool    string
	Command string // that makes the site again; empty: not known
	Runs    []Run
	Sweeps  []Sweep
	// Tables and Charts are above the runs: what a command that made many runs has to say of them all.
	Tables []report.Table
	Charts []report.Chart
	// Figures are drawings that are there already.
	Figures []Figure
	Facts   []report.Fact
	// Notes say what of the input is not on the site, and why.
	Notes []string
	// Workers is how many pages are made at a time; 0: one.
	Workers int
}

// Figure is a drawing as SVG.
type Figure struct {
	Name  string // of its file, without suffix
	Title string
	Write func(io.Writer) error
}

// File is the name of its file on the site.
func (f *Figure) File() string { return figuresDir + "/" + slug(f.Name) + ".svg" }

// Run is one page.
type Run struct {
	ID    string // wanted name of its page; empty: from the report's name
	Group string // in the index: the sweep or the directory; empty: none
	Dir   string // the run directory; empty: none, and no file is linked
	// Load returns the report. It is called once, possibly beside others.
	Load func() (*report.Report, error)

	file   string // of its page
	entry  report.Entry
	values []measure
	copied bool // its files are within the site
	linked bool // its files can be reached
}

// Loaded is a run whose report is in memory.
func Loaded(r *report.Report, group string) Run {
	return Run{Group: group, Dir: r.Dir, Load: func() (*report.Report, error) { return r, nil }}
}

// Write writes the site into dir, which must not exist, be empty or hold an older site. It returns the path of the
// first page.
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

// prepare makes dir, or takes away the pages of an older site.
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

// name gives each run the name of its page.
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

// slug makes a text the name of a file that needs no escaping anywhere.
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

// runs writes the pages of runs on so many workers.
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
	run.entry, run.values = r.Entry(), append(run.values, measures(r)...)
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

// MaxCopied is the size in bytes up to which a file of a run that is not beside the site is copied into it.
const MaxCopied = 4 << 20

// files makes the files of a run reachable: by links if the run directory moves with the site, otherwise by copies of
// those that are small.
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
		return nil // the report outlives its run directory
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

// readSmall returns a file that is worth copying; nil: it is not there, or too large.
func readSmall(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > MaxCopied {
		return nil, nil
	}
	return root.ReadFile(name)
}

// beside returns the way from the site to a directory that lies beside it or below what is beside it.
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

// filesPrefix is what goes before the names of a run's files on its page.
func (w *writer) filesPrefix(run *Run) string {
	if run.copied {
		return "../" + filesDir + "/" + strings.TrimSuffix(run.file, ".html") + "/"
	}
	way, _ := w.beside(run.Dir)
	return "../" + way + "/"
}

// write creates a file of the site.
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

// script writes data as a script that a page loads from a file: a browser lets no page read files.
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
