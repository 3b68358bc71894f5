package tcp_test

import (
	"slices"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
)

const (
	mss   = 1000
	delay = 100 * clock.Microsecond // one way
	step  = clock.Microsecond       // serialisation time of a packet
)

// config returns the default configuration of both hosts.
func config() tcp.Config {
	return tcp.Config{MSS: mss, InitialWindow: 10, ReceiveWindow: 6 << 20, MinRTO: 200 * clock.Millisecond,
		DelayedACK: 40 * clock.Millisecond}
}

// flight is a packet in flight.
type flight struct {
	at clock.Time
	n  int
	p  tcp.Packet
}

// wire connects two hosts by links with a constant delay, unless fate changes it.
type wire struct {
	t     interface{ Fatalf(string, ...any) }
	hosts [2]*tcp.Host
	model [2]model // expected state of each receiver
	now   clock.Time
	free  [2]clock.Time // end of each NIC's current transmission
	air   []flight
	sent  []tcp.Packet // by host 0, with payload
	at    []clock.Time // when
	n     int
	// fate returns the additional delay of each copy of the n-th packet that arrives; nil: one copy without delay.
	fate   func(n int, p *tcp.Packet) []clock.Duration
	events [2][]tcp.Event
	when   [2][]clock.Time
	onData func(host int, e tcp.Event)
}

// model is the expected state of a receiver: the bytes that have arrived.
type model struct {
	arrived   map[uint64]bool // multiples of the unit
	prefix    uint64
	delivered uint64 // by Delivered
}

func newWire(t interface{ Fatalf(string, ...any) }, cfg tcp.Config) *wire {
	w := &wire{t: t}
	for i := range w.hosts {
		cfg.Address = tcp.Endpoint(i)
		h, err := tcp.New(cfg, &ear{w, i})
		if err != nil {
			t.Fatalf("%v", err)
		}
		w.hosts[i] = h
		w.model[i].arrived = make(map[uint64]bool)
	}
	return w
}

// ear is the sink of a host.
type ear struct {
	w *wire
	i int
}

// TCPEvent implements tcp.Sink.
func (e *ear) TCPEvent(now clock.Time, ev tcp.Event) {
	w := e.w
	w.events[e.i], w.when[e.i] = append(w.events[e.i], ev), append(w.when[e.i], now)
	if ev.Kind != tcp.Delivered {
		return
	}
	if ev.Bytes <= w.model[e.i].delivered {
		w.t.Fatalf("%d bytes are delivered after %d", ev.Bytes, w.model[e.i].delivered)
	}
	w.model[e.i].delivered = ev.Bytes
	if w.onData != nil {
		w.onData(e.i, ev)
	}
}

// arrive adds a packet to the model. The stream begins at sequence number first.
func (m *model) arrive(p *tcp.Packet, first uint32) {
	start := uint64(p.Header.Seq - first)
	for b := start; b < start+uint64(p.Payload); b++ {
		m.arrived[b] = true
	}
	for m.arrived[m.prefix] {
		m.prefix++
	}
}

// run simulates until a time, or until nothing is pending and returns true.
func (w *wire) run(until clock.Time, first uint32) (quiet bool) {
	for {
		for i := range w.hosts {
			w.poll(i)
		}
		next := clock.Never
		for i, h := range w.hosts {
			if at, ok := h.NextTimer(); ok {
				next = min(next, max(at, w.now))
			}
			if w.free[i] > w.now {
				next = min(next, w.free[i])
			}
		}
		for _, f := range w.air {
			next = min(next, f.at)
		}
		if next == clock.Never {
			return true
		}
		if next > until {
			w.now = until
			return false
		}
		w.now = next
		w.deliver(first)
		for _, h := range w.hosts {
			if at, ok := h.NextTimer(); ok && at <= w.now {
				h.HandleTimer(w.now)
			}
		}
	}
}

func (w *wire) poll(i int) {
	var p tcp.Packet
	for w.free[i] <= w.now && w.hosts[i].Poll(w.now, &p) {
		w.free[i] = w.now.Add(step)
		if i == 0 && p.Payload > 0 {
			w.sent, w.at = append(w.sent, p), append(w.at, w.now)
		}
		late := []clock.Duration{0}
		if w.fate != nil {
			late = w.fate(w.n, &p)
		}
		for _, d := range late {
			w.air = append(w.air, flight{w.now.Add(delay + d), w.n, p})
		}
		w.n++
	}
}

func (w *wire) deliver(first uint32) {
	slices.SortStableFunc(w.air, func(a, b flight) int { return int(a.at - b.at) })
	for len(w.air) > 0 && w.air[0].at <= w.now {
		p := w.air[0].p
		w.air = w.air[1:]
		i := int(p.To)
		if p.Payload > 0 && !p.Trimmed {
			w.model[i].arrive(&p, first)
		}
		w.hosts[i].HandlePacket(w.now, &p)
		if w.model[i].delivered != w.model[i].prefix {
			w.t.Fatalf("host %d delivered %d bytes, %d have arrived in order", i, w.model[i].delivered, w.model[i].prefix)
		}
	}
}

func (w *wire) write(t *testing.T, bytes uint64) {
	t.Helper()
	if err := w.hosts[0].Write(1, 7, bytes, 0); err != nil {
		t.Fatal(err)
	}
}

// dropping drops transmissions of segments by host 0, each number as often as it is listed.
func dropping(segments ...uint64) func(int, *tcp.Packet) []clock.Duration {
	return func(_ int, p *tcp.Packet) []clock.Duration {
		if i := slices.Index(segments, p.Number); p.From == 0 && p.Payload > 0 && i >= 0 {
			segments = slices.Delete(segments, i, i+1)
			return nil
		}
		return []clock.Duration{0}
	}
}

// numbers returns the segments sent in an interval.
func (w *wire) numbers(from, to clock.Duration) []uint64 {
	var list []uint64
	for i := range w.sent {
		if at := w.at[i].Sub(0); at >= from && at < to {
			list = append(list, w.sent[i].Number)
		}
	}
	return list
}
