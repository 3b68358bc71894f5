package switchtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/generator/bolt"
	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/generator/pfabric"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// packetName is the subject of a packet. Data, its retransmissions and its responses share one name, except TCP ACKs.
type packetName struct {
	kind   string
	number uint64
}

// follows reports whether all packets of this name belong in one drawing.
func (n packetName) follows() bool { return n.kind == "data" }

// nameOf names a packet; carries is true if the packet has data.
func nameOf(p *fabric.Header, carries bool) packetName {
	switch {
	case p.Protocol == fabric.NDP && p.NDP.Kind == ndp.Pull:
		return packetName{"pull", uint64(p.NDP.Counter)}
	case p.Protocol == fabric.NDP:
		return packetName{"data", uint64(p.NDP.Seq)}
	case p.Protocol == fabric.Echo:
		return packetName{"data", uint64(p.Number &^ stack.Answer)}
	case !carries:
		return packetName{"ack", p.ID}
	}
	return packetName{"data", uint64(p.Number)}
}

// answers reports whether a packet goes from the receiver of a flow to its sender.
func answers(p *fabric.Header, carries bool) bool {
	if p.Protocol == fabric.Echo {
		return p.Number&stack.Answer != 0
	}
	return !carries
}

// textOf describes a packet for the reader.
func textOf(p *fabric.Header, name packetName, answers bool) string {
	text := fmt.Sprintf("data %d", name.number)
	switch p.Protocol {
	case fabric.NDP:
		if p.NDP.Kind != ndp.Data {
			text = fmt.Sprintf("%s %d", strings.ToUpper(p.NDP.Kind.String()), name.number)
		}
	case fabric.TCP:
		if text = fmt.Sprintf("data from byte %d", p.TCP.Seq); answers {
			text = fmt.Sprintf("ACK of byte %d", p.TCP.Ack)
		}
	case fabric.Echo:
		if text = fmt.Sprintf("request %d", name.number); answers {
			text = fmt.Sprintf("answer %d", name.number)
		}
	case fabric.PFabric:
		text = pfabricName(p, text)
	case fabric.Bolt:
		text = boltName(p, text)
	case fabric.NetLock:
		of := netlock.FromHeader(p)
		return of.String()
	case fabric.PFC:
		return "pause"
	case fabric.Raw, fabric.RoCE:
	}
	if p.Flags&fabric.Trimmed != 0 {
		text = "trimmed " + text
	}
	if p.Flags&fabric.Returned != 0 {
		text = "returned " + text
	}
	return text
}

// classOf is the class of a packet in the style sheet.
func classOf(p *fabric.Header, answers bool) string {
	switch {
	case p.Flags&fabric.Returned != 0:
		return "rnr"
	case p.Flags&fabric.Trimmed != 0:
		return "trimmed"
	case p.Protocol == fabric.NDP && p.NDP.Kind == ndp.Nack:
		return "nak"
	case answers:
		return "ack"
	}
	return classData
}

// changes lists what a switch changed in a packet; came is the header on arrival, valid if known.
func changes(came *fabric.Header, known bool, p *fabric.Packet) string {
	var list []string
	gained := p.Flags
	if known {
		gained &^= came.Flags
	}
	if gained&fabric.Trimmed != 0 {
		list = append(list, fmt.Sprintf("cut to %d B", p.Size))
	}
	for _, f := range []struct {
		flag fabric.Flags
		text string
	}{{fabric.Returned, "sent back"}, {fabric.Deflected, "deflected"}, {fabric.Made, "made by the switch"}} {
		if gained&f.flag != 0 {
			list = append(list, f.text)
		}
	}
	if !known {
		return strings.Join(list, ", ")
	}
	if p.DSCP != came.DSCP {
		list = append(list, fmt.Sprintf("DSCP %d to %d", came.DSCP, p.DSCP))
	}
	if p.ECN != came.ECN {
		list = append(list, "ECN-marked")
	}
	if p.TTL != came.TTL && p.TTL+1 != came.TTL {
		list = append(list, fmt.Sprintf("TTL %d to %d", came.TTL, p.TTL))
	}
	return strings.Join(list, ", ")
}

