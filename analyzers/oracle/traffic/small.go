package traffic

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/trace"
)

// Small draws a scenario of a few packets, most of them with losses.
func Small(rng *rand.Rand) Scenario {
	sc := Scenario{
		Seed: rng.Uint64(), Messages: 1 + rng.IntN(4), Packets: 1 + rng.IntN(3), Window: 1 + rng.IntN(6),
		Reads: 1 + rng.IntN(2),
		Verbs: Verbs(1 + rng.IntN(int(All))), DelayMin: 200, DelayMax: 200 + rng.Int64N(3000),
		ProcessMax: 100 + rng.Int64N(2000),
		TimeoutNS:  4096 << (2 + rng.IntN(3)), Retry: rng.IntN(8), RNRRetry: rng.IntN(8),
	}
	if rng.IntN(3) == 0 {
		sc.Odd = 0.6
	}
	if rng.IntN(5) == 0 {
		sc.TwoWay, sc.Messages = true, 1+rng.IntN(2)
	}
	if rng.IntN(4) > 0 {
		sc.Loss = 0.05 + 0.2*rng.Float64()
	}
	if rng.IntN(5) == 0 {
		sc.NotReady = 0.2
	}
	if rng.IntN(10) == 0 {
		sc.Refused = 0.1
	}
	return sc
}

// HostDelay bounds the time that a host of sc takes between the tap and its answer: the path, queues of a full window,
// and the processing of each frame of it.
func (sc *Scenario) HostDelay() int64 {
	bound := sc.Transit + sc.DelayMax + 2*sc.ProcessMax + int64(sc.Window+sc.Packets+4)*(sc.ProcessMax+sc.DelayMax)
	if sc.TwoWay {
		bound *= 2
	}
	return bound
}

// Mirror returns what a mirror at the switch sees of a connection, with all that a test knows of it.
func Mirror(sc Scenario, frames []Frame) *oracle.Trace {
	t := &oracle.Trace{View: oracle.View{TimeoutNS: sc.TimeoutNS, HostDelayNS: sc.HostDelay(), Retry: sc.Retry,
		RNRRetry: sc.RNRRetry}}
	for i := range frames {
		t.Packets = append(t.Packets, frames[i].Packet)
	}
	return t
}

// Seen returns what a tap sees at a place; at the switch the same as a mirror.
func Seen(sc Scenario, frames []Frame, place Place) *oracle.Trace {
	t := Mirror(sc, nil)
	if place != AtSwitch { // the way to one of the hosts is longer
		t.View.HostDelayNS += sc.Transit + 2*sc.DelayMax
	}
	for i := range frames {
		if at, ok := place.sees(&frames[i]); ok {
			p := frames[i].Packet
			p.TimeNS = at
			t.Packets = append(t.Packets, p)
		}
	}
	slices.SortStableFunc(t.Packets, func(a, b oracle.Packet) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	return t
}

// Crossing is when a frame passes each of two taps.
type Crossing struct {
	First, Second int64
	Copy          int64 // when a second copy passes the second tap; 0: there is none
}

// Crossings returns when the frames pass two taps: before and after the switch or, with hosts, at the sending and the
// receiving host.
func Crossings(frames []Frame, hosts bool) []Crossing {
	list := make([]Crossing, len(frames))
	for i := range frames {
		f := &frames[i]
		list[i] = Crossing{f.Switch, f.Passed, f.Copied}
		if hosts {
			list[i] = Crossing{f.Sent, f.Arrived, f.CopyArrived}
			if f.Lost { // if it had not been
				list[i].Second = f.Passed + f.Switch - f.Sent
			}
		}
	}
	return list
}

// Cross returns what two taps see of frames, merged by time. The clock of the second tap is early by earlyNS. A host
// may answer, and a switch forward, without delay.
func Cross(frames []oracle.Packet, at []Crossing, hosts bool, earlyNS int64) []oracle.Packet {
	var all []oracle.Packet
	for i := range frames {
		p := frames[i]
		p.Lost, p.Frame, p.Seen, p.TimeNS = false, i+1, trace.Sent, at[i].First
		all = append(all, p)
		if frames[i].Lost {
			continue
		}
		p.Seen, p.TimeNS = trace.Passed, at[i].Second-earlyNS
		all = append(all, p)
		if at[i].Copy > 0 {
			p.TimeNS = at[i].Copy - earlyNS
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b oracle.Packet) int {
		order := cmp.Compare(a.Seen, b.Seen)
		if hosts {
			order = -order
		}
		return cmp.Or(cmp.Compare(a.TimeNS, b.TimeNS), order)
	})
	return all
}

// Pair returns what two taps see of the frames of a mirror trace, one before the switch and one after it, merged by
// time. Frames take the time transit through the switch, of which the second tap's clock shows stamped.
func Pair(mirror []oracle.Packet, transit, stamped int64) []oracle.Packet {
	var all []oracle.Packet
	for i := range mirror {
		p := mirror[i]
		p.Lost, p.Frame, p.Seen = false, i+1, trace.Sent
		all = append(all, p)
		if !mirror[i].Lost {
			p.TimeNS, p.Seen = p.TimeNS+stamped, trace.Passed
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b oracle.Packet) int {
		return cmp.Or(cmp.Compare(a.TimeNS, b.TimeNS), cmp.Compare(a.Seen, b.Seen))
	})
	return all
}
