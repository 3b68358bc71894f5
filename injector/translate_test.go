package injector_test

import (
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, name, got, string(want))
}

var (
	drop    = injector.Action{Type: trace.EventDrop}
	mark    = injector.Action{Type: trace.EventECN}
	corrupt = injector.Action{Type: trace.EventCorrupt}
	trim    = injector.NewAction(trace.EventTrim, 64, 8, uint64(injector.TrimSetDSCP))
)

// twoConnections are one over IPv4 whose PSNs wrap and one over IPv6.
func twoConnections() []injector.Connection {
	return []injector.Connection{
		oneConnection()[0],
		{
			Requester: injector.Endpoint{IP: netip.MustParseAddr("fd00::2"), QPN: 0x33, IPSN: 1000},
			Responder: injector.Endpoint{IP: netip.MustParseAddr("fd00::1"), QPN: 0x33, IPSN: 2000},
		},
	}
}

func TestTranslation(t *testing.T) {
	tests := []struct {
		name    string
		intents []injector.Intent
	}{
		{"no-events", nil},
		{"every-way-to-address-a-packet", []injector.Intent{
			{Index: 0, Flow: 0, RelPSN: 1, Nth: 1, Action: drop},
			{Index: 1, Flow: 0, RelPSN: 3, Nth: 2, Action: mark}, // wraps
			{Index: 2, Flow: 0, RelPSN: 4, Nth: injector.Any, Action: corrupt},
			{Index: 3, Flow: 0, RelPSN: 5, Nth: 2, Scope: injector.IterPacket, Action: trim},
			{Index: 4, Flow: 0, RelPSN: 5, Nth: 3, Scope: injector.IterPacket, Action: drop}, // the same slot
			{Index: 5, Flow: 0, RelPSN: 6, Nth: 1, Scope: injector.IterPacket, Action: drop},
			{Index: 0, Flow: 1, Class: packet.ClassNak, Space: packet.Responses, Nth: 1, Action: drop},
			{Index: 1, Flow: 1, Class: packet.ClassAck, Space: packet.Responses, RelPSN: 10, Nth: 1, Action: drop},
			{Index: 2, Flow: 1, Class: packet.ClassAck, Space: packet.Responses, RelPSN: 11, Nth: injector.Any, Action: drop},
			{Index: 3, Flow: 1, Class: packet.ClassCNP, Nth: injector.Any, Action: drop},
			{Index: 4, Flow: 0, Class: packet.ClassReadRequest, RelPSN: 7, Nth: 1, Action: corrupt},
		}},
		{"read-responses-and-reverse-requests", []injector.Intent{
			// to IPSN 1000
			{Index: 0, Flow: 3, Space: packet.Responses, RelPSN: 2, Nth: 1, Action: drop},
			// from IPSN 2000
			{Index: 1, Flow: 3, Space: packet.Requests, RelPSN: 2, Nth: 1, Action: drop},
			// to IPSN 2000
			{Index: 2, Flow: 2, Space: packet.Responses, RelPSN: 2, Nth: 1, Action: drop},
			// of reverse requests
			{Index: 3, Flow: 2, Class: packet.ClassNak, Space: packet.Responses, RelPSN: 1, Nth: 1, Action: corrupt},
		}},
		{"message-scope", []injector.Intent{
			{Index: 0, Flow: 0, RelPSN: 1, Nth: 1, Scope: injector.IterMessage, Action: drop},
			{Index: 1, Flow: 0, RelPSN: 2, Nth: injector.Any, Scope: injector.IterMessage, Action: mark},
			{Index: 0, Flow: 0, Class: packet.ClassCNP, Nth: 2, Action: drop},
			{Index: 2, Flow: 2, RelPSN: 1, Nth: 1, Action: drop}, // another flow counts as before
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := injector.Translate(twoConnections(), tt.intents, injector.Options{Target: "embedded", Epoch: 3})
			if err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name+".txt", p.String())
		})
	}
}

