package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Journey holds the packets of a finding of a switch test, hop by hop. It is drawn as a ladder and printed as a list.
type Journey struct {
	Finding int      `json:"finding"`  // its number in Findings, from 1
	FoundNS int64    `json:"found_ns"` // when the analyzer reported it
	Lanes   []string `json:"lanes"`    // hosts and switches, from left to right
	Hops    []Hop    `json:"hops"`     // in the order of SentNS
	Omitted int      `json:"omitted,omitempty"`
	// Before and Behind are the captures before and after the switches, which frame numbers refer to; empty: none.
	Before string `json:"before,omitempty"`
	Behind string `json:"behind,omitempty"`
}

// Hop is a packet on one link, or the place of its loss.
type Hop struct {
	ID        uint64 `json:"id"`
	What      string `json:"what"`  // "data 17", "NACK 17"
	Class     string `json:"class"` // of the style sheet
	From      int    `json:"from"`  // lane
	To        int    `json:"to"`    // lane; None: it did not arrive
	FromPort  int    `json:"from_port"`
	ToPort    int    `json:"to_port"` // None: a host's, or unknown
	SentNS    int64  `json:"sent_ns"`
	ArrivedNS int64  `json:"arrived_ns,omitempty"`
	Fate      string `json:"fate,omitempty"`     // action of From: "trimmed to 64 B", "dropped: tail"
	Lost      bool   `json:"lost,omitempty"`     // lost at From
	Consumed  bool   `json:"consumed,omitempty"` // it was for From, and goes no further
	Accused   bool   `json:"accused,omitempty"`
	Gap       bool   `json:"gap,omitempty"`    // hops before this one are omitted
	Before    uint64 `json:"before,omitempty"` // frame number in the capture before the switches; 0: none
	Behind    uint64 `json:"behind,omitempty"` // frame number in the capture after the switches; 0: none
}

// None is the value of a missing lane or port.
const None = -1

// Leading returns the numbers, from 1, of at most n findings that are the first of their group: violations that count,
// then warnings.
func (r *Report) Leading(n int) []int {
	warnings := r.findings(func(f *Finding) bool { return !f.counts() && f.Severity != analyzers.Note })
	var numbers []int
	for _, g := range append(groups(r.violations()), groups(warnings)...) {
		if len(numbers) == n {
			break
		}
		for i := range r.Findings {
			if &r.Findings[i] == g[0] {
				numbers = append(numbers, i+1)
			}
		}
	}
	return numbers
}

// TakeJourneys copies the journeys of an older report of the same run, for findings that both reports have.
func (r *Report) TakeJourneys(old *Report) {
	for _, j := range old.Journeys {
		if j.Finding < 1 || j.Finding > len(old.Findings) {
			continue
		}
		was := &old.Findings[j.Finding-1]
		i := slices.IndexFunc(r.Findings, func(f Finding) bool {
			return f.Rule == was.Rule && f.Cause == was.Cause && f.Connection == was.Connection && f.TimeNS == was.TimeNS
		})
		if i >= 0 {
			j.Finding = i + 1
			r.Journeys = append(r.Journeys, j)
		}
	}
}

func (j *Journey) check() error {
	for i := range j.Hops {
		h := &j.Hops[i]
		if h.From < 0 || h.From >= len(j.Lanes) || h.To < None || h.To >= len(j.Lanes) {
			return fmt.Errorf("read report: packets of finding %d: hop %d is between lanes %d and %d of %d", j.Finding, i+1,
				h.From, h.To, len(j.Lanes))
		}
	}
	return nil
}

// Geometry of a journey, in the units of its view box.
const (
	journeyLeft    = 116 // first lane
	journeyRight   = 250 // to the right of the last lane: packet and ports
	journeyFate    = 15  // height of the line under an arrow
	journeyLaneMin = 124
	journeyLaneMax = 330
)

// journeyView is a Journey as an SVG and as a list.
type journeyView struct {
	Title, Label       string
	Number             int // of the finding
	Width, Height      int
	Widest             int // maximum width when scaled
	Top, Bottom, Right int
	Lanes              []laneView
	Rows               []journeyRow
	Hops               []hopView
	Omitted            string
	Filters            []filterView
	Captured           bool
}

type laneView struct {
	X    int
	Name string
}

type journeyRow struct {
	ladderRowView
	Ports  string
	AsideX int
	Below  string // action of the switch, on its own line
	BelowX int
	Tall   int // of the row
}

