package config

import (
	"fmt"
	"strings"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
)

// Pattern is the part of an event that selects a set of packets. It is deterministic: it is expanded to a list of
// single events before any other check of the test. The zero value is no pattern.
type Pattern struct {
	QPN, PSN, Nth Numbers
	Every         int64 // interval in data packets; 0: not given
	Start, Until  int64 // of Every; 0: from Every, to the last data packet
}

// none reports whether p says nothing.
func (p *Pattern) none() bool {
	return len(p.QPN) == 0 && len(p.PSN) == 0 && len(p.Nth) == 0 && p.Every == 0 && p.Start == 0 && p.Until == 0
}

// Origin is the source of an event.
type Origin struct {
	Item    int  // of the list in the file, from 0
	Pattern bool // the item is a pattern; this event is one of several
}

const (
	dataEvents    = "traffic.data-pkt-events"
	controlEvents = "traffic.control-pkt-events"
)

// Path returns the configuration path of the item that e comes from.
func (e *DataEvent) Path() string { return dataEvents + "[" + itoa(e.Origin.Item) + "]" }

// Path returns the configuration path of the item that e comes from.
func (e *ControlEvent) Path() string { return controlEvents + "[" + itoa(e.Origin.Item) + "]" }

// which identifies e among the events of its pattern; "" for an event of its own.
func (e *DataEvent) which() string {
	if !e.Origin.Pattern {
		return ""
	}
	return fmt.Sprintf(" (qpn %d psn %d iter %s)", e.QPN, e.PSN, nthText(e.Iter))
}

func (e *ControlEvent) which() string {
	switch {
	case !e.Origin.Pattern:
		return ""
	case e.PSN != nil:
		return fmt.Sprintf(" (qpn %d psn %d nth %s)", e.QPN, *e.PSN, nthText(e.Nth))
	}
	return fmt.Sprintf(" (qpn %d nth %s)", e.QPN, nthText(e.Nth))
}

func nthText(n uint16) string {
	if n == injector.Any {
		return "any"
	}
	return itoa(int(n))
}

// WhereData returns the place of the i-th data event, and its packet if it comes from a pattern.
func (t *Test) WhereData(i int) string {
	e := &t.Traffic.DataEvents[i]
	return t.Where(e.Path()) + e.which()
}

// WhereControl returns the place of the i-th control event, and its packet if it comes from a pattern.
func (t *Test) WhereControl(i int) string {
	e := &t.Traffic.ControlEvents[i]
	return t.Where(e.Path()) + e.which()
}

// expandEvents replaces patterns by single events.
func (d *decoder) expandEvents(t *Test) {
	x := expansion{d: d, t: t, room: maxEvents, known: d.fine(scheduleKeys...)}
	tr := &t.Traffic
	var data []DataEvent
	for i := range tr.DataEvents {
		e := &tr.DataEvents[i]
		e.Origin.Item = i
		data = x.data(data, e)
	}
	var control []ControlEvent
	for i := range tr.ControlEvents {
		e := &tr.ControlEvents[i]
		e.Origin.Item = i
		control = x.control(control, e)
	}
	tr.DataEvents, tr.ControlEvents = data, control
}

// expansion turns the patterns of a test into single events.
type expansion struct {
	d     *decoder
	t     *Test
	room  int  // free entries of the injector's event table
	known bool // the schedule of messages is valid
}

func (x *expansion) data(out []DataEvent, e *DataEvent) []DataEvent {
	path := e.Path()
	if e.PSN == 0 && len(e.Pattern.PSN) == 0 && e.Pattern.Every == 0 && !x.d.wrong[path] &&
		x.d.fine(path+".psn", path+".every") {
		x.d.problemAt(path+".psn", "is missing", "it takes "+dataPSN().allowed()+"; or give every")
	}
	if !x.d.fine(path) {
		return append(out, *e)
	}
	if !x.sound(path, &e.Pattern, e.PSN != 0) || !x.known {
		return out
	}
	one := *e
	one.Pattern, one.Origin.Pattern = Pattern{}, !e.Pattern.none()
	x.each(path, &e.Pattern, "iter", single{e.QPN, e.From, e.PSN, e.Iter}, func(s single) {
		one.QPN, one.PSN, one.Iter = s.qpn, s.psn, s.nth
		out = append(out, one)
	})
	return out
}

func (x *expansion) control(out []ControlEvent, e *ControlEvent) []ControlEvent {
	path := e.Path()
	if !x.d.fine(path) {
		return append(out, *e)
	}
	if !x.known {
		return out
	}
	one := *e
	one.Pattern, one.Origin.Pattern = Pattern{}, !e.Pattern.none()
	from := single{e.QPN, e.From, 0, e.Nth}
	if e.PSN != nil {
		from.psn = *e.PSN
	}
	x.each(path, &e.Pattern, "nth", from, func(s single) {
		one.QPN, one.Nth, one.PSN = s.qpn, s.nth, nil
		if s.psn != 0 {
			psn := s.psn
			one.PSN = &psn
		}
		out = append(out, one)
	})
	return out
}

