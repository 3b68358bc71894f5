package gbn

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/trace"
)

var _ analyzers.Splitter = (*Analyzer)(nil)

// Split implements analyzers.Splitter.
func (a *Analyzer) Split(n int) []analyzers.Part {
	parts := []analyzers.Part{a}
	for range n - 1 {
		other := New(a.meta, a.cfg)
		other.general = a.general
		parts = append(parts, other)
	}
	return parts
}

// Begin implements analyzers.Part.
func (a *Analyzer) Begin(first *trace.Record) { a.firstID = first.ID }

// Elsewhere implements analyzers.Part.
func (a *Analyzer) Elsewhere(r *trace.Record) { a.noteRewritten(r) }

// noteRewritten remembers a packet that the injector rewrites, until it has passed.
func (a *Analyzer) noteRewritten(r *trace.Record) {
	if r.Event == trace.EventRewrite && !r.Has(trace.Passed) {
		a.original = *r
	}
}

// Join implements analyzers.Splitter.
func (a *Analyzer) Join(parts []analyzers.Part) {
	for _, part := range parts {
		p := part.(*Analyzer)
		if p == a {
			continue
		}
		p.finishSessions()
		a.findings = append(a.findings, p.findings...)
		a.excuses = append(a.excuses, p.excuses...)
		for key, n := range p.suppressed {
			a.suppressed[key] += n
		}
		a.observed = append(a.observed, p.observer.Finish()...)
		a.strays += p.strays
		a.unknown += p.unknown
		a.requester.Join(&p.requester)
		a.responder.Join(&p.responder)
	}
}
