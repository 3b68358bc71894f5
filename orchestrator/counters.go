package orchestrator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/trace"
)

// Counters is the document counters.json: all counters of a run.
type Counters struct {
	Schema string `json:"schema"`
	counters.Input
	Switch  injector.Counters         `json:"switch"` // since the baseline
	Dumpers []testbeds.DumperCounters `json:"dumpers"`
	// Discards are frames that the switch dropped for lack of buffer, by port.
	Discards []testbeds.PortDiscards `json:"discards"`
	// TimeDisorderNS bounds the disorder of the switch's timestamps; 0: in order.
	TimeDisorderNS int64 `json:"time_disorder_ns,omitempty"`
	// HostDelays bound how long hosts held frames, if measured.
	HostDelays []testbeds.HostDelay `json:"host_delays,omitempty"`
}

// hostDelayNS bounds the time that any host held frames, in ns; 0: not measured for both hosts.
func (c *Counters) hostDelayNS() (bound int64) {
	if c == nil || len(c.HostDelays) < 2 {
		return 0
	}
	for _, d := range c.HostDelays {
		bound = max(bound, d.BoundNS)
	}
	return bound
}

// check refuses a document of another schema and incomplete counters. Judging without counters would pass a NIC whose
// counters are wrong.
func (c *Counters) check() error {
	if c.Schema != counters.Schema {
		return fmt.Errorf("schema %q, want %q", c.Schema, counters.Schema)
	}
	return c.Validate()
}

func newCounters(p *plan.Plan, before, after []testbeds.HostCounters, sw injector.Counters) Counters {
	doc := Counters{Schema: counters.Schema, Switch: sw, Input: counters.Input{TimeoutNS: p.AckTimeout.Nanoseconds()}}
	for i := range after {
		host := p.Test.Host(config.Side(i))
		noNP, noRP := slices.Contains(after[i].Lacks, generator.NotificationPoint),
			slices.Contains(after[i].Lacks, generator.ReactionPoint)
		doc.Hosts = append(doc.Hosts, counters.Host{
			Name: after[i].Host, Naming: after[i].Vendor, IPs: addresses(host.NIC.IPs),
			Start: values(before[i].Values), Finish: values(after[i].Values),
			NPOff: !host.RoCE.DCQCNNP || noNP, RPOff: !host.RoCE.DCQCNRP || noRP, NPAbsent: noNP, RPAbsent: noRP,
		})
	}
	return doc
}

// lacks reports whether the device of a side declares no notification point, and whether it declares no reaction point.
func (c *Counters) lacks(side config.Side) (noNP, noRP bool) {
	if c == nil || int(side) >= len(c.Hosts) {
		return false, false
	}
	return c.Hosts[side].NPAbsent, c.Hosts[side].RPAbsent
}

// hostDelayNote returns how long software hosts held packets; "" for hardware hosts.
func (c *Counters) hostDelayNote(software bool) string {
	switch {
	case !software:
		return ""
	case c.hostDelayNS() == 0:
		return "not measured for how long the hosts held packets: a host did not answer the switch's echoes (an older " +
			"image? make vm-image); 250 ms are assumed"
	}
	var list []string
	for _, d := range c.HostDelays {
		list = append(list, fmt.Sprintf("%s at most %v (%d echoes)", d.Host,
			time.Duration(d.BoundNS).Round(100*time.Microsecond), d.Echoes))
	}
	return "hosts held packets in this run: " + strings.Join(list,
		", ") + "; what a host must have known is judged by that"
}

func values(list []testbeds.Counter) map[string]int64 {
	m := make(map[string]int64, len(list))
	for _, c := range list {
		m[c.Name] = int64(c.Value)
	}
	return m
}

// integrity returns the switch counters that the trace must match.
func (c *Counters) integrity() trace.Counters {
	var t trace.Counters
	for _, m := range c.Switch.Mirrors {
		t.Mirrored = append(t.Mirrored,
			trace.Counter{Name: fmt.Sprintf("mirrored session %d", m.Session), Value: int64(m.Packets)})
	}
	for _, p := range c.Switch.Ports {
		t.RoCERx = append(t.RoCERx, trace.Counter{Name: fmt.Sprintf("roce_rx port %d", p.Port),
			Value: int64(p.RoCERx.Packets)})
	}
	return t
}

// conditionDiscards is an integrity condition beyond those of the trace: the switch dropped no frame without an event.
const conditionDiscards = "switch-discards"

// discardCondition reports whether the switch dropped frames without an event. The trace shows such frames as
// delivered, so a device that reacts to the loss would be blamed.
func (c *Counters) discardCondition() trace.Condition {
	cond := trace.Condition{Name: conditionDiscards, Status: trace.StatusOK,
		Message: "the switch dropped nothing on its own account"}
	total := int64(0)
	for _, d := range c.Discards {
		total += int64(d.Packets)
		cond.Counters = append(cond.Counters,
			trace.Counter{Name: fmt.Sprintf("discards port %d", d.Port), Value: int64(d.Packets)})
	}
	if total > 0 {
		cond.Status, cond.Actual = trace.StatusViolated, &total
		cond.Message = fmt.Sprintf(
			"the switch had no buffer for %d packets towards a host, which the trace shows as delivered", total)
	}
	return cond
}

func unmetCounters(e *config.CountersExpect, doc *Counters) []string {
	var unmet []string
	for i, wants := range [][]config.CounterExpect{e.Requester, e.Responder} {
		if i >= len(doc.Hosts) {
			break
		}
		for _, w := range wants {
			where := fmt.Sprintf("expect.counters.%s.%s", config.Side(i), w.Name)
			got, ok := doc.Hosts[i].Delta(w.Name)
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