// hopView is one row of the list.
type hopView struct {
	Anchor, ID, Time, Since, Exact, Way, What, Fate, Class string
	Frames, Filter                                         string
	Accused, Gap                                           bool
}

func newJourneyView(r *Report, j *Journey, prefix string) *journeyView {
	v := &journeyView{Title: "Packet by packet, " + strings.Join(j.ends(), " and "), Top: ladderTop - 12,
		Number:   j.Finding,
		Captured: j.Before != ""}
	spacing := j.spacing()
	for i, name := range j.Lanes {
		v.Lanes = append(v.Lanes, laneView{journeyLeft + i*spacing, name})
	}
	v.Right = journeyLeft + (len(j.Lanes)-1)*spacing
	v.Width = v.Right + journeyRight
	v.Widest = v.Width * 5 / 4
	y := v.rows(r, j)
	v.Bottom, v.Height = y, y+8
	v.Label = fmt.Sprintf("%s between %s", plural(int64(len(j.Hops)), "hop"), clean(strings.Join(j.Lanes, ", ")))
	if j.Omitted > 0 {
		v.Omitted = "and " + moreOf(j.Omitted, "hop") + " of these packets"
	}
	for i := range j.Hops {
		v.Hops = append(v.Hops, j.hopView(r, i, prefix))
	}
	v.Filters = j.filters()
	return v
}

// ends returns the names of the first and the last lane, which are hosts.
func (j *Journey) ends() []string {
	if len(j.Lanes) == 0 {
		return nil
	}
	return slices.Compact([]string{j.Lanes[0], j.Lanes[len(j.Lanes)-1]})
}

// spacing returns the distance of lanes, wide enough for the texts between them.
func (j *Journey) spacing() int {
	longest := 0
	for i := range j.Hops {
		longest = max(longest, utf8.RuneCountInString(j.Hops[i].What))
	}
	for _, name := range j.Lanes {
		longest = max(longest, utf8.RuneCountInString(name))
	}
	return min(max(int(float64(longest)*glyphWidth)+60, journeyLaneMin), journeyLaneMax)
}

// rows fills in the drawing and returns its bottom y.
func (v *journeyView) rows(r *Report, j *Journey) int {
	y := ladderTop
	aside := func(text string) {
		v.Rows = append(v.Rows, journeyRow{ladderRowView: ladderRowView{Y: float64(y), Aside: text},
			AsideX: (journeyLeft + v.Right) / 2})
		y += ladderRow
	}
	said := slices.ContainsFunc(j.Hops, func(h Hop) bool {
		return h.Accused && (h.SentNS == j.FoundNS || h.ArrivedNS == j.FoundNS)
	})
	for i := range j.Hops {
		h := &j.Hops[i]
		if !said && h.SentNS > j.FoundNS {
			aside("finding, t=" + r.instant(j.FoundNS))
			said = true
		}
		time := r.instant(h.SentNS)
		switch {
		case h.Gap:
			aside("hops left out")
		case i > 0 && h.SentNS-j.Hops[i-1].SentNS >= longWait:
			aside(clock.TextNS(h.SentNS-j.Hops[i-1].SentNS) + " without a hop of this flow")
		case i > 0:
			time = since(j.Hops[i-1].SentNS, h.SentNS)
		}
		row := v.row(h, y, time)
		v.Rows = append(v.Rows, row)
		y += row.Tall
	}
	if !said {
		aside("finding, t=" + r.instant(j.FoundNS))
	}
	return y
}

// row draws a hop. The action of a switch is printed under the arrow, where no line crosses it.
func (v *journeyView) row(h *Hop, y int, time string) journeyRow {
	row := journeyRow{Ports: h.ports(), Tall: ladderRow}
	row.Y, row.Time, row.ID, row.Text = float64(y), time, "#"+trace.PacketText(h.ID), h.What
	row.Class, row.Accused = h.Class, h.Accused
	from := v.Lanes[h.From].X
	var mark strings.Builder
	if h.Lost || h.To == None || h.To == h.From {
		if !h.Lost && !h.Consumed && h.Fate == "" {
			row.Text += ", did not arrive"
		} else if h.Fate != "" {
			row.Text += ", " + h.Fate
		}
		if h.Consumed {
			drawDiamond(&mark, float64(from), float64(y+ladderSlant))
			row.Mark = mark.String()
		} else {
			drawCross(&mark, float64(from), float64(y+ladderSlant))
			row.Cross = mark.String()
		}
		row.plate()
		row.center(float64(from) + 14 + row.PlateWidth/2)
		return row
	}
	to, way := v.Lanes[h.To].X, 1
	if to < from {
		way = -1
	}
	end := y + 2*ladderSlant
	row.Path = fmt.Sprintf("M%d %dL%d %d", from, y, to-way*6, end)
	row.Head = fmt.Sprintf("M%d %dl%d -3.5v7z", to, end, -way*8)
	row.plate()
	row.center(float64(from+to) / 2)
	if h.Fate != "" {
		drawDiamond(&mark, float64(from), float64(y))
		row.Mark, row.Below, row.BelowX = mark.String(), h.Fate, min(from, to)+10
		row.Tall += journeyFate
	}
	return row
}

