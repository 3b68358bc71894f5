package verbs

import (
	"cmp"
	"fmt"

	"candela.dev/candela/generator"
)

// Verified reports for every connection and side whether the received data is the data sent: data has what each side
// found, by connection, traffic what each side was to send. Each side compares its received SENDs and its own READs.
// The results of WRITEs and atomics in its memory count if the peer knows that they succeeded.
func Verified(r *generator.Report, data [2][]Data,
	traffic func(connection int, side generator.Side) *generator.Traffic) (list []generator.DataReport) {
	for i := range data[0] {
		for n := range data {
			d, side := &data[n][i], generator.Side(n)
			out := generator.DataReport{
				Connection: i + 1, Side: side.String(), Messages: d.Checked, Wrong: d.Wrong, First: d.First,
			}
			addWritten(&out, d, StreamOf(r, i+1, side.Peer()), traffic(i, side.Peer()))
			if out.Messages > 0 || out.Wrong > 0 {
				list = append(list, out)
			}
		}
	}
	return list
}

// StreamOf returns the stream of a side of a connection, counted from 1; nil: none.
func StreamOf(r *generator.Report, connection int, side generator.Side) *generator.StreamReport {
	for i := range r.Streams {
		if s := &r.Streams[i]; s.Connection == connection && s.Side == side.String() {
			return s
		}
	}
	return nil
}

// addWritten adds the effects of the other side's requests on this side's memory.
func addWritten(out *generator.DataReport, d *Data, s *generator.StreamReport, traffic *generator.Traffic) {
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
			out.First = cmp.Or(out.First, "memory that WRITEs have filled: "+d.Written)
		}
	}
	whole := len(s.Statuses) == 1 && s.Statuses[0].Status == generator.Success && s.Completed == traffic.Messages
	if want, ok := traffic.AtomicWord(); ok && whole && !d.Imaginary {
		out.Messages += traffic.Messages
		if d.Word != want {
			out.Wrong++
			out.First = cmp.Or(out.First, fmt.Sprintf("%d atomics have left %d in memory, want %d", traffic.Messages, d.Word,
				want))
		}
	}
}

// ModelData is what a NIC model, which has no memory, has found: wrong payloads of any connection, and its own READs,
// which it compares like everything else on arrival. The peer counts what it sent.
func ModelData(r *generator.Report, side generator.Side, connections int, wrong uint64) []Data {
	list := make([]Data, connections)
	for i := range list {
		list[i].Imaginary = true
		s := StreamOf(r, i+1, side)
		if s == nil {
			continue
		}
		for _, m := range s.Messages {
			if m.Verb == generator.Read && m.Status == generator.Success {
				list[i].Checked++
			}
		}
	}
	if wrong > 0 && connections > 0 {
		list[0].Wrong = int(wrong)
		list[0].First = fmt.Sprintf("%d payloads, of this connection or another, that the model received", wrong)
	}
	return list
}
