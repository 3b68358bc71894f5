package comparison

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/packet"
)

// MaxPackets is the length of the longest trace that is compared.
const MaxPackets = 12

// Taps lists the kinds of tap, as oracle.Trace.Tap names them, and two kinds of pairs that Draw leaves out: beside a
// switch that reorders and duplicates frames, and captures at both hosts.
func Taps() []string { return append(usualTaps(), "disturbed", "hosts") }

func usualTaps() []string { return []string{"mirror", "plain", "pair"} }

// ParseTaps parses a comma-separated list of kinds of tap. An empty list selects all.
func ParseTaps(list string) ([]string, error) {
	if list == "" {
		return usualTaps(), nil
	}
	taps := strings.Split(list, ",")
	for _, tap := range taps {
		if !slices.Contains(Taps(), tap) {
			return nil, fmt.Errorf("%q is not a kind of tap: want %s", tap, strings.Join(Taps(), ", "))
		}
	}
	return taps, nil
}

// DrawSeenBy is Draw for traces that one of some kinds of tap has seen.
func DrawSeenBy(rng *rand.Rand, taps []string) (*oracle.Trace, Family) {
	disturbed, hosts := slices.Contains(taps, "disturbed"), slices.Contains(taps, "hosts")
	if others := len(taps) - len(slices.DeleteFunc(slices.Clone(taps), func(tap string) bool {
		return tap == "disturbed" || tap == "hosts"
	})); others > 0 && rng.IntN(len(taps)) < others {
		if disturbed && (!hosts || rng.IntN(2) == 0) {
			return drawPair(rng, Disturbed)
		}
		return drawPair(rng, AtHosts)
	}
	for {
		if t, family := draw(rng); slices.Contains(taps, t.Tap()) {
			return t, family
		}
	}
}

// Draw returns a random trace of at most MaxPackets packets: that of compliant endpoints, in three of four cases with
// changes.
func Draw(rng *rand.Rand) *oracle.Trace {
	t, _ := draw(rng)
	return t
}

func draw(rng *rand.Rand) (*oracle.Trace, Family) {
	for {
		sc := traffic.Small(rng)
		sc.TimeoutNS, sc.Transit = 4096<<(5+rng.IntN(3)), rng.Int64N(3000)
		frames, settled := traffic.Run(sc)
		if !settled || len(frames) < 2 {
			continue
		}
		place := traffic.AtSwitch
		if rng.IntN(6) == 0 {
			place = traffic.Place(1 + rng.IntN(3)) // a single capture elsewhere
		}
		t := traffic.Seen(sc, frames, place)
		closed := true
		if limit := 1 + rng.IntN(MaxPackets); len(t.Packets) > limit && (len(t.Packets) > MaxPackets || rng.IntN(2) == 0) {
			t.Packets, closed = t.Packets[:limit], false
		}
		if rng.IntN(4) > 0 {
			for range 1 + rng.IntN(2) {
				mutate(rng, t)
			}
		}
		watch(rng, t, sc.Transit, closed, place)
		if len(t.Packets) > 0 && len(t.Packets) <= MaxPackets && Judgeable(t) {
			if place != traffic.AtSwitch {
				return t, Elsewhere
			}
			return t, familyOf(t)
		}
	}
}

// drawPair returns a random trace of a family of pairs.
func drawPair(rng *rand.Rand, family Family) (*oracle.Trace, Family) {
	for {
		sc := traffic.Small(rng)
		sc.TimeoutNS, sc.Transit = 4096<<(5+rng.IntN(3)), rng.Int64N(3000)
		if family == Disturbed || rng.IntN(4) == 0 {
			sc.Held, sc.Doubled = 0.3*rng.Float64(), 0.15*rng.Float64()
			sc.HeldMax = 1 + rng.Int64N(4*sc.DelayMax+1)
			if rng.IntN(4) == 0 { // some repetition overtakes what it repeats
				sc.HeldMax = 2 * sc.TimeoutNS
			}
		}
		frames, settled := traffic.Run(sc)
		if !settled || len(frames) < 2 {
			continue
		}
		t, at := traffic.Mirror(sc, frames), traffic.Crossings(frames, family == AtHosts)
		closed := true
		if limit := 1 + rng.IntN(MaxPackets); len(t.Packets) > limit && (len(t.Packets) > MaxPackets || rng.IntN(2) == 0) {
			t.Packets, at, closed = t.Packets[:limit], at[:limit], false
		}
		forget(rng, &t.View, closed)
		early := int64(0)
		if family != AtHosts && t.View.HostDelayNS > 0 && rng.IntN(2) == 0 {
			t.View.ClockNS = rng.Int64N(sc.Transit + 1)
			early = rng.Int64N(t.View.ClockNS + 1)
		}
		if rng.IntN(4) > 0 {
			for range 1 + rng.IntN(2) {
				mutateCrossings(rng, t, &at)
			}
		}
		t.Packets = traffic.Cross(t.Packets, at, family == AtHosts, early)
		if n := len(t.Packets); n > 0 && n <= 2*MaxPackets {
			return t, family
		}
	}
}

