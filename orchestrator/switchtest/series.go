package switchtest

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
)

// sortedChanges returns the changes in the order of their time; those of one instant as the file has them.
func sortedChanges(list []config.Change) []config.Change {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b config.Change) int { return cmp.Compare(a.At, b.At) })
	return sorted
}

// series samples queues, trims and goodput at regular instants.
type series struct {
	r       *run
	times   []int64 // ns
	rows    []sample
	payload []int64 // of each flow at the sample before
	before  clock.Time
}

// sample is one value at one instant.
type sample struct {
	at    int64 // ns
	name  string
	value int64
}

func newSeries(r *run) *series { return &series{r: r, payload: make([]int64, len(r.plan.Flows))} }

// sample notes what is there now. Zeros of queues that were never used are left out.
func (s *series) sample(now clock.Time) {
	at := now.Nanoseconds()
	s.times = append(s.times, at)
	add := func(value int64, format string, args ...any) {
		s.rows = append(s.rows, sample{at, fmt.Sprintf(format, args...), value})
	}
	for i := range s.r.net.Switches() {
		sw := s.r.net.Switch(i)
		ports := sw.Ports()
		if sw.Recirculation(0) != nil {
			ports += sw.Pipelines()
		}
		for p := range ports {
			name := fmt.Sprintf("%s.port-%d", sw.Name(), p)
			if p >= sw.Ports() {
				name = fmt.Sprintf("%s.recirculation-%d", sw.Name(), p-sw.Ports())
			}
			for q := range sw.Port(p).Queues() {
				if queue := sw.Port(p).Queue(q); queue.Counters().MaxPackets > 1 {
					add(int64(queue.Packets()), "%s.queue-%d.packets", name, q)
				}
			}
		}
		if s.r.ledger != nil {
			add(s.r.ledger.taps[i].trims(), "%s.trims", sw.Name())
		}
	}
	for i := s.r.net.Switches(); i < devices(s.r.net); i++ {
		nic := deviceAt(s.r.net, i)
		for q := range nic.Port(0).Queues() {
			if queue := nic.Port(0).Queue(q); queue.Counters().MaxPackets > 1 {
				add(int64(queue.Packets()), "%s.port-0.queue-%d.packets", nic.Name(), q)
			}
		}
	}
	span := now.Sub(s.before)
	for i := range s.payload {
		payload := s.r.ledger.flows[i].payload
		if span > 0 && (payload > s.payload[i] || s.payload[i] > 0) {
			add(bitsPerSecond(payload-s.payload[i], span), "flow-%d.goodput-bps", i+1)
		}
		s.payload[i] = payload
	}
	s.before = now
}

// write writes series.csv, one line for each value.
func (s *series) write(w io.Writer) error {
	if _, err := io.WriteString(w, "t_ns,name,value\n"); err != nil {
		return err
	}
	for _, row := range s.rows {
		if _, err := fmt.Fprintf(w, "%d,%s,%d\n", row.at, row.name, row.value); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names of the series in the order of their first sample.
func (s *series) names() []string {
	var names []string
	seen := make(map[string]bool)
	for _, row := range s.rows {
		if !seen[row.name] {
			names = append(names, row.name)
		}
		seen[row.name] = true
	}
	return names
}

// of returns the samples of one series.
func (s *series) of(name string) []sample {
	var list []sample
	for _, row := range s.rows {
		if row.name == name {
			list = append(list, row)
		}
	}
	return list
}
