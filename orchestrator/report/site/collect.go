package site

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"candela.dev/candela/orchestrator/report"
)

// Collector finds runs.
type Collector struct {
	// Judge judges an input without a report: a run directory of an older version, a bundle or a capture.
	Judge func(path string) (*report.Report, error)
	// Document reads other files of a command into the site; nil: ignored. It is called for each file of each directory
	// that is not a run directory.
	Document func(s *Site, path string) error
}

// Collect returns a site of all arguments: run directories, sweeps, directories that hold such, and traces.
func (c *Collector) Collect(args []string) (*Site, error) {
	s := &Site{}
	return s, c.Add(s, args...)
}

// Add adds more arguments to a site.
func (c *Collector) Add(s *Site, args ...string) error {
	for _, arg := range args {
		before := len(s.Runs) + len(s.Tables)
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return err
		case !info.IsDir():
			s.Runs = append(s.Runs, c.judged(arg, "", ""))
		case IsSite(arg):
			return fmt.Errorf("%s is a report already: name the directory of its runs", arg)
		default:
			if err := c.directory(s, arg, "", 0); err != nil {
				return err
			}
		}
		if len(s.Runs)+len(s.Tables) == before {
			return fmt.Errorf("%s: no run directory in it (one with %s or run.json)", arg, report.DocumentFile)
		}
	}
	return nil
}

// maxDepth bounds the depth of the search for run directories.
const maxDepth = 4

// directory adds the runs of one directory. Group is its name on the site.
func (c *Collector) directory(s *Site, dir, group string, depth int) error {
	if run, ok := c.run(dir, group); ok {
		s.Runs = append(s.Runs, run)
		return nil
	}
	known := map[string]bool{}
	if data, err := os.ReadFile(filepath.Join(dir, sweepFile)); err == nil {
		if known, err = c.sweep(s, dir, data); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir():
			if c.Document != nil {
				if err := c.Document(s, path); err != nil {
					return err
				}
			}
		case strings.HasSuffix(e.Name(), partialSuffix) && !isFile(filepath.Join(path, report.DocumentFile)):
			s.Notes = append(s.Notes, path+" is the directory of a run that was aborted: it is not on the site")
		case known[e.Name()], strings.HasPrefix(e.Name(), "."), IsSite(path), depth == maxDepth:
		default:
			if err := c.directory(s, path, joinGroup(group, dir, depth), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	sweepFile     = "sweep.json"
	partialSuffix = ".partial"
)

// joinGroup returns the group of a directory: its path relative to the argument.
func joinGroup(group, dir string, depth int) string {
	if depth == 0 {
		return ""
	}
	return strings.TrimPrefix(group+"/"+filepath.Base(dir), "/")
}

// run returns the run of a directory; false if it is not a run directory.
func (c *Collector) run(dir, group string) (Run, bool) {
	document := filepath.Join(dir, report.DocumentFile)
	if isFile(document) {
		id := strings.TrimPrefix(group+"-"+filepath.Base(dir), "-")
		return Run{ID: id, Group: group, Dir: dir, Load: func() (*report.Report, error) { return read(document, dir) }}, true
	}
	if isFile(filepath.Join(dir, "run.json")) {
		return c.judged(dir, group, dir), true
	}
	return Run{}, false
}

func (c *Collector) judged(path, group, dir string) Run {
	id := strings.TrimPrefix(group+"-"+filepath.Base(path), "-")
	return Run{ID: id, Group: group, Dir: dir, Load: func() (*report.Report, error) {
		r, err := c.Judge(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return r, nil
	}}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// read reads the report of a run directory, which may have been moved.
func read(path, dir string) (*report.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := report.ReadDocument(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Dir != "" {
		for i := range r.Next {
			r.Next[i] = strings.ReplaceAll(r.Next[i], r.Dir, dir)
		}
		r.Dir = dir
	}
	return r, nil
}

// sweepDocument is the part of sweep.json that a site uses.
type sweepDocument struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	File   string `json:"file"`
	NotRun []int  `json:"not_run"`
	Runs   []struct {
		Point  int    `json:"point"`
		Repeat int    `json:"repeat"`
		Dir    string `json:"dir"`
		Values []struct {
			Path  string `json:"path"`
			Value any    `json:"value"`
		} `json:"values"`
		Metrics struct {
			Completion *struct {
				Min  int64 `json:"min_ns"`
				Mean int64 `json:"mean_ns"`
				P50  int64 `json:"p50_ns"`
				P99  int64 `json:"p99_ns"`
				Max  int64 `json:"max_ns"`
			} `json:"message_completion_time"`
		} `json:"metrics"`
	} `json:"runs"`
}

const sweepSchema = "candela.sweep/v1"

// sweep adds a sweep and returns the directories of its runs.
func (c *Collector) sweep(s *Site, dir string, data []byte) (map[string]bool, error) {
	var doc sweepDocument
	path := filepath.Join(dir, sweepFile)
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if doc.Schema != sweepSchema {
		return nil, fmt.Errorf("%s: schema %q: want %s", path, report.OneLine(doc.Schema), sweepSchema)
	}
	sweep := Sweep{Name: cmp.Or(doc.Name, filepath.Base(dir)), File: doc.File}
	for _, point := range doc.NotRun {
		s.Notes = append(s.Notes, fmt.Sprintf("point %d of %s was not run: the command ended before it", point, sweep.Name))
	}
	known := map[string]bool{}
	for _, r := range doc.Runs {
		if r.Dir != filepath.Base(r.Dir) {
			return nil, fmt.Errorf("%s: directory %q of point %d is not below that of the sweep", path,
				report.OneLine(r.Dir), r.Point)
		}
		known[r.Dir] = true
		run, ok := c.run(filepath.Join(dir, r.Dir), sweep.Name)
		if !ok {
			s.Notes = append(s.Notes, fmt.Sprintf("point %d of %s: %s is missing or was aborted", r.Point, sweep.Name,
				filepath.Join(dir, r.Dir)))
			continue
		}
		p := Point{Number: r.Point, Repeat: r.Repeat, Run: len(s.Runs)}
		sweep.Axes = sweep.Axes[:0]
		for _, v := range r.Values {
			sweep.Axes = append(sweep.Axes, v.Path)
			p.Values = append(p.Values, fmt.Sprint(v.Value))
		}
		if c := r.Metrics.Completion; c != nil {
			const name = "message completion time, "
			run.values = []measure{{name + "mean", "ns", float64(c.Mean)}, {name + "median", "ns", float64(c.P50)},
				{name + "p99", "ns", float64(c.P99)}, {name + "min", "ns", float64(c.Min)}, {name + "max", "ns", float64(c.Max)}}
		}
		s.Runs, sweep.Points = append(s.Runs, run), append(sweep.Points, p)
	}
	if len(sweep.Points) > 0 && len(sweep.Axes) > 0 {
		s.Sweeps = append(s.Sweeps, sweep)
	}
	return known, nil
}
