package datapathtest

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// Numbers of the one connection of most cases.
const (
	flow   = 6
	epoch  = 3
	ipsn   = packet.PSN(0xfffffe) // so that the third packet is past the wrap
	qpn    = packet.QPN(0x11)
	answer = flow + 1
)

// version of IP that a case uses.
type version int

func (v version) addresses() (src, dst netip.Addr) {
	if v == 4 {
		return netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
	}
	return netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::1")
}

// connection are the entries of a connection between HostA, the requester, and HostB.
func connection(v version, options uint64) []Entry {
	src, dst := v.addresses()
	table := p4.TableConnectionV4
	if v == 6 {
		table = p4.TableConnectionV6
	}
	key := func(a, b netip.Addr) p4.Key { return p4.Key{p4.AddrValue(a), p4.AddrValue(b), p4.Uint(uint64(qpn))} }
	return []Entry{
		{Table: table, Key: key(src, dst),
			Action: p4.NewAction(p4.ActionSetFlow, flow|options, uint64(ipsn), uint64(ipsn), epoch)},
		{Table: table, Key: key(dst, src),
			Action: p4.NewAction(p4.ActionSetFlow, answer|options, uint64(ipsn), uint64(ipsn), epoch)},
	}
}

// data returns the WRITE packet with a relative PSN, from 1, and payload bytes.
func data(v version, o packet.Opcode, psn, payload int) Frame {
	src, dst := v.addresses()
	p := frame(v, src, dst)
	p.Eth.Src, p.Eth.Dst = MAC(HostA), MAC(HostB)
	p.BTH = packet.BTH{Opcode: o, DestQP: qpn, PSN: ipsn.Add(psn - 1), PKey: 0xffff, PadCount: uint8(-payload & 3)}
	p.Headers = packet.HasBTH | o.Headers()
	p.RETH = packet.RETH{VA: 0x1000, RKey: 9, Length: uint32(payload)}
	p.Payload = make([]byte, payload)
	for i := range p.Payload {
		p.Payload[i] = byte(i + psn)
	}
	return Frame{HostA, p.AppendTo(nil)}
}

// control returns an answer of HostB with a syndrome.
func control(v version, o packet.Opcode, psn int, syndrome packet.Syndrome) Frame {
	src, dst := v.addresses()
	p := frame(v, dst, src)
	p.Eth.Src, p.Eth.Dst = MAC(HostB), MAC(HostA)
	p.BTH = packet.BTH{Opcode: o, DestQP: qpn, PSN: ipsn.Add(psn - 1), PKey: 0xffff}
	p.Headers = packet.HasBTH | o.Headers()
	p.AETH = packet.AETH{Syndrome: syndrome, MSN: uint32(psn)}
	if o == packet.CNP {
		p.BTH.BECN = true
		p.Payload = make([]byte, packet.CNPPayloadLen)
	}
	return Frame{HostB, p.AppendTo(nil)}
}

func frame(v version, src, dst netip.Addr) *packet.Packet {
	p := &packet.Packet{Derived: true, HasUDP: true}
	p.Eth.Type = packet.EtherTypeIPv4
	p.IP = packet.IP{Version: uint8(v), TOS: 26<<2 | uint8(packet.ECT0), TTL: 64, Protocol: packet.ProtocolUDP, Src: src,
		Dst: dst,
		ID:  0x1234}
	if v == 6 {
		p.Eth.Type, p.IP.ID, p.IP.FlowLabel = packet.EtherTypeIPv6, 0, 0x12345
	}
	p.UDP = packet.UDP{SrcPort: 50000, DstPort: packet.Port}
	return p
}

func event(psn, iter int, a p4.Action) Entry {
	return Entry{Table: p4.TableEvent, Key: p4.KeyOf(flow, 0, uint64(ipsn.Add(psn-1)), uint64(iter)), Action: a}
}

func eventAny(psn int, a p4.Action) Entry {
	return Entry{Table: p4.TableEventAny, Key: p4.KeyOf(flow, 0, uint64(ipsn.Add(psn-1))), Action: a}
}

