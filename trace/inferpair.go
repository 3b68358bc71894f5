package trace

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/packet"
)

// noMate marks a half whose other direction was not found.
const noMate = -1

// defaultMTU is assumed if no FIRST or MIDDLE packet shows the MTU and everything fits: the generator's default (spec
// §2).
const defaultMTU = 1024

// Connections pairs the halves and returns the connections in order of appearance, marked Inferred, and notes about
// everything uncertain.
func (inf *Inference) Connections() (*Connections, []string, error) {
	p := pairing{inf: inf, mate: make([]int, len(inf.halves)), ambiguous: make(map[int]bool)}
	for i := range p.mate {
		p.mate[i] = noMate
	}
	p.byExchange()
	p.byOtherCapture()
	p.byAnswers()
	p.part()
	p.byElimination()
	c, err := NewConnections(p.connections())
	if err != nil {
		return nil, p.notes, err
	}
	c.Inferred = true
	p.reuse(c)
	return c, p.notes, nil
}

type pairing struct {
	inf    *Inference
	mate   []int
	agreed map[int]*agreement // by half
	notes  []string
	// ambiguous are the halves for which several in the other direction may be the mate.
	ambiguous map[int]bool
}

func (p *pairing) note(format string, args ...any) {
	p.notes = appendBounded(p.notes, fmt.Sprintf(format, args...))
}

func (p *pairing) join(a, b int) { p.mate[a], p.mate[b] = b, a }

// free lists the candidates of half i that have no mate yet, in order of appearance.
func (p *pairing) free(i int) []int {
	var out []int
	for _, c := range p.inf.halves[i].candidates {
		if p.mate[c] == noMate {
			out = append(out, c)
		}
	}
	return out
}

// lacking reports whether one of the connections was seen in one direction only.
func (inf *Inference) lacking(c *Connections) bool {
	return slices.ContainsFunc(c.All(), func(c Connection) bool { return c.Requester.QPN == 0 || c.Responder.QPN == 0 })
}

// byOtherCapture pairs directions that this capture shows with those that only another capture shows.
func (p *pairing) byOtherCapture() {
	for i := range p.inf.elsewhere {
		c := &p.inf.elsewhere[i]
		toward := makeFlowKey(c.Requester.IP, c.Responder.IP, c.Responder.QPN)
		back := makeFlowKey(c.Responder.IP, c.Requester.IP, c.Requester.QPN)
		a, b := int(p.inf.table.find(&toward)), int(p.inf.table.find(&back))
		switch seenA, seenB := p.seen(a), p.seen(b); {
		case seenA && !seenB:
			b = p.present(b, back)
		case seenB && !seenA:
			a = p.present(a, toward)
		default:
			continue // this capture knows it as well as the other one, or not at all
		}
		if a >= 0 && b >= 0 && p.mate[a] == noMate && p.mate[b] == noMate {
			p.join(a, b)
		}
	}
}

// seen reports whether half i exists and has packets.
func (p *pairing) seen(i int) bool { return i >= 0 && p.inf.halves[i].packets > 0 }

// byAnswers pairs halves by their candidates: repeatedly those that have only one left, as each pair may leave others
// one choice. Halves that remain ambiguous are not paired: a wrong pair would convict both ends.
func (p *pairing) byAnswers() {
	for changed := true; changed; {
		changed = false
		for i := range p.inf.halves {
			if p.mate[i] != noMate {
				continue
			}
			if f := p.free(i); len(f) == 1 {
				p.join(i, f[0])
				changed = true
			}
		}
	}
	for i := range p.inf.halves {
		f := p.free(i)
		if p.mate[i] != noMate || len(f) < 2 {
			continue
		}
		p.note("the answers %s fit the requests of %d flows alike: each direction is judged by itself (--connections names "+
			"what belongs together)",
			p.inf.halves[i].describe(), len(f))
		for _, j := range append(f, i) {
			p.ambiguous[j] = true
		}
	}
}

