package orchestrator

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func rewriteOf(connection int, reverse bool, space packet.Space, class packet.Class, field packet.RewriteField,
	value uint64) injector.Intent {
	return injector.Intent{Flow: trace.NewFlowID(connection, reverse), Space: space, Class: class,
		Action: injector.NewAction(trace.EventRewrite, uint64(field), value)}
}

// On both sides of both connections the received bytes differ from the sent ones. An event excuses only the memory that
// it may have changed.
func TestWrongDataFailsUnlessARewriteThatHitMayHaveChangedIt(t *testing.T) {
	const all = "1 requester, 1 responder, 2 requester, 2 responder"
	data := func(field packet.RewriteField, value uint64) injector.Intent {
		return rewriteOf(2, false, packet.Requests, packet.ClassData, field, value)
	}
	ack := func(field packet.RewriteField) injector.Intent {
		return rewriteOf(2, true, packet.Responses, packet.ClassAck, field, 1)
	}
	drop := injector.Intent{Flow: trace.NewFlowID(2, false), Action: injector.Action{Type: trace.EventDrop}}
	for _, tt := range []struct {
		name   string
		event  injector.Intent
		missed bool
		want   string
	}{
		{"a loss explains nothing", drop, false, all},
		{"a rewritten psn, where the packet went", data(packet.RewritePSN, 7), false,
			"1 requester, 1 responder, 2 requester"},
		{"one that hit no packet", data(packet.RewritePSN, 7), true, all},
		{"a rewritten opcode", data(packet.RewriteOpcode, 1), false, "1 requester, 1 responder, 2 requester"},
		{"a rewritten length of a write", data(packet.RewriteDMALength, 1), false, "1 requester, 1 responder, 2 requester"},
		{"a partition key makes a loss", data(packet.RewritePKey, 1), false, all},
		{"a mark", data(packet.RewriteDSCP, 1), false, all},
		{"an acknowledge request", data(packet.RewriteAckReq, 1), false, all},
		{"a request has no syndrome", data(packet.RewriteSyndrome, 1), false, all},
		{"a forged ack leaves either side without its data", ack(packet.RewriteSyndrome), false, "1 requester, 1 responder"},
		{"an ack has no remote key", ack(packet.RewriteRKey), false, all},
		{"a cnp has no data", rewriteOf(2, true, packet.Responses, packet.ClassCNP, packet.RewritePSN, 1), false, all},
		{"a read request", rewriteOf(2, false, packet.Requests, packet.ClassReadRequest, packet.RewriteDMALength, 1), false,
			"1 requester, 1 responder"},
		{"a read response", rewriteOf(2, true, packet.Responses, packet.ClassData, packet.RewritePSN, 1), false,
			"1 requester, 1 responder"},
		{"a packet for the other connection's queue pair", data(packet.RewriteDestQP, 31), false,
			"1 requester, 2 requester, 2 responder"},
		{"a packet for no queue pair", data(packet.RewriteDestQP, 99), false, all},
		{"a packet for the queue pair that it had", data(packet.RewriteDestQP, 32), false,
			"1 requester, 1 responder, 2 requester"},
		{"a packet for a queue pair of the other host", data(packet.RewriteDestQP, 21), false, all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hits := []uint64{1}
			if tt.missed {
				hits[0] = 0
			}
			var got []string
			for _, line := range wrongData(wrongEverywhere(), rewritten([]injector.Intent{tt.event}, hits, twoConnections(t))) {
				words := strings.Fields(line)
				got = append(got, words[3]+" "+strings.TrimSuffix(words[6], ":"))
			}
			if list := strings.Join(got, ", "); list != tt.want {
				t.Errorf("blamed: %s; want %s", list, tt.want)
			}
		})
	}
	const line = "data of qpn 1 at the requester: 1 differences in 10 messages, the first: byte 7"
	if got := wrongData(wrongEverywhere(), nil); len(got) != 4 || got[0] != line {
		t.Errorf("%q, want %q first", got, line)
	}
}

// The answer of an atomic returns the word as earlier atomics left it, so a rewritten atomic may change the data of
// both sides.
func TestARewrittenAtomicExcusesBothSides(t *testing.T) {
	for verb, want := range map[string]int{"write": 3, "fetch-add": 2, "compare-swap": 2} {
		var list []trace.Connection
		for _, c := range twoConnections(t).All() {
			if c.Index == 2 {
				c.Verb, c.Verbs = "", []string{"send", verb}
			}
			list = append(list, c)
		}
		known, err := trace.NewConnections(list)
		if err != nil {
			t.Fatal(err)
		}
		event := rewriteOf(2, false, packet.Requests, packet.ClassData, packet.RewriteOpcode, 19)
		if got := wrongData(wrongEverywhere(), rewritten([]injector.Intent{event}, []uint64{1}, known)); len(got) != want {
			t.Errorf("%s: %d sides are blamed: %q; want %d", verb, len(got), got, want)
		}
	}
}

func wrongEverywhere() *generator.Report {
	g := &generator.Report{Data: []generator.DataReport{{Connection: 3, Side: "responder", Messages: 10}}}
	for c := 1; c <= 2; c++ {
		for _, side := range []generator.Side{generator.Requester, generator.Responder} {
			g.Data = append(g.Data, generator.DataReport{Connection: c, Side: side.String(), Messages: 10, Wrong: 1,
				First: "byte 7"})
		}
	}
	return g
}

// twoConnections returns two connections whose requesters have the QPNs 21 and 22 and whose responders have 31 and 32.
func twoConnections(t *testing.T) *trace.Connections {
	t.Helper()
	var list []trace.Connection
	for c := 1; c <= 2; c++ {
		side := func(host int) trace.Side {
			return trace.Side{IP: netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", host)), QPN: packet.QPN(10 + 10*host + c)}
		}
		list = append(list, trace.Connection{Index: c, Verb: "write", MTU: 1024, Requester: side(1), Responder: side(2)})
	}
	known, err := trace.NewConnections(list)
	if err != nil {
		t.Fatal(err)
	}
	return known
}
