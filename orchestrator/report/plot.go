package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Geometry of a plot of PSNs over time, in the units of its view box.
const (
	plotWidth  = 1080
	plotHeight = 320
	plotLeft   = 64
	plotRight  = 16
	plotTop    = 30
	plotBottom = 44
	breakWidth = 44 // of a silence cut out of the time axis
	breakRows  = 2  // rows of break labels, which may be wider than the break
	rowHeight  = 13
	maxBreaks  = 12
	// breakRatio is the least ratio of the shortest cut silence to the longest remaining one.
	breakRatio = 4
	tickRoom   = 96 // between labels on the time axis
)

type plotView struct {
	Title   string
	Width   int
	Height  int
	Left    int
	Right   int
	Top     int
	Base    int // y of the time axis
	Layers  []plotLayer
	Breaks  []plotBreak
	XTicks  []plotTick
	YTicks  []plotTick
	Omitted string
	Few     bool   // few points, which may be large
	Label   string // for screen readers
}

// plotLayer holds all markers of one kind.
type plotLayer struct {
	Class  string // of the style sheet
	Name   string // in the legend
	Count  string
	Sample string       // marker at the origin, for the legend
	Path   string       // of ordinary markers
	Marks  []plotMarker // of those with a tooltip
}

type plotMarker struct {
	Path  string
	Title string
}

type plotTick struct {
	At   float64
	Text string
}

type plotBreak struct {
	At   float64 // middle
	Text string
	Y    int // of the text
}

// marker is a kind of point. The first kind that matches a point draws it.
type marker struct {
	class, name string
	tooltip     bool
	match       func(*Point) bool
	draw        func(b *strings.Builder, x, y float64)
}

// markers in order of matching. They are drawn in reverse order, so that the most important are on top.
var markers = []marker{
	{"drop", "dropped", true, func(p *Point) bool { return p.Event == trace.EventDrop }, drawCross},
	{"corrupt", "corrupted", true, func(p *Point) bool { return p.Event == trace.EventCorrupt || p.Damaged }, drawCross},
	{"ecn", "ECN-marked", true, func(p *Point) bool { return p.Event == trace.EventECN }, drawDiamond},
	{"event", "other event", true, func(p *Point) bool { return p.Event != trace.EventNone }, drawDiamond},
	{"nak", "NAK", true, isNak, drawTriangle},
	{"rnr", "RNR NAK", true, func(p *Point) bool { return p.Class == packet.ClassRNR }, drawTriangle},
	{"cnp", "CNP", true, func(p *Point) bool { return p.Class == packet.ClassCNP }, drawTriangle},
	{"resent", "resent data", true, func(p *Point) bool { return p.Resent }, drawDot},
	{"data", "data", false, func(p *Point) bool { return p.Class == packet.ClassData }, drawDot},
	{"read", "READ request", true, func(p *Point) bool { return p.Class == packet.ClassReadRequest }, drawBox},
	{"ack", "ACK", false, func(p *Point) bool { return p.Class == packet.ClassAck || p.Class == packet.ClassAtomicAck },
		drawDash},
	{"other", "other", true, func(*Point) bool { return true }, drawBox},
}

func isNak(p *Point) bool {
	switch p.Class {
	case packet.ClassNak, packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp:
		return true
	default:
		return false
	}
}

func newPlotView(r *Report, s *Sequence) plotView {
	points := slices.Clone(s.Points[:min(len(s.Points), maxPoints)])
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	v := plotView{
		Width: plotWidth, Height: plotHeight, Left: plotLeft, Right: plotWidth - plotRight, Top: plotTop,
		Base: plotHeight - plotBottom, Title: fmt.Sprintf("%s %d", r.flowWord(), s.Connection),
	}
	if s.Reverse {
		v.Title += ", requests of the responder"
	}
	if s.Omitted > 0 {
		v.Omitted = fmt.Sprintf("%s without event left out", plural(s.Omitted, "ordinary packet"))
	}
	v.Few = len(points) < 300
	v.Label = fmt.Sprintf("PSN over time of %s: %s", v.Title, plural(int64(len(points)), "packet"))
	if len(points) == 0 {
		return v
	}
	x := newTimeAxis(points)
	y := newPSNAxis(points)
	v.Breaks, v.XTicks, v.YTicks = x.breakViews(), x.ticks(r), y.ticks()
	v.layers(r, points, x, y)
	return v
}