// part separates pairs for which packets before the capture may have been those of other flows: requests and answers do
// not fit, and other connections of these hosts use PSNs nearby. That happens if all connections start at PSN 0.
func (p *pairing) part() {
	for i, m := range p.mate {
		if m == noMate || p.agreed[i] != nil || p.inf.halves[i].responses == 0 || !p.inf.halves[m].requests {
			continue
		}
		back, toward := &p.inf.halves[i], &p.inf.halves[m]
		midway := back.firstResponse.Before(toward.lowPSN) || !toward.firstStarts
		if !midway || back.misfits+back.clashed == 0 || !p.crowded(i, m) {
			continue
		}
		p.note(
			"the answers %s do not fit the requests %s, and other flows have PSNs nearby: each direction is judged by itself "+
				"(--connections names what belongs together)", back.describe(), toward.describe())
		p.mate[i], p.mate[m] = noMate, noMate
		p.ambiguous[i], p.ambiguous[m] = true, true
	}
}

// crowded reports whether another flow between the hosts of a pair has PSNs near those of its requests.
func (p *pairing) crowded(back, toward int) bool {
	psn := p.inf.halves[toward].lowPSN
	near := func(q packet.PSN) bool { d := q.Sub(psn); return d < midStream && d > -midStream }
	for _, way := range [...]flowKey{p.inf.halves[back].key, p.inf.halves[toward].key} {
		way.qpn &^= maxUint24
		for _, j := range p.inf.toward[way] {
			if o := &p.inf.halves[j]; j != back && j != toward &&
				(o.requests && near(o.lowPSN) || o.responses > 0 && near(o.firstResponse)) {
				return true
			}
		}
	}
	return false
}

// byElimination pairs the remaining halves: those that carry only CNPs, and requests without an answer.
func (p *pairing) byElimination() {
	for i := range p.inf.halves {
		h := &p.inf.halves[i]
		if p.mate[i] != noMate || h.responses > 0 {
			continue
		}
		way := h.key.reverse()
		way.qpn &^= maxUint24
		var rest []int
		for _, j := range p.inf.toward[way] {
			o := &p.inf.halves[j]
			if p.mate[j] == noMate && j != i && o.responses == 0 && (o.requests || h.requests) {
				rest = append(rest, j)
			}
		}
		if len(rest) != 1 || p.ambiguous[i] || p.ambiguous[rest[0]] || p.ambiguousBetween(way) {
			continue
		}
		p.note("%s and %s were paired only because nothing else was left between these hosts",
			h.describe(), p.inf.halves[rest[0]].describe())
		p.join(i, rest[0])
	}
}

// ambiguousBetween reports whether directions of some connection between two hosts could not be distinguished from
// others.
func (p *pairing) ambiguousBetween(way flowKey) bool {
	for i := range p.ambiguous {
		key := p.inf.halves[i].key
		key.qpn &^= maxUint24
		if key == way || key.reverse() == way {
			return true
		}
	}
	return false
}

// connections turns pairs into connections in the order in which their first packets appeared.
func (p *pairing) connections() []Connection {
	var list []Connection
	for i := range p.inf.halves {
		if m := p.mate[i]; m == noMate || i < m {
			if c, ok := p.connection(i, len(list)+1); ok {
				list = append(list, c)
			}
		}
	}
	return list
}

// connection makes the connection of half i, the first to appear, and its mate. A half with CNPs only makes none.
func (p *pairing) connection(i, index int) (Connection, bool) {
	var none half
	first, second := &p.inf.halves[i], &none
	if m := p.mate[i]; m != noMate {
		second = &p.inf.halves[m]
	}
	toward, back := first, second // toward the responder, back to the requester
	if !first.requests && (second.requests || first.responses > 0) {
		toward, back = second, first
	}
	if !toward.requests && back.responses == 0 {
		return Connection{}, false
	}
	x := p.agreed[i]
	c := Connection{Index: index}
	if x == nil || x.req.MTU == 0 {
		c.MTU = p.mtu(index, toward, back)
	}
	c.setVerbs(toward.messageVerbs() | back.messageVerbs())
	if toward.key != none.key {
		c.Requester.IP, c.Responder.IP, c.Responder.QPN = toward.key.addrs()
		c.Requester.IPSN = toward.lowPSN
	}
	if back.key != none.key {
		c.Responder.IP, c.Requester.IP, c.Requester.QPN = back.key.addrs()
		c.Responder.IPSN = back.lowPSN
	}
	if x != nil {
		p.adopt(&c, x, toward)
	}
	p.describeStart(i, &c, toward, back)
	return c, true
}

