package injector_test

import (
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// arrival is a packet as an event addresses it: in relative numbers.
type arrival struct {
	flow   trace.FlowID
	space  packet.Space
	class  packet.Class
	relPSN int
}

// packet builds the packet on the wire.
func (a arrival) packet(conns []injector.Connection) *packet.Packet {
	c := conns[a.flow.Connection()-1]
	src, dst := c.Requester, c.Responder
	if a.flow.Reverse() {
		src, dst = dst, src
	}
	first := src.IPSN // of the sender's own requests
	if a.space == packet.Responses {
		first = dst.IPSN // of the requests it answers
	}
	op, syndrome := opcodeOf(a)
	p := &packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH | op.Headers(),
		Eth: packet.Ethernet{Dst: hostB, Type: packet.EtherTypeIPv4},
		IP:  packet.IP{Version: 4, Protocol: packet.ProtocolUDP, Src: src.IP, Dst: dst.IP},
		UDP: packet.UDP{DstPort: packet.Port},
		BTH: packet.BTH{Opcode: op, DestQP: dst.QPN, PSN: first.Add(a.relPSN - 1)},
	}
	if src.IP.Is6() {
		p.IP.Version, p.Eth.Type = 6, packet.EtherTypeIPv6
	}
	p.AETH.Syndrome = syndrome
	return p
}

func opcodeOf(a arrival) (packet.Opcode, packet.Syndrome) {
	switch {
	case a.class == packet.ClassNak:
		return packet.Acknowledge, packet.SyndromeNakSequence
	case a.class == packet.ClassAck:
		return packet.Acknowledge, packet.SyndromeAckNoCredit
	case a.class == packet.ClassReadRequest:
		return packet.ReadRequest, 0
	case a.space == packet.Responses:
		return packet.ReadResponseMiddle, 0
	}
	return packet.WriteMiddle, 0
}

// oracle says what events do, straight from what they mean.
type oracle struct {
	last, iter map[[2]int]int
	arrivals   map[arrival]int
	ordinals   map[[2]int]int
}

func newOracle() *oracle {
	return &oracle{map[[2]int]int{}, map[[2]int]int{}, map[arrival]int{}, map[[2]int]int{}}
}

// arrive counts a and returns the event that acts on it.
func (o *oracle) arrive(a arrival, intents []injector.Intent) trace.EventType {
	round := [2]int{int(a.flow), int(a.space)}
	if o.iter[round] == 0 {
		o.iter[round] = 1
	}
	if a.class == packet.ClassData {
		if a.relPSN <= o.last[round] {
			o.iter[round]++
		}
		o.last[round] = a.relPSN
	}
	o.arrivals[a]++
	class := [2]int{int(a.flow), int(a.class)}
	o.ordinals[class]++
	best, event := 0, trace.EventNone
	for _, in := range intents {
		if rank := o.rank(a, in, o.iter[round], o.ordinals[class]); rank > best {
			best, event = rank, in.Action.Type
		}
	}
	return event
}

// rank returns how closely an event addresses a: 3 by round or ordinal, 2 by arrival of its PSN, 1 at any time, 0 not
// at all.
func (o *oracle) rank(a arrival, in injector.Intent, iter, ordinal int) int {
	samePSN := in.RelPSN == int64(a.relPSN) && in.Space == a.space
	switch {
	case in.Flow != a.flow || in.Class != a.class || in.RelPSN != 0 && !samePSN:
		return 0
	case in.Nth == injector.Any && in.RelPSN != 0 && in.Class != packet.ClassData:
		return 2
	case in.Nth == injector.Any:
		return 1
	case in.Class == packet.ClassData && in.Scope == injector.IterConnection && iter == int(in.Nth),
		in.RelPSN == 0 && ordinal == int(in.Nth):
		return 3
	case in.RelPSN != 0 && (in.Class != packet.ClassData || in.Scope == injector.IterPacket) &&
		o.arrivals[a] == int(in.Nth):
		return 2
	}
	return 0
}

// drawArrival draws a packet of a few, so that packets and events meet.
func drawArrival(t *rapid.T) arrival {
	a := arrival{flow: trace.FlowID(rapid.IntRange(0, 3).Draw(t, "flow")), relPSN: rapid.IntRange(1, 4).Draw(t, "psn"),
		class: rapid.SampledFrom([]packet.Class{packet.ClassData, packet.ClassData, packet.ClassNak, packet.ClassAck,
			packet.ClassReadRequest}).Draw(t, "class")}
	switch a.class {
	case packet.ClassData:
		a.space = packet.Space(rapid.IntRange(0, 1).Draw(t, "space"))
	case packet.ClassNak, packet.ClassAck:
		a.space = packet.Responses
	}
	return a
}

func drawIntent(t *rapid.T) injector.Intent {
	a := drawArrival(t)
	in := injector.Intent{Flow: a.flow, Space: a.space, Class: a.class, RelPSN: int64(a.relPSN),
		Nth: uint16(rapid.IntRange(0, 3).Draw(t, "nth")), Action: drop}
	if rapid.Bool().Draw(t, "mark") {
		in.Action = mark
	}
	if a.class == packet.ClassData && rapid.Bool().Draw(t, "packet scope") {
		in.Scope = injector.IterPacket
	}
	if a.class != packet.ClassData && rapid.Bool().Draw(t, "by ordinal") {
		in.RelPSN = 0
	}
	return in
}

// TestEventsMeanWhatTheySay translates random events, processes random packets of two connections (one across the PSN
// wrap, one over IPv6), and compares with the meaning of the events in relative numbers.
func TestEventsMeanWhatTheySay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		conns := twoConnections()
		opts := injector.Options{Epoch: 1}
		var intents []injector.Intent
		for range rapid.IntRange(0, 12).Draw(t, "events") {
			more := append(intents[:len(intents):len(intents)], drawIntent(t))
			if _, err := injector.Translate(conns, more, opts); err == nil { // else they would meet on one packet
				intents = more
			}
		}
		program, err := injector.Translate(conns, intents, opts)
		if err != nil {
			t.Fatal(err)
		}
		pipe, err := pipeline.New(pipeline.Config{Ports: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range program.Entries {
			if err := pipe.Set(e.Table, e.Key, e.Action); err != nil {
				t.Fatal(err)
			}
		}
		o, fired := newOracle(), 0
		for range rapid.IntRange(1, 60).Draw(t, "packets") {
			a := drawArrival(t)
			var r pipeline.Result
			pipe.Process(0, 0, a.packet(conns), &r)
			if want := o.arrive(a, intents); r.Event != want || r.Flow != a.flow {
				t.Fatalf("%+v: %v on flow %d, want %v; program:\n%s", a, r.Event, r.Flow, want, program)
			}
			if r.Event != trace.EventNone {
				fired++
			}
		}
		if hits := totalHits(pipe, program); hits != fired {
			t.Fatalf("%d hits for %d events", hits, fired)
		}
	})
}

func totalHits(pipe *pipeline.Pipeline, program *injector.Program) (hits int) {
	for _, e := range program.Entries {
		if e.Table != p4.TableWatch && e.Intent >= 0 {
			hits += int(pipe.Hits(e.Table, e.Key))
		}
	}
	return hits
}
