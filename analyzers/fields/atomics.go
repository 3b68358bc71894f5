package fields

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A responder executes the atomics of one connection in the order of their PSNs, each once. If nothing else writes to
// an address, an atomic finds there what the one before it has left. Another connection or a WRITE may write there,
// which the trace shows and which makes an address unknown. The host may write there, too; only a test knows that it
// does not.

const (
	keptAtomics = 256 // of a connection; more cannot be outstanding
	keptCells   = 16  // of a memory region
	maxRegions  = 1 << 12
)

// atomicRequest is one request, until others push it out.
type atomicRequest struct {
	psn              packet.PSN
	opcode           packet.Opcode
	rkey             uint32
	va               uint64
	operand, compare uint64
	id               uint64
	found            uint64 // what it brought back, or must have found if passed
	answered         bool
	passed           bool // a later one was answered first; found is what it must have found, if known
	known            bool
	dubious          bool // which operands the responder has got is not known
}

// after returns what the atomic leaves in memory that held value.
func (q *atomicRequest) after(value uint64) uint64 {
	switch {
	case q.opcode == packet.FetchAdd:
		return value + q.operand
	case value == q.compare:
		return q.operand
	}
	return value
}

// cell is one address that atomics use.
type cell struct {
	va     uint64
	value  uint64
	known  bool
	shared bool // by several connections, whose order is unknown
	flow   trace.FlowID
	id     uint64 // of the record that shows the value
}

// region is the memory that a remote key of a host gives access to.
type region struct {
	cells  []cell
	next   int
	shared bool // cells that were shared have been forgotten
}

type regionKey struct {
	host int32
	rkey uint32
}

// cell returns the cell at an address, for an atomic of a flow.
func (g *region) cell(va uint64, flow trace.FlowID) *cell {
	for i := range g.cells {
		c := &g.cells[i]
		if c.va == va {
			if c.flow != flow {
				c.shared = true
			}
			return c
		}
	}
	fresh := cell{va: va, flow: flow, shared: g.shared}
	if len(g.cells) < keptCells {
		g.cells = append(g.cells, fresh)
		return &g.cells[len(g.cells)-1]
	}
	c := &g.cells[g.next]
	g.next = (g.next + 1) % keptCells
	g.shared = g.shared || c.shared
	fresh.shared = g.shared
	*c = fresh
	return c
}

const cellLen = 8

// written makes the memory that a WRITE may change unknown, now and until the atomics before it are answered. The order
// of WRITEs and atomics of different connections is unknown.
func (a *Analyzer) written(r *trace.Record, d *direction) {
	g := a.regions[regionKey{a.hosts[r.Flow.Peer()], r.RKey}]
	if g == nil {
		return
	}
	covers := func(va uint64) bool { return va+cellLen > r.VA && va < r.VA+uint64(r.DMALen) }
	for i := range g.cells {
		if c := &g.cells[i]; covers(c.va) {
			c.known, c.shared = false, c.shared || c.flow != r.Flow
		}
	}
	for i := range d.atomics {
		if q := &d.atomics[i]; q.rkey == r.RKey && !q.answered && covers(q.va) {
			q.dubious = true
		}
	}
}

// atomicRequest follows an atomic request on its way from its sender.
func (a *Analyzer) atomicRequest(r *trace.Record, d *direction) {
	g := a.region(r)
	if g == nil {
		return
	}
	c := g.cell(r.VA, r.Flow)
	if r.VA%cellLen != 0 { // it overlaps with two
		g.shared, c.shared = true, true
	}
	this := atomicRequest{psn: r.PSN, opcode: r.Opcode, rkey: r.RKey, va: r.VA, operand: r.Operand, compare: r.Compare,
		id:      r.ID,
		dubious: r.Event.Forges()}
	n := len(d.atomics)
	if n > 0 && !d.atomics[n-1].psn.Before(r.PSN) {
		if q := d.atomic(r.PSN); q != nil {
			same := q.opcode == r.Opcode && q.rkey == r.RKey && q.va == r.VA && q.operand == r.Operand && q.compare == r.Compare
			q.dubious = q.dubious || this.dubious || !same
			return
		}
		d.atomics = d.atomics[:0] // of another life of the queue pair
		c.known = false
	}
	if n == keptAtomics {
		d.atomics = append(d.atomics[:0], d.atomics[keptAtomics/2:]...)
	}
	d.atomics = append(d.atomics, this)
}

// region returns the memory that a request names.
func (a *Analyzer) region(r *trace.Record) *region {
	key := regionKey{a.hosts[r.Flow.Peer()], r.RKey}
	g := a.regions[key]
	if g == nil && len(a.regions) < maxRegions {
		g = &region{}
		a.regions[key] = g
	}
	return g
}

// atomic returns the request with a PSN, or nil.
func (d *direction) atomic(psn packet.PSN) *atomicRequest {
	for i := len(d.atomics) - 1; i >= 0; i-- {
		if d.atomics[i].psn == psn {
			return &d.atomics[i]
		}
	}
	return nil
}

// atomicAnswer compares the result of an atomic with what the ones before it have left.
func (a *Analyzer) atomicAnswer(r *trace.Record) {
	flow := r.Flow.Peer()
	d := &a.flows[flow]
	q := d.atomic(r.PSN)
	value, _ := r.Original()
	if q == nil {
		return
	}
	g := a.regions[regionKey{a.hosts[r.Flow], q.rkey}]
	if g == nil {
		return
	}
	if q.answered || q.passed {
		switch {
		case !q.known || q.found == value:
		case q.answered: // package retrans reports that
			g.cell(q.va, flow).known = false
		default:
			a.atomicResult(r, q, q.found, value)
		}
		q.answered, q.known, q.found = true, true, value
		return
	}
	for i := range d.atomics { // all before it have been executed, too
		if p := &d.atomics[i]; p.psn.Before(r.PSN) && !p.answered && !p.passed {
			c := &cell{}
			if g := a.regions[regionKey{a.hosts[r.Flow], p.rkey}]; g != nil {
				c = g.cell(p.va, flow)
			}
			p.passed, p.known, p.found = true, c.known && !p.dubious, c.value
			c.value, c.known = p.after(c.value), c.known && !p.dubious
		}
	}
	c := g.cell(q.va, flow)
	if c.known && !c.shared && c.value != value {
		a.atomicResult(r, q, c.value, value, c.id)
	}
	q.answered, q.known, q.found = true, true, value
	c.value, c.known, c.id = q.after(value), !q.dubious, r.ID
}

func (a *Analyzer) atomicResult(r *trace.Record, q *atomicRequest, want, got uint64, support ...uint64) {
	expected := fmt.Sprintf("0x%x, which the atomics before have left at 0x%x, rkey 0x%x", want, q.va, q.rkey)
	why := causeAtomicResult(cause.Sender(r), q.opcode, q.va, got, want)
	f := a.finding(why, r, expected, fmt.Sprintf("%v brought back 0x%x", q.opcode, got),
		append(support, q.id)...)
	if f == nil {
		return
	}
	if !a.controlled {
		f.Doubt(analyzers.Warning, " Or something else wrote there, which the capture does not show.")
	}
	a.report.Tell(why, *f)
}
