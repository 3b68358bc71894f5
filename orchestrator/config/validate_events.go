package config

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/packet"
)

// scheduleKeys are the keys that determine the schedule of messages.
var scheduleKeys = []string{
	"traffic.num-connections", "traffic.rdma-verb", "traffic.verbs-by", "traffic.num-msgs-per-qp", "traffic.message-size",
	"traffic.mtu", "traffic.bidirectional",
}

// address identifies a packet apart from its ITER or ordinal. Two events with the same address and ITER conflict.
type address struct {
	qpn   int
	from  Side
	class packet.Class
	sent  Side
	psn   int64 // 0: by ordinal alone
}

// claimed maps the ITER or ordinal (0: all) of an address to the event that claims it.
type claimed map[address]map[uint16]string

func (d *decoder) validateEvents(t *Test) {
	if !d.fine(scheduleKeys...) {
		return
	}
	claims := make(claimed)
	for i := range t.Traffic.DataEvents {
		e := &t.Traffic.DataEvents[i]
		path := e.Path()
		if d.fine(path) && d.validateTarget(t, path, e.QPN, e.From) {
			d.validateDataEvent(t, path, e)
			d.claim(claims, path, "iter "+nthText(e.Iter)+e.which(), address{qpn: e.QPN, from: e.From, psn: e.PSN}, e.Iter)
		}
	}
	for i := range t.Traffic.ControlEvents {
		e := &t.Traffic.ControlEvents[i]
		path := e.Path()
		if d.fine(path) && d.validateTarget(t, path, e.QPN, e.From) {
			d.validateControlEvent(t, path, e)
			d.claim(claims, path, "nth "+nthText(e.Nth)+e.which(), e.address(t), e.Nth)
		}
	}
}

func (d *decoder) validateTarget(t *Test, path string, qpn int, from Side) bool {
	ok := true
	if n := t.Traffic.Connections; qpn > n {
		d.problemAt(path+".qpn", fmt.Sprintf("%d is past the last connection (%d)", qpn, n),
			"num-connections is "+itoa(n)+"; qpn counts from 1")
		ok = false
	}
	if from == Responder && !t.Traffic.Bidirectional {
		d.problemAt(path+".from", "the responder posts no requests",
			"it does with bidirectional: true; responses to a READ have the PSNs of the requester")
		ok = false
	}
	return ok
}

// validatePSN checks that psn exists and identifies one packet only.
func (d *decoder) validatePSN(path string, g generator.Traffic, psn int64) bool {
	last := g.PSNs()
	if psn > last {
		d.problemAt(path+".psn", fmt.Sprintf("%d is past the last data packet (%d)", psn, last), explainLast(g))
		return false
	}
	if last > 1<<24 {
		d.problemAt(path+".psn", fmt.Sprintf("%d names more than one of the %d packets of the connection", psn, last),
			"PSNs have 24 bits; connections with events can have at most 16777216 data packets")
		return false
	}
	return true
}

