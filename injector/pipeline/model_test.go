package pipeline_test

import (
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// model is the injector as lumina.md describes it, without regard to speed, widths or registers.
type model struct {
	message  bool
	last     int // PSN
	iter     int
	arrivals map[uint32]int // by PSN, of watched PSNs
	ordinal  int            // of NAKs

	exact   map[[2]int]trace.EventType // (PSN, ITER)
	any     map[int]trace.EventType
	watched map[[2]int]trace.EventType // (PSN, arrival)
	watch   map[int]bool
	control map[int]trace.EventType // ordinal
}

func newModel() *model {
	return &model{exact: map[[2]int]trace.EventType{}, any: map[int]trace.EventType{},
		watched: map[[2]int]trace.EventType{}, watch: map[int]bool{}, control: map[int]trace.EventType{}}
}

const period = 1 << 24

func (m *model) restart(first int) {
	m.last, m.iter, m.ordinal, m.arrivals = (first+period-1)%period, 1, 0, map[uint32]int{}
}

func (m *model) data(psn int, starts bool) trace.EventType {
	ahead := (psn - m.last + period) % period
	switch {
	case m.message && ahead != 1:
		m.iter++
	case m.message && starts:
		m.iter = 1
	case !m.message && (ahead == 0 || ahead >= period/2):
		m.iter++
	}
	m.last = psn
	if m.watch[psn] {
		m.arrivals[uint32(psn)]++
	}
	if e, ok := m.exact[[2]int{psn, m.iter}]; ok {
		return e
	}
	if e, ok := m.watched[[2]int{psn, m.arrivals[uint32(psn)]}]; ok && m.watch[psn] {
		return e
	}
	return m.any[psn]
}

func (m *model) nak() trace.EventType {
	m.ordinal++
	return m.control[m.ordinal]
}

// TestPipelineAgreesWithTheModel runs the same operations on pipeline and model: data packets in order, with gaps,
// repeated and after going back, NAKs, entries added and removed, new runs; near the PSN wrap and far from it, in both
// ITER scopes.
func TestPipelineAgreesWithTheModel(t *testing.T) { rapid.Check(t, agreesWithModel) }

// FuzzPipelineAgreesWithTheModel is the same with the fuzzer's bytes as the list of operations.
func FuzzPipelineAgreesWithTheModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agreesWithModel)) }

func agreesWithModel(t *rapid.T) {
	pipe, err := pipeline.New(pipeline.Config{Ports: 2})
	if err != nil {
		t.Fatal(err)
	}
	first := rapid.SampledFrom([]int{0, 5, period - 3, period / 2}).Draw(t, "ipsn")
	d := &driver{t: t, pipe: pipe, m: newModel(), first: first, next: first}
	d.m.message = rapid.Bool().Draw(t, "message scope")
	if d.m.message {
		d.flow = p4.FlowMessageScope
	}
	d.restart()
	t.Repeat(map[string]func(*rapid.T){
		"data": d.data, "nak": d.nak, "exact": d.setExact, "any": d.setAny, "watch": d.setWatched, "control": d.setControl,
		"epoch": func(*rapid.T) { d.restart() }, "flush": func(*rapid.T) { d.flush() },
	})
}

// driver applies operations to both.
type driver struct {
	t     *rapid.T
	pipe  *pipeline.Pipeline
	m     *model
	flow  uint64
	epoch uint64
	first int
	next  int // PSN that would be in order
	set   []tableEntry
}

func (d *driver) restart() {
	d.epoch++
	d.program(p4.TableConnectionV4, p4.Key{p4.AddrValue(ipA), p4.AddrValue(ipB), p4.Uint(qpnB)},
		p4.NewAction(p4.ActionSetFlow, d.flow, uint64(d.first), 0, d.epoch))
	d.m.restart(d.first)
	d.next = d.first
}

func (d *driver) program(table uint32, k p4.Key, a p4.Action) {
	if err := d.pipe.Set(table, k, a); err != nil {
		d.t.Fatal(err)
	}
	if table != p4.TableConnectionV4 {
		d.set = append(d.set, tableEntry{table, k, a})
	}
}

func (d *driver) flush() {
	for _, e := range d.set {
		d.pipe.Unset(e.table, e.key)
	}
	d.set = nil
	arrivals := d.m.arrivals
	fresh := newModel()
	fresh.message, fresh.last, fresh.iter, fresh.ordinal, fresh.arrivals = d.m.message, d.m.last, d.m.iter, d.m.ordinal,
		arrivals
	d.m = fresh
}

// psn draws a PSN within a dozen of the flow's first.
func (d *driver) psn(t *rapid.T) int {
	return (d.first + rapid.IntRange(-2, 10).Draw(t, "psn") + period) % period
}

func (d *driver) event(t *rapid.T) (p4.Action, trace.EventType) {
	if rapid.Bool().Draw(t, "drop") {
		return doDrop, drop
	}
	return doMark, ecn
}

func (d *driver) setExact(t *rapid.T) {
	psn, iter := d.psn(t), rapid.IntRange(1, 6).Draw(t, "iter")
	a, e := d.event(t)
	d.program(p4.TableEvent, p4.KeyOf(d.flow, 0, uint64(psn), uint64(iter)), a)
	d.m.exact[[2]int{psn, iter}] = e
}

func (d *driver) setAny(t *rapid.T) {
	psn := d.psn(t)
	a, e := d.event(t)
	d.program(p4.TableEventAny, p4.KeyOf(d.flow, 0, uint64(psn)), a)
	d.m.any[psn] = e
}

// setWatched gives each of the test's PSNs a slot.
func (d *driver) setWatched(t *rapid.T) {
	psn, nth := d.psn(t), rapid.IntRange(1, 6).Draw(t, "nth")
	slot := uint64((psn - d.first + 100 + period) % period)
	a, e := d.event(t)
	d.program(p4.TableWatch, p4.KeyOf(d.flow, 0, 0, uint64(psn)), p4.NewAction(p4.ActionSetWatch, slot))
	d.program(p4.TableWatchedEvent, p4.KeyOf(slot, uint64(nth)), a)
	d.m.watch[psn] = true
	d.m.watched[[2]int{psn, nth}] = e
}

func (d *driver) setControl(t *rapid.T) {
	nth := rapid.IntRange(1, 8).Draw(t, "ordinal")
	a, e := d.event(t)
	d.program(p4.TableControlEvent, p4.KeyOf(d.flow, uint64(packet.ClassNak), uint64(nth)), a)
	d.m.control[nth] = e
}

func (d *driver) data(t *rapid.T) {
	jump := rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1, -2, -5, 2, period/2 - 1, period / 2}).Draw(t, "jump")
	psn := (d.next + jump + period) % period
	d.next = (psn + 1) % period
	op := rapid.SampledFrom([]packet.Opcode{packet.WriteFirst, packet.WriteMiddle, packet.SendOnly}).Draw(t, "opcode")
	var r pipeline.Result
	d.pipe.Process(0, 0, rocePacket(op, packet.PSN(psn)), &r)
	want := d.m.data(psn, op.Starts())
	if int(r.Iter) != d.m.iter || r.Event != want {
		t.Fatalf("psn %d: ITER %d event %v, want ITER %d event %v", psn, r.Iter, r.Event, d.m.iter, want)
	}
}

func (d *driver) nak(t *rapid.T) {
	var r pipeline.Result
	d.pipe.Process(0, 0, nak(packet.PSN(d.psn(t)), packet.SyndromeNakSequence), &r)
	if want := d.m.nak(); r.Event != want {
		t.Fatalf("NAK %d: event %v, want %v", d.m.ordinal, r.Event, want)
	}
}
