package switchtest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	judgendp "candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// maxTaps bounds the memory of judging a recording again: each observation takes some 80 bytes.
const maxTaps = 20_000_000

// rejudge puts what the NDP analyzer says of the captures in the place of what it said during the run, if the captures are there
// and whole, and returns notes about what stands as it was recorded.
func (f *facts) rejudge(o *orchestrator.OpenedRun) ([]string, error) {
	if f.analysis == nil {
		return []string{"nothing was analysed, as the run is not valid; expectations and findings say nothing of the switch"}, nil
	}
	var kept []string
	again := false
	var notes []string
	for _, name := range AnalyzerNames() {
		if data, err := o.ReadFile("analysis/" + name + ".json"); err != nil || len(data) == 0 {
			continue // it had nothing to judge
		}
		if name != judgendp.Name {
			kept = append(kept, name)
			continue
		}
		result, why, err := f.rejudgeNDP(o)
		if err != nil {
			return nil, err
		}
		if why != "" {
			kept = append(kept, name)
			notes = append(notes, "ndp is not judged again: "+why)
			continue
		}
		again = true
		if f.analysis, err = orchestrator.MergeParts(slices.DeleteFunc(parts(), func(n string) bool { return n == name }), o.ReadFile); err != nil {
			return nil, err
		}
		f.analysis.Add(name, result)
	}
	if again {
		notes = append(notes, "ndp is judged again from taps/before.pcap and taps/behind.pcap: at the ports that hosts are at, so that its times leave out the hosts' links")
	}
	notes = append(notes, "expectations are judged again, from flows.json and switch-counters.json")
	if len(kept) > 0 {
		notes = append(notes, "what the run found stands for "+strings.Join(kept, ", ")+": frames don't tell ports, queues and which copy is whose")
	}
	return notes, nil
}

// parts are the names of the documents that an analysis is made of.
func parts() []string { return append([]string{"flows"}, AnalyzerNames()...) }

// rejudgeNDP has the NDP analyzer judge the captures; why says why it can't.
func (f *facts) rejudgeNDP(o *orchestrator.OpenedRun) (result analyzers.Result, why string, err error) {
	switch {
	case !f.plan.Test.Taps.Capture:
		return result, "the run has no captures (`taps: {capture: true}` in the test writes them)", nil
	case f.flows.Sent == 0:
		return result, "flows.json is of an older version, which didn't say whether anything was left to happen", nil
	}
	r := &run{facts: *f, quiet: f.flows.Drained}
	if r.net, err = f.plan.build(); err != nil {
		return result, "", err
	}
	taps, why := r.readTaps(o)
	if why != "" {
		return result, why, nil
	}
	r.ledger = newLedger(r.net, f.plan)
	if _, err = f.plan.attach(r.net, r.ledger); err != nil { // for the numbers of connections
		return result, "", err
	}
	j := judgendp.New(r.ndpConfig())
	for i := range taps {
		taps[i].Number = uint64(i + 1)
		j.Observe(&taps[i])
	}
	if r.quiet {
		j.Drain()
	}
	return j.Finish(), "", nil
}

// readTaps reads the NDP packets of both captures in order of time: at the port of a single switch, or at those ports of several that
// hosts are at, between which all switches are one network. why says what is wrong with the captures.
func (r *run) readTaps(o *orchestrator.OpenedRun) (taps []trace.Tap, why string) {
	var d trace.TapDecoder
	for h := range r.plan.Test.Topology.HostCount() {
		d.Know(fabric.HostID(h).IPv4(), uint32(h))
		d.Know(fabric.HostID(h).IPv6(), uint32(h))
	}
	for i, way := range []string{"in", "out"} {
		c := &recording{name: CaptureNames()[i], at: trace.TapBefore + trace.TapPoint(i), decoder: &d, taps: taps}
		if err := c.read(o, r.net, CaptureNames()[len(stages())+i]); err != nil {
			return nil, err.Error()
		}
		if want := r.tapped(way); c.frames != want {
			return nil, fmt.Sprintf("%s has %d packets, the taps of the run saw %d", c.name, c.frames, want)
		}
		taps = c.taps
	}
	// What comes and goes in one nanosecond has come first.
	slices.SortStableFunc(taps, func(a, b trace.Tap) int { return cmp.Compare(a.Time, b.Time) })
	return taps, ""
}

// tapped returns how many packets the taps of all switches counted on their way in or out.
func (r *run) tapped(way string) int64 {
	sum := int64(0)
	for i := range r.net.Switches() {
		n, _ := config.CounterValue("taps."+r.net.Switch(i).Name()+".port-*."+way, r.counted.Counters)
		sum += n
	}
	return sum
}

// recording is a capture that is being read.
type recording struct {
	name    string
	at      trace.TapPoint
	decoder *trace.TapDecoder
	edges   *edges // of several switches
	taps    []trace.Tap
	frames  int64
	latest  clock.Time
}

// read appends the NDP packets of the capture to taps and counts all its frames; ports is the name of its list of ports.
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

// take appends a frame to taps if it is an NDP packet at the edge of the network.
func (c *recording) take(frame *trace.Frame) error {
	c.frames++
	var host fabric.HostID
	if c.edges != nil {
		var edge bool
		var err error
		if host, edge, err = c.edges.next(); err != nil || !edge {
			return err
		}
	}
	var t trace.Tap
	if !c.decoder.Decode(frame, c.at, 0, &t) {
		return nil
	}
	if t.Time < c.latest || len(c.taps) == maxTaps {
		return fmt.Errorf("%s: packet %d: packets go back in time, or are more than %d", c.name, frame.Number, maxTaps)
	}
	if c.latest = t.Time; c.edges != nil {
		t.At = uint32(host) + 1
	}
	c.taps = append(c.taps, t)
	return nil
}
