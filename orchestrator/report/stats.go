package report

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// StatsText writes a summary of a trace: its properties, then one line per connection and direction.
func StatsText(w io.Writer, s *trace.Stats, o TextOptions) error {
	b := NewWrapper(w, o)
	fmt.Fprintf(b, "%s: %s trace, %d packets (%s #%d to #%d) in %s\n", clean(s.Name), s.Kind, s.Packets, s.PacketIDs,
		s.FirstID, s.LastID, clock.TextNS(s.DurationNS))
	for _, note := range s.Notes {
		fmt.Fprintf(b, "note: %s\n", clean(note))
	}
	if s.Inferred {
		fmt.Fprintln(b, "note: the connections were inferred from the packets")
	}
	if s.Unknown > 0 {
		fmt.Fprintf(b, "note: %d packets belong to no connection\n", s.Unknown)
	}
	columns := []Column{{Head: "qpn", Right: true}, {Head: "way", Right: true}}
	for _, head := range []string{"packets", "data", "bytes", "repeats", "round", "read-req", "ack", "nak", "rnr", "cnp",
		"ce", "dropped", "corrupted"} {
		columns = append(columns, Column{Head: head, Right: true})
	}
	var rows [][]string
	for i := range s.Connections {
		for d, way := range []string{"->", "<-"} {
			f := &s.Connections[i].Directions[d]
			row := []string{strconv.Itoa(s.Connections[i].Connection.Index), way}
			for _, n := range []any{f.Packets, f.Data, f.PayloadBytes, f.Repeats, f.MaxIter, f.ReadRequests, f.Acks, f.Naks,
				f.RNRs, f.CNPs, f.CE, f.Dropped, f.Corrupted} {
				row = append(row, fmt.Sprint(n))
			}
			rows = append(rows, row)
		}
	}
	return errors.Join(b.Flush(), Grid(w, o, 0, columns, 2, rows))
}
