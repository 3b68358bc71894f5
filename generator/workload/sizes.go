package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"candela.dev/candela/generator/parameter"
)

// sizes is a distribution of flow sizes. Published ones are points of a cumulative distribution. Their discrete form
// gives the share between two points to the lower one; the interpolated form spreads it evenly.
type sizes struct {
	points   []point // ascending; the first has a share of its own
	discrete bool
	upTo     float64 // the distribution is cut off at this share
}

type point struct{ bytes, share float64 }

// segment is what published points count in (bytes of payload).
const segment = 1460

func segments(pairs ...float64) []point {
	points := make([]point, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		points = append(points, point{pairs[i] * segment, pairs[i+1]})
	}
	return points
}

func inBytes(pairs ...float64) []point {
	points := segments(pairs...)
	for i := range points {
		points[i].bytes /= segment
	}
	return points
}

// published are the distributions that papers use, by name: points of web search and data mining (DCTCP and VL2, as
// digitised for pFabric), of an enterprise, of Facebook's cache followers, and of Facebook's Hadoop (as used by HPCC).
var published = []struct {
	name   string
	points []point
}{
	{"web-search", segments(6, .15, 13, .2, 19, .3, 33, .4, 53, .53, 133, .6, 667, .7, 1333, .8, 3333, .9, 6667, .97,
		20000, 1)},
	{"data-mining", segments(1, .5, 2, .6, 3, .7, 7, .8, 267, .9, 2107, .95, 66667, .99, 666667, 1)},
	{"enterprise", inBytes(52, .06, 104, .11, 240, .24, 476, .35, 1052, .5, 1500, .57, 2921, .68, 4580, .75, 6646, .8,
		10344, .85, 21668, .9, 76064, .95, 112036, .96, 396120, .98, 1.4e6, .99, 5.72e6, .996, 3.12e7, .999, 1.44e8, .9999,
		4.13e8, .99999, 1.77e9, 1)},
	{"hadoop", inBytes(1, 0, 100, .01, 200, .02, 300, .05, 350, .15, 400, .2, 500, .3, 600, .4, 700, .5, 1000, .6, 2000,
		.67, 7000, .7, 30_000, .72, 50_000, .82, 80_000, .87, 120_000, .9, 300_000, .95, 1e6, .975, 2e6, .99, 1e7, 1)},
	{"cache-follower", segments(1, .36, 2, .4, 7, .46, 13, .5, 67, .6, 133, .7, 667, .78, 1333, .8, 2000, .9, 2667, .99,
		33333, 1)},
}

// webSearchDiscrete is the discrete form in round numbers with which AIFO was evaluated.
var webSearchDiscrete = inBytes(1, .15, 10_000, .2, 20_000, .3, 30_000, .4, 50_000, .53, 80_000, .6, 200_000, .7,
	1_000_000, .8, 2_000_000, .9, 5_000_000, .97, 10_000_000, 1)

func sizeNames() []string {
	var names []string
	for _, p := range published {
		names = append(names, p.name)
	}
	return append(names, "fixed", "points")
}

const sizesDoc = "fixed: size-bytes; points: the list of that name. A file has a size in bytes and the share of " +
	"flows of at most this size on each line (0 to 1, or percent); its points become part of config.yml."

// sizeParameters are those of kinds whose flows have drawn sizes.
func sizeParameters() parameter.Table {
	return parameter.Table{
		{Name: "sizes", Kind: parameter.File, Words: sizeNames(), Default: "web-search",
			Doc: "Distribution of flow sizes. " + sizesDoc},
		{Name: "form", Kind: parameter.Word, Words: []string{"interpolated", "discrete"}, Default: "interpolated",
			Doc: "interpolated: sizes between two points of the distribution are equally likely. discrete: of published " +
				"distributions the lower point has their share (web-search in round numbers, from 1 to 10,000,000 bytes); of " +
				"points and files each has the share from the one before."},
		{Name: "truncate", Kind: parameter.Number, Default: "1", Max: 1,
			Doc: "The distribution is cut off at this share: 0.99 leaves out the largest 1 % of the flows."},
		{Name: "size-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "10000", Min: 1, Max: 1 << 45,
			Doc: "Size of each flow, of sizes: fixed."},
		{Name: "points", Kind: parameter.List, Items: parameter.Table{
			{Name: "bytes", Kind: parameter.Integer, Unit: "bytes", Required: true, Min: 1, Max: 1 << 45, Doc: "A size."},
			{Name: "share", Kind: parameter.Number, Required: true, Max: 1, Doc: "Share of flows of at most this size."},
		}, Doc: "Points of a distribution, of sizes: points; both numbers ascend, and the last share is 1."},
	}
}