// explainLast explains the number of data packets.
func explainLast(g generator.Traffic) string {
	var parts []string
	for i, v := range g.Verbs {
		if slices.Index(g.Verbs, v) != i {
			continue
		}
		n := v.PSNs(g.MessageSize, g.MTU)
		switch {
		case v.IsAtomic():
			parts = append(parts, fmt.Sprintf("%v is 1 packet a message", v))
		case len(g.Verbs) == 1:
			parts = append(parts, fmt.Sprintf("message-size %d at mtu %d is %s a message", g.MessageSize, g.MTU,
				count(n, "packet")))
		default:
			parts = append(parts, fmt.Sprintf("%v of %d bytes at mtu %d is %s a message", v, g.MessageSize, g.MTU,
				count(n, "packet")))
		}
	}
	return fmt.Sprintf("%s, num-msgs-per-qp is %d; psn counts from 1", strings.Join(parts, ", "), g.Messages)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (d *decoder) validateDataEvent(t *Test, path string, e *DataEvent) {
	d.validatePSN(path, t.TrafficFrom(e.From, e.QPN), e.PSN)
	d.validateParams(path, e.Type, &e.Params)
	d.validateTrim(path, e)
}

func (d *decoder) validateControlEvent(t *Test, path string, e *ControlEvent) {
	g := t.TrafficFrom(e.From, e.QPN)
	d.validateParams(path, e.Type, &e.Params)
	if e.SentBy != nil && e.Packet != packet.ClassCNP {
		d.problemAt(path+".sent-by", "only CNPs take sent-by",
			"the sender of a "+e.Packet.String()+" follows from the request that it belongs to")
	}
	if why := impossible(g, e.Packet); why != "" {
		d.problemAt(path+".packet", fmt.Sprintf("connection %d has no %v packets", e.QPN, e.Packet), why)
		return
	}
	switch {
	case e.PSN == nil:
	case e.Packet == packet.ClassCNP:
		d.problemAt(path+".psn", "CNPs have no PSN", "CNPs are not part of the PSN sequence (RoCEv2 annex A17.9.3); use nth")
	case d.validatePSN(path, g, *e.PSN):
		m, _ := g.Locate(*e.PSN)
		if why := wrongMessage(m, e.Packet); why != "" {
			d.problemAt(path+".psn", fmt.Sprintf("no %v has psn %d", e.Packet, *e.PSN), why)
		}
	}
}

// impossible returns why the traffic never has packets of class c, or "".
func impossible(g generator.Traffic, c packet.Class) string {
	has := func(f func(generator.Verb) bool) bool { return slices.ContainsFunc(g.Verbs, f) }
	isRead := func(v generator.Verb) bool { return v == generator.Read }
	switch c {
	case packet.ClassReadRequest:
		if !has(isRead) {
			return "its verbs have no read"
		}
	case packet.ClassAtomicAck:
		if !has(generator.Verb.IsAtomic) {
			return "its verbs have no compare-swap or fetch-add"
		}
	case packet.ClassRNR:
		if !has(generator.Verb.ConsumesReceive) {
			return "only send, send-imm, send-invalidate and write-imm consume receives"
		}
	case packet.ClassAck:
		if !has(acknowledged) {
			return "responses acknowledge READs and atomics; only other verbs have ACK packets"
		}
	case packet.ClassData, packet.ClassNak, packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp, packet.ClassCNP,
		packet.ClassOther:
	}
	return ""
}

// acknowledged reports whether v is answered by ACK packets without data.
func acknowledged(v generator.Verb) bool { return v != generator.Read && !v.IsAtomic() }

// wrongMessage returns why no packet of class c belongs to message m, or "".
func wrongMessage(m generator.Message, c packet.Class) string {
	fits := true
	switch c {
	case packet.ClassReadRequest:
		fits = m.Verb == generator.Read
	case packet.ClassAtomicAck:
		fits = m.Verb.IsAtomic()
	case packet.ClassAck:
		fits = acknowledged(m.Verb)
	case packet.ClassRNR:
		fits = m.Verb.ConsumesReceive()
	case packet.ClassData, packet.ClassNak, packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp, packet.ClassCNP,
		packet.ClassOther:
	}
	if fits {
		return ""
	}
	return fmt.Sprintf("psn %d to %d is message %d, a %v", m.FirstPSN, m.FirstPSN+int64(m.PSNs)-1, m.Index+1, m.Verb)
}

func (e *ControlEvent) address(t *Test) address {
	a := address{qpn: e.QPN, from: e.From, class: e.Packet, sent: e.Sender(t)}
	if e.PSN != nil {
		a.psn = *e.PSN
	}
	if e.Packet == packet.ClassCNP {
		a.from = Requester // a CNP belongs to no request; only its sender identifies it
	}
	return a
}

// Sender returns the host that sends the packet of e.
func (e *ControlEvent) Sender(t *Test) Side {
	switch {
	case e.Packet == packet.ClassReadRequest:
		return e.From
	case e.Packet != packet.ClassCNP:
		return e.From.Peer()
	case e.SentBy != nil:
		return *e.SentBy
	case t.TrafficFrom(e.From, e.QPN).Verbs[0] == generator.Read:
		return e.From // it receives the data
	}
	return e.From.Peer()
}

// claim reports an event whose packet already has one; word names the packet in the message.
func (d *decoder) claim(claims claimed, path, word string, a address, nth uint16) {
	taken := claims[a]
	if taken == nil {
		taken = make(map[uint16]string)
		claims[a] = taken
	}
	other := taken[nth]
	if nth == injector.Any {
		for _, n := range slices.Sorted(keysOf(taken)) {
			other = taken[n]
			break
		}
	} else if other == "" {
		other = taken[injector.Any]
	}
	if other != "" {
		d.problemAt(path, fmt.Sprintf("the packet at %s already has an event", word),
			fmt.Sprintf("%s in line %d names it; a packet takes one event", other, d.of(other).Line))
		return
	}
	taken[nth] = path
}