var (
	drop    = p4.NewAction(p4.ActionDrop)
	ecn     = p4.NewAction(p4.ActionMarkECN)
	corrupt = p4.NewAction(p4.ActionCorrupt)
)

func trim(size, dscp int, flags packet.TrimFlags) p4.Action {
	return p4.NewAction(p4.ActionTrim, uint64(size), uint64(dscp), uint64(flags))
}

// message returns n packets of one WRITE.
func message(v version, from, to int) []Frame {
	var frames []Frame
	for psn := from; psn <= to; psn++ {
		o := packet.WriteMiddle
		if psn == 1 {
			o = packet.WriteFirst
		}
		frames = append(frames, data(v, o, psn, 256))
	}
	return frames
}

// Cases returns the suite.
func Cases() []Case {
	var cases []Case
	for _, v := range []version{4, 6} {
		cases = append(cases, dataCases(v)...)
		cases = append(cases, controlCases(v)...)
		cases = append(cases, trimCases(v)...)
	}
	return append(cases, oddCases()...)
}

func dataCases(v version) []Case {
	name := func(s string) string { return fmt.Sprintf("IPv%d: %s", v, s) }
	with := func(entries ...Entry) []Entry { return append(connection(v, 0), entries...) }
	twice := append(message(v, 1, 5), message(v, 3, 5)...)
	watched := []Entry{
		{Table: p4.TableWatch, Key: p4.KeyOf(flow, 0, 0, uint64(ipsn.Add(2))), Action: p4.NewAction(p4.ActionSetWatch, 17)},
		{Table: p4.TableWatchedEvent, Key: p4.KeyOf(17, 2), Action: ecn},
	}
	return []Case{
		{Name: name("packets without an event pass, are numbered and dealt out"), Entries: with(), In: message(v, 1, 5)},
		{Name: name("packets of no connection are mirrored, too"), In: message(v, 1, 3)},
		{Name: name("a drop leaves the copy only"), Entries: with(event(3, 1, drop)), In: message(v, 1, 5)},
		{Name: name("a mark sets CE and nothing else"), Entries: with(event(2, 1, ecn)), In: message(v, 1, 3)},
		{Name: name("a corruption fails the iCRC only"), Entries: with(event(2, 1, corrupt)), In: message(v, 1, 3)},
		{Name: name("the second round is ITER 2, also behind the wrap"), Entries: with(event(3, 2, drop), event(4, 1, ecn)),
			In: twice},
		{Name: name("any round"), Entries: with(eventAny(3, ecn)), In: twice},
		{Name: name("the exact entry wins"), Entries: with(eventAny(3, ecn), event(3, 2, drop)), In: twice},
		{Name: name("the n-th arrival of a PSN"), Entries: with(watched...), In: twice},
		{Name: name("message scope returns to round 1"), Entries: append(connection(v, p4.FlowMessageScope),
			Entry{Table: p4.TableEvent, Key: p4.KeyOf(flow|p4.FlowMessageScope, 0, uint64(ipsn.Add(3)), 1), Action: drop}),
			In: append(append(message(v, 1, 2), message(v, 2, 3)...), data(v, packet.WriteOnly, 4, 64),
				data(v, packet.WriteOnly, 5, 64))},
		{Name: name("a snap cuts the copies"),
			Entries: with(event(2, 1, ecn), Entry{Table: p4.TableMirrorEgress, Default: true,
				Action: p4.NewAction(p4.ActionSetSnap, 128)}), In: message(v, 1, 3)},
		{Name: name("a closed gate mirrors nothing, events happen all the same"), Entries: with(event(2, 1, drop), Entry{
			Table: p4.TableMirror, Default: true, Action: p4.NewAction(p4.ActionNoAction)}), In: message(v, 1, 3)},
	}
}

