package fabric_test

import (
	"math"
	"slices"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// observed is what a queue held at every step of a run.
type observed struct {
	bytes, packets []int
}

// TestOccupancyIsThatOfEveryStep steps through runs whose events lie on a grid, looks into every queue at every step,
// and compares. Long runs join points of the series; a wide network has fewer of them.
func TestOccupancyIsThatOfEveryStep(t *testing.T) {
	const step = 100 * clock.Nanosecond // 125 bytes at 10 Gb/s
	for _, c := range []struct {
		name           string
		steps, packets int
		nic            []fabric.QueueSpec
	}{
		{"short", 900, 20, nil}, {"points joined", 9000, 300, nil}, {"not a whole point", 7777, 200, nil},
		{"queues at NICs", 2000, 60, make([]fabric.QueueSpec, 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := fabric.New(&fabric.Spec{
				Topology: fabric.TopologySpec{Kind: fabric.LeafSpine, Leaves: 2, Spines: 2, Hosts: 6,
					Link: fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: step}},
				Switch: fabric.SwitchSpec{Queues: []fabric.QueueSpec{{MaxBytes: 40_000}, {MaxPackets: 9}}},
				NIC:    fabric.NICSpec{Queues: c.nic},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for id := range fabric.HostID(n.Hosts() - 1) {
				n.Host(id).Attach(&source{to: fabric.HostID(n.Hosts() - 1), size: 500 + 125*int(id), left: c.packets,
					class: uint8(id % 2), next: clock.Time(0).Add(step * clock.Duration(20*id))})
			}
			n.Meter(true)
			seen := make(map[*fabric.Queue]*observed)
			eachQueue(n, func(_ *fabric.Port, _ int, q *fabric.Queue) { seen[q] = new(observed) })
			end := clock.Time(0)
			for range c.steps {
				if err := n.Run(end); err != nil {
					t.Fatal(err)
				}
				for q, o := range seen {
					o.bytes, o.packets = append(o.bytes, q.Bytes()), append(o.packets, q.Packets())
				}
				end = end.Add(step)
			}
			if err := n.Run(end - 1); err != nil {
				t.Fatal(err)
			}
			n.Unmeter(end)
			waited, dropped := 0, 0
			eachQueue(n, func(pt *fabric.Port, i int, q *fabric.Queue) {
				o := pt.Occupancy(i)
				if most := slices.Max(seen[q].bytes); o == nil && most > 0 {
					t.Errorf("queue %d of port %d held %d bytes and has no occupancy", i, pt.Index(), most)
				}
				if o != nil {
					waited++
					seen[q].compare(t, o, step)
					dropped += int(o.Dropped(fabric.ReasonTail))
					if o.Dropped(fabric.ReasonTail) != q.Counters().Dropped {
						t.Errorf("%d drops by reason, %d in all", o.Dropped(fabric.ReasonTail), q.Counters().Dropped)
					}
				}
			})
			if waited < 3 || dropped == 0 && c.nic == nil && c.packets > 100 {
				t.Errorf("%d queues held something, %d packets were dropped", waited, dropped)
			}
		})
	}
}

func eachQueue(n *fabric.Network, f func(pt *fabric.Port, i int, q *fabric.Queue)) {
	var ports []*fabric.Port
	for i := range n.Switches() {
		for j := range n.Switch(i).Ports() {
			ports = append(ports, n.Switch(i).Port(j))
		}
	}
	for id := range fabric.HostID(n.Hosts()) {
		ports = append(ports, n.Host(id).Port())
	}
	for _, pt := range ports {
		for i := range pt.Queues() {
			f(pt, i, pt.Queue(i))
		}
	}
}

func (seen *observed) compare(t *testing.T, o *fabric.Occupancy, step clock.Duration) {
	t.Helper()
	mean := func(list []int) float64 {
		sum := 0
		for _, v := range list {
			sum += v
		}
		return float64(sum) / float64(len(list))
	}
	bytes, packets := o.Mean()
	if want := mean(seen.bytes); math.Abs(bytes-want) > 1e-9*want {
		t.Errorf("mean is %g bytes, want %g", bytes, want)
	}
	if want := mean(seen.packets); math.Abs(packets-want) > 1e-9*want {
		t.Errorf("mean is %g packets, want %g", packets, want)
	}
	waited := 0
	for _, v := range seen.bytes {
		if v > 0 {
			waited++
		}
	}
	if want := step * clock.Duration(waited); o.Waited() != want {
		t.Errorf("something waited for %v, want %v", o.Waited(), want)
	}
	sorted := slices.Sorted(slices.Values(seen.bytes))
	for _, q := range []float64{0, 0.5, 0.95, 0.99, 0.999, 1} {
		exact := sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
		if got := o.Quantile(q); got < exact || got > exact+max(64, exact/32+64) {
			t.Errorf("quantile %g is %d bytes, exactly it is %d", q, got, exact)
		}
	}
	points, width := o.Series()
	if len(points) > 256 {
		t.Errorf("%d points", len(points))
	}
	each := int(width / step)
	if want := (len(seen.bytes) + each - 1) / each; len(points) != want {
		t.Fatalf("%d points of %v, want %d", len(points), width, want)
	}
	for i, p := range points {
		part := seen.bytes[i*each : min((i+1)*each, len(seen.bytes))]
		if want := mean(part); math.Abs(p.Mean-want) > 1e-9*want || p.Max != slices.Max(part) {
			t.Errorf("point %d: %g bytes, at most %d; want %g, %d", i, p.Mean, p.Max, want, slices.Max(part))
			return
		}
	}
}

// TestSamplesOfOccupancyAreWhatQueuesHeld: a sample counts until the next, and measuring changes nothing.
func TestSamplesOfOccupancyAreWhatQueuesHeld(t *testing.T) {
	const step = 700 * clock.Nanosecond
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 9}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	flood(n, func(fabric.HostID) fabric.HostID { return 8 })
	n.Meter(false)
	q, held := n.Switch(0).Port(8).Queue(0), new(observed)
	end := clock.Time(0)
	for range 500 {
		if err := n.Run(end); err != nil {
			t.Fatal(err)
		}
		n.Sample(end)
		held.bytes, held.packets = append(held.bytes, q.Bytes()), append(held.packets, q.Packets())
		end = end.Add(step)
	}
	n.Unmeter(end)
	o := n.Switch(0).Port(8).Occupancy(0)
	sum := 0
	for _, v := range held.bytes {
		sum += v
	}
	if mean, _ := o.Mean(); math.Abs(mean-float64(sum)/500) > 1e-9*mean || sum == 0 {
		t.Errorf("mean is %g bytes, want %g", mean, float64(sum)/500)
	}
	want := slices.Sorted(slices.Values(held.bytes))[249]
	if median := o.Quantile(0.5); median < want || median > want+want/30 {
		t.Errorf("median is %d bytes, want %d", median, want)
	}
}
