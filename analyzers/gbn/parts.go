package gbn

import (
	"maps"
	"unsafe"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/prefetch"
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

// Prepare implements analyzers.Part.
func (a *Analyzer) Prepare(r *trace.Record, found bool) {
	flow := r.Flow
	if r.Opcode.IsResponse() {
		flow = flow.Peer()
	}
	if flow < 0 || int(flow) >= len(a.sessions) || a.sessions[flow] == nil {
		return
	}
	s := a.sessions[flow]
	a.lines = a.lines[:0]
	if !found {
		for at := uintptr(0); at < unsafe.Sizeof(*s); at += prefetch.Line {
			a.lines = a.lines.And(unsafe.Add(unsafe.Pointer(s), at))
		}
		a.lines.Fetch()
		return
	}
	const most = 32 // elements of a ring
	for i := range min(len(s.req.window.ring), most) {
		a.lines = a.lines.And(unsafe.Pointer(&s.req.window.ring[i]))
	}
	for i := range min(len(s.rsp.log.ring), most) {
		a.lines = a.lines.And(unsafe.Pointer(&s.rsp.log.ring[i]))
	}
	const states = 12 // that are gained and lost while the connection has its turn
	for i := range states {
		a.lines = a.lines.AndTwo(unsafe.Pointer(s.req.una.at(i))).AndTwo(unsafe.Pointer(s.req.una.at(s.req.una.len + i)))
	}
	a.lines.Fetch()
}

// noteRewritten remembers a packet that the injector rewrites, until it has passed.
func (a *Analyzer) noteRewritten(r *trace.Record) {
	if r.Event.Forges() && !r.Has(trace.Passed) {
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
		for key, n := range p.suppressed {
			a.suppressed[key] += n
		}
		maps.Copy(a.unclear, p.unclear)
		a.observed = append(a.observed, p.observer.Finish()...)
		a.strays += p.strays
		a.unknown += p.unknown
		a.requester.Join(&p.requester)
		a.responder.Join(&p.responder)
	}
}
