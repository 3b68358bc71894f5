package packet_test

import (
	"testing"

	"candela.dev/candela/packet"
)

func TestEveryOpcodeHasItsPlaceInTheProtocol(t *testing.T) {
	tests := []struct {
		opcode                            packet.Opcode
		verb                              packet.Verb
		class                             packet.Class
		space                             packet.Space
		data, request, response, readResp bool
		starts, ends                      bool
	}{
		{opcode: packet.SendFirst, verb: packet.VerbSend, data: true, request: true, starts: true},
		{opcode: packet.SendMiddle, verb: packet.VerbSend, data: true, request: true},
		{opcode: packet.SendLast, verb: packet.VerbSend, data: true, request: true, ends: true},
		{opcode: packet.SendLastImm, verb: packet.VerbSend, data: true, request: true, ends: true},
		{opcode: packet.SendOnly, verb: packet.VerbSend, data: true, request: true, starts: true, ends: true},
		{opcode: packet.SendOnlyImm, verb: packet.VerbSend, data: true, request: true, starts: true, ends: true},
		{opcode: packet.WriteFirst, verb: packet.VerbWrite, data: true, request: true, starts: true},
		{opcode: packet.WriteMiddle, verb: packet.VerbWrite, data: true, request: true},
		{opcode: packet.WriteLast, verb: packet.VerbWrite, data: true, request: true, ends: true},
		{opcode: packet.WriteLastImm, verb: packet.VerbWrite, data: true, request: true, ends: true},
		{opcode: packet.WriteOnly, verb: packet.VerbWrite, data: true, request: true, starts: true, ends: true},
		{opcode: packet.WriteOnlyImm, verb: packet.VerbWrite, data: true, request: true, starts: true, ends: true},
		{opcode: packet.ReadRequest, verb: packet.VerbRead, class: packet.ClassReadRequest, request: true, starts: true,
			ends: true},
		{opcode: packet.ReadResponseFirst, verb: packet.VerbRead, space: packet.Responses, data: true, response: true,
			readResp: true, starts: true},
		{opcode: packet.ReadResponseMiddle, verb: packet.VerbRead, space: packet.Responses, data: true, response: true,
			readResp: true},
		{opcode: packet.ReadResponseLast, verb: packet.VerbRead, space: packet.Responses, data: true, response: true,
			readResp: true, ends: true},
		{opcode: packet.ReadResponseOnly, verb: packet.VerbRead, space: packet.Responses, data: true, response: true,
			readResp: true, starts: true, ends: true},
		{opcode: packet.Acknowledge, class: packet.ClassAck, space: packet.Responses, response: true},
		{opcode: packet.AtomicAcknowledge, verb: packet.VerbAtomic, class: packet.ClassAtomicAck, space: packet.Responses,
			response: true, starts: true, ends: true},
		{opcode: packet.CmpSwap, verb: packet.VerbAtomic, data: true, request: true, starts: true, ends: true},
		{opcode: packet.FetchAdd, verb: packet.VerbAtomic, data: true, request: true, starts: true, ends: true},
		{opcode: packet.SendLastInv, verb: packet.VerbSend, data: true, request: true, ends: true},
		{opcode: packet.SendOnlyInv, verb: packet.VerbSend, data: true, request: true, starts: true, ends: true},
		{opcode: packet.CNP, class: packet.ClassCNP},
	}
	known := len(knownOpcodes())
	if known != len(tests) {
		t.Errorf("%d opcodes are known, %d are in this table", known, len(tests))
	}
	for _, test := range tests {
		o := test.opcode
		p := sample(o, 0)
		got := test
		got.verb, got.class, got.space = o.Verb(), p.Class(), o.Space()
		got.data, got.request, got.response, got.readResp = o.IsData(), o.IsRequest(), o.IsResponse(), o.IsReadResponse()
		got.starts, got.ends = o.Starts(), o.Ends()
		if got != test {
			t.Errorf("%v:\n got %+v\nwant %+v", o, got, test)
		}
	}
}

func TestOpcodesOfOtherServicesAreNeitherDataNorControl(t *testing.T) {
	for n := range 256 {
		o := packet.Opcode(n)
		if o.Known() {
			continue
		}
		if o.IsData() || o.IsRequest() || o.IsResponse() || o.Headers() != 0 || packet.Classify(o, 0) != packet.ClassOther {
			t.Errorf("%v counts as something of ours", o)
		}
	}
	if got := packet.Opcode(0x64).String(); got != "OPCODE_0x64" {
		t.Errorf("an unknown opcode prints as %s", got)
	}
}

func TestEverySyndromeHasOneClass(t *testing.T) {
	want := func(s packet.Syndrome) packet.Class {
		switch {
		case s < 0x20:
			return packet.ClassAck
		case s < 0x40:
			return packet.ClassRNR
		case s == 0x60:
			return packet.ClassNak
		case s == 0x61:
			return packet.ClassNakInv
		case s == 0x62:
			return packet.ClassNakAcc
		case s == 0x63:
			return packet.ClassNakOp
		}
		return packet.ClassOther // reserved codes, and anything with the reserved bit 7
	}
	for n := range 256 {
		s := packet.Syndrome(n)
		if got := packet.Classify(packet.Acknowledge, s); got != want(s) {
			t.Errorf("syndrome %02x is %v, want %v", n, got, want(s))
		}
	}
	for s, words := range map[packet.Syndrome]string{
		0x1f: "ACK", 0x2e: "RNR NAK (timer code 14)", 0x60: "NAK (PSN sequence error)", 0x64: "AETH syndrome 0x64",
	} {
		if s.String() != words {
			t.Errorf("syndrome %02x prints as %s, want %s", uint8(s), s, words)
		}
	}
}

func TestClassesAreParsedFromTheirNames(t *testing.T) {
	for c := range packet.Class(10) {
		if got, ok := packet.ParseClass(c.String()); !ok || got != c {
			t.Errorf("%v parses as %v, %v", c, got, ok)
		}
	}
	if _, ok := packet.ParseClass("nack"); ok {
		t.Error("nack is not a class")
	}
}

// The values of IBTA volume 1, 9.7.5.2.8, in milliseconds.
func TestRNRTimerCodes(t *testing.T) {
	want := [32]float64{655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
		2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52}
	for code, ms := range want {
		if got := packet.RNRTimer(uint8(code)); got != int64(ms*1e6+0.5) {
			t.Errorf("code %d is %d ns, want %v ms", code, got, ms)
		}
	}
}

func TestMACsAreNumbersInNetworkOrder(t *testing.T) {
	const n = 0x0102030405fe
	m := packet.MACFromUint48(n | 0xabcd<<48)
	if m.Uint48() != n || m.String() != "01:02:03:04:05:fe" || !m.IsGroup() {
		t.Errorf("%v is %x, group %v", m, m.Uint48(), m.IsGroup())
	}
	if packet.MACFromUint48(0x020000000001).IsGroup() {
		t.Error("a locally administered unicast address counts as a group")
	}
}
