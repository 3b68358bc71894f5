package switchtest

import (
	"errors"
	"fmt"
	"io"

	"candela.dev/candela/aqm"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// queuingFile has the counters of the switches as `show queuing interface` shows them.
const queuingFile = "queuing.txt"

// queueTaps is what the taps saw of a queue: what left, and what was dropped early and in all.
type queueTaps struct{ out, outBytes, early, earlyBytes, dropped uint64 }

// showsQueuing reports whether switches of a test write queuingFile.
func (p *Plan) showsQueuing() bool { return p.family.Show != nil }

// leaveQueue and dropAtQueue book packets by queue; nil: nobody asks.
func (s *switchTaps) leaveQueue(at fabric.Point, p *fabric.Packet) {
	if q := s.queue(at); q != nil {
		q.out++
		q.outBytes += uint64(p.Size)
	}
}

func (s *switchTaps) dropAtQueue(at fabric.Point, p *fabric.Packet) {
	q := s.queue(at)
	if q == nil {
		return
	}
	switch at.Reason {
	case fabric.ReasonEarly:
		q.early++
		q.earlyBytes += uint64(p.Size)
		q.dropped++
	case fabric.ReasonTail, fabric.ReasonHeadroom:
		q.dropped++
	default: // not by a queue
	}
}

func (s *switchTaps) queue(at fabric.Point) *queueTaps {
	if s.queues == nil || at.Port >= len(s.queues) || at.Queue >= len(s.queues[at.Port]) {
		return nil
	}
	return &s.queues[at.Port][at.Queue]
}

// readQueues adds what the taps saw of each queue.
func (c counterSet) readQueues(name string, s *switchTaps) {
	for port, queues := range s.queues {
		for i := range queues {
			q := &queues[i]
			for word, n := range map[string]uint64{"out": q.out, "out-bytes": q.outBytes, "early": q.early,
				"early-bytes": q.earlyBytes, "dropped": q.dropped} {
				c[fmt.Sprintf("taps.%s.port-%d.queue-%d.%s", name, port, i, word)] = int64(n)
			}
		}
	}
}

// writeQueuing writes queuingFile. Switches that are out of service have lost their counters.
func (r *run) writeQueuing() error {
	if !r.plan.showsQueuing() {
		return nil
	}
	return r.Dir.WriteFile(queuingFile, func(w io.Writer) error {
		for i := range r.net.Switches() {
			if sw := r.net.Switch(i); !sw.Stopped() {
				if err := r.plan.family.Show(sw, i+1, w); err != nil {
					return fmt.Errorf("counters of switch %s: %w", sw.Name(), err)
				}
			}
		}
		return nil
	})
}

// CompareQueuing compares a text of `show queuing interface` with what the taps of a recorded run saw. Ethernet s/p is
// port p−1 of the s-th switch, as queuing.txt of a run has it, and QoS group q is queue q.
func CompareQueuing(opened *orchestrator.OpenedRun, o config.Options, text *aqm.Queuing) ([]aqm.Broken, error) {
	var list []aqm.Broken
	if !IsRun(opened) {
		return nil, errors.New("is not the run of a switch test")
	}
	f, err := load(opened, o)
	if err != nil {
		return nil, err
	}
	net, err := f.plan.build(1)
	if err != nil {
		return nil, err
	}
	if f.plan.Test.Stops() {
		return nil, errors.New("its switches were stopped and lost their counters")
	}
	for i := range text.Interfaces {
		shown := &text.Interfaces[i]
		var slot, port int
		if n, err := fmt.Sscanf(shown.Name, "Ethernet%d/%d", &slot, &port); n != 2 || err != nil || slot < 1 ||
			slot > net.Switches() || port < 1 || port > net.Switch(slot-1).Ports() {
			return nil, fmt.Errorf("interface %s is not in the run: its switches have the slots 1 to %d, such as %s", shown.Name,
				net.Switches(), aqm.InterfaceName(1, 0))
		}
		name := net.Switch(slot - 1).Name()
		for j := range shown.Groups {
			g := &shown.Groups[j]
			seen, ok := tappedQueue(f.counted.Counters, fmt.Sprintf("taps.%s.port-%d.queue-%d.", name, port-1, g.Number))
			if !ok {
				return nil, fmt.Errorf("%s of %s: the taps of the run did not count such a queue", g.Name, shown.Name)
			}
			list = append(list, g.Compare(shown.Name, seen, f.flows.Drained)...)
		}
	}
	return list, nil
}

// tappedQueue returns what readQueues has added.
func tappedQueue(c map[string]int64, prefix string) (g aqm.Group, ok bool) {
	of := func(word string) uint64 {
		n, found := c[prefix+word]
		ok = found
		return uint64(n)
	}
	g = aqm.Group{TxPackets: of("out"), TxBytes: of("out-bytes"), EarlyPackets: of("early"), EarlyBytes: of("early-bytes"),
		DroppedPackets: of("dropped")}
	return g, ok
}
