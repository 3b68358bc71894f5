package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A sampler takes one sample, in the unit of its figure.
type sampler func(ctx context.Context) (float64, error)

// A source yields samples: a Go benchmark, a program, a loop.
type source interface {
	// open prepares the measurement: it compiles and writes input files, in the lab.
	open(ctx context.Context, lab *lab) (sampler, error)
}

// errNoPeer marks a peer that this machine does not have; the figure is measured without it.
var errNoPeer = errors.New("not installed")

// A target is the bound that a figure must keep.
type target struct {
	sign  string // "≥", "≤", or "" for a figure that is shown and not judged
	value float64
}

func atLeast(v float64) target { return target{"≥", v} }
func atMost(v float64) target  { return target{"≤", v} }

func (t target) met(v float64) bool {
	switch t.sign {
	case "≥":
		return v >= t.value
	case "≤":
		return v <= t.value
	}
	return true
}

// A figure is a line of the table.
type figure struct {
	name   string
	source source
	unit   string
	target target
	peer   *peer  // nil: no comparison
	ratio  target // bound on measured/peer
}

// A peer is another program that does the same work.
type peer struct {
	name   string
	source source
}

// A result is a figure with its samples.
type result struct {
	figure
	take, takePeer sampler
	samples        []float64
	peerSamples    []float64
	failure        error // why the figure could not be measured
	peerFailure    error
	rounds         int
}

func (r *result) prepare(ctx context.Context, lab *lab) {
	r.take, r.failure = r.source.open(ctx, lab)
	if r.peer != nil && r.failure == nil {
		r.takePeer, r.peerFailure = r.peer.source.open(ctx, lab)
	}
}

func (r *result) sample(ctx context.Context) {
	// Alternate, so that neither always profits from, or suffers for, what the other did.
	if r.rounds++; r.rounds%2 == 0 {
		r.samplePeer(ctx)
		r.sampleOurs(ctx)
		return
	}
	r.sampleOurs(ctx)
	r.samplePeer(ctx)
}

func (r *result) sampleOurs(ctx context.Context) {
	if r.failure != nil {
		return
	}
	var v float64
	if v, r.failure = r.take(ctx); r.failure == nil {
		r.samples = append(r.samples, v)
	}
}

func (r *result) samplePeer(ctx context.Context) {
	if r.failure != nil || r.peer == nil || r.peerFailure != nil {
		return
	}
	var v float64
	if v, r.peerFailure = r.takePeer(ctx); r.peerFailure == nil {
		r.peerSamples = append(r.peerSamples, v)
	}
}

func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// ratioToPeer returns measured/peer, and whether there is such a thing.
func (r *result) ratioToPeer() (float64, bool) {
	if len(r.samples) == 0 || len(r.peerSamples) == 0 {
		return 0, false
	}
	return median(r.samples) / median(r.peerSamples), true
}

// met reports whether the measured figure keeps its bounds. A missing peer breaks none.
func (r *result) met() bool {
	if r.failure != nil || len(r.samples) == 0 {
		return false
	}
	if ratio, ok := r.ratioToPeer(); ok && !r.ratio.met(ratio) {
		return false
	}
	return r.target.met(median(r.samples))
}

// verdict is the state of the figure in a word.
func (r *result) verdict() string {
	switch {
	case errors.Is(r.failure, errSkipped):
		return r.failure.Error()
	case r.failure != nil:
		return fmt.Sprintf("not measured: %v", r.failure)
	case len(r.samples) == 0, r.target.sign == "" && r.ratio.sign == "":
		return ""
	case !r.met():
		return "MISSED"
	}
	if _, compared := r.ratioToPeer(); !compared && r.ratio.sign != "" {
		return "not compared"
	}
	return "ok"
}
