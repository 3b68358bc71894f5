//go:build verbs && cgo && linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/generator/verbs/ibv"
	"candela.dev/candela/packet"
)

const page = 4096

func pages(n int) int { return (n + page - 1) / page * page }

// area is a part of registered memory with slots of one message each.
type area struct{ base, size, slots int }

func (a area) at(id uint64) int { return a.base + int(id%uint64(max(1, a.slots)))*a.size }

// layout has the memory areas of a queue pair. Areas that its traffic doesn't use have no slots.
type layout struct {
	exposed  area // the peer's WRITEs, READs and atomics access it
	source   area // of WRITEs
	sends    area // of SENDs, a slot for each outstanding one
	sink     area // of READs and atomics, a slot for each outstanding one
	received area // of the peer's SENDs, a slot for each receive request
}

// arrange lays out the areas of a connection from base on, and returns their end.
func arrange(c *verbs.Connection, base, depth, receives int) (layout, int) {
	var l layout
	place := func(a *area, slots, size int) {
		*a = area{base, pages(size), slots}
		base += slots * a.size
	}
	own, peer := &c.Traffic, &c.PeerTraffic
	// The extra page makes a request that was lengthened in transit fail the length check, not the memory access.
	place(&l.exposed, 1, max(atomicSize, size(peer))+page)
	if has(own, generator.Write, generator.WriteImm) {
		place(&l.source, 1, size(own))
	}
	if has(own, generator.Send, generator.SendImm) {
		place(&l.sends, depth, size(own))
	}
	if has(own, generator.Read, generator.CompareSwap, generator.FetchAdd) {
		place(&l.sink, depth, max(atomicSize, size(own)))
	}
	if has(peer, generator.Send, generator.SendImm) {
		place(&l.received, receives, size(peer))
	}
	return l, base
}

const atomicSize = 8

func size(t *generator.Traffic) int { return max(1, t.MessageSize) }

// has reports whether messages of t have one of the verbs.
func has(t *generator.Traffic, list ...generator.Verb) bool {
	if t.Messages == 0 {
		return false
	}
	for _, have := range t.Verbs {
		for _, v := range list {
			if have == v {
				return true
			}
		}
	}
	return false
}

func hasAtomics(t *generator.Traffic) bool { return has(t, generator.CompareSwap, generator.FetchAdd) }

// pair is one queue pair of the workload, with the actual and expected content of its memory.
type pair struct {
	*ibv.QP
	layout
	memory     *ibv.Memory
	content    rdma.Content
	connection *verbs.Connection
	ipsn       packet.PSN
	peer       verbs.End

	messages  []generator.Message // of this side
	arrivals  []generator.Message // of the peer, only those that consume a receive request
	arrived   int
	originals []uint64 // expected results of this side's atomics; nil: its traffic has other verbs, too
	data      verbs.Data
	scratch   []byte
}

// plan lists the messages to send and to receive.
func (p *pair) plan() {
	for m := range p.connection.Traffic.Schedule {
		p.messages = append(p.messages, m)
	}
	for m := range p.connection.PeerTraffic.Schedule {
		if m.Verb.ConsumesReceive() {
			p.arrivals = append(p.arrivals, m)
		}
	}
	for found := range p.connection.Traffic.AtomicResults {
		p.originals = append(p.originals, found)
	}
	if len(p.originals) < len(p.messages) {
		p.originals = nil
	}
}

func (p *pair) bytes(at, n int) []byte { return p.memory.Bytes[at:][:n] }

// region returns the memory that the peer may access.
func (p *pair) region() generator.Region {
	return generator.Region{Base: p.memory.Address() + uint64(p.exposed.base), Length: uint64(p.exposed.size),
		RKey: p.memory.RKey()}
}

// fill initialises the memory before traffic. Memory that the peer reads has its expected content; memory that it only
// writes has not.
func (p *pair) fill() {
	r := p.region()
	exposed := p.bytes(p.exposed.base, p.exposed.size)
	p.content.Fill(exposed, r.RKey, r.Base)
	if !has(&p.connection.PeerTraffic, generator.Read) {
		for i := range exposed {
			exposed[i] ^= 0xff
		}
	}
	if hasAtomics(&p.connection.PeerTraffic) {
		clear(exposed[:atomicSize])
	}
	if p.source.slots > 0 {
		p.content.Fill(p.bytes(p.source.base, p.source.size), p.peer.Region.RKey, p.peer.Region.Base)
	}
}