func TestEventsThatCannotBeTranslatedAreRefusedAllAtOnce(t *testing.T) {
	nak := func(index int, nth uint16, relPSN int64) injector.Intent {
		return injector.Intent{Index: index, Flow: 1, Class: packet.ClassNak, Space: packet.Responses, Nth: nth,
			RelPSN: relPSN, Action: drop}
	}
	data := func(index int, psn int64, iter uint16, a injector.Action) injector.Intent {
		return injector.Intent{Index: index, Where: "drop.yml:14:9: traffic.data-pkt-events[1]", Flow: 2, RelPSN: psn,
			Nth: iter, Action: a}
	}
	scoped := func(in injector.Intent, s injector.IterScope) injector.Intent { in.Scope = s; return in }
	tests := []struct {
		name    string
		intents []injector.Intent
		want    []string // parts of the error
	}{
		{"two actions on one packet", []injector.Intent{data(0, 5, 1, drop), data(1, 5, 1, mark)},
			[]string{"drop.yml:14:9: traffic.data-pkt-events[1]: event 1 (qpn 2 psn 5 iter 1): two actions on one packet: " +
				"event 0 (qpn 2 psn 5 iter 1) is drop, this one ecn"}},
		{"any after a number", []injector.Intent{data(0, 5, 1, drop), data(1, 5, 0, mark)},
			[]string{"event 1 (qpn 2 psn 5 iter any): two actions"}},
		{"a number after any", []injector.Intent{data(0, 5, 0, drop), data(1, 5, 2, mark)},
			[]string{"event 1 (qpn 2 psn 5 iter 2): two actions"}},
		{"an arrival after any", []injector.Intent{data(0, 5, 0, drop), scoped(data(1, 5, 2, mark), injector.IterPacket)},
			[]string{"two actions"}},
		{"any class after an ordinal", []injector.Intent{nak(0, 1, 0), nak(1, 0, 0)},
			[]string{"event 1 (qpn 1 reverse nak nth any): two actions"}},
		{"any class after a PSN", []injector.Intent{nak(0, 1, 4), nak(1, 0, 0)}, []string{"two actions"}},
		{"a PSN after any class", []injector.Intent{nak(0, 0, 0), nak(1, 1, 4)}, []string{"two actions"}},
		{"any arrival after a number", []injector.Intent{nak(0, 2, 4), nak(1, 0, 4)}, []string{"two actions"}},
		{"two ITER rules on one flow",
			[]injector.Intent{data(0, 5, 1, drop), scoped(data(1, 6, 1, drop), injector.IterMessage)},
			[]string{"event 1 (qpn 2 psn 6 iter 1): iter-scope message, but event 0 on the same flow has connection"}},
		{"an unknown connection", []injector.Intent{{Flow: 4, RelPSN: 1, Action: drop}},
			[]string{"there is no connection 3 (the test has 2)"}},
		{"no psn for data", []injector.Intent{data(0, 0, 1, drop)}, []string{"a data packet is addressed by its psn"}},
		{"a psn past the period", []injector.Intent{data(0, 1<<24+1, 1, drop)},
			[]string{"psn 16777217 is not in 1…16777216"}},
		{"a saturated count", []injector.Intent{data(0, 1, 65535, drop)}, []string{"at most 65534 can be addressed"}},
		{"a cnp with a psn", []injector.Intent{{Class: packet.ClassCNP, RelPSN: 1, Nth: 1, Action: drop}},
			[]string{"a cnp is outside the PSN stream"}},
		{"an ack among requests", []injector.Intent{{Class: packet.ClassAck, RelPSN: 1, Nth: 1, Action: drop}},
			[]string{"space responses, not requests"}},
		{"a class nobody can name", []injector.Intent{{Class: packet.ClassOther, Nth: 1, Action: drop}},
			[]string{"class other can't be addressed"}},
		{"no action", []injector.Intent{{RelPSN: 1, Nth: 1}}, []string{"the event has no action"}},
		{"a trim to nothing", []injector.Intent{{RelPSN: 1, Nth: 1, Action: injector.NewAction(trace.EventTrim, 0, 0, 0)}},
			[]string{"trim: size 0 is not in 1…65535"}},
		{"two mistakes", []injector.Intent{data(0, 0, 1, drop), nak(1, 65535, 0)},
			[]string{"addressed by its psn", "at most 65534"}},
		{"trim of a control packet", []injector.Intent{{Index: 2, Class: packet.ClassReadRequest, Nth: 1, Action: trim}},
			[]string{`program control_event table: entry 2 (qpn 1 read-request nth 1): target "tofino-a" offers no "trim" (it has: drop, mark_ecn, corrupt)`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := injector.Translate(twoConnections(), tt.intents, injector.Options{Target: "tofino-a", Epoch: 1})
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestAnActionThatTheTargetLacksIsRefusedByName(t *testing.T) {
	intents := []injector.Intent{{Index: 3, Flow: 2, RelPSN: 5, Nth: 1, Action: trim}}
	opts := injector.Options{Target: "tofino-a", Epoch: 1, Info: p4.Base().Without("trim", "corrupt")}
	_, err := injector.Translate(twoConnections(), intents, opts)
	const want = `program event table: entry 3 (qpn 2 psn 5 iter 1): target "tofino-a" offers no "trim" (it has: drop, mark_ecn)`
	if err == nil || err.Error() != want || !errors.Is(err, injector.ErrUnsupported) {
		t.Errorf("got %v, want %s", err, want)
	}
	intents[0].Action = injector.NewAction(trace.EventDelay, 1)
	if _, err := injector.Translate(twoConnections(), intents, opts); err == nil ||
		!strings.Contains(err.Error(), `offers no "delay"`) {
		t.Errorf("delay: %v", err)
	}
}

func TestAmbiguousConnectionsAreRefused(t *testing.T) {
	c := oneConnection()[0]
	mixed, mapped, wide, unset := c, c, c, c
	mixed.Responder.IP = netip.MustParseAddr("fd00::1")
	mapped.Requester.IP = netip.MustParseAddr("::ffff:10.0.0.2")
	wide.Responder.QPN = 1 << 24
	unset.Requester.IP = netip.Addr{}
	for name, conns := range map[string][]injector.Connection{
		"the same connection twice": {c, c}, "mixed IP versions": {mixed}, "a mapped address": {mapped},
		"a QPN of 25 bits": {wide},
		"no address":       {unset}, "more than the registers hold": make([]injector.Connection, 2049),
	} {
		if _, err := injector.Translate(conns, nil, injector.Options{Epoch: 1}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := injector.Translate([]injector.Connection{c}, nil, injector.Options{}); err == nil {
		t.Error("epoch 0: accepted")
	}
}

func TestMoreEventsThanATableHoldsAreRefused(t *testing.T) {
	var intents []injector.Intent
	for i := range 8193 {
		intents = append(intents, injector.Intent{Index: i, RelPSN: int64(i + 1), Nth: 1, Action: drop})
	}
	_, err := injector.Translate(twoConnections(), intents, injector.Options{Target: "embedded", Epoch: 1})
	if err == nil || !strings.Contains(err.Error(),
		`program event table: 8193 entries, target "embedded" has room for 8192`) {
		t.Errorf("got %v", err)
	}
}

func TestTurnsSpreadMirrorsByWeight(t *testing.T) {
	mirrors := func(weights ...int) (out []injector.Mirror) {
		for i, w := range weights {
			out = append(out, injector.Mirror{Port: uint16(i), Weight: w})
		}
		return out
	}
	tests := []struct {
		name string
		in   []injector.Mirror
		want []uint16
	}{
		{"no mirrors", nil, nil},
		{"equal weights take turns", mirrors(7, 7), []uint16{1, 2}},
		{"weights are reduced and copies spread", mirrors(40, 20, 20), []uint16{1, 2, 3, 1}},
		{"a heavy one is interrupted", mirrors(5, 1, 1), []uint16{1, 1, 2, 1, 3, 1, 1}},
	}
	for _, tt := range tests {
		got, err := injector.Turns(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, tt.name, got, tt.want)
	}
	for name, in := range map[string][]injector.Mirror{"weight 0": mirrors(0), "too many turns": mirrors(1023, 2),
		"too many": make([]injector.Mirror, 1024)} {
		if _, err := injector.Turns(in); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTheDocumentSurvivesItsFile(t *testing.T) {
	intents := []injector.Intent{
		{Index: 0, Where: "drop.yml:14:9: traffic.data-pkt-events[0]", Flow: 0, RelPSN: 5, Nth: 1, Action: trim},
		{Index: 0, Flow: 1, Class: packet.ClassAck, Space: packet.Responses, RelPSN: 3, Nth: 2, Action: drop},
		{Index: 1, Flow: 1, Class: packet.ClassCNP, Nth: injector.Any, Action: drop},
	}
	p, err := injector.Translate(twoConnections(), intents, injector.Options{Target: "embedded", Epoch: 3})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.Document([]uint64{1, 0, 4}).Write(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "entries.json", b.String())
	doc, err := injector.ReadEntries(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	var second strings.Builder
	if err := doc.Write(&second); err != nil {
		t.Fatal(err)
	}
	equal(t, "document written again", second.String(), b.String())
	for name, text := range map[string]string{
		"another schema": `{"schema":"candela.entries/v2"}`, "an unknown key": `{"schema":"candela.entries/v1","x":1}`,
		"nothing": "", "a second document": `{"schema":"candela.entries/v1"}{}`,
	} {
		if _, err := injector.ReadEntries(strings.NewReader(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTurnsKeepWeightsAndInterleave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 20), 1, 6).Draw(t, "weights")
		var mirrors []injector.Mirror
		for i, w := range weights {
			mirrors = append(mirrors, injector.Mirror{Port: uint16(i), Weight: w})
		}
		turns, err := injector.Turns(mirrors)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, w := range weights {
			total += w
		}
		seen := make([]int, len(weights))
		for i, session := range turns {
			d := int(session) - 1
			seen[d]++
			// At any point of the round every dumper has had its share within one turn per dumper.
			if dev := float64(seen[d]) - float64((i+1)*weights[d])/float64(total); dev > float64(len(weights)) {
				t.Fatalf("turn %d: dumper %d is %.1f turns ahead in %v", i, d, dev, turns)
			}
		}
		for d, n := range seen {
			if n*total != weights[d]*len(turns) {
				t.Errorf("dumper %d has %d of %d turns, weights %v", d, n, len(turns), weights)
			}
		}
	})
}
