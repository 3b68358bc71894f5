package report

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// StatsText writes a summary of a trace: what it is, then one line per connection and direction.
func StatsText(w io.Writer, s *trace.Stats) error {
	b := bufio.NewWriter(w)
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
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t,
		"qpn\tway\tpackets\tdata\tbytes\trepeats\tround\tread-req\tack\tnak\trnr\tcnp\tce\tdropped\tcorrupted\t")
	for i := range s.Connections {
		for d, way := range []string{"->", "<-"} {
			f := &s.Connections[i].Directions[d]
			fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", s.Connections[i].Connection.Index,
				way,
				f.Packets, f.Data, f.PayloadBytes, f.Repeats, f.MaxIter, f.ReadRequests, f.Acks, f.Naks, f.RNRs, f.CNPs, f.CE,
				f.Dropped, f.Corrupted)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return b.Flush()
}