// PostSend posts a request, with its own data.
func (p *pair) PostSend(_ clock.Time, wr generator.WorkRequest) error {
	length, from := wr.Length, p.source.base
	switch wr.Verb {
	case generator.Send, generator.SendImm:
		from = p.sends.at(wr.ID)
		m := p.messages[wr.ID]
		p.content.FillSend(p.bytes(from, length), p.peer.QPN, p.ipsn.Add(int(m.FirstPSN-1)), p.connection.MTU)
	case generator.Read:
		from = p.sink.at(wr.ID)
		clear(p.bytes(from, length))
	case generator.CompareSwap, generator.FetchAdd:
		from, length = p.sink.at(wr.ID), atomicSize
	case generator.Write, generator.WriteImm, generator.SendInvalidate, generator.VerbNone:
	}
	return p.QP.PostSend(wr, p.memory, from, length)
}

// PostRecv posts a receive request.
func (p *pair) PostRecv(_ clock.Time, rr generator.ReceiveRequest) error {
	at, length := p.received.at(rr.ID), rr.Length
	if p.received.slots == 0 {
		at, length = p.exposed.base, 0 // WRITEs with immediate only: no data arrives
	} else {
		clear(p.bytes(at, length))
	}
	return p.QP.PostRecv(rr.ID|ibv.ReceiveBit, p.memory, at, length)
}

// completed compares the received data of a completion.
func (p *pair) completed(c ibv.Completion) {
	if !c.Receive {
		if c.ID < uint64(len(p.messages)) {
			p.fetched(c.ID)
		}
		return
	}
	if p.arrived >= len(p.arrivals) {
		return
	}
	m := p.arrivals[p.arrived]
	p.arrived++
	if m.Verb != generator.Send && m.Verb != generator.SendImm {
		return
	}
	want := p.room(m.Length)
	p.content.FillSend(want, p.Number(), p.peer.IPSN.Add(int(m.FirstPSN-1)), p.connection.MTU)
	p.compare(p.bytes(p.received.at(c.ID), m.Length), want, fmt.Sprintf("%s of message %d", m.Verb, m.Index+1))
}

func (p *pair) room(n int) []byte {
	if cap(p.scratch) < n {
		p.scratch = make([]byte, n)
	}
	return p.scratch[:n]
}

// fetched compares the result of a READ or an atomic.
func (p *pair) fetched(id uint64) {
	m := p.messages[id]
	switch m.Verb {
	case generator.Read:
		want := p.room(m.Length)
		p.content.Fill(want, p.peer.Region.RKey, p.peer.Region.Base)
		got, skip := p.bytes(p.sink.at(id), m.Length), 0
		if hasAtomics(&p.connection.Traffic) {
			skip = min(atomicSize, m.Length) // atomics change that word
		}
		p.compare(got[skip:], want[skip:], fmt.Sprintf("READ of message %d", id+1))
	case generator.CompareSwap, generator.FetchAdd:
		if p.originals == nil {
			return
		}
		p.data.Checked++
		if got := binary.NativeEndian.Uint64(p.bytes(p.sink.at(id), atomicSize)); got != p.originals[id] {
			p.differ(fmt.Sprintf("%s of message %d found %d, want %d", m.Verb, id+1, got, p.originals[id]))
		}
	case generator.Write, generator.WriteImm, generator.Send, generator.SendImm, generator.SendInvalidate,
		generator.VerbNone:
	}
}

func (p *pair) compare(got, want []byte, what string) {
	p.data.Checked++
	if text := difference(got, want); text != "" {
		p.differ(what + ": " + text)
	}
}

func (p *pair) differ(text string) {
	p.data.Wrong++
	if p.data.First == "" {
		p.data.First = text
	}
}

// difference describes the first byte in which two slices of equal length differ; empty: none.
func difference(got, want []byte) string {
	if bytes.Equal(got, want) {
		return ""
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d of %d is %#02x, want %#02x", i, len(want), got[i], want[i])
		}
	}
	return "lengths differ"
}

// verdict returns the result of the data comparison.
func (p *pair) verdict() verbs.Data {
	d, peer := p.data, &p.connection.PeerTraffic
	exposed := p.bytes(p.exposed.base, p.exposed.size)
	d.Word = binary.NativeEndian.Uint64(exposed)
	if has(peer, generator.Write, generator.WriteImm) {
		skip, r := 0, p.region()
		if hasAtomics(peer) {
			skip = min(atomicSize, peer.MessageSize)
		}
		want := p.room(peer.MessageSize)
		p.content.Fill(want, r.RKey, r.Base)
		d.Written = difference(exposed[skip:peer.MessageSize], want[skip:])
	}
	return d
}
