package fabric_test

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// tailDrop is some flows of TCP, each from a host of its own at 37 Gb/s, to one host at 10 Gb/s.
type tailDrop struct {
	senders, packets, room int
	delay                  clock.Duration // of the receiver's link; that of sender i is i times 977 ns longer
}

// handshake is what the handshake of csg-htsim takes besides the delays of links: a SYN of 1 byte and an ACK of 66. It
// has no third packet, which would need room in the queue.
const handshake = 68072 * clock.Picosecond

func (b *tailDrop) run(t *testing.T) (mean, last clock.Duration, drops, sent uint64) {
	t.Helper()
	const size = 1500
	spec := &fabric.Spec{Seed: 1, Topology: fabric.TopologySpec{
		Hosts: b.senders + 1, LinkOf: func(h fabric.HostID) fabric.LinkSpec {
			if h == 0 {
				return fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: b.delay}
			}
			return fabric.LinkSpec{Rate: 37 * clock.Gbps, Delay: b.delay + clock.Duration(h-1)*977*clock.Nanosecond}
		}}}
	spec.Switch.Queues = []fabric.QueueSpec{{MaxPackets: b.room}}
	net, err := fabric.New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(finishes)
	hosts := make([]*fabric.TCPHost, b.senders+1)
	for i := range fabric.HostID(b.senders + 1) {
		h, err := net.AttachTCP(i, fabric.TCPConfig{
			PacketSize: size, Control: tcp.Reno, DelayedACK: -1, MinRTO: 250 * clock.Millisecond, ReceiveWindow: 60 << 20,
			Options: tcp.Config{InitialRTO: 250 * clock.Millisecond, MaxRTO: 60 * clock.Second,
				Detection: tcp.NewReno, NoLimitedTransmit: true},
		}, done)
		if err != nil {
			t.Fatal(err)
		}
		if hosts[i] = h; i > 0 {
			established := 4*b.delay + clock.Duration(i-1)*2*977*clock.Nanosecond + handshake
			bytes := uint64(b.packets * (size - tcp.Codec().HeaderSize(false)))
			if err := h.Core().Write(0, uint32(i), bytes, clock.Time(established)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for at := clock.Time(0); len(done) < b.senders; at = at.Add(100 * clock.Microsecond) {
		if err := net.Run(at); err != nil {
			t.Fatal(err)
		}
		if at > clock.Time(30*clock.Second) {
			t.Fatalf("%d flows have not ended", b.senders-len(done))
		}
	}
	for _, at := range done {
		mean += clock.Duration(at) / clock.Duration(b.senders)
		last = max(last, clock.Duration(at))
	}
	for i := range hosts[1:] {
		sent += hosts[i+1].Core().Counters().SegmentsSent
	}
	return mean, last, net.Switch(0).Port(0).Queue(0).Counters().Dropped, sent
}

// In the file, htsim is csg-htsim's TCP with ACKs as long as ours and an initial window of 9 segments, as its SYN-ACK
// adds one (RFC 5681, 3.1, forbids that). One packet more in a queue decides which flow waits 250 ms for its timer:
// single rows may differ, and most must not.
func TestNewRenoBottlenecksAreLikeThoseOfHTSim(t *testing.T) {
	f, err := os.Open("../../../docs/reference/tcp-htsim.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 49 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var all, equal, near int
	var lost, lostThere float64
	for _, row := range rows[1:] {
		cell := make(map[string]float64)
		for i, name := range rows[0] {
			if cell[name], err = strconv.ParseFloat(row[i], 64); err != nil {
				t.Fatal(err)
			}
		}
		b := tailDrop{senders: int(cell["senders"]), packets: int(cell["packets"]), room: int(cell["queue_packets"]),
			delay: clock.Duration(cell["link_us"]) * clock.Microsecond}
		if testing.Short() && b.senders*b.packets > 4000 {
			continue
		}
		mean, last, drops, sent := b.run(t)
		if all++; float64(drops) == cell["drops_htsim"] {
			equal++
		}
		if math.Abs(float64(mean)/1e6/cell["mean_fct_us_htsim"]-1) < 0.01 {
			near++
		}
		lost, lostThere = lost+float64(drops), lostThere+cell["drops_htsim"]
		if math.Abs(float64(drops)-cell["drops_htsim"]) > 1+cell["drops_htsim"]*0.12 ||
			math.Abs(float64(sent)/cell["sent_htsim"]-1) > 0.03 {
			t.Errorf("%v: %d of %d packets were dropped", row, drops, sent)
		}
		if math.Abs(float64(mean)/1e6-cell["mean_fct_us"]) > 0.1 || math.Abs(float64(last)/1e6-cell["last_fct_us"]) > 0.1 ||
			float64(drops) != cell["drops"] || float64(sent) != cell["sent"] {
			t.Errorf("%v: now %.1f us, %.1f us, %d, %d: write the new values", row, float64(mean)/1e6, float64(last)/1e6,
				drops, sent)
		}
	}
	t.Logf("of %d bottlenecks, %d drop equally many packets, %d have a mean FCT within 1 %%", all, equal, near)
	if equal*100 < all*60 || near*100 < all*72 || math.Abs(lost/lostThere-1) > 0.04 {
		t.Errorf("of %d bottlenecks only %d drop equally many packets, %d have a mean FCT within 1 %%; %.0f drops, want %.0f",
			all, equal, near, lost, lostThere)
	}
}