// sizesOf returns the distribution of an item, and what is wrong with it.
func sizesOf(v parameter.Values) (s sizes, problems []Problem) {
	s = sizes{discrete: v.Word("form") == "discrete", upTo: v.Number("truncate")}
	if s.upTo <= 0 {
		problems = append(problems, Problem{"truncate", "0 leaves no flow", "it is above 0, at most 1"})
		s.upTo = 1
	}
	switch name := v.File("sizes"); name {
	case "fixed":
		s.points = []point{{float64(v.Int("size-bytes")), 1}}
	case "points":
		for _, p := range v.List("points") {
			s.points = append(s.points, point{float64(p.Int("bytes")), p.Number("share")})
		}
		for i, p := range s.points {
			if i > 0 && (p.bytes <= s.points[i-1].bytes || p.share <= s.points[i-1].share) {
				problems = append(problems, Problem{"points", fmt.Sprintf("point %d does not exceed the one before", i),
					"sizes and shares ascend"})
			}
		}
		if n := len(s.points); n == 0 || s.points[n-1].share != 1 {
			problems = append(problems, Problem{"points", "do not end with share 1", "the largest size has share 1"})
			s.points = []point{{1, 1}}
		}
	default:
		i := slices.IndexFunc(published, func(p struct {
			name   string
			points []point
		}) bool {
			return p.name == name
		})
		if i < 0 {
			return sizes{points: []point{{1, 1}}, upTo: 1}, append(problems, Problem{"sizes", "the file is not read", ""})
		}
		s.points = published[i].points
		switch {
		case s.discrete && name == "web-search":
			s.points = webSearchDiscrete
		case s.discrete:
			s.points = lowerPoints(s.points)
		}
	}
	return s, problems
}

// lowerPoints gives the share between two points to the lower one; what is below the first has a byte.
func lowerPoints(points []point) []point {
	lower := make([]point, len(points))
	for i := range points {
		lower[i] = point{1, points[i].share}
		if i > 0 {
			lower[i].bytes = points[i-1].bytes
		}
	}
	return lower
}

// parts calls f with each part of the distribution up to its end: sizes from low to high, equally likely, of a share.
func (s *sizes) parts(f func(low, high, share float64)) {
	before := point{}
	for i, p := range s.points {
		low, high := before.bytes, p.bytes
		if s.discrete || i == 0 {
			low = high
		}
		share := min(p.share, s.upTo) - before.share
		switch {
		case i == 0 && p.share == 0: // where the first sizes begin
			before = p
			continue
		case share <= 0:
			return
		}
		if p.share > s.upTo { // the part that is cut off ends before the point
			high = low + (high-low)*share/(p.share-before.share)
		}
		f(low, high, share/s.upTo)
		before = p
	}
}

// mean returns the mean size.
func (s *sizes) mean() (bytes float64) {
	s.parts(func(low, high, share float64) { bytes += share * (low + high) / 2 })
	return bytes
}

// below returns the share of sizes below some bytes.
func (s *sizes) below(bytes float64) (below float64) {
	s.parts(func(low, high, share float64) {
		switch {
		case high < bytes:
			below += share
		case low < bytes:
			below += share * (bytes - low) / (high - low)
		}
	})
	return below
}

// draw returns a size of at least a byte.
func (s *sizes) draw(r *rand.Rand) int64 {
	u, size := r.Float64(), 0.0
	s.parts(func(low, high, share float64) {
		if u >= 0 && u < share {
			size = low + (high-low)*u/share
		} else if u >= 0 {
			size = high // rounding may leave a rest of u at the end
		}
		u -= share
	})
	return max(1, int64(math.Round(size)))
}
