package comparison

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/report/junitschema"
)

func sample() *Results {
	r := &Results{
		Schema: ResultsSchema, Paper: "a paper", Runs: 3,
		Plots: []Plot{{Name: "p", Title: "a < b", X: "x", Y: "us", Series: []Series{
			{Name: "one", X: []float64{1, 2, 3}, Y: []float64{1, 4, 9}}, {Name: "flat", X: []float64{1, 2}, Y: []float64{5, 5}},
			{Name: "none"}, {Name: "dots", X: []float64{1}, Y: []float64{2}, Style: Dots},
			{Name: "bars", X: []float64{1, 2, 4, 5}, Y: []float64{1, 1, 1, 1}, Style: Segments},
		}}},
	}
	r.Add(FromConstant("NackGeneration"), NewRow("L3", "CX5 generation", "us", 1.1, 1.1, 0.1, 1.101))
	r.Add(FromMechanism(""), NewRow("L4", "CX5 reaction", "us", 3, 6, 0.15, 9).Noted("far off"))
	r.Add(Unjudged("another set-up"), NewRow("L8", "CNPs", "", 0, 0, 0, 1))
	return r
}

func TestTheTableSaysWhatFailed(t *testing.T) {
	var b strings.Builder
	r := sample()
	r.Add(FromChoice("bound ours"), NewRow("L9", "retries, of which the table says so much that they need more lines", "",
		1, 1, 0, math.NaN()).Noted("never"))
	r.Add(Skipped("no root"), NewRow("T2", "shares", "%", 85, 85, 0, math.NaN()))
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `              paper  measured  deviation  tolerance  what
L3  PASS  p  1.1 us  1.101 us     +0.1 %      ±10 %  CX5 generation [1]
L4  FAIL  m  3–6 us      9 us    +50.0 %      ±15 %  CX5 reaction [2]
L8  info          0         1          1             CNPs [3]
L9  FAIL  c       1         –          –       ±0 %  retries, of which the
                                                       table says so much that
                                                       they need more lines [4]
                                                       [5]
T2  SKIP       85 %         –          –             shares [6] [7]

 [1] NackGeneration
 [2] far off
 [3] another set-up
 [4] nothing was measured; never
 [5] bound ours
 [6] nothing was measured
 [7] SKIP: no root

a paper
5 values of the paper, 3 runs: 0 follow from a mechanism, 1 measure a profile
constant back through the chain, 0 were chosen, 2 missed, 2 not judged (2 of
them differ from the paper)
m: follows from a mechanism; p: a profile constant, measured back; c: chosen,
which means fitted to the paper, given by how the test is built, or held against
a bound of ours; info: shown, not judged; deviation: from the nearer end of what
the paper gives, as a share of it, also where the value is a percentage
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := sample().Failed(); n != 1 {
		t.Errorf("%d failed", n)
	}
}

// Numbers of 52 columns would leave 28 for the description.
func TestALongDescriptionIsAboveItsNumbers(t *testing.T) {
	var b strings.Builder
	var r Results
	r.Add(FromMechanism("").Of(SpecCalibration), NewRow("A-4", "tail drop with a buffer of 3 MB, a load of 20 % of the "+
		"port: completion time of the flows of 100 KB, mean of five seeds, which is long", "times", 0.75, 1.35, .15, 1.7))
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `                        paper   measured  deviation  tolerance
A-4  FAIL  m  tail drop with a buffer of 3 MB, a load of 20 % of the port:
                completion time of the flows of 100 KB, mean of five seeds,
                which is long (spec)
              0.75–1.35 times  1.7 times    +25.9 %      ±15 %
`
	if got, _, _ := strings.Cut(b.String(), "\n\n"); got+"\n" != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestResultsSurviveJSON(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var back Results
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || len(back.Rows) != 3 ||
		back.Schema != ResultsSchema {
		t.Errorf("%v: %+v", err, back)
	}
}

func TestPlotsAreWellFormed(t *testing.T) {
	plots := sample().Plots
	plots = append(plots, Plot{Title: "empty"})
	for _, p := range plots {
		var b strings.Builder
		if err := p.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%s: not a number\n%s", p.Title, b.String())
		}
		for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", p.Title, err)
			}
		}
	}
}

func TestAxesHoldTheirValuesAndHaveRoundTicks(t *testing.T) {
	for _, values := range [][]float64{{0, 1}, {3, 9}, {100, 101}, {0.001, 0.002}, {5}, {-3, 4}} {
		a := newAxis(values, 0, 100)
		for _, v := range values {
			if at := a.at(v); at < -1e-9 || at > 100+1e-9 {
				t.Errorf("%v: %g is at %g", values, v, at)
			}
		}
		if n := len(a.values()); n < 2 || n > 2*ticks {
			t.Errorf("%v: %d ticks", values, n)
		}
	}
	for v, want := range map[float64]float64{0.9: 1, 1: 1, 1.1: 2, 3: 5, 7: 10, 0.03: 0.05} {
		if got := niceStep(v); math.Abs(got-want) > 1e-12 {
			t.Errorf("step for %g: %g, want %g", v, got, want)
		}
	}
}

// What is level has an axis from zero, and a point that is all of its series shows beside others at its place.
func TestPlotsShowLevelLinesAndSinglePoints(t *testing.T) {
	for _, c := range []struct {
		plot  Plot
		ticks string // the lowest
		rings int
	}{
		{Plot{Series: []Series{{X: []float64{1, 2}, Y: []float64{100, 101}}}}, ">100<", 0},
		{Plot{Series: []Series{{X: []float64{1, 2}, Y: []float64{100, 101}}}, FromZero: true}, ">0<", 0},
		{Plot{Series: []Series{{X: []float64{8}, Y: []float64{9}}, {X: []float64{8}, Y: []float64{9}},
			{X: []float64{1, 8}, Y: []float64{1, 9}}}}, ">0<", 2},
	} {
		var b strings.Builder
		if err := c.plot.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); !strings.Contains(text, `text-anchor="end"`+c.ticks) ||
			strings.Count(text, "<circle") != c.rings || c.rings == 2 && !strings.Contains(text, `r="5"`) {
			t.Errorf("want a tick %s and %d rings\n%s", c.ticks, c.rings, text)
		}
	}
}

func TestTheReportIsOneWellFormedPageWithEveryRowAndPlot(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"CX5 generation", "far off", "+50.0 %", "<svg", "a &lt; b",
		"1 measure a profile constant back", "<td>profile constant<", "NackGeneration"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "http://") && strings.Count(page, "http://") != strings.Count(page, `xmlns="http://`) {
		t.Error("the page loads something from elsewhere")
	}
}

