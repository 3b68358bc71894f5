package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// Geometry of a ladder, in the units of its view box.
const (
	ladderWidth     = 1080
	ladderRequester = 210
	ladderInjector  = 540
	ladderResponder = 870
	ladderTop       = 44
	ladderRow       = 24
	ladderSlant     = 5 // vertical drop of an arrow
	maxSteps        = 120
	glyphWidth      = 6.7 // of the page's font in a figure
)

// ladderView is a Ladder as an SVG: time runs downwards, one row for each packet, not to scale.
type ladderView struct {
	Title, Observer                string
	Label                          string
	Width, Height, Top, Bottom     int
	Requester, Injector, Responder int
	Rows                           []ladderRowView
	More                           string
}

type ladderRowView struct {
	Y                  float64
	Time               string
	ID                 string
	Text               string
	TextX              float64
	PlateX, PlateWidth float64 // of the background of the text
	Class              string
	Path               string // of the packet
	Head               string // its arrow head
	Cross              string // place of the loss
	Mark               string // event without loss
	Fate               string // action of the injector
	FateX              int    // offset of that text from the injector
	FateY              int
	Accused            bool
	Aside              string // instead of a packet: omitted packets or a wait
}

func newLadderView(r *Report, l *Ladder) ladderView {
	steps := l.Steps[:min(len(l.Steps), maxSteps)]
	v := ladderView{
		Title: fmt.Sprintf("%s %d, %s", r.flowWord(), l.Connection, l.Title), Width: ladderWidth, Top: ladderTop - 12,
		Observer:  r.observer(),
		Requester: ladderRequester, Injector: ladderInjector, Responder: ladderResponder,
	}
	y := float64(ladderTop)
	var before *Step
	for i := range steps {
		s := &steps[i]
		follows := before != nil && s.Skipped == 0
		if follows {
			if wait := s.TimeNS - before.TimeNS; wait >= longWait {
				v.Rows = append(v.Rows, ladderRowView{Y: y, Aside: clock.TextNS(wait) + " without a packet"})
				y += ladderRow
				follows = false
			}
		}
		row := ladderRowOf(r, s, y)
		if follows {
			row.Time = since(before.TimeNS, s.TimeNS)
		}
		v.Rows = append(v.Rows, row)
		y += ladderRow
		if before = s; s.Skipped > 0 {
			before = nil
		}
	}
	v.Bottom, v.Height = int(y), int(y)+8
	v.Label = fmt.Sprintf("%s between requester, %s and responder", plural(int64(len(steps)), "packet"),
		clean(r.observer()))
	if n := len(l.Steps) - len(steps); n > 0 {
		v.More = "and " + moreOf(n, "packet")
	}
	return v
}

// longWait is the silence, in ns, from which a ladder shows its length: well above any RTT within a data centre.
const longWait = 100_000

func ladderRowOf(r *Report, s *Step, y float64) ladderRowView {
	if s.Skipped > 0 {
		return ladderRowView{Y: y, Aside: moreOf(s.Skipped, "packet") + " of this run"}
	}
	row := ladderRowView{
		Time: r.instant(s.TimeNS), ID: packetNumber(s.ID), Text: strings.TrimSuffix(s.what(), s.fate()), Class: stepClass(s),
		Accused: s.Accused,
	}
	row.draw(s, y)
	return row
}

func (row *ladderRowView) draw(s *Step, y float64) {
	from, to, way := float64(ladderRequester), float64(ladderResponder), 1.0
	if s.Reverse {
		from, to, way = to, from, -1
	}
	row.Y = y
	row.TextX = (from + ladderInjector) / 2
	row.PlateWidth = float64(utf8.RuneCountInString(row.Text))*glyphWidth + 10
	row.PlateX = round(row.TextX - row.PlateWidth/2)
	middle := y + ladderSlant
	row.Fate, row.FateX, row.FateY = strings.Trim(s.fate(), " []"), int(way)*44, 2*ladderSlant
	if s.lost() && !s.Damaged {
		row.Path = fmt.Sprintf("M%g %gL%d %g", from, y, ladderInjector, middle)
		var b strings.Builder
		drawCross(&b, ladderInjector, middle)
		row.Cross = b.String()
		return
	}
	end := y + 2*ladderSlant
	row.Path = fmt.Sprintf("M%g %gL%g %g", from, y, to-way*6, end)
	row.Head = fmt.Sprintf("M%g %gl%g -3.5v7z", to, end, -way*8)
	if s.fate() != "" {
		var b strings.Builder
		drawDiamond(&b, ladderInjector, middle)
		row.Mark = b.String()
	}
}

// stepClass is the class of the style sheet, as in plots.
func stepClass(s *Step) string {
	p := s.Point
	switch {
	case isNak(&p):
		return "nak"
	case p.Class == packet.ClassRNR:
		return "rnr"
	case p.Class == packet.ClassCNP:
		return "cnp"
	case p.Class == packet.ClassData && p.Resent:
		return "resent"
	case p.Class == packet.ClassData:
		return "data"
	case p.Class == packet.ClassReadRequest:
		return "read"
	}
	return "ack"
}
