package trace

import (
	"cmp"
	"math"
	"slices"
)

// straight is a correction: offset at the reference, and slope.
type straight struct{ offset, slope float64 }

func (s straight) at(x float64) float64 { return s.offset + s.slope*x }

// An envelope is the least, or the largest, correction that the bounds allow at each time, whatever the drift: the
// extreme of a few straight lines.
type envelope []straight

func (e envelope) least(x float64) float64 {
	y := math.Inf(1)
	for _, s := range e {
		y = min(y, s.at(x))
	}
	return y
}

func (e envelope) largest(x float64) float64 {
	y := math.Inf(-1)
	for _, s := range e {
		y = max(y, s.at(x))
	}
	return y
}

// envelopes returns both, given a drift that the bounds allow. There must be bounds of both kinds.
func (l *lines) envelopes(drift float64) (least, largest envelope) {
	tight := &lines{below: hull(l.below, 1), above: hull(l.above, -1)}
	allowed := func(s float64) bool { lo, hi := tight.offsets(s); return lo <= hi }
	// The allowed drifts are an interval, because the room is a concave function of the drift.
	end := func(far float64) float64 {
		near := drift
		if allowed(far) {
			return far
		}
		for range 60 {
			if middle := (near + far) / 2; allowed(middle) {
				near = middle
			} else {
				far = middle
			}
		}
		return near
	}
	low, high := end(-maxDrift), end(maxDrift)
	for _, s := range slopes(tight.below, low, high) {
		lo, _ := tight.offsets(s)
		least = append(least, straight{lo, s})
	}
	for _, s := range slopes(tight.above, low, high) {
		_, hi := tight.offsets(s)
		largest = append(largest, straight{hi, s})
	}
	return least, largest
}

// slopes returns the slopes from low to high at which a line that touches the points moves from one of them to the
// next.
func slopes(points []point, low, high float64) []float64 {
	list := []float64{low}
	for i := 1; i < len(points); i++ {
		s := (points[i].y - points[i-1].y) / (points[i].x - points[i-1].x)
		if s > low && s < high {
			list = append(list, s)
		}
	}
	return append(list, high)
}

// hull returns the corners of the convex hull that lines above all points touch (side 1), or lines below them (side
// −1).
func hull(points []point, side float64) []point {
	points = slices.Clone(points)
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(side*b.y, side*a.y)) })
	var out []point
	for _, p := range points {
		if n := len(out); n > 0 && out[n-1].x == p.x {
			continue
		}
		for n := len(out); n > 1 && side*cross(out[n-2], out[n-1], p) >= 0; n = len(out) {
			out = out[:n-1]
		}
		out = append(out, p)
	}
	return out
}

// cross is positive if the way from a over b to c turns left.
func cross(a, b, c point) float64 { return (b.x-a.x)*(c.y-a.y) - (b.y-a.y)*(c.x-a.x) }
