package orchestrator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

type scripted struct {
	*Cycle
	do      map[string]func() error
	calls   []string
	cleanUp error

	documents int
}

func (s *scripted) phase(names ...string) (list []Step) {
	for _, name := range names {
		list = append(list, Step{name, func(context.Context) error {
			s.calls = append(s.calls, name)
			if f := s.do[name]; f != nil {
				return f()
			}
			return nil
		}})
	}
	return list
}

func (s *scripted) Document() RunDocument {
	s.documents++
	return RunDocument{Name: "scripted"}
}

func (s *scripted) Prepare(c *Cycle) []Step {
	s.Cycle = c
	return s.phase("prepare")
}
func (s *scripted) Program() []Step { return s.phase("program") }
func (s *scripted) Run() []Step     { return s.phase("run") }
func (s *scripted) Collect() []Step { return nil }
func (s *scripted) Judge() []Step   { return s.phase("check", "analyse") }

func (s *scripted) CleanUp(failed bool) error {
	s.calls = append(s.calls, map[bool]string{true: "clean up after a failure", false: "clean up"}[failed])
	return s.cleanUp
}

func (s *scripted) Verdict(failure error) Verdict { return judge(evidence{infrastructure: failure}) }
func (s *scripted) Outcome(v Verdict) *Outcome    { return &Outcome{Verdict: v} }
func (s *scripted) Progress(step string) []any    { return []any{"step", step} }
func (s *scripted) Report(v Verdict, dir string) *report.Report {
	return &report.Report{Name: "scripted", Verdict: v.Verdict, Dir: dir}
}

func (s *scripted) Write(_ context.Context, rep *report.Report, complete bool) error {
	s.calls = append(s.calls, map[bool]string{true: "write", false: "write what there is"}[complete])
	return s.WriteReports(rep)
}

func TestARunIsCleanedUpOnceAndWrittenWhateverHappens(t *testing.T) {
	broken, stopped := errors.New("a fuse has blown"), errors.New("interrupted")
	for _, tt := range []struct {
		name     string
		script   scripted
		calls    string
		reason   string
		complete bool
		log      int // lines
	}{
		{"all goes well", scripted{}, "prepare program run check analyse, clean up, write", "", true, 5},
		{"a step fails", scripted{do: map[string]func() error{"run": func() error { return broken }}},
			"prepare program run, clean up after a failure, write what there is", "run: a fuse has blown", false, 3},
		{"a step stops the run", scripted{do: map[string]func() error{"program": func() error { return errStop }}},
			"prepare program, clean up, write", "", false, 2},
		{"the run is interrupted between steps", scripted{do: map[string]func() error{"run": nil}},
			"prepare program run, clean up after a failure, write what there is", "check: interrupted", false, 3},
		{"what was made cannot be taken down", scripted{cleanUp: broken},
			"prepare program run check analyse, clean up, write what there is", "a fuse has blown", false, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if strings.Contains(tt.reason, "interrupted") {
				tt.script.do["run"] = func() error { cancel(stopped); return nil }
			}
			o, err := Execute(ctx, &tt.script, Options{Out: t.TempDir(), Wall: noWall})
			if err != nil {
				t.Fatal(err)
			}
			head, tail, _ := strings.Cut(tt.calls, ", ")
			want := append(strings.Fields(head), strings.Split(tail, ", ")...)
			if diff := cmp.Diff(want, tt.script.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if got := strings.Join(o.Verdict.Reasons, "; "); got != tt.reason ||
				(o.Verdict.Verdict == analyzers.Pass) != (tt.reason == "") {
				t.Errorf("verdict %+v, want reason %q", o.Verdict, tt.reason)
			}
			if abandoned := strings.HasSuffix(o.Dir, partialSuffix); abandoned == tt.complete || o.Report.Dir != o.Dir {
				t.Errorf("directory %s, report of %s; complete: %v", o.Dir, o.Report.Dir, tt.complete)
			}
			var doc RunDocument
			if err := readJSON(filepath.Join(o.Dir, "run.json"), &doc); err != nil || doc.Complete != tt.complete ||
				doc.Name != "scripted" {
				t.Errorf("run.json: %+v, %v", doc, err)
			}
			if log, err := os.ReadFile(filepath.Join(o.Dir, "log.jsonl")); err != nil ||
				strings.Count(string(log), "\n") != tt.log {
				t.Errorf("log.jsonl, %d lines wanted: %v\n%s", tt.log, err, log)
			}
		})
	}
}

// TestARunInMemoryMakesNoDocuments: fuzzing makes 10,000 runs, and YAML and hashing took a third of each.
func TestARunInMemoryMakesNoDocuments(t *testing.T) {
	for name, place := range map[string]*memory{"in memory": {}, "on disk": nil} {
		texts := 0
		s := &scripted{}
		s.do = map[string]func() error{"prepare": func() error {
			return s.WriteText("text.yml", func() []byte { texts++; return nil })
		}}
		o, err := Execute(t.Context(), s, Options{Out: t.TempDir(), Wall: noWall, memory: place})
		if err != nil || len(o.Verdict.Reasons) > 0 {
			t.Fatalf("%v, %+v", err, o)
		}
		if made := s.documents > 0 && texts == 1; made != (place == nil) || place != nil && s.documents+texts > 0 {
			t.Errorf("%s: run.json was made %d times, a text %d times", name, s.documents, texts)
		}
	}
}