// mutateCrossings makes one change to the frames that two taps see, or to when they pass.
func mutateCrossings(rng *rand.Rand, t *oracle.Trace, at *[]traffic.Crossing) {
	n := len(t.Packets)
	if n == 0 {
		return
	}
	i := rng.IntN(n)
	switch rng.IntN(6) {
	case 0:
		t.Packets, *at = slices.Delete(t.Packets, i, i+1), slices.Delete(*at, i, i+1)
	case 1: // sent twice
		repeated, shift := (*at)[i], rng.Int64N(2*t.Packets[n-1].TimeNS+1)
		repeated.First, repeated.Second, repeated.Copy = repeated.First+shift, repeated.Second+shift, 0
		t.Packets, *at = append(t.Packets, t.Packets[i]), append(*at, repeated)
	case 2: // sent earlier or later
		shift := rng.Int64N(t.Packets[n-1].TimeNS+1) - t.Packets[n-1].TimeNS/2
		(*at)[i].First, (*at)[i].Second = (*at)[i].First+shift, (*at)[i].Second+shift
	default:
		one := &oracle.Trace{View: t.View, Packets: t.Packets[i : i+1 : i+1]}
		if mutate(rng, one); len(one.Packets) == 1 {
			t.Packets[i] = one.Packets[0]
		}
	}
}

// Judgeable reports whether a trace begins with its connection: a capture that begins later has not missed anything.
func Judgeable(t *oracle.Trace) bool {
	if !t.View.Plain {
		return len(t.Packets) > 0
	}
	var begun [2]bool // by whose requests
	for i := range t.Packets {
		p := &t.Packets[i]
		half := 0
		if p.Op.IsRequest() == p.Back {
			half = 1
		}
		if !begun[half] && (!p.Op.IsRequest() || p.PSN != 0) {
			return false
		}
		begun[half] = true
	}
	return len(t.Packets) > 0
}

// watch turns a mirror trace into what a random kind of tap sees, with more or less other knowledge.
func watch(rng *rand.Rand, t *oracle.Trace, transit int64, closed bool, place traffic.Place) {
	forget(rng, &t.View, closed)
	v := &t.View
	switch kind := rng.IntN(3); {
	case kind == 1 || place != traffic.AtSwitch:
		v.Plain, v.Complete = true, rng.IntN(3) == 0 && place == traffic.AtSwitch
		for i := range t.Packets {
			t.Packets[i].Lost = false
		}
	case kind == 2:
		if v.HostDelayNS > 0 && rng.IntN(2) == 0 {
			v.ClockNS = rng.Int64N(transit + 1)
		}
		t.Packets = traffic.Pair(t.Packets, transit, transit-rng.Int64N(v.ClockNS+1))
	}
}

// forget removes all, a part or nothing of what is known besides the packets.
func forget(rng *rand.Rand, v *oracle.View, closed bool) {
	v.Closed = closed && rng.IntN(4) > 0
	switch rng.IntN(8) {
	case 0, 1, 2, 3:
		*v = oracle.View{Retry: -1, RNRRetry: -1, Closed: v.Closed && rng.IntN(2) == 0}
	case 4:
		known := rng.IntN(15)
		if known&1 == 0 || known&2 == 0 {
			v.TimeoutNS = 0
		}
		if known&2 == 0 { // then T says nothing either
			v.HostDelayNS = 0
		}
		if known&4 == 0 {
			v.Retry = -1
		}
		if known&8 == 0 {
			v.RNRRetry = -1
		}
	}
}

var syndromes = []packet.Syndrome{
	packet.SyndromeAckNoCredit, packet.SyndromeNakSequence, packet.SyndromeNakAccess, packet.SyndromeRNR | 1,
}

var requestOpcodes = []packet.Opcode{
	packet.SendFirst, packet.SendMiddle, packet.SendLast, packet.SendOnly, packet.WriteFirst, packet.WriteMiddle,
	packet.WriteLast,
	packet.WriteOnly, packet.ReadRequest, packet.FetchAdd,
}

var responseOpcodes = []packet.Opcode{
	packet.ReadResponseFirst, packet.ReadResponseMiddle, packet.ReadResponseLast, packet.ReadResponseOnly,
	packet.Acknowledge,
	packet.AtomicAcknowledge,
}

