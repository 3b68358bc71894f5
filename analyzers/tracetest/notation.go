// Package tracetest makes traces for tests of analyzers: by hand in a line notation, and from simulated endpoints with
// random delays on both sides of the switch and any pattern of losses. The endpoints are written for this package
// alone, so that they share only the specification with an analyzer.
package tracetest

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// MTU of all connections made here.
const MTU = 1024

// Initial PSNs are close below the wrap, so that most traces cross it.
const (
	RequesterIPSN packet.PSN = 0xfffffc
	ResponderIPSN packet.PSN = 0xfffff0
)

// Connections returns n connections from requesters 10.0.0.1, 10.0.0.3, … (one address each if spread, else all the
// first) to the responder 10.0.0.2.
func Connections(n int, spread bool) *trace.Connections {
	list := make([]trace.Connection, n)
	for i := range list {
		ip := netip.AddrFrom4([4]byte{10, 0, 0, 1})
		if spread {
			ip = netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + 2*i)})
		}
		list[i] = trace.Connection{
			Index: i + 1, Verb: "write", MTU: MTU,
			Requester: trace.Side{IP: ip, QPN: packet.QPN(0x100 + i), IPSN: RequesterIPSN},
			Responder: trace.Side{IP: netip.AddrFrom4([4]byte{10, 0, 0, 2}), QPN: packet.QPN(0x200 + i), IPSN: ResponderIPSN},
		}
	}
	c, err := trace.NewConnections(list)
	if err != nil {
		panic("tracetest: " + err.Error()) // the list above is wrong
	}
	return c
}

// Meta returns what a mirror trace of c says about itself.
func Meta(c *trace.Connections) trace.Meta {
	return trace.Meta{Kind: trace.KindMirror, PacketIDs: trace.PacketIDsMirror, Connections: c, EventsKnown: true}
}

// Parse reads a trace, one packet a line; # starts a comment. Ids count from 1.
//
//	TIME DIRECTION WHAT [PSN][+COUNT] [FLAG…]
//
// TIME is in microseconds. DIRECTION is > from requester to responder or < back, with a connection before it if that is
// not 1: 2>. WHAT is first, mid, last, only (WRITE), send, read, atomic, resp, aack, ack, nak, rnr or cnp. PSN is
// relative, 1-based. COUNT is the number of packets of a read. Flags: the injector's events (drop, ecn, corrupt …), ce
// (marked on arrival), ar (acknowledge request), code=N (RNR timer), psn=N (absolute), nobecn, fecn,
// len=N (payload), stray (of no connection).
func Parse(text string) ([]trace.Record, error) {
	var records []trace.Record
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		r, err := parseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		r.ID = uint64(len(records) + 1)
		records = append(records, r)
	}
	return records, nil
}

var words = map[string]struct {
	op       packet.Opcode
	syndrome packet.Syndrome
}{
	"first": {packet.WriteFirst, 0}, "mid": {packet.WriteMiddle, 0}, "last": {packet.WriteLast, 0},
	"only": {packet.WriteOnly, 0}, "send": {packet.SendOnly, 0}, "read": {packet.ReadRequest, 0},
	"atomic": {packet.FetchAdd, 0}, "resp": {packet.ReadResponseMiddle, 0}, "aack": {packet.AtomicAcknowledge, 0},
	"ack": {packet.Acknowledge, packet.SyndromeAckNoCredit}, "nak": {packet.Acknowledge, packet.SyndromeNakSequence},
	"rnr": {packet.Acknowledge, packet.SyndromeRNR}, "cnp": {packet.CNP, 0},
}

func parseLine(fields []string) (trace.Record, error) {
	if len(fields) < 3 {
		return trace.Record{}, fmt.Errorf("want TIME DIRECTION WHAT, have %q", fields)
	}
	us, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return trace.Record{}, err
	}
	r := trace.Record{TimeNS: int64(us * 1000), Flags: trace.Sent | trace.Passed, ICRC: packet.ICRCValid, ECN: packet.ECT0,
		PKey: trace.DefaultPKey}
	dir := fields[1]
	connection := 1
	if prefix := dir[:len(dir)-1]; prefix != "" {
		if connection, err = strconv.Atoi(prefix); err != nil {
			return r, err
		}
	}
	word, ok := words[fields[2]]
	if !ok {
		return r, fmt.Errorf("%q is not a packet", fields[2])
	}
	back := dir[len(dir)-1] == '<'
	r.Flow = trace.NewFlowID(connection, back)
	r.Opcode, r.Syndrome = word.op, word.syndrome
	if r.Opcode == packet.CNP {
		r.Flags |= trace.BECN
		r.PayloadLen = packet.CNPPayloadLen
	}
	rest := fields[3:]
	if len(rest) > 0 && rest[0][0] >= '0' && rest[0][0] <= '9' {
		if err := parsePSN(&r, rest[0]); err != nil {
			return r, err
		}
		rest = rest[1:]
	}
	return r, parseFlags(&r, rest)
}

func parsePSN(r *trace.Record, field string) error {
	psn, count, ranged := strings.Cut(field, "+")
	n, err := strconv.ParseInt(psn, 10, 64)
	if err != nil {
		return err
	}
	ipsn := RequesterIPSN
	if r.Flow.Reverse() == r.Opcode.IsRequest() {
		ipsn = ResponderIPSN
	}
	r.PSN = packet.NewPSN(int64(ipsn) + n - 1)
	if ranged {
		packets, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		r.DMALen = uint32(packets * MTU)
		r.Flags |= trace.HasRETH
	}
	return nil
}

func parseFlags(r *trace.Record, flags []string) error {
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		n, _ := strconv.ParseInt(value, 0, 64)
		switch event, isEvent := trace.ParseEventType(name); {
		case isEvent:
			r.Event = event
		case name == "ce":
			r.ECN = packet.CE
		case name == "ar":
			r.Flags |= trace.AckReq
		case name == "code":
			r.Syndrome |= packet.Syndrome(n)
		case name == "psn":
			r.PSN = packet.PSN(n)
		case name == "nobecn":
			r.Flags &^= trace.BECN
		case name == "fecn":
			r.Flags |= trace.FECN
		case name == "len":
			r.PayloadLen = uint16(n)
		case name == "stray":
			r.Flow = trace.NoFlow
		default:
			return fmt.Errorf("%q is not a flag", f)
		}
	}
	return nil
}
