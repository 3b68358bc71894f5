package vm

import (
	"fmt"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/verbs"
)

// verified reports for every connection and side whether the received data is the data sent. Each side compares its
// received SENDs and its own READs. The results of WRITEs and atomics in its memory count if the peer knows that they
// succeeded.
func (t *Testbed) verified(r *generator.Report) (list []generator.DataReport) {
	for i := range t.spec.Connections {
		for side := range t.sides {
			d := &t.reports[side].Data[i]
			out := generator.DataReport{
				Connection: i + 1, Side: generator.Side(side).String(), Messages: d.Checked, Wrong: d.Wrong, First: d.First,
			}
			t.addWritten(&out, d, streamOf(r, i+1, generator.Side(1-side)), &t.spec.Connections[i].Traffic[1-side])
			if out.Messages > 0 || out.Wrong > 0 {
				list = append(list, out)
			}
		}
	}
	return list
}

func streamOf(r *generator.Report, connection int, side generator.Side) *generator.StreamReport {
	for i := range r.Streams {
		if s := &r.Streams[i]; s.Connection == connection && s.Side == side.String() {
			return s
		}
	}
	return nil
}

// addWritten adds the effects of the other side's requests on this side's memory.
func (t *Testbed) addWritten(out *generator.DataReport, d *verbs.Data, s *generator.StreamReport,
	traffic *generator.Traffic) {
	if s == nil {
		return
	}
	writes := 0
	for _, m := range s.Messages {
		if m.Status != generator.Success {
			continue
		}
		switch m.Verb {
		case generator.Write, generator.WriteImm:
			writes++
		case generator.Send, generator.SendImm, generator.SendInvalidate:
			if d.Imaginary { // compared on arrival, like its WRITEs
				out.Messages++
			}
		case generator.Read, generator.CompareSwap, generator.FetchAdd, generator.VerbNone:
		}
	}
	if writes > 0 {
		out.Messages += writes
		if d.Written != "" { // never from a model
			out.Wrong++
			out.First = first(out.First, "memory that WRITEs have filled: "+d.Written)
		}
	}
	whole := len(s.Statuses) == 1 && s.Statuses[0].Status == generator.Success && s.Completed == traffic.Messages
	if want, ok := traffic.AtomicWord(); ok && whole && !d.Imaginary {
		out.Messages += traffic.Messages
		if d.Word != want {
			out.Wrong++
			out.First = first(out.First, fmt.Sprintf("%d atomics have left %d in memory, want %d", traffic.Messages, d.Word,
				want))
		}
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
