package orchestrator

import (
	"fmt"

	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/trace"
)

// CountersSchema names the format of counters.json.
const CountersSchema = "candela.counters/v1"

// Counters is the document counters.json: what everything that counts has counted during a run.
type Counters struct {
	Schema  string                    `json:"schema"`
	Hosts   []HostCounters            `json:"hosts"`
	Switch  injector.Counters         `json:"switch"` // since the baseline
	Dumpers []testbeds.DumperCounters `json:"dumpers"`
}

// HostCounters are one NIC's counters, under its vendor's names.
type HostCounters struct {
	Host     string         `json:"host"`
	Vendor   string         `json:"vendor"`
	IPs      []string       `json:"ips"`
	Counters []CounterValue `json:"counters"`
}

// CounterValue is one counter before and after the traffic.
type CounterValue struct {
	Name   string `json:"name"`
	Start  uint64 `json:"start"`
	Finish uint64 `json:"finish"`
}

// Grown returns by how much the counter has grown.
func (c CounterValue) Grown() int64 { return int64(c.Finish - c.Start) }

func newCounters(p *plan.Plan, before, after []testbeds.HostCounters, sw injector.Counters) Counters {
	doc := Counters{Schema: CountersSchema, Switch: sw}
	for i := range after {
		h := HostCounters{Host: after[i].Host, Vendor: after[i].Vendor}
		for _, ip := range p.Test.Host(config.Side(i)).NIC.IPs {
			h.IPs = append(h.IPs, ip.Addr().String())
		}
		start := map[string]uint64{}
		for _, c := range before[i].Values {
			start[c.Name] = c.Value
		}
		for _, c := range after[i].Values {
			h.Counters = append(h.Counters, CounterValue{c.Name, start[c.Name], c.Value})
		}
		doc.Hosts = append(doc.Hosts, h)
	}
	return doc
}

// integrity returns the switch counters that the trace's length must equal.
func (c *Counters) integrity() trace.Counters {
	var t trace.Counters
	for _, m := range c.Switch.Mirrors {
		t.Mirrored = append(t.Mirrored, trace.Counter{Name: fmt.Sprintf("mirrored session %d", m.Session), Value: int64(m.Packets)})
	}
	for _, p := range c.Switch.Ports {
		t.RoCERx = append(t.RoCERx, trace.Counter{Name: fmt.Sprintf("roce_rx port %d", p.Port), Value: int64(p.RoCERx.Packets)})
	}
	return t
}

// unmetCounters checks the bounds that a test puts on single counters.
func unmetCounters(e *config.CountersExpect, doc *Counters) []string {
	var unmet []string
	for i, wants := range [][]config.CounterExpect{e.Requester, e.Responder} {
		if i >= len(doc.Hosts) {
			break
		}
		grown := map[string]int64{}
		for _, c := range doc.Hosts[i].Counters {
			grown[c.Name] = c.Grown()
		}
		for _, w := range wants {
			where := fmt.Sprintf("expect.counters.%s.%s", config.Side(i), w.Name)
			got, ok := grown[w.Name]
			switch {
			case !ok:
				unmet = append(unmet, where+": this NIC has no such counter")
			case w.Min != nil && got < *w.Min:
				unmet = append(unmet, fmt.Sprintf("%s: grew by %d, want at least %d", where, got, *w.Min))
			case w.Max != nil && got > *w.Max:
				unmet = append(unmet, fmt.Sprintf("%s: grew by %d, want at most %d", where, got, *w.Max))
			}
		}
	}
	return unmet
}
