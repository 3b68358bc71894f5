package ndp

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
)

type receiverKey struct {
	from       Endpoint
	connection uint32
}

// receiver is the receiving end of a connection.
type receiver struct {
	receiverKey
	window  receiveWindow
	packets uint32 // in all; 0: the last one has not arrived yet
	bytes   uint64
	started clock.Time
	done    bool

	top                                   uint32 // one above the highest number that arrived whole
	whole, duplicates, trimmed, reordered uint32

	credits uint32 // packets that have arrived and are not PULLed for yet
	pulled  uint32 // PULLs sent
	place   int32  // in Host.pulls, while not done
}

// receiver returns the connection of a data packet, or nil. Only a packet of the first window makes one: no other can
// be the first to arrive, since without an answer nothing else is sent.
func (h *Host) receiver(now clock.Time, p *Packet) *receiver {
	key := receiverKey{p.From, p.Header.Connection}
	if h.last != nil && h.last.receiverKey == key {
		return h.last
	}
	r := h.known[key]
	if packets, ok := h.complete[key]; r == nil && ok {
		h.late = receiver{receiverKey: key, packets: packets, window: receiveWindow{base: packets}, done: true}
		r = &h.late
	}
	if r == nil {
		if p.Header.Flags&ndp.FlagSYN == 0 {
			h.counters.Unclaimed++
			return nil
		}
		r = &receiver{receiverKey: key, started: now}
		h.known[key] = r
		h.pulls.add(r)
	}
	h.last = r
	return r
}

// handleData answers a data packet and takes a credit for it. A header whose packet has arrived whole before is
// acknowledged, so that it is not sent once more.
func (h *Host) handleData(now clock.Time, p *Packet) {
	r := h.receiver(now, p)
	if r == nil {
		return
	}
	trimmed := p.Header.Trimmed(ndp.Size + int(p.Payload))
	if p.Header.Flags&ndp.FlagLast != 0 {
		r.packets = p.Header.Seq + 1
	}
	if trimmed {
		r.trimmed++
	}
	switch {
	case trimmed && !r.window.has(p.Header.Seq):
		h.counters.TrimmedReceived++
		h.answerTrimmed(r, &p.Header)
	case trimmed:
		h.counters.TrimmedReceived++
		h.counters.Duplicates++
		h.answer(r, ndp.Ack, &p.Header)
	default:
		h.counters.WholeReceived++
		h.answerWhole(r, &p.Header)
	}
	h.credit(now, r)
	if !r.done && r.packets > 0 && r.window.base == r.packets {
		h.pace(now) // a pacer that is idle PULLs for the packet that completes a flow, too
		h.finish(now, r)
	}
}

func (h *Host) answerTrimmed(r *receiver, d *ndp.Header) {
	bugs := h.cfg.Bugs
	switch {
	case bugs.Has(BugForgetsNack) && h.nacks.due(8):
	case bugs.Has(BugAcksTrimmed) && h.nacks.due(8):
		h.answer(r, ndp.Ack, d)
	default:
		h.answer(r, ndp.Nack, d)
	}
}

func (h *Host) answerWhole(r *receiver, d *ndp.Header) {
	bugs := h.cfg.Bugs
	if bugs.Has(BugNacksWhole) && h.arrivals.due(16) && !r.window.has(d.Seq) {
		h.answer(r, ndp.Nack, d)
		return
	}
	if r.window.add(d.Seq) {
		r.bytes += uint64(d.Length)
		h.counters.BytesReceived += uint64(d.Length)
		r.whole++
		if d.Seq < r.top {
			r.reordered++
		}
		r.top = max(r.top, d.Seq+1)
	} else {
		h.counters.Duplicates++
		r.duplicates++
	}
	if !bugs.Has(BugForgetsAck) || !h.arrivals.due(8) {
		h.answer(r, ndp.Ack, d)
	}
}

// answer queues an ACK or a NACK for the packet with header d.
func (h *Host) answer(r *receiver, kind ndp.Kind, d *ndp.Header) {
	if kind == ndp.Ack {
		h.counters.AcksSent++
	} else {
		h.counters.NacksSent++
	}
	h.reply(r, kind, d.Seq, r.window.base, d.Path)
}

