package fabric_test

import (
	"encoding/csv"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// swiftParameters are csg-htsim's defaults, without hop scaling.
func swiftParameters() tcp.Swift {
	const us = clock.Microsecond
	return tcp.Swift{BaseTarget: 20 * us, FlowRange: 100 * us, FlowMin: 0.1, FlowMax: 100, EndpointTarget: 100 * us,
		Increase: 1, Beta: 0.8, MaxDecrease: 0.5, MinWindow: 0.01, MaxWindow: 1000, ResetAfter: 5}
}

// swiftOutcome is what flows through a bottleneck were like.
type swiftOutcome struct {
	mean, last float64 // FCT at the sender in microseconds
	queue      float64 // packets until the first flow ends, with the one on the wire
}

// runSwift simulates flows of Swift from hosts of their own to one, with packets of 1500 bytes.
func runSwift(t *testing.T, senders, packets int, rate clock.BitRate, delay clock.Duration, from clock.Time) (
	o swiftOutcome) {
	t.Helper()
	const size = 1500
	spec := &fabric.Spec{Seed: 1, Topology: fabric.TopologySpec{Hosts: senders + 1,
		Link: fabric.LinkSpec{Rate: rate, Delay: delay}}}
	spec.Switch.Queues = []fabric.QueueSpec{{MaxPackets: 2000}}
	net, err := fabric.New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(finishes)
	for i := range fabric.HostID(senders + 1) {
		h, err := net.AttachTCP(i, fabric.TCPConfig{PacketSize: size, Control: tcp.SwiftControl, DelayedACK: -1,
			Options: tcp.Config{Swift: swiftParameters()}}, done)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			bytes := uint64(packets * (size - tcp.Codec().HeaderSize(false)))
			if err := h.Core().Write(0, uint32(i), bytes, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	port, samples := net.Switch(0).Port(0), 0.
	for at := clock.Time(0); len(done) < senders; at = at.Add(clock.Microsecond) {
		if err := net.Run(at); err != nil {
			t.Fatal(err)
		}
		if at > clock.Time(clock.Second) {
			t.Fatalf("%d flows have not ended", senders-len(done))
		}
		if at >= from && len(done) == 0 {
			o.queue, samples = o.queue+float64(port.Queue(0).Packets()), samples+1
			if port.BusyUntil() > at {
				o.queue++
			}
		}
	}
	for i := range senders {
		fct := float64(done[uint32(i+1)]) / float64(clock.Microsecond)
		o.mean, o.last = o.mean+fct/float64(senders), max(o.last, fct)
	}
	o.queue /= samples
	return o
}

// In the file, htsim is csg-htsim's Swift as it is; htsim_fs is the same with one change: flow scaling takes the window
// as it is, not rounded down to whole packets.
func TestSwiftBottlenecksAreLikeThoseOfHTSim(t *testing.T) {
	f, err := os.Open("../../../docs/reference/swift-htsim.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 31 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		cell := func(name string) float64 {
			v, err := strconv.ParseFloat(row[slices.Index(rows[0], name)], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		senders, packets := int(cell("senders")), int(cell("packets"))
		if testing.Short() && senders*packets > 2000 {
			continue
		}
		o := runSwift(t, senders, packets, clock.BitRate(cell("gbps"))*clock.Gbps,
			clock.Duration(cell("link_us"))*clock.Microsecond, 0)
		near := func(what string, got, want, percent float64) {
			if math.Abs(got/want-1) > percent/100 {
				t.Errorf("%v: %s is %.1f, want %.1f within %v %%", row[:4], what, got, want, percent)
			}
		}
		near("mean FCT of the file", o.mean, cell("mean_fct_us"), 1)
		near("last FCT of the file", o.last, cell("last_fct_us"), 1)
		near("mean queue of the file", o.queue, cell("mean_queue"), 3)
		near("mean FCT", o.mean, cell("mean_fct_us_htsim_fs"), 2)
		near("last FCT", o.last, cell("last_fct_us_htsim_fs"), 1)
		near("mean queue", o.queue, cell("mean_queue_htsim_fs"), 4)
	}
}

// The queue of flows that share a port equally (3.5): N windows of W packets take a round trip that is the target of W.
// With small windows, an increment of one packet is much: with 32 flows (W = 1.2) the queue is 22 % longer.
func TestSwiftsQueueIsThatOfItsTarget(t *testing.T) {
	p := swiftParameters()
	for _, senders := range []int{2, 4, 8} {
		const path, packet = 4 * 2e-6, 1.2e-6 // seconds, of links and of a packet at 10 Gb/s
		o := runSwift(t, senders, 16000/senders, 10*clock.Gbps, 2*clock.Microsecond, clock.Time(8*clock.Millisecond))
		low, high := 0.1, 1000. // W is between them
		for range 60 {
			w := (low + high) / 2
			scale := (1/math.Sqrt(w) - 1/math.Sqrt(p.FlowMax)) / (1/math.Sqrt(p.FlowMin) - 1/math.Sqrt(p.FlowMax))
			if 20e-6+100e-6*max(scale, 0) > float64(senders)*w*packet {
				low = w
			} else {
				high = w
			}
		}
		want := float64(senders)*low - (path+packet)/packet
		t.Logf("%d flows: mean queue %.1f packets, analysed %.1f (window %.2f)", senders, o.queue, want, low)
		if math.Abs(o.queue/want-1) > 0.1 {
			t.Errorf("%d flows: mean queue of %.1f packets, want %.1f", senders, o.queue, want)
		}
	}
}