func (v *plotView) layers(r *Report, points []Point, x *timeAxis, y *psnAxis) {
	paths := make([]strings.Builder, len(markers))
	counts := make([]int64, len(markers))
	layers := make([]plotLayer, len(markers))
	for i := range points {
		p := &points[i]
		k := slices.IndexFunc(markers, func(m marker) bool { return m.match(p) })
		m := &markers[k]
		counts[k]++
		at, height := x.place(p.TimeNS), y.place(p)
		if !m.tooltip {
			m.draw(&paths[k], at, height)
			continue
		}
		var one strings.Builder
		m.draw(&one, at, height)
		layers[k].Marks = append(layers[k].Marks, plotMarker{one.String(),
			fmt.Sprintf("%s %s t=%s", packetNumber(p.ID), p.what(), r.instant(p.TimeNS))})
	}
	for k := len(markers) - 1; k >= 0; k-- {
		if counts[k] > 0 {
			l := &layers[k]
			l.Class, l.Name, l.Count, l.Path = markers[k].class, markers[k].name, grouped(counts[k]), paths[k].String()
			l.Sample = shape(markers[k].draw)
			v.Layers = append(v.Layers, *l)
		}
	}
}

// timeAxis maps instants to x. Silences much longer than all other time, mainly timeouts, are cut to a fixed width.
// Packets microseconds apart stay distinct next to a wait of a second.
type timeAxis struct {
	start, end int64
	breaks     []silence // in order of time
	scale      float64   // units per ns outside of breaks
}

type silence struct{ from, to int64 }

func newTimeAxis(points []Point) *timeAxis {
	a := &timeAxis{start: points[0].TimeNS, end: points[len(points)-1].TimeNS}
	var gaps []silence
	for i := 1; i < len(points); i++ {
		gaps = append(gaps, silence{points[i-1].TimeNS, points[i].TimeNS})
	}
	slices.SortStableFunc(gaps, func(p, q silence) int { return cmp.Compare(q.length(), p.length()) })
	active := float64(a.end) - float64(a.start)
	rest := active
	for k := 1; k <= maxBreaks && k < len(gaps); k++ {
		rest -= gaps[k-1].length()
		if shortest := gaps[k-1].length(); shortest > rest && shortest >= breakRatio*gaps[k].length() {
			a.breaks, active = gaps[:k], rest
		}
	}
	a.breaks = slices.Clone(a.breaks)
	slices.SortFunc(a.breaks, func(p, q silence) int { return cmp.Compare(p.from, q.from) })
	room := float64(plotWidth - plotLeft - plotRight - 24 - breakWidth*len(a.breaks))
	if active > 0 {
		a.scale = room / active
	}
	return a
}

func (s silence) length() float64 { return float64(s.to) - float64(s.from) }

// place returns the x of an instant.
func (a *timeAxis) place(ns int64) float64 {
	at := plotLeft + 12.0
	from := a.start
	for _, b := range a.breaks {
		if ns < b.to {
			break
		}
		at += (float64(b.from)-float64(from))*a.scale + breakWidth
		from = b.to
	}
	return at + (float64(ns)-float64(from))*a.scale
}

func (a *timeAxis) breakViews() []plotBreak {
	var views []plotBreak
	free := [breakRows]float64{} // end of the latest label of each row
	for _, b := range a.breaks {
		at, text := a.place(b.to)-breakWidth/2, clock.TextNS(b.to-b.from)
		half := glyphWidth * float64(len(text)+1) / 2
		row := 0
		for row < breakRows-1 && free[row] > at-half {
			row++
		}
		free[row] = at + half
		views = append(views, plotBreak{At: round(at), Text: text, Y: plotTop - 6 - row*rowHeight})
	}
	return views
}

// ticks labels the start of the axis, the end of every silence, and round instants in between where there is room.
func (a *timeAxis) ticks(r *Report) []plotTick {
	var ticks []plotTick
	last := math.Inf(-1)
	label := func(ns int64, text string) {
		if at := a.place(ns); at-last >= tickRoom && at <= plotWidth-plotRight-tickRoom/2 {
			ticks = append(ticks, plotTick{round(at), text})
			last = at
		}
	}
	from := a.start
	for i := 0; i <= len(a.breaks); i++ {
		to := a.end
		if i < len(a.breaks) {
			to = a.breaks[i].from
		}
		label(from, r.tick(from))
		if step := niceStep(tickRoom / max(a.scale, 1e-12)); step > 0 && a.scale > 0 {
			for n := 0; n < plotWidth/tickRoom; n++ {
				next, text := r.roundTick(from, step, n)
				if next > from && next <= to {
					label(next, text)
				}
			}
		}
		if i < len(a.breaks) {
			from = a.breaks[i].to
		}
	}
	return ticks
}

