package workload

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func distribution(t *testing.T, settings ...string) sizes {
	t.Helper()
	v, err := sizeParameters().Values(settings...)
	if err != nil {
		t.Fatal(err)
	}
	s, problems := sizesOf(v)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s
}

// Means and shares are those that the papers and their tables state.
func TestDistributionsHaveTheStatedShares(t *testing.T) {
	for _, c := range []struct {
		settings string
		mean     float64 // bytes; 0: none is stated
		bytes    float64
		below    float64 // share below bytes
	}{
		{"sizes=data-mining", 7.47e6, 100_000, 0.824},
		{"sizes=data-mining truncate=0.99", 2.14e6, 100_000, 0.824 / 0.99},
		{"sizes=enterprise", 211e3, 100_000, 0.957},
		{"sizes=enterprise truncate=0.9999", 175e3, 100_000, 0.957 / 0.9999},
		{"sizes=cache-follower", 0.91e6, 67 * 1460, 0.60},
		{"sizes=web-search", 1.67e6, 53*1460 + 1, 0.53},
		{"sizes=web-search", 1.67e6, 3333*1460 + 1, 0.90},
		{"sizes=web-search form=discrete", 987_600, 100_000, 0.60},     // small flows of AIFO
		{"sizes=web-search form=discrete", 987_600, 1_000_000, 0.70},   // flows of 1 MB and more are large
		{"sizes=web-search form=discrete", 987_600, 5_000_001, 0.97},   //
		{"sizes=hadoop", 120_421, 700, 0.50},                           // HPCC's table
		{"sizes=hadoop", 120_421, 120_000, 0.90},                       //
		{"sizes=hadoop", 120_421, 1_000_000, 0.975},                    //
		{"sizes=hadoop form=discrete", 0, 701, 0.60},                   // 0.5 to 0.6 are 700 bytes
		{"sizes=data-mining form=discrete", 0, 1461, 0.60},             // up to 0.5 a byte, then a segment
		{"sizes=enterprise form=discrete", 0, 1053, 0.57},              //
		{"sizes=cache-follower form=discrete", 0, 67*1460 + 1, 0.70},   //
		{"sizes=cache-follower truncate=0.5", 0, 2 * 1460, 0.40 / 0.5}, //
	} {
		s := distribution(t, strings.Fields(c.settings)...)
		if got := s.mean(); c.mean > 0 && math.Abs(got/c.mean-1) > 0.006 {
			t.Errorf("%s: the mean is %.6g bytes, want %.6g", c.settings, got, c.mean)
		}
		if got := s.below(c.bytes); math.Abs(got-c.below) > 0.0015 {
			t.Errorf("%s: %.4f are below %.0f bytes, want %.4f", c.settings, got, c.bytes, c.below)
		}
		r, small := rand.New(rand.NewPCG(1, 2)), 0.0
		const draws = 20_000
		for range draws {
			if float64(s.draw(r)) < c.bytes {
				small++
			}
		}
		if got := small / draws; math.Abs(got-c.below) > 0.0015+4*math.Sqrt(0.25/draws) {
			t.Errorf("%s: %.4f of the drawn sizes are below %.0f bytes, want %.4f", c.settings, got, c.bytes, c.below)
		}
	}
}

// The discrete sizes of web search are those of AIFO's table, each with its share.
func TestDiscreteWebSearchIsTheTable(t *testing.T) {
	want := map[int64]float64{1: .15, 10_000: .05, 20_000: .1, 30_000: .1, 50_000: .13, 80_000: .07, 200_000: .1,
		1_000_000: .1, 2_000_000: .1, 5_000_000: .07, 10_000_000: .03}
	s := distribution(t, "sizes=web-search", "form=discrete")
	got, r := map[int64]float64{}, rand.New(rand.NewPCG(3, 4))
	const draws = 40_000
	for range draws {
		got[s.draw(r)]++
	}
	x := 0.0
	for size, share := range want {
		x += (got[size] - draws*share) * (got[size] - draws*share) / (draws * share)
	}
	if len(got) != len(want) || x > 29.6 { // the 99.9th percentile of chi-squared with 10 degrees of freedom
		t.Errorf("drew %v (chi-squared %.1f)", got, x)
	}
}

// Points of a file begin where the file says, as fractions or in percent, with a heading or without.
func TestFilesOfDistributions(t *testing.T) {
	for _, text := range []string{
		"0 0\n100 10\n1000 100\n", "bytes,share\n1,0\n100,0.1\n1000,1\n", "# note\n\n 0\t0 # first\n100;0.1\n1000 1",
	} {
		points, err := readCDF("f.txt", strings.NewReader(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		s := sizes{points: points, upTo: 1}
		if mean := s.mean(); math.Abs(mean-(0.1*50.5+0.9*550)) > 1e-9 {
			t.Errorf("%q: the mean is %g", text, mean)
		}
	}
}

// Mistakes are named by line and column.
func TestWrongFilesOfDistributionsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "f.txt:1:1: no points",
		"10 0.5\n20\n":              "f.txt:2:1: 1 columns, want two",
		"10 1 0.5\n20 1 1\n":        "f.txt:1:6: 3 columns, want two",
		"10 0.5\n  x 1\n":           `f.txt:2:3: "x" is no size`,
		"10 0.5\n20 x\n":            `f.txt:2:4: "x" is no share`,
		"10 0.5\n20.5 1\n":          `f.txt:2:1: "20.5" is no size`,
		"10 0.5\n10 1\n":            "f.txt:2:1: 10 does not exceed the size before it",
		"10 0.5\n20 0.5\n":          "f.txt:2:4: 0.5 does not exceed the share before it",
		"10 0.5\n20 0.9\n":          "f.txt:2:1: the last share is 0.9",
		"10 50\n20 101\n":           `f.txt:2:4: "101" is no share`,
		"10 NaN\n20 1\n":            `f.txt:1:4: "NaN" is no share`,
		"-1 0.5\n20 1\n":            `f.txt:1:1: "-1" is no size`,
		"0 0\n1 0.5\n2 1\n":         "f.txt:2:1: sizes of 0 and 1 byte",
		"1e99 0.5\n":                "is no size",
		"bytes share\nx y\n":        `f.txt:2:1: "x" is no size`,
		"10 0.5\nbytes share":       "f.txt:2:1",
		strings.Repeat("9", 70_000): "f.txt:1:1: bufio.Scanner: token too long",
	} {
		if _, err := readCDF("f.txt", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}