// reply queues an ACK, a NACK or a PULL.
func (h *Host) reply(r *receiver, kind ndp.Kind, seq, counter uint32, path uint16) {
	p := h.answers.add()
	p.From, p.To, p.Entropy, p.Payload, p.Rank = h.cfg.Address, r.from, h.feedback.tag(), 0, 0
	d := &p.Header
	d.Kind, d.Flags, d.Connection, d.Seq, d.Counter, d.Path, d.Length = kind, 0, r.connection, seq, counter, path, 0
}

// finish drops the credits that are left, because there is nothing more to pull, and all that late copies don't need.
func (h *Host) finish(now clock.Time, r *receiver) {
	r.done = true
	r.window = receiveWindow{base: r.packets}
	h.credits -= int(r.credits)
	r.credits = 0
	h.pulls.remove(r)
	delete(h.known, r.receiverKey)
	h.complete[r.receiverKey] = r.packets
	h.report(now, h.arrived(r))
}

// arrived describes what has arrived of a connection.
func (h *Host) arrived(r *receiver) Event {
	return Event{Kind: Received, Sender: r.from, Receiver: h.cfg.Address, Connection: r.connection,
		Started: r.started, Bytes: r.bytes, Packets: r.whole, Duplicates: r.duplicates, Trimmed: r.trimmed,
		Reordered: r.reordered}
}

// Arrived returns what has arrived of a connection that is not complete; ok is false if nothing has.
func (h *Host) Arrived(from Endpoint, connection uint32) (e Event, ok bool) {
	r := h.known[receiverKey{from, connection}]
	if r == nil {
		return Event{}, false
	}
	return h.arrived(r), true
}

// Sent returns how many packets of a connection that has not finished were sent, retransmissions included.
func (h *Host) Sent(connection uint32) uint32 {
	return h.senders[connection-h.cfg.FirstConnection].ordinal
}

// credit notes that a PULL is due for a packet of r that has arrived.
func (h *Host) credit(now clock.Time, r *receiver) {
	bugs := h.cfg.Bugs
	if r.done || bugs.Has(BugForgetsPull) && h.pullings.due(16) {
		return
	}
	n := 1
	if bugs.Has(BugDoublePull) {
		n = 2
	}
	if h.credits == 0 {
		h.nextPull = max(h.nextPull, now)
	}
	r.credits += uint32(n)
	h.credits += n
	h.pulls.mark(r)
}

// pace sends the PULLs that are due: one connection after the other, PullGap apart. A caller late by less than a gap
// makes the next PULL early by as much, which keeps the rate; one that is later loses its turn, which keeps PULLs from
// bunching.
func (h *Host) pace(now clock.Time) {
	gap := h.pullGap()
	for h.credits > 0 && h.nextPull <= now {
		if now.Sub(h.nextPull) < gap {
			h.nextPull = h.nextPull.Add(gap)
		} else {
			h.nextPull = now.Add(gap)
		}
		h.pull()
	}
}

func (h *Host) pullGap() clock.Duration {
	switch bugs := h.cfg.Bugs; {
	case bugs.Has(BugPacesFast):
		return h.cfg.PullGap * 4 / 5
	case bugs.Has(BugPacesSlowly):
		return h.cfg.PullGap * 2
	default:
		return h.cfg.PullGap
	}
}

// pull sends a PULL on the connection whose turn it is. There is a credit in at least one.
func (h *Host) pull() {
	r := h.pulls.turn()
	r.credits--
	h.credits--
	r.pulled++
	if r.credits == 0 {
		h.pulls.unmark(r)
	}
	if r.credits == 0 || !h.cfg.Bugs.Has(BugUnfairPull) {
		h.pulls.took(r)
	}
	counter := r.pulled
	if h.cfg.Bugs.Has(BugPullBackwards) && h.pullings.due(16) {
		counter -= min(counter, 3)
	}
	h.counters.PullsSent++
	h.reply(r, ndp.Pull, 0, counter, 0)
}