// roundTick returns the n-th labelled instant after from, and its label. If three digits cannot distinguish two labels,
// labels count from that instant.
func (r *Report) roundTick(from, step int64, n int) (ns int64, text string) {
	const distinct = 100 // steps that three digits distinguish
	start := (from - r.OriginNS) / step
	if max(start, -start)+int64(n) < distinct {
		ns = r.OriginNS + (start+int64(n))*step
		return ns, r.tick(ns)
	}
	ns = from + int64(n)*step
	return ns, since(from, ns)
}

// niceStep returns the smallest 1, 2 or 5 times a power of ten that is at least n; 0 if it exceeds int64.
func niceStep(n float64) int64 {
	if !(n < 1e18) {
		return 0
	}
	for power := int64(1); power <= 1e17; power *= 10 {
		for _, m := range []int64{1, 2, 5} {
			if float64(m*power) >= n {
				return m * power
			}
		}
	}
	return 0
}

// maxPlace bounds relative PSNs so that sums do not overflow. It is far above any PSN of a trace.
const maxPlace = 1 << 52

// psnAxis maps relative PSNs to y.
type psnAxis struct{ low, high int64 }

func newPSNAxis(points []Point) *psnAxis {
	a := &psnAxis{low: math.MaxInt64, high: math.MinInt64}
	for i := range points {
		if p := &points[i]; p.numbered() {
			psn := min(max(p.PSN, -maxPlace), maxPlace)
			a.low, a.high = min(a.low, psn), max(a.high, psn)
		}
	}
	if a.low > a.high {
		a.low, a.high = 0, 1
	}
	if a.low == a.high {
		a.low, a.high = a.low-1, a.high+1
	}
	return a
}

// numbered reports whether p has a PSN to plot.
func (p *Point) numbered() bool { return p.Class != packet.ClassCNP && p.PSN != 0 }

// place returns the y of p. Packets without a PSN are drawn on the time axis.
func (a *psnAxis) place(p *Point) float64 {
	if !p.numbered() {
		return plotHeight - plotBottom - 6
	}
	return a.height(float64(p.PSN))
}

func (a *psnAxis) height(psn float64) float64 {
	const low, high = plotHeight - plotBottom - 16, plotTop + 8
	return low - (psn-float64(a.low))/(float64(a.high)-float64(a.low))*(low-high)
}

func (a *psnAxis) ticks() []plotTick {
	const most = 6
	step := niceStep((float64(a.high) - float64(a.low)) / most)
	if step == 0 {
		return nil
	}
	var ticks []plotTick
	for psn := (a.low + step - 1) / step * step; psn <= a.high && len(ticks) <= 2*most; psn += step {
		if psn >= a.low {
			ticks = append(ticks, plotTick{round(a.height(float64(psn))), strconv.FormatInt(psn, 10)})
		}
	}
	return ticks
}

func round(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return math.Round(v*10) / 10
}

func shape(draw func(b *strings.Builder, x, y float64)) string {
	var b strings.Builder
	draw(&b, 0, 0)
	return b.String()
}

// Shapes, around (x, y). A dot is a line of length 0 with round ends from the style sheet.

func drawDot(b *strings.Builder, x, y float64) { fmt.Fprintf(b, "M%g %gh0", round(x), round(y)) }

func drawDash(b *strings.Builder, x, y float64) { fmt.Fprintf(b, "M%g %gh6", round(x-3), round(y)) }

func drawCross(b *strings.Builder, x, y float64) {
	fmt.Fprintf(b, "M%g %gl9 9m0 -9l-9 9", round(x-4.5), round(y-4.5))
}

func drawDiamond(b *strings.Builder, x, y float64) {
	fmt.Fprintf(b, "M%g %gl5 5l-5 5l-5 -5z", round(x), round(y-5))
}

func drawTriangle(b *strings.Builder, x, y float64) {
	fmt.Fprintf(b, "M%g %gl5 9h-10z", round(x), round(y-5))
}

func drawBox(b *strings.Builder, x, y float64) {
	fmt.Fprintf(b, "M%g %gh6v6h-6z", round(x-3), round(y-3))
}
