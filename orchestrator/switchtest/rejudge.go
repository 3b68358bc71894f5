package switchtest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// fromCaptures is the note for an analyzer that judged from captures.
const fromCaptures = "is judged again from taps/before.pcap and taps/behind.pcap: at the ports that hosts are at, " +
	"with the times of the hosts' links " +
	"taken off and added"

// rejudge replaces recorded analyses by analyses of the captures, where the captures exist and are complete. The notes
// list the analyses that remain as recorded.
func (r *run) rejudge(o *orchestrator.OpenedRun) (notes []string, err error) {
	if r.analysis == nil {
		return []string{"nothing was analysed, as the run is not valid; expectations and findings say nothing of the switch"},
			nil
	}
	var kept []string
	why := r.captured()
	if why == "" {
		if r.net, err = r.plan.build(1); err != nil {
			return nil, err
		}
		r.ledger = newLedger(r.net, r.plan)
		if _, err = r.plan.attach(r.net, r.ledger); err != nil { // sets the numbers of connections
			return nil, err
		}
	}
	reasons := make(map[string]string) // why an analyzer does not judge again
	for _, a := range judgeTable() {
		if data, err := o.ReadFile("analysis/" + a.name + ".json"); err != nil || len(data) == 0 {
			continue // it had nothing to judge
		}
		kept = append(kept, a.name)
		if a.recorded == nil {
			continue
		}
		if reasons[a.name] = why; why == "" {
			var j *judge
			if j, reasons[a.name] = a.recorded(r); j != nil {
				r.judges = append(r.judges, j)
			}
		}
	}
	failure := r.replay(o)
	r.judges = slices.DeleteFunc(r.judges, func(j *judge) bool {
		if j.failed = errors.Join(failure, j.failed); j.failed != nil {
			reasons[j.name] = j.failed.Error()
			return true
		}
		kept = slices.DeleteFunc(kept, func(name string) bool { return name == j.name })
		return false
	})
	return r.merge(o, kept, reasons)
}

// merge joins the recorded analyses that are kept with the new ones, and returns notes about both.
func (r *run) merge(o *orchestrator.OpenedRun, kept []string, reasons map[string]string) (notes []string, err error) {
	standing, err := orchestrator.MergeParts(append([]string{"flows"}, kept...), o.ReadFile)
	if err != nil {
		return nil, err
	}
	for _, name := range AnalyzerNames() {
		if i := slices.IndexFunc(r.judges, func(j *judge) bool { return j.name == name }); i >= 0 {
			notes = append(notes, name+" "+r.judges[i].note)
		} else if why := reasons[name]; why != "" {
			notes = append(notes, name+" is not judged again: "+why)
		}
	}
	notes = append(notes, "expectations are judged again, from flows.json and switch-counters.json")
	if len(kept) > 0 {
		notes = append(notes, "what the run found stands for "+strings.Join(kept,
			", ")+": frames don't tell ports, queues and which copy is whose")
	}
	return notes, r.collect(standing)
}

// captured returns why captures cannot be judged, "" if they may be.
func (r *run) captured() string {
	switch {
	case r.plan.live:
		return "the run was live, and how far its bounds are widened was measured then"
	case !r.plan.Test.Taps.Capture:
		return "the run has no captures (`taps: {capture: true}` in the test writes them)"
	case r.flows.Sent == 0:
		return "flows.json is of an older version, which didn't say whether anything was left to happen"
	}
	return ""
}

// replay feeds both captures to the judges: first all frames that entered the switches, then all that left them. With
// several switches, only frames at host ports are used. An error describes a defect of the captures.
func (r *run) replay(o *orchestrator.OpenedRun) error {
	if len(r.judges) == 0 {
		return nil
	}
	for i, way := range []string{"in", "out"} {
		c := &recording{name: CaptureNames()[i], behind: i > 0, judges: r.judges}
		if err := c.read(o, r.net, CaptureNames()[len(stages())+i]); err != nil {
			return err
		}
		if want := r.tapped(way); c.frames != want {
			return fmt.Errorf("%s has %d packets, the taps of the run saw %d", c.name, c.frames, want)
		}
	}
	return nil
}

// tapped returns the packets that the taps of all switches counted; way is "in" or "out".
func (r *run) tapped(way string) int64 {
	sum := int64(0)
	for i := range r.net.Switches() {
		sw := r.net.Switch(i)
		for port := range sw.Ports() {
			sum += r.counted.Counters[fmt.Sprintf("taps.%s.port-%d.%s", sw.Name(), port, way)]
		}
	}
	return sum
}

// recording is a capture during reading.
type recording struct {
	name   string
	behind bool
	judges []*judge
	edges  *edges // nil for a single switch
	frames int64
}

// read passes the frames of the capture to the judges and counts all of them; ports is the name of its port list.
func (c *recording) read(o *orchestrator.OpenedRun, net *fabric.Network, ports string) (err error) {
	file, err := o.Open(c.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if net.Switches() > 1 {
		list, err := o.Open(ports)
		if err != nil {
			return err
		}
		defer list.Close()
		if c.edges, err = newEdges(net, list, ports); err != nil {
			return err
		}
	}
	pcap, err := trace.NewPcapReader(file, c.name)
	if err != nil {
		return err
	}
	var frame trace.Frame
	for {
		err := pcap.Next(&frame)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.take(&frame)
		}
		if err != nil {
			return err
		}
	}
}

// take passes a frame at a host port to the judges.
func (c *recording) take(frame *trace.Frame) (err error) {
	c.frames++
	f := transport.Frame{Frame: frame, Behind: c.behind, Known: c.edges != nil}
	if c.edges != nil {
		var edge bool
		if f.Host, edge, err = c.edges.next(); err != nil || !edge {
			return err
		}
	}
	for _, j := range c.judges {
		if j.failed == nil {
			if err := j.frame(&f); err != nil {
				j.failed = fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}
