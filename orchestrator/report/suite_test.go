package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
)

func TestSuiteTextMatchesGoldenFiles(t *testing.T) {
	var repeats []*Report
	for i := range 10 {
		r := passing()
		if i%4 == 3 {
			r = failing()
		}
		r.Name, r.File, r.Repeat, r.Seed = "nak-plus-one", "configs/listing-5-2.yml", i+1, uint64(1000+i)
		repeats = append(repeats, r)
	}
	var many []*Report
	for i := range 100 {
		r := passing()
		if i == 70 {
			r = withoutIntegrity()
		}
		many = append(many, r)
	}
	strange := hostile()
	copied := passing()
	copied.File = "configs/copy.yml"
	wrong := &Report{Name: "c", File: "configs/c.yml", Wrong: "configs/c.yml:2:1: is no YAML"}
	for name, reports := range map[string][]*Report{
		"suite":         {passing(), failing(), withoutIntegrity(), unfired(), warningsOnly(), excused(), bareCapture()},
		"suite-repeats": repeats,
		"suite-many":    many,
		"suite-passes":  {passing(), warningsOnly()},
		"suite-none":    {},
		"suite-wrong":   {passing(), copied, wrong},
		"suite-hostile": {strange},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := SuiteText(&b, reports, nil, TextOptions{}); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", b.Bytes())
		})
	}
}

func TestSuiteTextReportsAWriteError(t *testing.T) {
	r := &Report{Verdict: analyzers.Pass}
	if err := SuiteText(brokenWriter{}, []*Report{r}, nil, TextOptions{}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

func TestEveryPartOfASweepsTableNamesThePoints(t *testing.T) {
	tab := table{columns: []column{{"", false}, {"point", true}, {"a long column", true}, {"another one", true}}, keys: 2}
	tab.add(cell{"PASS", plain}, cell{"7", plain}, cell{strings.Repeat("1", 40), plain}, cell{strings.Repeat("2", 40), plain})
	var b strings.Builder
	p := newPrinter(&b, TextOptions{Width: 60})
	p.table(0, &tab)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "PASS      7  "); n != 2 {
		t.Errorf("%d parts name the point, want 2:\n%s", n, b.String())
	}
}

func TestEveryPartOfASuitesTableNamesTheTests(t *testing.T) {
	wrong := &Report{Name: "nofire", File: "nofire.yml",
		Wrong: "tests/nofire.yml:5:33: traffic.data-pkt-events[0].iter-scope-of-some-length: unknown key"}
	long := passing()
	long.Name, long.Seed = "a-test-with-quite-a-long-name", 8816610656073692751
	var b bytes.Buffer
	if err := SuiteText(&b, []*Report{wrong, long, failing()}, nil, TextOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		for _, word := range []string{"PASS", "FAIL", "ERROR"} {
			if rest, ok := strings.CutPrefix(line, word+" "); ok && !strings.HasPrefix(strings.TrimSpace(rest), "nofire") &&
				!strings.HasPrefix(strings.TrimSpace(rest), long.Name) &&
				!strings.HasPrefix(strings.TrimSpace(rest), failing().Name) {
				t.Errorf("a row does not name its test:\n%s", b.String())
			}
		}
	}
}

func TestAPartOfATableWithoutRowsIsNotShown(t *testing.T) {
	tab := table{columns: []column{{"", false}, {"point", true}, {"a column", true}, {"", false}}, keys: 2}
	tab.add(cell{"PASS", plain}, cell{"7", plain}, cell{strings.Repeat("1", 46), plain}, cell{"", plain})
	tab.dropEmpty()
	var b strings.Builder
	p := newPrinter(&b, TextOptions{Width: 60})
	p.table(0, &tab)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "point"); n != 1 {
		t.Errorf("%d headings, want 1:\n%s", n, b.String())
	}
}

func TestASuiteCountsTheRunsOfSweeps(t *testing.T) {
	wrong := &Report{Name: "c", File: "c.yml", Wrong: "c.yml:2:1: is not valid YAML"}
	var b bytes.Buffer
	swept := []*Report{passing(), failing(), {NotRun: "the command was stopped"}}
	if err := SuiteText(&b, []*Report{wrong}, swept, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	want := "2 runs, 2 of them of sweeps: 1 pass, 1 fail, 0 invalid; 1 error: a file is wrong; 1 not run\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("want %q:\n%s", want, b.String())
	}
}
