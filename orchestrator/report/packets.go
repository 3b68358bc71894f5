package report

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/trace"
)

// packetRow is a row in a finding's list of packets.
type packetRow struct {
	ID      string // "#12"
	Anchor  string // "f1-p12"
	Time    string
	Way     string // "requester → responder"
	What    string
	Fate    string // action of the injector
	Class   string
	Accused bool
	Gap     bool   // earlier packets of the connection are omitted before this one
	Filter  string // Wireshark display filter for this packet
}

type filterView struct{ What, Text string }

// packetRows lists the packets around f. Anchors start with prefix.
func (r *Report) packetRows(f *Finding, prefix string) []packetRow {
	var rows []packetRow
	for i := range f.Window[:min(len(f.Window), pageAround)] {
		p := &f.Window[i]
		row := packetRow{
			ID: packetNumber(p.ID), Anchor: fmt.Sprintf("%s-p%d", prefix, p.ID), Time: r.instant(p.TimeNS),
			Way: "requester → responder", What: strings.TrimSuffix(p.what(), p.fate()), Fate: strings.Trim(p.fate(), " []"),
			Class: stepClass(&Step{Point: *p}), Accused: slices.Contains(f.Packets, p.ID), Gap: p.afterGap,
		}
		if p.Reverse {
			row.Way = "responder → requester"
		}
		if filters := r.displayFilters([]Point{*p}); len(filters) == 1 {
			row.Filter = filters[0].Text
		}
		rows = append(rows, row)
	}
	return rows
}

// filters returns the display filters of a finding: one for its packets and one for its connection.
func (r *Report) filters(f *Finding) []filterView {
	list := r.displayFilters(f.Window)
	for i := range r.Connections {
		if c := &r.Connections[i]; c.Index == f.Connection && len(c.QPNs) > 0 && len(list) > 0 {
			list = append(list, filterView{fmt.Sprintf("all of qpn %d", c.Index), c.filter()})
		}
	}
	return list
}

// filter returns the display filter of a connection: the destination QPNs of its packets.
func (c *Connection) filter() string {
	qpns := make([]string, len(c.QPNs))
	for i, qpn := range c.QPNs {
		qpns[i] = fmt.Sprintf("0x%06x", qpn)
	}
	return "infiniband.bth.destqp in {" + strings.Join(qpns, ", ") + "}"
}

// displayFilters returns a filter for each file with packets of points. In a mirror trace the source address holds the
// packet number, wherever the trace starts.
func (r *Report) displayFilters(points []Point) []filterView {
	var first, second []uint64
	for i := range points {
		if id := points[i].ID; id < trace.PairSecond {
			first = append(first, id)
		} else {
			second = append(second, id-trace.PairSecond)
		}
	}
	if r.PacketIDs == trace.PacketIDsMirror {
		if len(first) == 0 {
			return nil
		}
		return []filterView{{"these packets", "eth.src in {" + ranges(first, mirrorAddress) + "}"}}
	}
	var list []filterView
	for i, ids := range [][]uint64{first, second} {
		if file := r.onlyFile(i); len(ids) > 0 && file != "" {
			list = append(list, filterView{"these packets of " + file, "frame.number in {" + ranges(ids, decimal) + "}"})
		}
	}
	return list
}

// onlyFile returns the file of the n-th capture; empty: none, or several, whose frames Wireshark numbers separately.
func (r *Report) onlyFile(n int) string {
	if r.Observation == nil || n >= len(r.Observation.Captures) || len(r.Observation.Captures[n].Files) != 1 {
		return ""
	}
	return r.Observation.Captures[n].Files[0]
}

func decimal(n uint64) string { return fmt.Sprint(n) }

func mirrorAddress(n uint64) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8),
		byte(n))
}

// ranges formats numbers as the set of a display filter: "3..5, 11".
func ranges(ids []uint64, text func(uint64) string) string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var parts []string
	for i := 0; i < len(ids); {
		n := 1
		for i+n < len(ids) && ids[i+n] == ids[i]+uint64(n) {
			n++
		}
		part := text(ids[i])
		if n > 1 {
			part += ".." + text(ids[i+n-1])
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, ", ")
}
