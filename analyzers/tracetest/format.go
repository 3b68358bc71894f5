package tracetest

import (
	"fmt"
	"strings"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Format prints the records of one connection, 0 meaning all, in the notation that Parse reads: what a failing test
// shows.
func Format(records []trace.Record, connection int) string {
	var b strings.Builder
	for i := range records {
		r := &records[i]
		if connection != 0 && r.Flow.Connection() != connection {
			continue
		}
		fmt.Fprintf(&b, "%.3f %d%s %s", float64(r.TimeNS)/1000, r.Flow.Connection(), direction(r), word(r))
		if r.Opcode != packet.CNP {
			fmt.Fprintf(&b, " %d", relative(r))
		}
		if r.Has(trace.HasRETH) {
			fmt.Fprintf(&b, "+%d", r.DMALen/MTU)
		}
		if r.Has(trace.AckReq) {
			b.WriteString(" ar")
		}
		if r.Event != trace.EventNone {
			fmt.Fprintf(&b, " %v", r.Event)
		}
		fmt.Fprintf(&b, " # %d\n", r.ID)
	}
	return b.String()
}

func direction(r *trace.Record) string {
	if r.Flow.Reverse() {
		return "<"
	}
	return ">"
}

func word(r *trace.Record) string {
	for name, w := range words {
		if w.op == r.Opcode && (r.Opcode != packet.Acknowledge || packet.Classify(w.op, w.syndrome) == r.Class()) {
			return name
		}
	}
	return r.Opcode.String()
}

func relative(r *trace.Record) int64 {
	ipsn := RequesterIPSN
	if r.Flow.Reverse() == r.Opcode.IsRequest() {
		ipsn = ResponderIPSN
	}
	return int64(r.PSN.Sub(ipsn)) + 1
}