func controlCases(v version) []Case {
	name := func(s string) string { return fmt.Sprintf("IPv%d: %s", v, s) }
	with := func(entries ...Entry) []Entry { return append(connection(v, 0), entries...) }
	ordinal := func(class packet.Class, nth int, a p4.Action) Entry {
		return Entry{Table: p4.TableControlEvent, Key: p4.KeyOf(answer, uint64(class), uint64(nth)), Action: a}
	}
	ack := func(psn int) Frame { return control(v, packet.Acknowledge, psn, packet.SyndromeAck) }
	nak := func(psn int, s packet.Syndrome) Frame { return control(v, packet.Acknowledge, psn, s) }
	all := []Frame{ack(1), nak(2, packet.SyndromeNakSequence), nak(2, packet.SyndromeRNR|3),
		nak(3, packet.SyndromeNakInvalid),
		nak(3, packet.SyndromeNakAccess), nak(3, packet.SyndromeNakOperation), control(v, packet.CNP, 1, 0),
		control(v, packet.AtomicAcknowledge, 4, packet.SyndromeAck), ack(5)}
	var one []Entry
	for class := packet.ClassAck; class <= packet.ClassAtomicAck; class++ {
		if class != packet.ClassReadRequest {
			one = append(one, ordinal(class, 1, ecn))
		}
	}
	everyNak := Entry{Table: p4.TableEventAny, Key: p4.KeyOf(answer|p4.FlowControlClass, 0, uint64(packet.ClassNak)),
		Action: drop}
	ofPSN := []Entry{
		{Table: p4.TableWatch, Key: p4.KeyOf(answer, 1, uint64(packet.ClassAck), uint64(ipsn.Add(4))),
			Action: p4.NewAction(p4.ActionSetWatch, p4.WatchEvery|5)},
		{Table: p4.TableWatchedEvent, Key: p4.KeyOf(p4.WatchEvery|5, 0), Action: drop},
	}
	return []Case{
		{Name: name("the first of each class"), Entries: with(one...), In: append(all, all...)},
		{Name: name("the second ACK"), Entries: with(ordinal(packet.ClassAck, 2, drop)), In: []Frame{ack(1), ack(2), ack(3)}},
		{Name: name("every NAK"), Entries: with(everyNak), In: append(all, all...)},
		{Name: name("every ACK of a PSN"), Entries: with(ofPSN...), In: []Frame{ack(4), ack(5), ack(5), ack(6)}},
		{Name: name("a READ request is not a data packet"), Entries: with(event(1, 1, drop), Entry{
			Table: p4.TableControlEvent, Key: p4.KeyOf(flow, uint64(packet.ClassReadRequest), 2), Action: drop}),
			In: []Frame{read(v, 1), read(v, 2), data(v, packet.WriteOnly, 1, 32)}},
	}
}

// read returns a READ request.
func read(v version, psn int) Frame { return data(v, packet.ReadRequest, psn, 0) }

func trimCases(v version) []Case {
	const both = packet.TrimUpdateIPLength | packet.TrimUpdateUDPLength
	var cases []Case
	for _, size := range []int{10, 30, 60, 64, 128, 299} {
		for _, flags := range []packet.TrimFlags{0, packet.TrimSetDSCP, both, both | packet.TrimSetDSCP} {
			cases = append(cases, Case{Name: fmt.Sprintf("IPv%d: a trim to %d bytes with flags %d", v, size, flags),
				Entries: append(connection(v, 0), event(2, 1, trim(size, 5, flags))), In: message(v, 1, 3),
				Needs: []uint32{p4.ActionTrim}})
		}
	}
	return append(cases, Case{Name: fmt.Sprintf("IPv%d: a runt passes whole", v),
		Entries: append(connection(v, 0), event(1, 1, trim(128, 5, both))), In: []Frame{data(v, packet.WriteOnly, 1, 16)},
		Needs: []uint32{p4.ActionTrim}})
}