// describeStart notes what makes the initial PSN doubtful.
func (p *pairing) describeStart(i int, c *Connection, toward, back *half) {
	switch {
	case c.Exchanged:
		if toward.requests && toward.lowPSN != c.Requester.IPSN {
			p.note("connection %d: the connection starts at PSN %d, the first request captured is PSN %d",
				c.Index, uint32(c.Requester.IPSN), uint32(toward.lowPSN))
		}
	case !toward.requests:
		c.Requester.IPSN = back.firstResponse
		p.note("connection %d: no request was captured; psn 1 is the first answer, PSN %d", c.Index,
			uint32(back.firstResponse))
	case back.responses > 0 && back.firstResponse.Before(toward.lowPSN):
		p.note("connection %d: the capture starts in the middle (PSN %d is answered first); psn 1 is the first request "+
			"captured, PSN %d",
			c.Index, uint32(back.firstResponse), uint32(toward.lowPSN))
	case !toward.firstStarts:
		p.note("connection %d: the capture starts in the middle of a message; psn 1 is the first request captured, PSN %d",
			c.Index, uint32(toward.lowPSN))
	}
	switch {
	case p.ambiguous[i]: // said already
	case toward.packets == 0 && (toward.key == flowKey{} || c.Exchanged):
		p.note("connection %d: only one direction was captured, the responder's; nothing about the connection is judged",
			c.Index)
	case back.packets == 0 && (back.key == flowKey{} || c.Exchanged):
		p.note("connection %d: only one direction was captured, the requester's; its responder is not judged, and the "+
			"requester is judged by its packets alone", c.Index)
	}
	if n := toward.misfits + back.misfits; n > 0 && (p.agreed[i] != nil || uses(toward, back) == nil) {
		p.note("connection %d: %d answers carry PSNs that were not asked for", c.Index, n)
	}
}

// messageVerbs returns the verbs of messages that ended, or, if none did, of those that started.
func (h *half) messageVerbs() verbSet { return cmp.Or(h.verbs, h.starts) }

func (c *Connection) setVerbs(set verbSet) {
	var names []string
	for i, n := range verbNames {
		if set&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if len(names) == 1 {
		c.Verb = names[0]
	} else {
		c.Verbs = names
	}
}

// mtu returns the path MTU that most full packets have.
func (p *pairing) mtu(index int, toward, back *half) int {
	best, all := 0, toward.odd+back.odd
	count := func(i int) int64 { return toward.full[i] + back.full[i] }
	fit := int64(0)
	for i, m := range mtus {
		n := count(i)
		if all += n; n > fit {
			best, fit = m, n
		}
	}
	largest := max(toward.largest, back.largest)
	if given := p.inf.MTU; given != 0 {
		if fit = 0; slices.Contains(mtus[:], given) {
			fit = count(slices.Index(mtus[:], given))
		}
		if all > fit {
			p.note("connection %d: MTU %d is given, but %d FIRST or MIDDLE packets have another length", index, given, all-fit)
		}
		return given
	}
	if best == 0 {
		p.inf.assumed = true
		best = assumedMTU(toward, largest)
		p.note("connection %d: no FIRST or MIDDLE packet shows the MTU; %d is assumed", index, best)
	}
	if all > fit {
		p.note("connection %d: MTU %d, but %d FIRST or MIDDLE packets have another length", index, best, all-fit)
	}
	return best
}

// assumedMTU returns the path MTU that fits the PSNs after most READs, preferring the default.
func assumedMTU(toward *half, largest int) int {
	best, most := defaultMTU, int64(0)
	if i := slices.Index(mtus[:], defaultMTU); defaultMTU >= largest {
		most = toward.steps[i]
	}
	for i, m := range mtus {
		if m >= largest && toward.steps[i] > most {
			best, most = m, toward.steps[i]
		}
	}
	if i, _ := slices.BinarySearch(mtus[:], largest); i < len(mtus) {
		best = max(best, mtus[i])
	}
	return best
}
