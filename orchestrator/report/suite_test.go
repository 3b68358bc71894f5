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
			if err := SuiteText(&b, reports, TextOptions{}); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", b.Bytes())
		})
	}
}

func TestSuiteTextReportsAWriteError(t *testing.T) {
	r := &Report{Verdict: analyzers.Pass}
	if err := SuiteText(brokenWriter{}, []*Report{r}, TextOptions{}); !errors.Is(err, errFull) {
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
