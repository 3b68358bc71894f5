package transport

import (
	"iter"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Trial is what the judge of a transport's hosts may know of a run: the test, and what it says of the network.
type Trial struct {
	Net     *fabric.Network
	Test    *config.SwitchTest
	Name    string             // of the transport
	Flows   iter.Seq[*Flow]    // of all transports, by number
	Values  parameter.Values   // of the transport
	Latency clock.Duration     // of each switch
	Queues  []fabric.QueueSpec // of each port of a switch, as its model has configured them
	End     clock.Time         // of a recorded run
	// Slack is how much later or earlier than at the hosts packets were seen, as a live run has measured it; 0 of a
	// simulated one.
	Slack clock.Duration
	// Paced says that NICs may keep packets although their wires are free; what they send and drop is seen.
	Paced bool
	// Deflects says that switches may send packets to others than those on a shortest path, and so on without end.
	Deflects bool
	// FlowOf returns the number of the flow that a connection of a sender was announced for.
	FlowOf func(sender fabric.HostID, connection uint32) (int, bool)
	// Follows says whether a flow is judged; nil: all are.
	Follows func(flow int) bool
}

// IPv6 reports whether the flows of the transport, if they are alike in that, use IPv6.
func (t *Trial) IPv6() bool {
	for f := range t.Flows {
		if f.Transport == t.Name && f.Mark.IPv6 {
			return true
		}
	}
	return false
}

// Pauses reports whether flow control may keep hosts from sending.
func (t *Trial) Pauses() bool { return len(t.Test.Switch.Values.Integers("pfc-classes")) > 0 }

// RoundTrip bounds how long a host's reaction takes to show at its switch: both ways of the slowest link, the latency
// of the switch, which passes before a packet is seen there, and a few full packets that may be in front of it at the
// NIC.
func (t *Trial) RoundTrip() clock.Duration {
	var most clock.Duration
	for id := range t.Net.Hosts() {
		l := t.Test.Topology.HostLinkOf(id)
		const ahead = 16 // packets
		most = max(most, 2*l.Delay+ahead*l.Rate.Serialise(t.PacketSize()+l.Framing))
	}
	return 2*most + t.Test.Switch.Values.Duration("latency-ns")
}

// Backlog bounds how long packets may wait at a host's NIC when the timeouts of whole windows run out together.
func (t *Trial) Backlog(window int) clock.Duration {
	packets := map[fabric.HostID]int64{}
	most := int64(0)
	for f := range t.Flows {
		n := int64(window)
		if f.Packets > 0 {
			n = min(n, f.Packets)
		}
		packets[f.Src] += n
		most = max(most, packets[f.Src])
	}
	return clock.Duration(most) * t.Slowest(t.PacketSize())
}

// Transit bounds how long a packet that is not lost may be inside the network: the propagation of a way, and at each
// switch of it no more than what the switch has room for, at the slowest rate and the least weight.
func (t *Trial) Transit() clock.Duration {
	const least = 10 * clock.Millisecond
	v := t.Test.Switch.Values
	// It may be paused, deflected, or wait for as long as others fill a queue that is always served first.
	if strict := v.Table().Find("scheduler") >= 0 && v.Word("scheduler") == "strict"; strict || t.Deflects ||
		len(v.Integers("pfc-classes")) > 0 {
		return max(least, t.LongestRun())
	}
	return max(least, t.way())
}

// Grace is for how long a run without a duration goes on when all flows have finished, at most.
const Grace = 10 * clock.Millisecond

// LongestRun bounds how long the run lasts: nothing is inside the network for longer.
func (t *Trial) LongestRun() clock.Duration { return t.Test.Deadline + Grace }

// hops is how many switches there are on the longest way of a topology without failed trunks.
const hops = 5

// way bounds how long a packet takes through the network. Each time that routes change it may start anew from where it
// is.
func (t *Trial) way() clock.Duration {
	longest := t.longest()
	turns := t.reroutes()
	for detours := 0; ; {
		n := longest * (detours + 1)
		takes := t.queueing(n) + t.propagation(n)
		most := 0
		for i := range turns {
			within := slices.IndexFunc(turns[i:], func(at clock.Duration) bool { return at-turns[i] > takes })
			if within < 0 {
				within = len(turns) - i
			}
			most = max(most, within)
		}
		if most <= detours {
			return takes
		}
		detours = most
	}
}

// reroutes lists when routes change, in order.
func (t *Trial) reroutes() (list []clock.Duration) {
	for i := range t.Test.Changes {
		if c := &t.Test.Changes[i]; c.Trunk != nil && c.Trunk.Failed != nil {
			list = append(list, c.At+t.Test.Topology.Reroute())
		}
	}
	slices.Sort(list)
	return list
}

// longest returns how many switches a shortest path has at most, whichever trunks have failed.
func (t *Trial) longest() int {
	states := t.Test.Outline()
	if len(states) == 1 && len(states[0]) == 0 {
		return hops
	}
	spec := t.Test.Topology.Spec()
	number := make(map[string]int)
	var links [][2]int
	trunks := spec.Trunks()
	for _, l := range trunks {
		var ends [2]int
		for i, name := range []string{l.A, l.B} {
			if _, known := number[name]; !known {
				number[name] = len(number)
			}
			ends[i] = number[name]
		}
		links = append(links, ends)
	}
	most := hops
	for _, failed := range states {
		next := make([][]int, len(number))
		for i, l := range links {
			if !failed[trunks[i]] {
				next[l[0]], next[l[1]] = append(next[l[0]], l[1]), append(next[l[1]], l[0])
			}
		}
		for from := range next {
			most = max(most, farthest(next, from))
		}
	}
	return most
}

// farthest returns how many switches the longest of the shortest paths from a switch has.
func farthest(next [][]int, from int) int {
	switches := make([]int, len(next)) // on the path to each
	switches[from] = 1
	last := from
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		last = queue[0]
		for _, to := range next[last] {
			if switches[to] == 0 {
				switches[to] = switches[last] + 1
				queue = append(queue, to)
			}
		}
	}
	return switches[last]
}

