package afd

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// completion is a flow that has ended.
type completion struct {
	item  int // of the workload
	bytes int64
	ms    float64
}

func readCompletions(dir string) (list []completion, err error) {
	columns := []string{"item", "bytes", "fct_ns", "finished"}
	return list, experiments.ReadTable(filepath.Join(dir, "flows.csv"), columns, func(fields []string) error {
		item, err := strconv.Atoi(fields[0])
		if err != nil {
			return err
		}
		bytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || fields[3] != "1" {
			return err
		}
		ns, err := strconv.ParseInt(fields[2], 10, 64)
		list = append(list, completion{item, bytes, float64(ns) / 1e6})
		return err
	})
}

// binOfDepth is the time of one value of a depth plot, and binsOfDepth how many there are.
const binOfDepth, binsOfDepth = clock.Millisecond, 500

// buffer is what an extra tap sees of the fullest port of a network.
type buffer struct {
	most float64   // bytes waiting in all queues of a port
	bins []float64 // the most in each of the first bins, in bytes
}

// attachBuffer has a point watch the ports of its switches, each at every packet that leaves it: the queue is the same
// until the next packet leaves or arrives.
func attachBuffer(p *point) {
	b := &buffer{}
	p.buffer = b
	p.watch = func(net *fabric.Network) {
		for i := range net.Switches() {
			sw := net.Switch(i)
			sw.Watch(func(at fabric.Point, now clock.Time, _ *fabric.Packet) {
				if at.Stage != fabric.Egress || at.Port >= sw.Ports() {
					return
				}
				bytes := float64(sw.Port(at.Port).Bytes())
				b.most = max(b.most, bytes)
				if bin := int(now.Sub(0) / binOfDepth); bin < binsOfDepth {
					for len(b.bins) <= bin {
						b.bins = append(b.bins, 0)
					}
					b.bins[bin] = max(b.bins[bin], bytes)
				}
			})
		}
	}
}

// line is the use of a buffer over time.
func (b *buffer) line(name string) comparison.Series {
	s := comparison.Series{Name: name, Style: comparison.Line}
	for i, bytes := range b.bins {
		s.X, s.Y = append(s.X, float64(i)), append(s.Y, bytes/1e6)
	}
	return s
}

// cell is one queue at one load: the runs of all seeds.
type cell struct {
	queue  string
	load   float64
	points []*point
}

// cells groups runs by model and load.
func cells(runs [][]*point) (list []*cell) {
	for _, points := range runs {
		for i, p := range points {
			if i == len(list) {
				list = append(list, &cell{p.Test.Switch.Model, loadOf(p.Test), nil})
			}
			list[i].points = append(list[i].points, p)
		}
	}
	return list
}

// loadOf returns the load of a test in layer-2 bytes, rounded to a percent: that of the file is of payload, 1434 bytes
// of 1500.
func loadOf(t *config.SwitchTest) float64 {
	return math.Round(100*t.Workload[0].Values.Number("load")*1500/1434) / 100
}

// find returns the cell of a queue and load, nil if it was not measured.
func find(list []*cell, queue string, load float64) *cell {
	i := slices.IndexFunc(list, func(c *cell) bool { return c.queue == queue && c.load == load })
	if i < 0 {
		return nil
	}
	return list[i]
}

// times returns the completion times in ms of the flows of an item with more than so many bytes, of all seeds.
func (c *cell) times(item int, above int64) (list []float64) {
	for _, p := range c.points {
		for _, f := range p.completions {
			if f.item == item && f.bytes > above {
				list = append(list, f.ms)
			}
		}
	}
	return list
}

// buffers returns the most bytes that a port held, in MB, of each seed.
func (c *cell) buffers() []float64 {
	return each(c.points, func(p *point) float64 { return p.buffer.most / 1e6 })
}