func TestADistributionOfManyValuesIsThinnedToItsEnds(t *testing.T) {
	values := make([]float64, 1000)
	for i := range values {
		values[i] = float64(999 - i)
	}
	s := CDF("x", values, 50)
	if len(s.X) != 50 || s.X[0] != 0 || s.X[49] != 999 || s.Y[49] != 1 {
		t.Errorf("%d points from (%g, %g) to (%g, %g)", len(s.X), s.X[0], s.Y[0], s.X[len(s.X)-1], s.Y[len(s.Y)-1])
	}
}

func TestOneEndOfARangeIsEnough(t *testing.T) {
	for _, c := range []struct {
		name     string
		bound    Bound
		measured float64
		pass     bool
		paper    string
	}{
		{"below a limit", AtMost, 3, true, "≤ 250 packets"}, {"at it", AtMost, 250, true, "≤ 250 packets"},
		{"a little above", AtMost, 260, true, "≤ 250 packets"}, {"far above", AtMost, 300, false, "≤ 250 packets"},
		{"above the least", AtLeast, 9000, true, "≥ 250 packets"}, {"below it", AtLeast, 200, false, "≥ 250 packets"},
		{"nothing measured", AtMost, math.NaN(), false, "≤ 250 packets"},
	} {
		r := NewBound("T4", "queue", "packets", c.bound, 250, 0.05, c.measured)
		if r.Pass != c.pass || r.paper() != c.paper {
			t.Errorf("%s: pass %t, paper %q", c.name, r.Pass, r.paper())
		}
	}
}

func TestEachValueIsACase(t *testing.T) {
	r := sample()
	r.Add(FromMechanism(""), NewRow("L9", "retries", "", 1, 1, 0, math.NaN()))
	at := time.Unix(0, 0)
	wall := func() time.Time { at = at.Add(1500 * time.Millisecond); return at }
	experiment := func() error {
		r.Add(FromMechanism(""), NewRow("L1", "size", "", 1, 1, 0, 1))
		return nil
	}
	if err := r.Timed(wall, experiment); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := report.JUnitOfChecks(&b, []report.CheckSuite{r.Checks()}); err != nil {
		t.Fatal(err)
	}
	if err := junitschema.Check(strings.NewReader(b.String())); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`tests="5" failures="2" errors="0" skipped="1" time="1.500"`,
		`<testcase name="L1: size" classname="candela.reproduce a paper" time="1.500">`,
		`<failure message="measured 9 us, the paper has 3–6 us (deviation +50.0 %, tolerance ±15 %); basis: mechanism; far off"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("JUnit lacks %s:\n%s", want, &b)
		}
	}
}

// A column in which nothing would stand is left out, and ids are not broken.
func TestThePageHasANoteColumnOnlyForNotes(t *testing.T) {
	page := func(r *Results) string {
		var b strings.Builder
		if err := r.WriteHTML(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	plain := &Results{Schema: ResultsSchema, Paper: "a paper"}
	plain.Add(FromMechanism(""), NewRow("A-1", "x", "us", 3, 6, 0.15, 4))
	if got := page(plain); strings.Contains(got, "<th>note") || strings.Count(got, "<td class=\"note\">") != 1 {
		t.Errorf("a note column without notes:\n%s", got)
	}
	if got := page(sample()); !strings.Contains(got, "<th>note") || strings.Count(got, "<td class=\"note\">") != 6 {
		t.Errorf("no note column:\n%s", got)
	}
}

func TestAxesHaveCommasFromTenThousandOn(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 5000: "5000", 10_000: "10,000", -20_000: "-20,000",
		2_500_000: "2,500,000"} {
		if got := tickText(v); got != want {
			t.Errorf("%g is labelled %s, want %s", v, got, want)
		}
	}
}