// mutate makes one change, which most often makes an endpoint guilty.
func mutate(rng *rand.Rand, t *oracle.Trace) {
	n := len(t.Packets)
	if n == 0 {
		return
	}
	i := rng.IntN(n)
	p := &t.Packets[i]
	switch rng.IntN(15) {
	case 0, 1: // the frame is not there
		t.Packets = slices.Delete(t.Packets, i, i+1)
	case 2: // sent twice
		repeated := *p
		j := i + 1 + rng.IntN(n-i)
		repeated.TimeNS = t.Packets[min(j, n-1)].TimeNS
		t.Packets = slices.Insert(t.Packets, j, repeated)
	case 3: // sent at another time
		j := rng.IntN(n)
		t.Packets[i], t.Packets[j] = t.Packets[j], t.Packets[i]
		t.Packets[i].TimeNS, t.Packets[j].TimeNS = t.Packets[j].TimeNS, t.Packets[i].TimeNS
	case 4, 5:
		p.PSN += 1 - 2*rng.IntN(2)
		if p.Op.Headers()&packet.HasRETH != 0 {
			p.VA = oracle.Address(p.PSN)
		}
	case 6:
		p.MSN = max(0, p.MSN+1-2*rng.IntN(2))
	case 7, 8:
		alterOpcode(rng, p)
	case 9:
		p.AckReq = p.Op.IsRequest() && p.Op != packet.ReadRequest && p.Op.Verb() != packet.VerbAtomic && !p.AckReq
	case 10:
		switch p.Op {
		case packet.ReadRequest, packet.WriteFirst:
			if p.Count = p.Count + 1 - 2*rng.IntN(2); p.Count < 1 {
				p.Count, p.Short = 1, 0
			}
		case packet.AtomicAcknowledge:
			p.VA++
		default:
		}
	case 14:
		alterLength(rng, p)
	case 11:
		p.Lost = !p.Lost
	case 12: // all that follows happens at another time
		squeeze(rng, t, i)
	default:
		if p.Op == packet.ReadRequest {
			p.VA += oracle.MTU
		} else {
			p.PSN += rng.IntN(5) - 2
		}
	}
}

// alterLength changes the payload, or the length that a request announces.
func alterLength(rng *rand.Rand, p *oracle.Packet) {
	lengths := []int{0, 4, oracle.MTU - 1, oracle.MTU}
	n := lengths[rng.IntN(len(lengths))]
	switch {
	case p.Op.Headers()&packet.HasRETH != 0 && (p.Op == packet.ReadRequest || rng.IntN(2) == 0):
		p.Count, p.Short = max(1, p.Count), n
		if n == oracle.MTU {
			p.Count, p.Short = p.Count-1, 0
		}
	case p.Op.Verb() == packet.VerbSend, p.Op.Verb() == packet.VerbWrite, p.Op.IsReadResponse():
		p.Lacks = n
	}
}

// alterOpcode turns a packet into another of its direction.
func alterOpcode(rng *rand.Rand, p *oracle.Packet) {
	response := !p.Op.IsRequest()
	p.VA, p.Count, p.Syndrome, p.Short, p.Lacks = 0, 0, 0, 0, 0
	if response {
		p.Op = responseOpcodes[rng.IntN(len(responseOpcodes))]
	} else {
		p.Op = requestOpcodes[rng.IntN(len(requestOpcodes))]
	}
	if p.Op.Headers()&packet.HasAETH != 0 {
		p.Syndrome = packet.SyndromeAckNoCredit
	}
	if p.Op == packet.Acknowledge {
		p.Syndrome = syndromes[rng.IntN(len(syndromes))]
	}
	if p.Op.Headers()&packet.HasRETH != 0 {
		p.Count, p.VA = 1+rng.IntN(2), oracle.Address(p.PSN)
		switch p.Op {
		case packet.WriteOnly:
			p.Count = 1
		case packet.WriteFirst:
			p.Count++
		default:
		}
	}
	if p.Op == packet.ReadRequest || p.Op.Verb() == packet.VerbAtomic {
		p.AckReq = false
	}
}

// squeeze shortens or stretches the gap before packet i.
func squeeze(rng *rand.Rand, t *oracle.Trace, i int) {
	if i == 0 {
		return
	}
	gap := t.Packets[i].TimeNS - t.Packets[i-1].TimeNS
	shift := -rng.Int64N(gap + 1)
	if rng.IntN(3) == 0 {
		shift = gap + 1000
	}
	for j := i; j < len(t.Packets); j++ {
		t.Packets[j].TimeNS += shift
	}
}