// plate measures the background of the row's text; center places both.
func (row *journeyRow) plate() {
	row.PlateWidth = float64(utf8.RuneCountInString(row.Text))*glyphWidth + 10
}

func (row *journeyRow) center(x float64) { row.TextX, row.PlateX = x, round(x-row.PlateWidth/2) }

// ports describes the switch ports that a packet used.
func (h *Hop) ports() string {
	switch {
	case (h.Lost || h.Consumed) && h.FromPort != None:
		return fmt.Sprintf("at port %d", h.FromPort)
	case h.FromPort != None && h.ToPort != None:
		return fmt.Sprintf("port %d to port %d", h.FromPort, h.ToPort)
	case h.FromPort != None:
		return fmt.Sprintf("from port %d", h.FromPort)
	case h.ToPort != None:
		return fmt.Sprintf("to port %d", h.ToPort)
	}
	return ""
}

func (j *Journey) hopView(r *Report, i int, prefix string) hopView {
	h := &j.Hops[i]
	place := func(lane, port int) string {
		if port == None {
			return j.Lanes[lane]
		}
		return fmt.Sprintf("%s port %d", j.Lanes[lane], port)
	}
	v := hopView{
		Anchor: fmt.Sprintf("%s-h%d", prefix, i+1), ID: "#" + trace.PacketText(h.ID), Time: r.instant(h.SentNS),
		Exact: fmt.Sprintf("sent at %s ns", grouped(h.SentNS)), Way: place(h.From, h.FromPort), What: h.What, Fate: h.Fate,
		Class: h.Class, Accused: h.Accused, Gap: h.Gap,
	}
	if i > 0 && !h.Gap {
		v.Since = since(j.Hops[i-1].SentNS, h.SentNS)
	}
	switch {
	case h.To != None && h.To != h.From:
		v.Way += " → " + place(h.To, h.ToPort)
		v.Exact += fmt.Sprintf(", arrived at %s ns", grouped(h.ArrivedNS))
	case h.Lost:
		v.Exact = fmt.Sprintf("dropped at %s ns", grouped(h.SentNS))
	case h.Consumed:
		v.Exact = fmt.Sprintf("consumed at %s ns", grouped(h.SentNS))
	default:
		v.Way += " → did not arrive"
	}
	var frames []string
	for _, at := range []struct {
		file  string
		frame uint64
	}{{j.Behind, h.Behind}, {j.Before, h.Before}} {
		if at.file != "" && at.frame > 0 {
			v.Filter = fmt.Sprintf("frame.number == %d", at.frame)
			frames = append(frames, fmt.Sprintf("%s %d", strings.TrimSuffix(baseName(at.file), ".pcap"), at.frame))
		}
	}
	v.Frames = strings.Join(frames, ", ")
	return v
}

func baseName(file string) string { return file[strings.LastIndexByte(file, '/')+1:] }

// filters returns a display filter for each file with frames of the hops.
func (j *Journey) filters() []filterView {
	var list []filterView
	for _, of := range []struct {
		file  string
		frame func(*Hop) uint64
	}{{j.Before, func(h *Hop) uint64 { return h.Before }}, {j.Behind, func(h *Hop) uint64 { return h.Behind }}} {
		var frames []uint64
		for i := range j.Hops {
			if n := of.frame(&j.Hops[i]); n > 0 {
				frames = append(frames, n)
			}
		}
		if of.file != "" && len(frames) > 0 {
			list = append(list, filterView{"these packets of " + of.file, "frame.number in {" + ranges(frames, decimal) + "}"})
		}
	}
	return list
}
