package framelog

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"candela.dev/candela/trace"
)

// Host is one host and its log.
type Host struct {
	Name string
	Port uint16 // of the switch at the other end of its cable
	IPs  []netip.Addr
	// Trusted is the reason why the host has no log and its cable cannot be checked; empty: it has a log.
	Trusted        string
	Sent, Received []Entry
	// Ordered is set if frames of different flows keep their order, too, as with one queue per direction.
	Ordered bool
}

// Outcome is the result of a comparison.
type Outcome struct {
	Faults  []string // frames lost, duplicated, damaged or reordered, and where
	Checked []string // comparisons without a difference
	Trusted []string // cables that were not checked, and why
}

// copied is a mirror copy: the expected frame on the sender's or receiver's cable.
type copied struct {
	Entry
	id    uint64 // mirror sequence number
	event trace.EventType
	exact bool // Whole and HeaderBad are from the sender's log
}

// comparison is one pass over a trace.
type comparison struct {
	hosts    [2]Host
	queues   [2]*queue   // of what each host has sent
	copies   [2][]copied // by sender
	arrivals [2][]copied // by receiver
	parted   [2]*copied  // the first copy that differs from the sender's log
}

// Compare compares the logs of two hosts with the mirror copies in src.
func Compare(ctx context.Context, src trace.Source, snap int, hosts [2]Host) (*Outcome, error) {
	c := &comparison{hosts: hosts}
	for i := range hosts {
		c.queues[i] = newQueue(hosts[i].Sent, hosts[i].Ordered)
	}
	err := src.ForEachFrame(ctx, func(f *trace.Frame) error {
		c.add(f.Data, snap)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &Outcome{}
	for i := range c.hosts {
		h := &c.hosts[i]
		if h.Trusted != "" {
			out.Trusted = append(out.Trusted, fmt.Sprintf("the cable of the %s is trusted: %s", h.Name, h.Trusted))
			continue
		}
		faults := c.outward(i)
		faults = append(faults, c.inward(i)...)
		if out.Faults = append(out.Faults, faults...); len(faults) == 0 {
			out.Checked = append(out.Checked,
				fmt.Sprintf("%s sent %d and received %d RoCE frames, as the trace shows them", h.Name, len(h.Sent),
					len(h.Received)))
		}
	}
	return out, nil
}

// add takes a mirror copy.
func (c *comparison) add(frame []byte, snap int) {
	e, ok := describe(frame, snap)
	if !ok {
		return
	}
	at, _ := locate(frame)
	m := copied{Entry: e}
	m.event, m.id = at.event(frame)
	from, to := at.addresses(frame)
	sender := slices.IndexFunc(c.hosts[:], func(h Host) bool { return slices.Contains(h.IPs, from) })
	receiver := 1 - sender
	if sender < 0 {
		receiver = slices.IndexFunc(c.hosts[:], func(h Host) bool { return slices.Contains(h.IPs, to) })
	} else if c.hosts[sender].Trusted == "" {
		c.copies[sender] = append(c.copies[sender], m)
		sent, ok := c.queues[sender].next(m.Flow)
		switch {
		case c.parted[sender] != nil: // after the first difference, copies cannot be matched to sent frames
		case ok && sent.Head == m.Head && sent.TOS == m.TOS && !m.HeaderBad:
			m.Whole, m.HeaderBad, m.exact = sent.Whole, sent.HeaderBad, true
		default:
			c.parted[sender] = &m
		}
	}
	if receiver >= 0 && m.event.Arrives() && c.hosts[receiver].Trusted == "" {
		c.arrivals[receiver] = append(c.arrivals[receiver], m)
	}
}

func (at layout) event(b []byte) (event trace.EventType, id uint64) {
	for _, x := range b[6:12] {
		id = id<<8 | uint64(x)
	}
	if b[at.l3]>>4 == 4 {
		return trace.EventType(b[at.l3+8]), id
	}
	return trace.EventType(b[at.l3+7]), id
}

func (at layout) addresses(b []byte) (from, to netip.Addr) {
	if b[at.l3]>>4 == 4 {
		return netip.AddrFrom4([4]byte(b[at.l3+12:])), netip.AddrFrom4([4]byte(b[at.l3+16:]))
	}
	return netip.AddrFrom16([16]byte(b[at.l3+8:])), netip.AddrFrom16([16]byte(b[at.l3+24:]))
}

// queue returns entries in order: of all entries, or of each flow.
type queue struct {
	entries []Entry
	ordered bool
	all     int
	flows   map[uint32][]int // remaining indices by flow
}

func newQueue(entries []Entry, ordered bool) *queue {
	q := &queue{entries: entries, ordered: ordered}
	if ordered {
		return q
	}
	q.flows = make(map[uint32][]int)
	for i := range entries {
		q.flows[entries[i].Flow] = append(q.flows[entries[i].Flow], i)
	}
	return q
}

func (q *queue) next(flow uint32) (e *Entry, ok bool) {
	i := q.all
	if !q.ordered {
		left := q.flows[flow]
		if len(left) == 0 {
			return nil, false
		}
		i, q.flows[flow] = left[0], left[1:]
	}
	if i >= len(q.entries) {
		return nil, false
	}
	q.all++
	return &q.entries[i], true
}

// outward describes the differences between a host's sent frames and their copies.
func (c *comparison) outward(host int) []string {
	h := &c.hosts[host]
	at := c.parted[host]
	if at == nil && len(h.Sent) == len(c.copies[host]) {
		return nil
	}
	d := newDifference()
	for i := range h.Sent {
		d.expect(look{h.Sent[i].Head, h.Sent[i].TOS, false})
	}
	for i := range c.copies[host] {
		m := &c.copies[host][i]
		d.meet(look{m.Head, m.TOS, m.HeaderBad})
	}
	d.settle()
	if d.damaged > 0 && c.arrivedWhole(host, d.expected) {
		return []string{fmt.Sprintf("cable or port between switch and dumper: the %s received %d RoCE frames as the %s "+
			"sent them, and their mirror copies differ: %s%s",
			c.hosts[1-host].Name, d.damaged, h.Name, d, near(at))}
	}
	return []string{fmt.Sprintf(
		"cable or port %d of the %s: the %s sent %d RoCE frames, the trace shows that the switch received %d: %s%s",
		h.Port, h.Name, h.Name, len(h.Sent), len(c.copies[host]), d, near(at))}
}

// near names the place of a difference in the trace.
func near(m *copied) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(", first at mirror #%d", m.id)
}

// arrivedWhole reports whether the peer has received every frame of a host whose copy differs.
func (c *comparison) arrivedWhole(host int, lost map[look]int) bool {
	if c.hosts[1-host].Trusted != "" {
		return false
	}
	arrived := make(map[look]bool)
	for _, e := range c.hosts[1-host].Received {
		arrived[look{e.Whole, e.TOS, e.HeaderBad}] = true
	}
	for _, e := range c.hosts[host].Sent {
		if lost[look{e.Head, e.TOS, false}] > 0 && !arrived[look{e.Whole, e.TOS, e.HeaderBad}] {
			return false
		}
	}
	return true
}

// inward describes the differences between a host's received frames and those that the switch must have sent it.
func (c *comparison) inward(host int) []string {
	h := &c.hosts[host]
	at, ok := follow(c.arrivals[host], h.Received, h.Ordered)
	if ok {
		return nil
	}
	d := newDifference()
	for i := range c.arrivals[host] {
		switch m := &c.arrivals[host][i]; {
		case m.changed():
			d.changed++
		case m.event.Marks():
			l := m.look()
			l.tos |= congested
			d.expect(l)
		default:
			d.expect(m.look())
		}
	}
	for _, e := range h.Received {
		l := look{e.Whole, e.TOS, e.HeaderBad}
		if !d.known[l] {
			l = look{e.Head, e.TOS, false} // the sender's cable may be faulty, too: compare what the copy shows
		}
		d.meet(l)
	}
	d.settle()
	hint := ""
	if peer := &c.hosts[1-host]; d.damaged > 0 {
		hint = fmt.Sprintf("; bytes that mirror copies do not keep may as well have been damaged by the cable or port %d "+
			"of the %s", peer.Port, peer.Name)
	}
	return []string{fmt.Sprintf("cable or port %d of the %s: the trace shows that the switch sent %d RoCE frames to the "+
		"%s, which received %d: %s%s%s",
		h.Port, h.Name, len(c.arrivals[host]), h.Name, len(h.Received), d, near(at), hint)}
}

// congested is the congestion mark CE in a type of service.
const congested = 3

// look identifies the frame: by the checksum of the whole frame if its sender recorded one, otherwise by that of the
// copied part.
func (m *copied) look() look {
	if m.exact {
		return look{m.Whole, m.TOS, m.HeaderBad}
	}
	return look{m.Head, m.TOS, false}
}

// is reports whether a received frame is the frame of the copy after its event.
func (m *copied) is(e *Entry) bool {
	tos := m.TOS
	switch {
	case m.event.Forges():
		return true
	case m.event.Edits():
		return !m.exact || e.Whole != m.Whole
	case m.event.Marks():
		tos |= congested
	}
	return e.Head == m.Head && e.TOS == tos && (!m.exact || e.Whole == m.Whole && e.HeaderBad == m.HeaderBad)
}

// changed reports whether an event changed the frame in a way that its copy does not show.
func (m *copied) changed() bool {
	return m.event.Edits()
}

// late reports whether the switch may send the frame, or a duplicate of it, at any time after its copy.
func (m *copied) late() bool {
	return m.event.Late()
}

// follow compares the frames that the switch sent with those that a host received, and returns the first copy that
// differs, if there is one.
func follow(sent []copied, received []Entry, ordered bool) (at *copied, ok bool) {
	if ordered {
		return followFlow(sent, received)
	}
	flows := make(map[uint32][]Entry)
	for _, e := range received {
		flows[e.Flow] = append(flows[e.Flow], e)
	}
	expected := make(map[uint32][]copied)
	var order []uint32
	for _, m := range sent {
		if expected[m.Flow] == nil {
			order = append(order, m.Flow)
		}
		expected[m.Flow] = append(expected[m.Flow], m)
	}
	for _, flow := range order {
		if at, ok := followFlow(expected[flow], flows[flow]); !ok {
			return at, false
		}
		delete(flows, flow)
	}
	return nil, len(flows) == 0
}

// followFlow is follow for frames that keep their order.
func followFlow(sent []copied, received []Entry) (at *copied, ok bool) {
	var held []*copied       // frames that the switch may still send
	var duplicated []*copied // frames that it may send more than once
	other := func(e *Entry) bool {
		if i := slices.IndexFunc(held, func(m *copied) bool { return m.is(e) }); i >= 0 {
			held = slices.Delete(held, i, i+1)
			return true
		}
		return slices.ContainsFunc(duplicated, func(m *copied) bool { return m.is(e) })
	}
	next := 0
	for i := range sent {
		m := &sent[i]
		if m.late() {
			held = append(held, m)
			continue
		}
		for ; next < len(received); next++ {
			e := &received[next]
			// A changed frame matches any frame, so try the known ones first.
			if m.changed() && other(e) {
				continue
			}
			if m.is(e) {
				break
			}
			if m.changed() || !other(e) {
				return m, false
			}
		}
		if next == len(received) {
			return m, false
		}
		next++
		if m.event == trace.EventDuplicate {
			duplicated = append(duplicated, m)
		}
	}
	for ; next < len(received); next++ {
		if !other(&received[next]) {
			return nil, false
		}
	}
	if len(held) > 0 {
		return held[0], false
	}
	return nil, true
}

// look distinguishes frames.
type look struct {
	sum uint32
	tos uint8
	bad bool // the IPv4 header checksum
}

// difference counts how two lists of frames differ.
type difference struct {
	expected map[look]int // not met yet
	known    map[look]bool
	changed  int // frames that an event changed: their new content is unknown
	strange  int

	lost, damaged, duplicated, unknown int
}

func newDifference() *difference {
	return &difference{expected: make(map[look]int), known: make(map[look]bool)}
}

func (d *difference) expect(l look) {
	d.expected[l]++
	d.known[l] = true
}

func (d *difference) meet(l look) {
	switch {
	case d.expected[l] > 0:
		d.expected[l]--
	case d.known[l]:
		d.duplicated++
	default:
		d.strange++
	}
}

// settle counts pairs of a missing and an unexpected frame as damaged.
func (d *difference) settle() {
	for _, n := range d.expected {
		d.lost += n
	}
	d.strange, d.lost = max(0, d.strange-d.changed), d.lost+max(0, d.changed-d.strange)
	d.damaged = min(d.lost, d.strange)
	d.lost, d.unknown = d.lost-d.damaged, d.strange-d.damaged
}

// String lists the counts of each kind of difference.
func (d *difference) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{d.lost, "lost"}, {d.duplicated, "duplicated"}, {d.damaged, "damaged"}, {d.unknown, "of unknown origin"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "they are in another order"
	}
	return strings.Join(parts, ", ")
}
