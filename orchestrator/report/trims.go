package report

import (
	"strconv"

	"candela.dev/candela/clock"
)

// Trim is one packet whose payload was trimmed, and its repair. Each instant is on the observer's clock and valid if
// the flag of the same name is set.
type Trim struct {
	ID         uint64
	Connection int
	PSN        int64
	Response   bool // a READ response
	Size       int  // bytes left; 0: unknown
	TimeNS     int64

	Nacked, Resent, Recovered     bool
	NackNS, ResentNS, RecoveredNS int64

	As       string // its event in the paired run; empty: no paired run
	PairedNS *int64 // duration of its repair there; nil: not repaired, or not lost
	GainNS   *int64
}

var trimColumns = []column{
	{"packet", false}, {"qpn", true}, {"psn", true}, {"", false}, {"left", true}, {"nack after", true},
	{"resent after", true}, {"whole after", true},
	{"in the paired run", true}, {"gain", true}, {"", false},
}

func (m *Trim) cells() []string {
	kind, left, remark := "", "", ""
	if m.Response {
		kind = "read response"
	}
	if m.Size > 0 {
		left = strconv.Itoa(m.Size) + " B"
	}
	switch {
	case !m.Recovered && !m.Resent:
		remark = "never retransmitted"
	case !m.Recovered:
		remark = "never arrived whole"
	case !m.Nacked:
		remark = "no NACK for it: repaired with another packet, or by timeout"
	}
	after := func(known bool, ns int64) string {
		if !known {
			return ""
		}
		return clock.TextNS(ns - m.TimeNS)
	}
	paired, gain := "", ""
	if m.PairedNS != nil {
		paired = m.As + ": " + clock.TextNS(*m.PairedNS)
	} else if m.As != "" {
		paired = m.As + ": not repaired"
	}
	if m.GainNS != nil {
		gain = clock.TextNS(*m.GainNS)
	}
	return []string{
		"#" + strconv.FormatUint(m.ID, 10), strconv.Itoa(m.Connection), strconv.FormatInt(m.PSN, 10), kind, left,
		after(m.Nacked, m.NackNS), after(m.Resent, m.ResentNS), after(m.Recovered, m.RecoveredNS), paired, gain, remark,
	}
}

func trimTable(list []Trim) table {
	tab := table{columns: append([]column(nil), trimColumns...)}
	for i := range list {
		var row []cell
		for _, text := range list[i].cells() {
			row = append(row, cell{text, plain})
		}
		tab.add(row...)
	}
	tab.dropEmpty()
	return tab
}

func (t *textReport) trims() {
	if len(t.Trims) == 0 {
		return
	}
	t.section("Trimmed packets")
	shown := t.limit(len(t.Trims), maxEvents)
	tab := trimTable(t.Trims[:shown])
	t.table(2, &tab)
	t.more(2, len(t.Trims)-shown, "packet", "")
}

type trimView struct {
	Heads []string
	Rows  [][]string
	More  string
}

func (p *page) trims() *trimView {
	if len(p.Trims) == 0 {
		return nil
	}
	n := min(len(p.Trims), pageEvents)
	tab, v := trimTable(p.Trims[:n]), &trimView{}
	for _, c := range tab.columns {
		v.Heads = append(v.Heads, c.head)
	}
	for _, cells := range tab.rows {
		var row []string
		for _, c := range cells {
			row = append(row, c.text)
		}
		v.Rows = append(v.Rows, row)
	}
	if n < len(p.Trims) {
		v.More = "and " + moreOf(len(p.Trims)-n, "packet")
	}
	return v
}
