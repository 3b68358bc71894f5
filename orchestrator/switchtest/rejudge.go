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
	judgetcp "candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// maxTaps bounds the memory of judging a recording again: each observation takes some 80 bytes.
const maxTaps = 20_000_000

// again is an analyzer of hosts, which can judge captures.
type again struct {
	name  string
	judge func(f *facts, o *orchestrator.OpenedRun) (result analyzers.Result, why string, err error)
	note  string // of what it judged
}

// agains lists the analyzers that judge captures.
func agains() []again {
	const from = "is judged again from taps/before.pcap and taps/behind.pcap: "
	return []again{
		{judgendp.Name, (*facts).rejudgeNDP, from + "at the ports that hosts are at, with the times of the hosts' links taken off and added"},
		{judgetcp.Name, (*facts).rejudgeTCP, from + "at the ports that hosts are at, with the times of the hosts' links taken off and added; " +
			"packets have the numbers of the run as far as IPv4's identification tells them"},
	}
}

// rejudge puts what analyzers say of the captures in the place of what they said during the run, if the captures are there and
// whole, and returns notes about what stands as it was recorded.
func (f *facts) rejudge(o *orchestrator.OpenedRun) ([]string, error) {
	if f.analysis == nil {
		return []string{"nothing was analysed, as the run is not valid; expectations and findings say nothing of the switch"}, nil
	}
	var kept, notes []string
	results := make(map[string]analyzers.Result)
	for _, name := range AnalyzerNames() {
		if data, err := o.ReadFile("analysis/" + name + ".json"); err != nil || len(data) == 0 {
			continue // it had nothing to judge
		}
		i := slices.IndexFunc(agains(), func(a again) bool { return a.name == name })
		if i < 0 {
			kept = append(kept, name)
			continue
		}
		result, why, err := f.fromCaptures(o, &agains()[i])
		if err != nil {
			return nil, err
		}
		if why != "" {
			kept = append(kept, name)
			notes = append(notes, name+" is not judged again: "+why)
			continue
		}
		results[name] = result
		notes = append(notes, name+" "+agains()[i].note)
	}
	var err error
	standing := slices.DeleteFunc(parts(), func(n string) bool { _, judged := results[n]; return judged })
	if f.analysis, err = orchestrator.MergeParts(standing, o.ReadFile); err != nil {
		return nil, err
	}
	for _, name := range AnalyzerNames() {
		if result, judged := results[name]; judged {
			f.analysis.Add(name, result)
		}
	}
	notes = append(notes, "expectations are judged again, from flows.json and switch-counters.json")
	if len(kept) > 0 {
		notes = append(notes, "what the run found stands for "+strings.Join(kept, ", ")+": frames don't tell ports, queues and which copy is whose")
	}
	return notes, nil
}

// fromCaptures has an analyzer judge the captures; why says why it can't.
func (f *facts) fromCaptures(o *orchestrator.OpenedRun, a *again) (result analyzers.Result, why string, err error) {
	switch {
	case !f.plan.Test.Taps.Capture:
		return result, "the run has no captures (`taps: {capture: true}` in the test writes them)", nil
	case f.flows.Sent == 0:
		return result, "flows.json is of an older version, which didn't say whether anything was left to happen", nil
	}
	return a.judge(f, o)
}

// parts are the names of the documents that an analysis is made of.
func parts() []string { return append([]string{"flows"}, AnalyzerNames()...) }

// rejudgeNDP has the NDP analyzer judge the captures; why says why it can't.
func (f *facts) rejudgeNDP(o *orchestrator.OpenedRun) (result analyzers.Result, why string, err error) {
	r := &run{facts: *f, quiet: f.flows.Drained, end: clock.Time(clock.Duration(f.flows.EndNS) * clock.Nanosecond)}
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
	cfg := r.ndpConfig()
	if cfg.Paused { // a packet may have waited for a pause to end, and captures hold no pauses: no host must have known anything
		cfg.RoundTrip = max(cfg.RoundTrip, f.plan.Test.Deadline)
	}
	j := judgendp.New(cfg)
	for i := range taps {
		taps[i].Number = uint64(i + 1)
		j.Observe(&taps[i])
	}
	if r.quiet {
		j.Drain()
	}
	return j.Finish(), "", nil
}

// readTaps reads the NDP packets of both captures in order of time, as they were to be seen at the NICs of the hosts: between these, all
// switches are one network. why says what is wrong with the captures.
func (r *run) readTaps(o *orchestrator.OpenedRun) (taps []trace.Tap, why string) {
	var d trace.TapDecoder
	for h := range r.plan.Test.Topology.HostCount() {
		d.Know(fabric.HostID(h).IPv4(), uint32(h))
		d.Know(fabric.HostID(h).IPv6(), uint32(h))
	}
	times := newNICTimes(r)
	err := r.readCaptures(o, func(stage int, frame *trace.Frame, host fabric.HostID, known bool) error {
		var t trace.Tap
		if !d.Decode(frame, trace.TapBefore+trace.TapPoint(stage), 0, &t) {
			return nil
		}
		if len(taps) == maxTaps {
			return fmt.Errorf("packet %d: packets are more than %d", frame.Number, maxTaps)
		}
		if known {
			t.At = uint32(host) + 1
		} else if host, known = times.hostOf(stage, frame); !known {
			return nil
		}
		t.Time, _ = times.at(stage, frame, host)
		taps = append(taps, t)
		return nil
	})
	if err != nil {
		return nil, err.Error()
	}
	if !r.quiet { // what had not arrived when the observation ended
		taps = slices.DeleteFunc(taps, func(t trace.Tap) bool { return t.Point == trace.TapAfter && t.Time > times.end })
	}
	slices.SortStableFunc(taps, func(a, b trace.Tap) int { return cmp.Compare(a.Time, b.Time) })
	return taps, ""
}

// eachFrame takes a frame of a capture, of stages()[stage], at a port that a host is at; known: host is that one.
type eachFrame func(stage int, frame *trace.Frame, host fabric.HostID, known bool) error

// readCaptures reads both captures, first all that came to the switches, then all that left them. The frames of several switches
// are those at ports that hosts are at. The error says what is wrong with the captures.
func (r *run) readCaptures(o *orchestrator.OpenedRun, each eachFrame) error {
	for i, way := range []string{"in", "out"} {
		c := &recording{name: CaptureNames()[i], stage: i, each: each}
		if err := c.read(o, r.net, CaptureNames()[len(stages())+i]); err != nil {
			return err
		}
		if want := r.tapped(way); c.frames != want {
			return fmt.Errorf("%s has %d packets, the taps of the run saw %d", c.name, c.frames, want)
		}
	}
	return nil
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
	name   string
	stage  int
	each   eachFrame
	edges  *edges // of several switches
	frames int64
}

// read hands on the frames of the capture and counts them all; ports is the name of its list of ports.
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

// take hands on a frame at the edge of the network.
func (c *recording) take(frame *trace.Frame) (err error) {
	c.frames++
	var host fabric.HostID
	if c.edges != nil {
		var edge bool
		if host, edge, err = c.edges.next(); err != nil || !edge {
			return err
		}
	}
	if err = c.each(c.stage, frame, host, c.edges != nil); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}