// oddCases are frames that are nearly RoCE, and forwarding beyond the two hosts.
func oddCases() []Case {
	base := data(4, packet.WriteOnly, 1, 64).Data
	edit := func(f func(b []byte)) Frame {
		b := append([]byte(nil), base...)
		f(b)
		return Frame{HostA, b}
	}
	tagged := func() Frame {
		b := append([]byte(nil), base[:12]...)
		b = append(b, 0x81, 0x00, 0x60, 0x2a)
		return Frame{HostA, append(b, base[12:]...)}
	}()
	padded := Frame{HostA, append(append([]byte(nil), base...), 1, 2, 3, 4, 5)}
	odd := []Frame{
		edit(func(b []byte) { b[37] = 0x99 }),              // another UDP port
		edit(func(b []byte) { b[23] = 6 }),                 // TCP
		edit(func(b []byte) { b[20] |= 0x20 }),             // a first fragment
		edit(func(b []byte) { b[14] = 0x55 }),              // version 5
		edit(func(b []byte) { b[12], b[13] = 0x08, 0x06 }), // ARP
		edit(func(b []byte) { b[38], b[39] = 0, 12 }),      // a UDP length that cuts the BTH
		edit(func(b []byte) { b[42] = 0x1f }),              // an undefined opcode
		// a UDP length beyond the frame: truncated
		edit(func(b []byte) { b[38], b[39] = 0x03, 0x00 }),
		edit(func(b []byte) { copy(b, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) }), // broadcast
		edit(func(b []byte) { copy(b, []byte{2, 2, 2, 2, 2, 2}) }),                   // an unknown station
		edit(func(b []byte) { copy(b, []byte{1, 0x80, 0xc2, 0, 0, 1}) }),             // a reserved group
		tagged, padded,
		{HostA, base[:20]},
	}
	entries := append(connection(4, 0), eventAny(1, ecn))
	trims := append(connection(4, 0), eventAny(1, trim(40, 1, 7)))
	return []Case{
		{Name: "frames that are nearly RoCE, with a mark", Entries: entries, In: odd},
		{Name: "frames that are nearly RoCE, with a trim", Entries: trims, In: odd, Needs: []uint32{p4.ActionTrim}},
		{Name: "IPv4 options", Entries: entries, In: []Frame{options()}},
	}
}

// options returns a data packet with eight bytes of IPv4 options.
func options() Frame {
	src, dst := version(4).addresses()
	p := frame(4, src, dst)
	p.Eth.Src, p.Eth.Dst = MAC(HostA), MAC(HostB)
	p.IP.Options = []byte{1, 1, 1, 1, 1, 1, 1, 0}
	p.BTH = packet.BTH{Opcode: packet.WriteMiddle, DestQP: qpn, PSN: ipsn, PKey: 0xffff}
	p.Headers = packet.HasBTH
	p.Payload = make([]byte, 64)
	return Frame{HostA, p.AppendTo(nil)}
}

// Crowd returns the entries of n flows with an event on each that no packet of FlowFrame meets.
func Crowd(n int) []Entry {
	src, dst := version(4).addresses()
	var entries []Entry
	for i := range uint64(n) {
		key := p4.Key{p4.AddrValue(src), p4.AddrValue(dst), p4.Uint(1000 + i)}
		entries = append(entries,
			Entry{Table: p4.TableConnectionV4, Key: key,
				Action: p4.NewAction(p4.ActionSetFlow, i, uint64(ipsn), uint64(ipsn), epoch)},
			Entry{Table: p4.TableEvent, Key: p4.KeyOf(i, 0, uint64(ipsn.Add(1)), 1), Action: drop})
	}
	return entries
}

// FlowFrame returns a packet of 1 KiB of flow i of a Crowd.
func FlowFrame(i int) []byte {
	f := data(4, packet.WriteMiddle, 1, 1024).Data
	p := new(packet.Packet)
	if err := p.Parse(f); err != nil {
		panic("datapathtest: our own frame: " + err.Error())
	}
	p.BTH.DestQP = packet.QPN(1000 + i)
	return p.AppendTo(nil)
}
