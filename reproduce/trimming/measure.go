package trimming

import (
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// switchName is the only switch of these tests.
const switchName = "switch"

// counter returns a counter of the switch.
func (p *point) counter(name string) float64 {
	n, ok := p.Counts[switchName+"."+name]
	if !ok {
		return math.NaN()
	}
	return float64(n)
}

// trims returns how many packets the switch trimmed.
func (p *point) trims() float64 {
	return p.counter("trims-ingress") + p.counter("trims-overflow") + p.counter("trims-deflected")
}

// recirculationPeak returns the maximum queue length of all recirculation ports, in packets.
func (p *point) recirculationPeak() float64 {
	peak := 0.0
	for i := range p.pipelines {
		peak = max(peak, p.counter(fmt.Sprintf("recirculation-%d.queue-0.max-packets", i)))
	}
	return peak
}

// goodput returns each flow's goodput in Gb/s, by number.
func (p *point) goodput() []float64 {
	list := make([]float64, len(p.Flows.Flows))
	for i := range list {
		list[i] = float64(p.Flows.Flows[i].GoodputBPS) / 1e9
	}
	return list
}

func (p *point) end() clock.Time { return clock.Time(p.Flows.EndNS * int64(clock.Nanosecond)) }

// pessimisticShare returns the share of the time before until in which a port was pessimistic.
func (p *point) pessimisticShare(port int, until clock.Time) float64 {
	var sum clock.Duration
	for _, s := range p.spans[port] {
		if s.From < until {
			sum += min(s.To, until).Sub(s.From)
		}
	}
	return float64(sum) / float64(until)
}

// probe records what the additional taps of a run see.
type probe struct {
	net     *fabric.Network
	arrived map[uint64]clock.Time // arrival times of packets at the switch, by ID
	headers []header
	packets []arrival
}

// header is a trimmed packet that reached its receiver.
type header struct {
	delay     clock.Duration // in the switch: from the packet's arrival to the header's departure
	arrival   clock.Time     // at the receiver
	deflected bool
}

// arrival is a packet or header of a flow that reached its receiver.
type arrival struct {
	host      fabric.HostID
	flow      uint32
	number    uint32 // of the packet in its flow, from 1
	sent, at  clock.Time
	trimmed   bool
	deflected bool
}

func newProbe(net *fabric.Network) *probe {
	return &probe{net: net, arrived: make(map[uint64]clock.Time)}
}

func (b *probe) followHeaders() {
	left := make(map[uint64]clock.Duration)
	b.net.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		switch trimmed := p.Flags&fabric.Trimmed != 0; {
		case at.Host && at.Stage == fabric.Ingress && trimmed:
			b.headers = append(b.headers, header{left[p.ID], now, p.Flags&fabric.Deflected != 0})
			delete(left, p.ID)
			delete(b.arrived, p.ID)
		case at.Host || at.Port >= b.net.Switch(0).Ports():
		case at.Stage == fabric.Ingress:
			b.arrived[p.ID] = now
		case at.Stage == fabric.Egress && trimmed:
			left[p.ID] = now.Sub(b.arrived[p.ID])
		case at.Stage == fabric.Egress:
			delete(b.arrived, p.ID)
		}
	})
}

// followPackets records every arrival at a receiver.
func (b *probe) followPackets() {
	b.net.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		switch {
		case at.Host && at.Stage == fabric.Egress:
			b.arrived[p.ID] = now
		case at.Host && at.Stage == fabric.Ingress:
			b.packets = append(b.packets, arrival{
				fabric.HostID(at.Node), p.Flow, p.Number, b.arrived[p.ID], now, p.Flags&fabric.Trimmed != 0,
				p.Flags&fabric.Deflected != 0,
			})
			delete(b.arrived, p.ID)
		}
	})
}

// delays returns the headers' times in the switch, sorted, in microseconds.
func (b *probe) delays() []float64 {
	list := make([]float64, len(b.headers))
	for i, h := range b.headers {
		list[i] = h.delay.Microseconds()
	}
	slices.Sort(list)
	return list
}

// arrivals returns the headers' arrival times, sorted, in microseconds from the start of the run.
func (b *probe) arrivals() []float64 {
	list := make([]float64, len(b.headers))
	for i, h := range b.headers {
		list[i] = clock.Duration(h.arrival).Microseconds()
	}
	slices.Sort(list)
	return list
}

// quantile returns the value below which a share of the sorted values lies, NaN if there are none.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