// sound checks every, start and until for consistency with each other and with psn.
func (x *expansion) sound(path string, p *Pattern, psn bool) bool {
	switch {
	case p.Every != 0 && (psn || len(p.PSN) > 0):
		x.d.problemAt(path+".every", "is given together with psn",
			"every counts all data packets of the connection; limit it with start and until")
	case p.Every == 0 && p.Start != 0:
		x.d.problemAt(path+".start", "is given without every", "start is the first packet of every")
	case p.Every == 0 && p.Until != 0:
		x.d.problemAt(path+".until", "is given without every", "until limits the packets of every")
	case p.Until != 0 && p.Start > p.Until:
		x.d.problemAt(path+".until", fmt.Sprintf("%d is before start (%d)", p.Until, p.Start), "")
	default:
		return true
	}
	return false
}

// single identifies one event of a pattern.
type single struct {
	qpn  int
	from Side
	psn  int64 // 0: none
	nth  uint16
}

// each calls emit for every event of p, with fields that p does not set taken from s. If p selects packets that do not
// exist, or too many, each reports a problem and does not call emit.
func (x *expansion) each(path string, p *Pattern, nth string, s single, emit func(single)) {
	qpns, ok := x.list(path+".qpn", p.QPN, int64(s.qpn), int64(x.t.Traffic.Connections),
		fmt.Sprintf("the last connection (%d)", x.t.Traffic.Connections), "qpn counts from 1")
	if !ok {
		return
	}
	nths, ok := x.list(path+"."+nth, p.Nth, int64(s.nth), maxIter, "", "")
	if !ok {
		return
	}
	for _, qpn := range qpns {
		psns, ok := x.psns(path, p, s, int(qpn))
		if !ok || !x.take(path, int64(len(psns))*int64(len(nths))) {
			return
		}
		for _, psn := range psns {
			for _, n := range nths {
				emit(single{int(qpn), s.from, psn, uint16(n)})
			}
		}
	}
}

// psns returns the PSNs that p selects on a connection.
func (x *expansion) psns(path string, p *Pattern, s single, qpn int) ([]int64, bool) {
	if len(p.PSN) == 0 && p.Every == 0 {
		return []int64{s.psn}, true
	}
	if qpn > x.t.Traffic.Connections {
		return []int64{1}, true // the check of qpn reports it
	}
	if x.t.Traffic.External != nil && p.endless() {
		x.d.problemAt(path, "nobody knows the last packet of an application", "give numbers, and until with every")
		return nil, false
	}
	g := x.t.TrafficFrom(s.from, qpn)
	if p.Every != 0 {
		return x.every(path, p, g)
	}
	last := g.PSNs()
	return x.list(path+".psn", p.PSN, 0, last, fmt.Sprintf("the last data packet (%d)", last), explainLast(g))
}

// every returns the PSNs of g at the interval p.Every.
func (x *expansion) every(path string, p *Pattern, g generator.Traffic) ([]int64, bool) {
	first, last := max(p.Start, p.Every), g.PSNs()
	if p.Start != 0 {
		first = p.Start
	}
	for _, bound := range []struct {
		key string
		psn int64
	}{{"every", p.Every}, {"start", p.Start}, {"until", p.Until}} {
		if bound.psn > last {
			x.d.problemAt(path+"."+bound.key, fmt.Sprintf("%d is past the last data packet (%d)", bound.psn, last),
				explainLast(g))
			return nil, false
		}
	}
	if p.Until != 0 {
		last = p.Until
	}
	n := (last-first)/p.Every + 1
	if !x.fits(path, n) {
		return nil, false
	}
	psns := make([]int64, 0, max(n, 0))
	for psn := first; psn <= last; psn += p.Every {
		psns = append(psns, psn)
	}
	return psns, true
}

// list returns the numbers of a set, or alone if the set is empty. last is the greatest valid number; bound and why
// describe it in messages.
func (x *expansion) list(path string, set Numbers, alone, last int64, bound, why string) ([]int64, bool) {
	if len(set) == 0 {
		return []int64{alone}, true
	}
	var all []int64
	for _, s := range set {
		from, to := s.First.of(last), s.Last.of(last)
		switch {
		case to > last:
			x.d.problemAt(path, fmt.Sprintf("%s reaches past %s", s, bound), why)
			return nil, false
		case from < 1 || from > to:
			x.d.problemAt(path, fmt.Sprintf("%s is empty: last is %d", s, last), why)
			return nil, false
		case !x.fits(strings.TrimSuffix(path, path[strings.LastIndexByte(path, '.'):]), int64(len(all))+to-from+1):
			return nil, false
		}
		for n := from; n <= to; n++ {
			all = append(all, n)
		}
	}
	return all, true
}

// fits reports whether the injector has room for n more events.
func (x *expansion) fits(path string, n int64) bool {
	if n <= int64(x.room) {
		return true
	}
	x.d.problemAt(path, fmt.Sprintf("exceeds the %d events of the injector", maxEvents),
		"a pattern has one event for each packet that it names")
	return false
}

// take reserves room for n events.
func (x *expansion) take(path string, n int64) bool {
	if !x.fits(path, n) {
		return false
	}
	x.room -= int(n)
	return true
}
