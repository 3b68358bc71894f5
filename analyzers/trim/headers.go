package trim

import (
	"fmt"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// headers is what is known of the trimmed packets of a trace.
type headers struct {
	entries, pairs, unknown int64
	dscp                    map[uint8]int64 // of trimmed packets that got another than they had
	kept                    int64           // that kept theirs
	ipUpdated, ipStale      int64
	udpUpdated, udpStale    int64 // as entries say; a capture shows only whether both fit
	sumRight, sumWrong      int64
	first                   uint64
}

// inspect keeps what is known of the header of l: from a pair of captures, or from the entries of the run.
func (a *Analyzer) inspect(l *loss, r, before *trace.Record, pair bool) {
	h := &a.headers
	if h.first == 0 {
		h.first = l.ID
	}
	if pair {
		h.pairs++
		a.compare(l, r, before)
		return
	}
	switch c := a.cuts.Of(r); {
	case c != nil:
		h.entries++
		l.Size = c.Size
		h.cut(c)
		a.metrics.record(size, l.Connection, int64(c.Size))
	default:
		h.unknown++
	}
}

func (h *headers) cut(c *trace.Cut) {
	h.mark(c.Flags&packet.TrimSetDSCP != 0, c.DSCP)
	tally(c.Flags&packet.TrimUpdateIPLength != 0, &h.ipUpdated, &h.ipStale)
	tally(c.Flags&packet.TrimUpdateUDPLength != 0, &h.udpUpdated, &h.udpStale)
	h.sumRight++ // by the contract, the header checksum follows
}

func (h *headers) mark(changed bool, dscp uint8) {
	if !changed {
		h.kept++
		return
	}
	if h.dscp == nil {
		h.dscp = map[uint8]int64{}
	}
	h.dscp[dscp]++
}

func tally(yes bool, updated, stale *int64) {
	if yes {
		*updated++
	} else {
		*stale++
	}
}

// compare compares what passed after the switch with what arrived at it.
func (a *Analyzer) compare(l *loss, r, before *trace.Record) {
	h := &a.headers
	h.mark(r.DSCP != before.DSCP, r.DSCP)
	tally(!r.Has(trace.IPLengthStale), &h.ipUpdated, &h.ipStale)
	tally(!r.Has(trace.IPChecksumBad), &h.sumRight, &h.sumWrong)
	tally(!r.Has(trace.Truncated), &h.udpUpdated, &h.udpStale)
	const wire = trace.AckReq | trace.Solicited | trace.FECN | trace.BECN | trace.HasAETH | trace.HasRETH
	var changed []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"flow", r.Flow == before.Flow && r.DestQP == before.DestQP}, {"source port", !r.Has(trace.PortChanged)},
		{"PSN", r.PSN == before.PSN},
		{"opcode", r.Opcode == before.Opcode}, {"RETH", r.VA == before.VA && r.DMALen == before.DMALen},
		{"AETH", r.MSN == before.MSN && r.Syndrome == before.Syndrome},
		{"BTH flags", r.Flags&wire == before.Flags&wire && r.PadCount == before.PadCount},
	} {
		if !f.same {
			changed = append(changed, f.name)
		}
	}
	if len(changed) > 0 {
		a.finding(causeHeaderChanged(l.what(), changed, a.at(r)), l, []uint64{l.ID}, r.TimeNS,
			"the headers of the packet before the cut",
			"another "+strings.Join(changed, ", "),
			"the switch changed headers of a trimmed packet")
	}
}

// describe reports what is known of the headers, once for the trace.
func (a *Analyzer) describe() {
	h := &a.headers
	n := h.entries + h.pairs
	if n == 0 || !a.report.Wants(ruleHeaders, 0) {
		return
	}
	source := "the run's entries"
	if h.pairs > 0 {
		source = "the capture after the switch"
	}
	words := []string{}
	for dscp := range uint8(64) {
		if c := h.dscp[dscp]; c > 0 {
			words = append(words, fmt.Sprintf("dscp %d on %d", dscp, c))
		}
	}
	if h.kept > 0 {
		words = append(words, fmt.Sprintf("dscp unchanged on %d", h.kept))
	}
	words = append(words, share("IP length updated", h.ipUpdated, n), share("IP checksum right", h.sumRight, n))
	if h.pairs > 0 {
		words = append(words, share("both lengths fit", h.udpUpdated, n))
	} else {
		words = append(words, share("UDP length updated", h.udpUpdated, n))
	}
	a.report.Tell(causeHeaders(n, words), analyzers.Finding{
		Packets: []uint64{h.first}, TimeNS: a.meta.EndNS, Expected: "as the switch is configured",
		Actual:  strings.Join(words, "; "),
		Message: fmt.Sprintf("%d packets were trimmed; by %s", n+h.unknown, source),
	})
}

func share(what string, n, of int64) string { return fmt.Sprintf("%s on %d of %d", what, n, of) }
