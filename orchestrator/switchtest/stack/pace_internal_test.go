package stack

import (
	"math"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// due returns when packets of 1250 bytes are due, which take 1 us at 10 Gb/s.
func due(p *workload.Pace, until clock.Duration) []clock.Time {
	a := newPace(p, 10*clock.Gbps, 0, clock.Time(0).Add(until))
	var list []clock.Time
	for at := a.first(1250); at != clock.Never; at = a.after(at, 1250) {
		list = append(list, at)
	}
	return list
}

const us = clock.Time(clock.Microsecond)

// Gaps are uniform around the even one, whose rate stays, and flows do not start in step.
func TestJitterKeepsTheRate(t *testing.T) {
	times := due(&workload.Pace{Jitter: 0.5, Seed: [2]uint64{1, 2}}, 20*clock.Millisecond)
	if n := float64(len(times)); math.Abs(n-20_000) > 4*math.Sqrt(20_000/12.0) { // the variance of a gap is 1/12
		t.Errorf("%.0f packets in 20,000 gaps", n)
	}
	tenths := make([]float64, 10)
	for i, at := range times[1:] {
		gap := float64(at-times[i]) / float64(us)
		if gap < 0.5-1e-6 || gap > 1.5+1e-6 {
			t.Fatalf("a gap of %.3f", gap)
		}
		tenths[min(9, max(0, int((gap-0.5)*10)))]++
	}
	x, want := 0.0, float64(len(times)-1)/10
	for _, n := range tenths {
		x += (n - want) * (n - want) / want
	}
	if x > 27.9 { // the 99.9th percentile of chi-squared with 9 degrees of freedom
		t.Errorf("gaps %v are not uniform: %.1f", tenths, x)
	}
	if other := due(&workload.Pace{Jitter: 0.5, Seed: [2]uint64{1, 3}}, 20*clock.Millisecond); other[0] == times[0] ||
		times[0] >= us {
		t.Errorf("first packets at %v and %v", times[0], other[0])
	}
}

// A flow that is on for 3 us of 10 us sends 3 of 10 packets, in bursts; times may be drawn.
func TestOnAndOff(t *testing.T) {
	fixed := due(&workload.Pace{On: 3 * clock.Microsecond, Off: 7 * clock.Microsecond}, 100*clock.Microsecond)
	if len(fixed) != 30 || fixed[2] != 2*us || fixed[3] != 10*us || fixed[29] != 92*us {
		t.Errorf("%d packets: %v", len(fixed), fixed)
	}
	drawn := due(&workload.Pace{On: 30 * clock.Microsecond, Off: 70 * clock.Microsecond, Random: true,
		Seed: [2]uint64{5, 6}}, 200*clock.Millisecond)
	// 2000 cycles: the share of time on has a standard deviation of about 0.3*0.7*sqrt(2/2000)
	if share := float64(len(drawn)) / 200_000; math.Abs(share-0.3) > 4*0.21*math.Sqrt(2.0/2000) {
		t.Errorf("on for %.3f of the time, want 0.3", share)
	}
}

// A schedule holds to the packet: a packet that a change of rate meets goes on at the new one, and 0 is a pause.
func TestSchedulesOfRates(t *testing.T) {
	steps := []workload.Step{{At: 0, Rate: 10 * clock.Gbps}, {At: 4 * clock.Microsecond, Rate: 0},
		{At: 10 * clock.Microsecond, Rate: 5 * clock.Gbps}, {At: 15 * clock.Microsecond, Rate: 20 * clock.Gbps}}
	got := due(&workload.Pace{Steps: &steps}, 17*clock.Microsecond)
	want := []clock.Time{0, us, 2 * us, 3 * us, 10 * us, 12 * us, 14 * us, 15*us + us/4, 15*us + 3*us/4, 16*us + us/4,
		16*us + 3*us/4}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("packet %d at %v, want %v", i, got[i], want[i])
		}
	}
	late := []workload.Step{{At: 5 * clock.Microsecond, Rate: 10 * clock.Gbps}, {At: 7 * clock.Microsecond}}
	if got := due(&workload.Pace{Steps: &late}, clock.Second); len(got) != 2 || got[0] != 5*us {
		t.Errorf("%v", got)
	}
}

// Flows leave the stack of their host when they are over, and the others keep their turns.
func TestFlowsLeave(t *testing.T) {
	r := NewRaw()
	r.Send(Flow{ID: 1, Packets: 2, Size: 100, Last: 80})
	r.Send(Flow{ID: 2, Size: 100, Until: 5 * us})
	r.Send(Flow{ID: 3, Packets: 3, Size: 100})
	r.Send(Flow{ID: 4, Size: 1250, Rate: 10 * clock.Gbps, Until: 2 * us, Start: us})
	r.Send(Flow{ID: 5, Size: 100, Start: 9 * us, Until: 9 * us})
	var order []uint32
	for range 9 {
		var p fabric.Packet
		if !r.Poll(0, &p) {
			break
		}
		order = append(order, p.Flow)
	}
	want := []uint32{1, 2, 3, 1, 2, 3, 2, 3, 2}
	for i := range want {
		if order[i] != want[i] {
			t.Fatalf("order %v, want %v", order, want)
		}
	}
	if n, ok := r.Sent(1); ok {
		t.Errorf("flow 1 is over, and has sent %d", n)
	}
	var p fabric.Packet
	if !r.Poll(us, &p) || p.Flow != 4 || r.Poll(6*us, &p) || len(r.flows) != 0 ||
		r.NextTimer() != clock.Never {
		t.Errorf("flow %d; left: %+v", p.Flow, r.flows)
	}
	for id, want := range map[uint32]int64{2: 4, 4: 1} {
		if n, ok := r.Sent(id); !ok || n != want {
			t.Errorf("flow %d has sent %d, want %d", id, n, want)
		}
	}
}
