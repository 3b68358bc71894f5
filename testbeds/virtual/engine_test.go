package virtual

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

type recorder struct {
	id  int
	log *[]int
}

func (r *recorder) act(clock.Time) { *r.log = append(*r.log, r.id) }

func TestEngineServesByTimeThenByOrderOfScheduling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			id int
			at clock.Time
			n  int
		}
		var e engine
		var log []int
		tasks := make([]task, 8)
		model := map[int]entry{}
		for i := range tasks {
			tasks[i].actor = &recorder{i, &log}
		}
		n := 0
		for _, op := range rapid.SliceOfN(rapid.IntRange(0, 8*16-1), 1, 60).Draw(t, "operations") {
			id, at := op%8, clock.Time(op/8)
			n++
			switch old, ok := model[id]; {
			case at == 15:
				e.cancel(&tasks[id])
				delete(model, id)
			case ok && old.at == at: // keeps its place
			default:
				model[id] = entry{id, at, n}
				e.schedule(&tasks[id], at)
			}
			if ok := model[id]; ok.at != 15 && at != 15 {
				e.schedule(&tasks[id], at)
			}
		}
		var order []entry
		for id := range tasks {
			if x, ok := model[id]; ok {
				order = append(order, x)
			}
		}
		slices.SortFunc(order, func(a, b entry) int {
			if a.at != b.at {
				return int(a.at - b.at)
			}
			return a.n - b.n
		})
		for e.next() != clock.Never {
			e.step()
		}
		want := []int(nil)
		for _, x := range order {
			want = append(want, x.id)
		}
		if !slices.Equal(log, want) {
			t.Fatalf("served %v, want %v", log, want)
		}
	})
}

type sink struct{ at []clock.Time }

func (s *sink) receive(now clock.Time, _ uint16, _ *packet.Packet) { s.at = append(s.at, now) }

func TestLinkSerialisesThenPropagates(t *testing.T) {
	var e engine
	var s sink
	l := newLink(&e, 100*clock.Gbps, clock.Duration(500)*clock.Nanosecond, &s, 0)
	p := &packet.Packet{Payload: make([]byte, 1000-packet.EthernetLen-wireOverhead)} // 1000 bytes on the wire: 80 ns
	for range 3 {
		if _, ok := l.send(0, p); !ok {
			t.Fatal("an unbounded link refused a frame")
		}
	}
	for e.next() != clock.Never {
		e.step()
	}
	want := []clock.Time{580_000, 660_000, 740_000}
	if !slices.Equal(s.at, want) {
		t.Errorf("arrivals at %v ps, want %v ps", s.at, want)
	}
}

func TestLinkWithFullFIFODropsAndCounts(t *testing.T) {
	var e engine
	l := newLink(&e, 1*clock.Gbps, 0, &sink{}, 0)
	l.limit = 2500
	p := &packet.Packet{Payload: make([]byte, 1000-packet.EthernetLen-wireOverhead)}
	accepted := 0
	for range 10 {
		if _, ok := l.send(0, p); ok {
			accepted++
		}
	}
	// The first frame is on the wire at once, but its bits still count as waiting.
	if accepted != 2 || l.dropped != 8 {
		t.Errorf("accepted %d, dropped %d; want 2 and 8", accepted, l.dropped)
	}
}