// finish returns the drawings of all stories that have hops.
func (j *journeys) finish() []report.Journey {
	var list []report.Journey
	for _, s := range j.stories {
		if ring := j.rings[s.flow]; s.hops == nil && s.flow > 0 && ring != nil {
			s.begin(ring)
		}
		if len(s.hops) > 0 {
			list = append(list, j.journey(s))
		}
	}
	return list
}

func (j *journeys) journey(s *story) report.Journey {
	slices.SortStableFunc(s.hops, func(a, b *hop) int { return cmp.Compare(a.SentNS, b.SentNS) })
	v := report.Journey{Finding: s.finding, FoundNS: s.found, Omitted: s.omitted}
	if j.captured {
		names := CaptureNames()
		v.Before, v.Behind = names[0], names[1]
	}
	lanes := lanesOf(s.hops)
	for _, n := range lanes {
		v.Lanes = append(v.Lanes, j.laneName(n))
	}
	for i, h := range s.hops {
		one := h.Hop
		one.From, one.To = slices.Index(lanes, h.from), slices.Index(lanes, h.to)
		one.Accused = slices.Contains(s.packets, h.ID)
		one.Gap = i > 0 && h.order != s.hops[i-1].order+1 && h.order != s.hops[i-1].order-1
		v.Hops = append(v.Hops, one)
	}
	return v
}

func (j *journeys) laneName(n node) string {
	if n.host {
		return fmt.Sprintf("host %d", n.n-1)
	}
	return j.net.Switch(n.n - 1).Name()
}

// lanesOf orders hosts and switches by their distance from the first sender, so that packets move from left to right.
// Other hosts come last.
func lanesOf(hops []*hop) []node {
	peers := map[node][]node{}
	var all []node
	add := func(n node) {
		if n != (node{}) && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	for _, h := range hops {
		add(h.from)
		if add(h.to); h.to != (node{}) {
			peers[h.from], peers[h.to] = append(peers[h.from], h.to), append(peers[h.to], h.from)
		}
	}
	first := all[0]
	sends := func(h *hop) bool { return h.from.host && h.Class != "ack" && h.Class != "nak" }
	if i := slices.IndexFunc(hops, sends); i >= 0 {
		first = hops[i].from
	}
	distance := map[node]int{first: 0}
	for queue := []node{first}; len(queue) > 0; queue = queue[1:] {
		for _, next := range peers[queue[0]] {
			if _, ok := distance[next]; !ok {
				distance[next] = distance[queue[0]] + 1
				queue = append(queue, next)
			}
		}
	}
	rank := func(n node) int {
		if d, ok := distance[n]; ok {
			return d
		}
		return len(all)
	}
	slices.SortStableFunc(all, func(a, b node) int {
		last := func(n node) int {
			if n.host && n != first {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.n, b.n))
	})
	return all
}

// pfabricName names a pFabric packet; data is named as of other transports.
func pfabricName(p *fabric.Header, data string) string {
	switch pfabric.KindOf(p) {
	case pfabric.Ack:
		return fmt.Sprintf("ACK of data %d, up to %d", p.TCP.Seq, p.TCP.Ack)
	case pfabric.Probe:
		return fmt.Sprintf("probe for data %d", p.TCP.Seq)
	case pfabric.Data:
	}
	return data
}

// boltName names a Bolt packet; data is named as of other transports.
func boltName(p *fabric.Header, data string) string {
	switch bolt.KindOf(p) {
	case bolt.Ack:
		return fmt.Sprintf("ACK of data %d, up to %d", p.TCP.Seq, p.TCP.Ack)
	case bolt.SRC:
		return fmt.Sprintf("SRC for data %d, %d B waiting", p.TCP.Seq, p.TCP.Ack)
	case bolt.Data:
	}
	return data
}
