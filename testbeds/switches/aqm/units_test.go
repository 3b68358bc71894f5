package aqm

import (
	"math"
	"testing"

	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

const us = clock.Microsecond

func at(d clock.Duration) clock.Time { return clock.Time(0).Add(d) }

// defaults are the trap's in NX-OS 7.0(3)I5(1).
func defaults() aqm.Etrap {
	return aqm.Etrap{ByteCount: 1_048_555, AgePeriod: 500 * us, Threshold: 500, Weight: 0.5}
}

// 699 packets of 1500 bytes are 1,048,500, the next is the first of an elephant. At 10 Gb/s it leaves after 0.84
// ms.
func TestFlowsArePromotedOnPacket700(t *testing.T) {
	trap := NewEtrap(defaults())
	gap := 1200 * clock.Nanosecond
	for i := 1; i <= 701; i++ {
		s := trap.Observe(at(clock.Duration(i-1)*gap), Key{Flow: 1}, 1500)
		if s.Elephant != (i >= 700) || s.Bytes != int64(i)*1500 {
			t.Fatalf("packet %d: %+v", i, s)
		}
		if i == 700 && math.Abs(s.Rate-10e9) > 0.05e9 {
			t.Errorf("rate %v, want 10 Gb/s", s.Rate)
		}
	}
	exact := defaults()
	exact.ByteCount = 3000
	inclusive := exact
	inclusive.Inclusive = true
	for _, c := range []struct {
		set  aqm.Etrap
		want bool
	}{{exact, false}, {inclusive, true}} {
		trap := NewEtrap(c.set)
		trap.Observe(0, Key{}, 1500)
		if s := trap.Observe(1, Key{}, 1500); s.Elephant != c.want {
			t.Errorf("%+v at its byte count is an elephant: %v", c.set, s.Elephant)
		}
	}
}

// An elephant that sends 499 bytes in a window is a mouse again at its end; with 500 it remains one.
func TestElephantsBelowTheThresholdStartAgain(t *testing.T) {
	for _, c := range []struct {
		bytes     int
		inclusive bool
		want      bool
	}{{499, false, false}, {500, false, true}, {500, true, false}, {501, true, true}} {
		set := defaults()
		set.Inclusive = c.inclusive
		trap := NewEtrap(set)
		trap.Observe(0, Key{}, 1_048_556)
		trap.Observe(at(500*us), Key{}, c.bytes) // the second window
		s := trap.Observe(at(1000*us), Key{}, 100)
		if s.Elephant != c.want || c.want != (s.Bytes == int64(1_048_556+c.bytes+100)) || !c.want && s.Bytes != 100 {
			t.Errorf("%+v: %+v", c, s)
		}
		if evicted := trap.Evictions() == 1; evicted == c.want {
			t.Errorf("%+v: %d evictions", c, trap.Evictions())
		}
	}
	held := defaults()
	held.EvictHold = 2000 * us
	trap := NewEtrap(held)
	trap.Observe(0, Key{}, 1_048_556)
	for i, want := range []bool{true, true, true, true, true, false} { // windows 1 to 4 are low: 2 ms at their end
		if s := trap.Observe(at(clock.Duration(i)*500*us+499*us), Key{}, 1); s.Elephant != want {
			t.Errorf("window %d: %+v", i, s)
		}
	}
}

// Windows begin with the first packet of a flow; a rate is the mean of that before and that of the window.
func TestRatesAreThoseOfWindows(t *testing.T) {
	trap := NewEtrap(defaults())
	const start = 123 * us
	for i, want := range []float64{0, 16e6, 20e6, 14e6, 11e6} {
		bytes := []int{1000, 1500, 500, 500, 500}[i]
		s := trap.Observe(at(start+clock.Duration(i)*500*us), Key{}, bytes)
		if math.Abs(s.Rate-want) > 1 {
			t.Errorf("window %d: rate %v, want %v", i, s.Rate, want)
		}
	}
	promoted := NewEtrap(aqm.Etrap{ByteCount: 100, AgePeriod: 500 * us, Threshold: 500, Weight: 0.5})
	if s := promoted.Observe(0, Key{}, 1500); s.Rate != 12e9 { // as if it had taken a microsecond
		t.Errorf("the first estimate is %v", s.Rate)
	}
}

func TestMiceAgeAsElephantsOrNever(t *testing.T) {
	for _, never := range []bool{false, true} {
		set := defaults()
		set.MiceNeverAge = never
		trap := NewEtrap(set)
		trap.Observe(0, Key{}, 1_048_555)
		trap.Observe(at(2000*us), Key{}, 1)
		if s := trap.Observe(at(2000*us), Key{}, 0); s.Elephant != never {
			t.Errorf("never %v: %+v", never, s)
		}
	}
}

func TestFullTablesAndCollisions(t *testing.T) {
	set := defaults()
	set.TableSize = 2
	trap := NewEtrap(set)
	observe := func(after clock.Duration, flow uint32) Sighting {
		return trap.Observe(at(after), Key{Flow: flow}, 2_000_000)
	}
	if !observe(0, 1).Elephant || !observe(0, 2).Elephant || observe(0, 3).Tracked || observe(499*us, 3).Elephant {
		t.Error("a full table tracks a third flow, or not the first two")
	}
	if observe(999*us, 3).Tracked { // only the second window of the others is empty
		t.Error("there is room before a flow was idle for a window")
	}
	if !observe(1000*us, 3).Elephant || len(trap.entries) != 1 {
		t.Errorf("idle flows keep their entries: %d", len(trap.entries))
	}
	set = defaults()
	set.HashBits = 1
	trap = NewEtrap(set)
	shared := 0
	for flow := range uint32(8) {
		if trap.Observe(0, Key{Flow: flow}, 600_000).Elephant {
			shared++
		}
	}
	if len(trap.entries) > 2 || shared == 0 {
		t.Errorf("%d entries for keys of one bit", len(trap.entries))
	}
}

// packets 1 to 120 are mice, 121 is not. A pause of 5000 us keeps the number, 5001 us start again.
func TestTheFirst120PacketsAreMice(t *testing.T) {
	for _, c := range []struct {
		pause clock.Duration
		again bool
	}{{5000 * us, false}, {5001 * us, true}} {
		d := NewDPP(aqm.DPP{MaxPackets: 120, AgePeriod: 5000 * us, Class: -1})
		now := clock.Time(0)
		for i := 1; i <= 130; i++ {
			now = now.Add(us)
			if mouse, n := d.Classify(now, Key{}, 64); mouse != (i <= 120) || n != i {
				t.Fatalf("packet %d: mouse %v, number %d", i, mouse, n)
			}
		}
		if mouse, n := d.Classify(now.Add(c.pause), Key{}, 64); mouse != c.again || c.again != (n == 1) {
			t.Errorf("after %v: mouse %v, number %d", c.pause, mouse, n)
		}
	}
	exclusive := NewDPP(aqm.DPP{MaxPackets: 2, Exclusive: true, AgePeriod: us})
	data := NewDPP(aqm.DPP{MaxPackets: 1, DataOnly: true, AgePeriod: us})
	first, _ := exclusive.Classify(0, Key{}, 64)
	second, _ := exclusive.Classify(0, Key{}, 64)
	if !first || second {
		t.Error("fewer than two packets are not one")
	}
	for i, size := range []int{66, 66, 1500, 66, 1500} {
		if mouse, _ := data.Classify(0, Key{}, size); mouse != (i < 4) {
			t.Errorf("packet %d of %d bytes: mouse %v", i, size, mouse)
		}
	}
}

// The law and its bounds, by hand: at 10 Gb/s and 25 us a byte beyond the desired depth costs 160 b/s, and one more
// than before 6400 b/s.
func TestTheFairRateFollowsTheQueue(t *testing.T) {
	set := aqm.Policy{Period: 25 * us, Kp: 0.02, Ki: 0.0005, LeastRate: 10_000_000, MaxDrop: 1}
	a := NewAFD(0, set, 10*clock.Gbps)
	for i, step := range []struct {
		until clock.Duration
		queue int
		want  float64
	}{
		{25 * us, 400_000, 10e9}, // the update at an instant follows what happens in it
		{26 * us, 400_000, 10e9 - 160*250_000 - 6400*400_000},
		{51 * us, 400_000, 7.4e9 - 160*250_000},
		{76 * us, 150_000, 7.36e9 + 6400*250_000},
		{77 * us, 150_000, 8.96e9},
		{100 * us, 2_000_000, 8.96e9},
		{126 * us, 2_000_000, 10e6}, // the least: two updates of which the first takes 12 Gb/s
		{126_000 * us, 0, 10e9},     // the greatest
	} {
		a.Advance(at(step.until), step.queue)
		if math.Abs(a.Fair()-step.want) > 1 {
			t.Errorf("step %d: %v, want %v", i, a.Fair(), step.want)
		}
	}
	if d := NewAFD(0, set, 40*clock.Gbps); d.desired != 600_000 {
		t.Errorf("desired depth %d at 40 Gb/s", d.desired)
	}
}

func TestTheProbabilityIsTheShareOfTheExcess(t *testing.T) {
	set := aqm.Policy{Period: 25 * us, Kp: 0.02, Ki: 0.0005, LeastRate: 10_000_000, MaxDrop: 0.6, DesiredBytes: 1000}
	for _, c := range []struct {
		function aqm.DropFunction
		gate     bool
		rate     float64
		queue    int
		want     float64
	}{
		{aqm.Share, false, 2e9, 100, 0}, {aqm.Share, false, 2.5e9, 100, 0.2}, {aqm.Share, false, 2.5e9, 0, 0},
		{aqm.Share, false, 8e9, 100, 0.6}, {aqm.Excess, false, 2.5e9, 100, 0.25}, {aqm.Excess, false, 9e9, 100, 0.6},
		{aqm.Share, true, 2.5e9, 499, 0}, {aqm.Share, true, 2.5e9, 500, 0.2},
	} {
		set.Function, set.Gate = c.function, c.gate
		a := NewAFD(0, set, 2*clock.Gbps)
		if got := a.Probability(c.rate, c.queue); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// RED by hand, with weight 1: the mean is the queue.
func TestREDCountsPacketsBetweenDrops(t *testing.T) {
	r := NewRED(aqm.Policy{MinBytes: 100, MaxBytes: 200, MaxProbability: 0.2, Weight: 1}, clock.Gbps)
	for i, step := range []struct {
		queue int
		want  float64
	}{{100, 0}, {150, 0.1}, {150, 0.1 / 0.9}, {150, 0.1 / 0.8}, {201, 1}, {100, 0}, {200, 0.2}} {
		if got := r.Arrive(step.queue); math.Abs(got-step.want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	r.Selected()
	if got := r.Arrive(150); math.Abs(got-0.1/0.9) > 1e-12 {
		t.Errorf("after a drop: %v", got)
	}
	if low, high := aqm.REDBytes(40 * clock.Gbps); low != 600_000 || high != 1_800_000 {
		t.Errorf("%d and %d at 40 Gb/s", low, high)
	}
}
