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
		notes = append(notes, "ndp is judged again from taps/before.pcap and taps/behind.pcap: at the ports of the switch, so that its times leave out the hosts' links")
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
	case f.plan.Test.Topology.SwitchCount() != 1:
		return result, "the captures of several switches don't tell which of them a packet was at", nil
	case f.flows.Sent == 0:
		return result, "flows.json is of an older version, which didn't say whether anything was left to happen", nil
	}
	taps, why, err := f.readTaps(o)
	if why != "" || err != nil {
		return result, why, err
	}
	r := &run{facts: *f, quiet: f.flows.Drained}
	if r.net, err = f.plan.build(); err != nil {
		return result, "", err
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

// readTaps reads the NDP packets of both captures in order of time; why says what is wrong with the captures.
func (f *facts) readTaps(o *orchestrator.OpenedRun) (taps []trace.Tap, why string, err error) {
	var d trace.TapDecoder
	for h := range f.plan.Test.Topology.HostCount() {
		d.Know(fabric.HostID(h).IPv4(), uint32(h))
		d.Know(fabric.HostID(h).IPv6(), uint32(h))
	}
	for i, way := range []string{"in", "out"} {
		name := CaptureNames()[i]
		frames := int64(0)
		taps, frames, err = readCapture(o, name, &d, trace.TapBefore+trace.TapPoint(i), taps)
		if err != nil {
			return nil, err.Error(), nil
		}
		want, _ := config.CounterValue("taps.switch.port-*."+way, f.counted.Counters)
		if frames != want {
			return nil, fmt.Sprintf("%s has %d packets, the taps of the run saw %d", name, frames, want), nil
		}
	}
	// What comes and goes in one nanosecond has come first.
	slices.SortStableFunc(taps, func(a, b trace.Tap) int { return cmp.Compare(a.Time, b.Time) })
	return taps, "", nil
}

// readCapture appends the NDP packets of a capture to taps and counts all its frames.
func readCapture(o *orchestrator.OpenedRun, name string, d *trace.TapDecoder, at trace.TapPoint, taps []trace.Tap) (_ []trace.Tap, frames int64, err error) {
	file, err := o.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := trace.NewPcapReader(file, name)
	if err != nil {
		return nil, 0, err
	}
	var frame trace.Frame
	latest := clock.Time(0)
	for {
		err := r.Next(&frame)
		if errors.Is(err, io.EOF) {
			return taps, frames, nil
		}
		if err != nil {
			return nil, 0, err
		}
		frames++
		var t trace.Tap
		if !d.Decode(&frame, at, 0, &t) {
			continue
		}
		if t.Time < latest || len(taps) == maxTaps {
			return nil, 0, fmt.Errorf("%s: packet %d: packets go back in time, or are more than %d", name, frame.Number, maxTaps)
		}
		latest = t.Time
		taps = append(taps, t)
	}
}