// trunks lists what links between switches are like during the test.
func (t *Trial) trunks() []config.LinkSpec {
	top := &t.Test.Topology
	list := []config.LinkSpec{top.Trunk}
	add := func(a, b string) {
		for _, s := range t.Test.TrunkStates(a, b) {
			list = append(list, s.LinkSpec)
		}
	}
	for i := range top.Trunks {
		add(top.Trunks[i].From, top.Trunks[i].To)
	}
	for i := range t.Test.Changes {
		if c := t.Test.Changes[i].Trunk; c != nil {
			add(c.From, c.To)
		}
	}
	return list
}

// queueing bounds how long a packet waits in so many switches of a way together.
func (t *Trial) queueing(hops int) clock.Duration {
	const frame = 1500
	frames := int64(0)
	v := t.Test.Switch.Values
	if v.Table().Find("port-buffer-bytes") >= 0 && len(t.Queues) > 1 {
		return t.LongestRun() // mice are served first for as long as they come
	}
	for _, name := range []string{
		"data-queue-bytes", "header-queue-bytes", "recirculation-queue-bytes", "port-buffer-bytes",
	} {
		if i := v.Table().Find(name); i >= 0 && (v.Int(name) > 0 || !v.Table()[i].Optional) {
			frames += int64(v.Int(name))/frame + 1
		}
	}
	if v.Table().Find("buffer-bytes") >= 0 && v.Int("buffer-bytes") > 0 {
		frames += t.buffered()
	}
	if v.Table().Find("queues") >= 0 && v.Int("queues") > 1 {
		return t.LongestRun() // others may be served first for as long as they come
	}
	if frames == 0 { // a model that has none of these parameters
		room, bounded := t.room()
		if !bounded {
			return t.LongestRun()
		}
		frames = room
	}
	if v.Table().Find("header-weight") >= 0 {
		frames *= int64(v.Int("header-weight")) + 1
	}
	takes := clock.Duration(hops) * t.Slowest(frame)
	if frames > int64(t.LongestRun()/takes) {
		return t.LongestRun() + takes // longer than the test
	}
	return clock.Duration(frames) * takes
}

// room bounds how many frames of 1500 bytes are before a packet in a switch, from its queue. bounded is false if
// nothing bounds them: among several queues, or by rank, others may be served first for as long as they come.
func (t *Trial) room() (frames int64, bounded bool) {
	const frame = 1500
	if len(t.Queues) != 1 || t.Queues[0].Order != fabric.ByArrival {
		return 0, false
	}
	switch q := &t.Queues[0]; {
	case q.MaxPackets > 0:
		return int64(q.MaxPackets) * (int64(t.PacketSize())/frame + 1), true
	case q.MaxBytes > 0:
		return int64(q.MaxBytes)/frame + 1, true
	default:
		return 0, false
	}
}

// propagation bounds what the links and so many switches of a way take without queues.
func (t *Trial) propagation(hops int) clock.Duration {
	top := &t.Test.Topology
	var delay clock.Duration
	for _, l := range t.trunks() {
		delay = max(delay, l.Delay)
	}
	for id := range t.Net.Hosts() {
		delay = max(delay, top.HostLinkOf(id).Delay)
	}
	if t.Test.ChangesTrunks() {
		delay *= 2 // a frame may wait so that it does not overtake those that left when the delay was longer
	}
	return clock.Duration(hops+1)*delay + clock.Duration(hops)*t.Test.Switch.Values.Duration("latency-ns")
}

// RoundTripBound bounds how long a packet takes to its receiver and an answer back, queues included.
func (t *Trial) RoundTripBound() clock.Duration { return 2 * t.way() }

// buffered bounds how many frames of 1500 bytes a packet may wait for in a shared buffer: it may be full of copies,
// each of which a scheduler by weights serves after a whole packet of another queue.
func (t *Trial) buffered() int64 {
	const frame = 1500
	v := t.Test.Switch.Values
	smallest := int64(frame)
	if v.Table().Find("trim-size") >= 0 {
		smallest = min(smallest, int64(v.Int("trim-size")))
	}
	return (int64(v.Int("buffer-bytes"))/smallest + 1) * (int64(t.PacketSize())/frame + 1)
}

// Slowest returns how long a frame occupies the slowest link.
func (t *Trial) Slowest(bytes int) clock.Duration {
	top := &t.Test.Topology
	var most clock.Duration
	for _, l := range t.trunks() {
		most = max(most, l.Rate.Serialise(bytes+l.Framing))
	}
	for id := range t.Net.Hosts() {
		l := top.HostLinkOf(id)
		most = max(most, l.Rate.Serialise(bytes+l.Framing))
	}
	return most
}

func (t *Trial) PacketSize() int {
	size := 0
	for f := range t.Flows {
		size = max(size, f.PacketSize)
	}
	return size
}
