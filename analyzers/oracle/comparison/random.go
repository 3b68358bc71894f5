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

// Taps lists the kinds of tap, as oracle.Trace.Tap names them.
func Taps() []string { return []string{"mirror", "plain", "pair"} }

// ParseTaps reads a list of kinds of tap with commas between them. An empty list stands for all.
func ParseTaps(list string) ([]string, error) {
	if list == "" {
		return Taps(), nil
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
func DrawSeenBy(rng *rand.Rand, taps []string) *oracle.Trace {
	for {
		if t := Draw(rng); slices.Contains(taps, t.Tap()) {
			return t
		}
	}
}

// Draw returns a random trace of at most MaxPackets packets: that of compliant endpoints, and in three of four cases something
// near it.
func Draw(rng *rand.Rand) *oracle.Trace {
	for {
		sc := traffic.Small(rng)
		sc.TimeoutNS, sc.Transit = 4096<<(5+rng.IntN(3)), rng.Int64N(3000)
		frames, settled := traffic.Run(sc)
		if !settled || len(frames) < 2 {
			continue
		}
		t := traffic.Mirror(sc, frames)
		closed := true
		if limit := 1 + rng.IntN(MaxPackets); len(t.Packets) > limit && (len(t.Packets) > MaxPackets || rng.IntN(2) == 0) {
			t.Packets, closed = t.Packets[:limit], false
		}
		if rng.IntN(4) > 0 {
			for range 1 + rng.IntN(2) {
				mutate(rng, t)
			}
		}
		watch(rng, t, sc.Transit, closed)
		if len(t.Packets) > 0 && len(t.Packets) <= MaxPackets && Judgeable(t) {
			return t
		}
	}
}

// Judgeable reports whether a trace begins where its connection does: a capture that begins later has not missed anything.
func Judgeable(t *oracle.Trace) bool {
	if !t.View.Plain {
		return len(t.Packets) > 0
	}
	return len(t.Packets) > 0 && !t.Packets[0].Back && t.Packets[0].PSN == 0
}

// watch turns a mirror trace into what a random kind of tap sees, with more or less knowledge beside it.
func watch(rng *rand.Rand, t *oracle.Trace, transit int64, closed bool) {
	v := &t.View
	if rng.IntN(2) == 0 {
		*v = oracle.View{Retry: -1, RNRRetry: -1}
	} else {
		v.Closed = closed && rng.IntN(4) > 0
	}
	switch rng.IntN(3) {
	case 0:
	case 1:
		v.Plain, v.Complete = true, rng.IntN(3) == 0
		for i := range t.Packets {
			t.Packets[i].Lost = false
		}
	default:
		if v.TimeoutNS > 0 && rng.IntN(2) == 0 {
			v.ClockNS = rng.Int64N(transit + 1)
		}
		t.Packets = traffic.Pair(t.Packets, transit, transit-rng.Int64N(v.ClockNS+1))
	}
}

var syndromes = []packet.Syndrome{
	packet.SyndromeAckNoCredit, packet.SyndromeNakSequence, packet.SyndromeNakAccess, packet.SyndromeRNR | 1,
}

var requestOpcodes = []packet.Opcode{
	packet.SendFirst, packet.SendMiddle, packet.SendLast, packet.SendOnly, packet.WriteFirst, packet.WriteMiddle, packet.WriteLast,
	packet.WriteOnly, packet.ReadRequest, packet.FetchAdd,
}

var responseOpcodes = []packet.Opcode{
	packet.ReadResponseFirst, packet.ReadResponseMiddle, packet.ReadResponseLast, packet.ReadResponseOnly, packet.Acknowledge,
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
	switch rng.IntN(14) {
	case 0, 1: // the frame is not there
		t.Packets = slices.Delete(t.Packets, i, i+1)
	case 2: // sent twice
		again := *p
		j := i + 1 + rng.IntN(n-i)
		again.TimeNS = t.Packets[min(j, n-1)].TimeNS
		t.Packets = slices.Insert(t.Packets, j, again)
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
			p.Count = max(1, p.Count+1-2*rng.IntN(2))
		case packet.AtomicAcknowledge:
			p.VA++
		default:
		}
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

// alterOpcode turns a packet into another of its direction.
func alterOpcode(rng *rand.Rand, p *oracle.Packet) {
	p.VA, p.Count, p.Syndrome = 0, 0, 0
	if p.Back {
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
