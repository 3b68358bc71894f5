package fabric

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
)

// bell records when it rings.
type bell struct {
	task
	name  int
	rings *[]int
}

func (b *bell) act(clock.Time) { *b.rings = append(*b.rings, b.name) }

// planned is the expected event of a bell in a list by (time, order).
type planned struct {
	at    clock.Time
	order int
	name  int
}

// TestCalendarServesLikeASortedList schedules, replaces, cancels and serves at random, near and far, in days that
// become longer, and compares with a list sorted by (time, switch or host, order of scheduling).
func TestCalendarServesLikeASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := engine{portWidth: 3}
		e.span(clock.Duration(rapid.Int64Range(0, int64(clock.Millisecond)).Draw(t, "span")),
			clock.Duration(rapid.Int64Range(0, int64(100*clock.Nanosecond)).Draw(t, "day")))
		var got, want []int
		bells := make([]bell, 40)
		for i := range bells {
			bells[i] = bell{name: i, rings: &got}
			bells[i].actor, bells[i].node = &bells[i], int32(i%5)
		}
		var list []planned
		unlist := func(name int) {
			list = slices.DeleteFunc(list, func(p planned) bool { return p.name == name })
		}
		for order := range rapid.IntRange(1, 300).Draw(t, "steps") {
			name := rapid.IntRange(0, len(bells)-1).Draw(t, "bell")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 6:
				e.opened, e.served = someDays, 0 // the next day is opened after days have become longer
			case 0:
				e.cancel(&bells[name].task)
				unlist(name)
			case 1, 2:
				at, ok := e.next()
				if ok != (len(list) > 0) {
					t.Fatalf("something to do: %v, want %v", ok, !ok)
				}
				if !ok {
					continue
				}
				first := slices.MinFunc(list, func(a, b planned) int {
					return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name%5, b.name%5), cmp.Compare(a.order, b.order))
				})
				if at != first.at {
					t.Fatalf("next at %v, want %v", at, first.at)
				}
				e.step(clock.Never)
				unlist(first.name)
				want = append(want, first.name)
				if e.now != first.at {
					t.Fatalf("it is %v, want %v", e.now, first.at)
				}
			default:
				ahead := rapid.SampledFrom([]clock.Duration{0, 1, 63, 64, 1000, clock.Nanosecond, 300 * clock.Nanosecond,
					clock.Microsecond, 50 * clock.Microsecond, clock.Millisecond}).Draw(t, "ahead")
				at := e.now.Add(ahead)
				if rapid.IntRange(0, 9).Draw(t, "past") == 0 {
					at = e.now - 1
				}
				same := slices.ContainsFunc(list, func(p planned) bool { return p.name == name && p.at == max(at, e.now) })
				e.schedule(&bells[name].task, at)
				if !same { // an unchanged instant keeps its turn
					unlist(name)
					list = append(list, planned{max(at, e.now), order, name})
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("rang %v, want %v", got, want)
		}
	})
}

// TestEventsOfOneDayAreSorted checks the order by time, kind and port; equal events keep their order. Few and many
// events use different algorithms, and so do few and many events of one instant.
func TestEventsOfOneDayAreSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, count := range []int{0, 1, few, few + 1, 300, 3000} {
		for _, times := range [][2]int64{{1, 1}, {3, 24}, {40, 1}, {40, 24}, {1 << 16, 1}, {1 << 11, 32}} {
			instants, step := times[0], times[1]
			for _, ports := range []int{1, 3, 200, 5000, 1 << portBits} {
				e := engine{dayLog: maxDayLog, portWidth: uint(bits.Len(uint(ports - 1)))}
				events := make([]event, count)
				for i := range events {
					w := what(rng.IntN(3))<<kindShift | what(rng.IntN(ports))<<packetBits | what(i)
					events[i] = event(rng.Int64N(instants)*step)<<whatBits | event(w)
				}
				want := slices.Clone(events)
				slices.Sort(want) // the packet number, here the position, comes last
				if got := e.sorted(events); !slices.Equal(got, want) {
					t.Errorf("%d events at %d instants of %d ps and %d ports are not in order", count, instants, step, ports)
				}
			}
		}
	}
}
