package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// human formats v with three significant digits and a decimal prefix.
func human(v float64, unit string) string {
	prefix := ""
	switch a := math.Abs(v); {
	case unit == "ns/packet" || unit == "ms" || unit == "MB":
	case a >= 1e9:
		v, prefix = v/1e9, "G "
	case a >= 1e6:
		v, prefix = v/1e6, "M "
	case a >= 1e4:
		v, prefix = v/1e3, "k "
	}
	digits := 0
	switch a := math.Abs(v); {
	case a == 0 || a >= 100:
	case a >= 10:
		digits = 1
	default:
		digits = 2
	}
	return fmt.Sprintf("%.*f %s%s", digits, v, prefix, unit)
}

// targetText joins the absolute bound and the one on the ratio to the peer.
func (f *figure) targetText() string {
	var bounds []string
	if f.target.sign != "" {
		bounds = append(bounds, f.target.sign+" "+human(f.target.value, f.unit))
	}
	if f.ratio.sign != "" {
		bounds = append(bounds, fmt.Sprintf("%s %.3g × %s", f.ratio.sign, f.ratio.value, f.peer.name))
	}
	return strings.Join(bounds, ", ")
}

func (r *result) measuredText() string {
	if len(r.samples) == 0 {
		return "–"
	}
	return human(median(r.samples), r.unit)
}

func (r *result) peerText() string {
	switch ratio, ok := r.ratioToPeer(); {
	case r.peer == nil:
		return "–"
	case ok:
		return fmt.Sprintf("%s: %s, ratio %.3g", r.peer.name, human(median(r.peerSamples), r.unit), ratio)
	case errors.Is(r.peerFailure, errNoPeer):
		return r.peer.name + ": not installed"
	case r.peerFailure != nil:
		return fmt.Sprintf("%s: %v", r.peer.name, r.peerFailure)
	}
	return r.peer.name
}

func printTable(out io.Writer, rows []*result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tMEASURED\tTARGET\tPEER, SAME RUN\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.name, r.measuredText(), r.targetText(), r.peerText(), r.verdict())
	}
	return w.Flush()
}
