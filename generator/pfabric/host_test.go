package pfabric_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/pfabric"
	"candela.dev/candela/generator/wire"
)

const (
	payload = 1000
	rto     = 45 * clock.Microsecond
	none    = pfabric.NoNumber
)

func at(us int) clock.Time { return clock.Time(0).Add(clock.Duration(us) * clock.Microsecond) }

// remaining ranks packets as pFabric does.
var remaining = wire.Ranking{Kind: wire.RankByBytes}

// events keeps what hosts report.
type events []pfabric.Event

func (e *events) PFabricEvent(_ clock.Time, event pfabric.Event) { *e = append(*e, event) }

func (e *events) count(kind pfabric.EventKind) (n int) {
	for i := range *e {
		if (*e)[i].Kind == kind {
			n++
		}
	}
	return n
}

// host returns host 1 with a window of 4 packets, which probes after 5 timeouts.
func host(t *testing.T, sink pfabric.Sink) *pfabric.Host {
	t.Helper()
	h, err := pfabric.New(pfabric.Config{Address: 1, Payload: payload, Window: 4, RTO: rto, ProbeAfter: 5}, sink)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// send gives a host a flow to host 2.
func send(t *testing.T, h *pfabric.Host, bytes uint64, us int) uint32 {
	t.Helper()
	number, err := h.Send(pfabric.Flow{To: 2, Bytes: bytes, Start: at(us), Rank: remaining})
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// poll lets the host do what is due, and returns all that it sends: kind, number, total and rank of each packet.
func poll(h *pfabric.Host, us int) string {
	if next, ok := h.NextTimer(); ok && next <= at(us) {
		h.HandleTimer(at(us))
	}
	var list []string
	for p := (pfabric.Packet{}); h.Poll(at(us), &p); {
		list = append(list, fmt.Sprintf("%s%d", [...]string{1: "", 2: "ack ", 3: "probe "}[p.Kind], p.Number))
	}
	return strings.Join(list, " ")
}

// ack brings the acknowledgement of packet number of connection 0, before which total have arrived in order.
func ack(h *pfabric.Host, us int, number, total uint32) {
	h.HandlePacket(at(us), &pfabric.Packet{From: 2, To: 1, Kind: pfabric.Ack, Number: number, Total: total})
}

// A step brings an acknowledgement (NoNumber of 0: none) and says what the host sends then.
type senderStep struct {
	us            int
	number, total uint32
	want          string
}

func TestSendersFollowThePaper(t *testing.T) {
	quiet := func(us int, want string) senderStep { return senderStep{us, none, 0, want} }
	for _, tt := range []struct {
		name    string
		packets int
		steps   []senderStep
	}{
		{"a flow starts with its window, and its end is short of it", 3, []senderStep{quiet(0, "0 1 2"), quiet(44, "")}},
		{"the first window is sent at once", 9, []senderStep{quiet(0, "0 1 2 3"), quiet(1, "")}},
		{"each acknowledgement lets a packet go", 9, []senderStep{quiet(0, "0 1 2 3"), {10, 0, 1, "4"}, {11, 1, 2, "5"}}},
		{"of a whole window, one more", 20, []senderStep{quiet(0, "0 1 2 3"), {10, 0, 1, "4"}, {10, 1, 2, "5"},
			{10, 2, 3, "6"}, {10, 3, 4, "7"}, {20, 4, 5, "8 9"}}},
		{"packets are acknowledged one by one", 5, []senderStep{quiet(0, "0 1 2 3"), {10, 2, 0, "4"}, {11, 3, 0, ""},
			quiet(55, ""), quiet(56, "0"), {60, 0, 1, "1 4"}}},
		{"the count of what arrived in order replaces lost acknowledgements", 9,
			[]senderStep{quiet(0, "0 1 2 3"), {10, 3, 4, "4 5 6 7"}}},
		{"three duplicates retransmit nothing", 5, []senderStep{quiet(0, "0 1 2 3"), {10, 1, 0, "4"}, {11, 2, 0, ""},
			{12, 3, 0, ""}, {13, 4, 0, ""}, quiet(57, ""), quiet(58, "0")}},
		{"the timer runs from the first packet", 2, []senderStep{quiet(0, "0 1"), quiet(44, ""), quiet(45, "0")}},
		{"each new acknowledgement restarts the timer", 3,
			[]senderStep{quiet(0, "0 1 2"), {40, 0, 1, ""}, quiet(84, ""), quiet(85, "1")}},
		{"one that is not new does not", 3, []senderStep{quiet(0, "0 1 2"), {10, 0, 1, ""}, {40, 0, 1, ""}, quiet(55, "1")}},
		{"the timeout is fixed", 1, []senderStep{quiet(0, "0"), quiet(45, "0"), quiet(89, ""), quiet(90, "0"), quiet(134, ""),
			quiet(135, "0")}},
		{"a timeout leaves a window of one, and a threshold of half", 20, []senderStep{quiet(0, "0 1 2 3"), quiet(45, "0"),
			{50, 0, 1, "1 2"}, {60, 1, 2, "3"}, {61, 2, 3, "4"},
			{62, 3, 4, "5 6"}}},
		{"an acknowledgement of what counted as lost", 9, []senderStep{quiet(0, "0 1 2 3"), quiet(45, "0"), {46, 3, 0, "1"},
			{50, 0, 1, "2"}}},
		{"probes after five timeouts, until an acknowledgement", 2, []senderStep{quiet(0, "0 1"), quiet(45, "0"),
			quiet(90, "0"), quiet(135, "0"), quiet(180, "0"), quiet(225, "probe 0"), quiet(269, ""), quiet(270, "probe 0"),
			{272, none, 0, ""}}},
		{"an acknowledgement between timeouts starts the count again", 2, []senderStep{quiet(0, "0 1"), quiet(45, "0"),
			quiet(90, "0"), quiet(135, "0"), quiet(180, "0"), {181, 0, 1, "1"}, quiet(226, "1"), quiet(271, "1")}},
		{"an acknowledgement of packets that were never sent", 9, []senderStep{quiet(0, "0 1 2 3"), {10, 4, 0, ""},
			{11, none - 1, 0, ""}, {12, 0, 5, ""}}},
	} {
		h := host(t, nil)
		send(t, h, uint64(tt.packets)*payload, 0)
		for i, s := range tt.steps {
			if s.number != none || s.total > 0 {
				ack(h, s.us, s.number, s.total)
			}
			if got := poll(h, s.us); got != s.want {
				t.Errorf("%s: step %d at %d us: sent %q, want %q", tt.name, i, s.us, got, s.want)
				break
			}
		}
	}
}

// The answer to a probe is for no packet. It ends the mode: the sender goes on with a window of one packet.
func TestTheAnswerToAProbeEndsTheMode(t *testing.T) {
	h := host(t, nil)
	send(t, h, 9*payload, 0)
	poll(h, 0)
	for us := 45; us <= 180; us += 45 {
		poll(h, us)
	}
	h.HandleTimer(at(225))
	var p pfabric.Packet
	if !h.Poll(at(225), &p) || p.Kind != pfabric.Probe || p.Payload != 1 || p.Number != 0 || p.Total != 9 ||
		p.Rank != 9*payload {
		t.Fatalf("the probe is %+v", p)
	}
	ack(h, 230, none, 2) // packets 0 and 1 had arrived; only their acknowledgements were lost
	if got := poll(h, 230); got != "2 3" {
		t.Errorf("after the answer it sends %q, want packets 2 and 3", got)
	}
	if got := poll(h, 275); got != "2" { // not a probe: the count starts again
		t.Errorf("after the next timeout it sends %q", got)
	}
}

// Above the threshold each of n acknowledgements adds 1/w packets to a window of w, as in ns-2 and RFC 5681: it becomes
// the square root of w² + 2n. After a timeout the threshold is half of that.
func TestWindowsGrowByAPacketARoundTrip(t *testing.T) {
	h := host(t, nil)
	send(t, h, 10_000*payload, 0)
	flight, acked := len(strings.Fields(poll(h, 0))), 0
	trip := func(us int) {
		for range flight {
			ack(h, us, uint32(acked), uint32(acked)+1)
			acked++
		}
		flight = len(strings.Fields(poll(h, us)))
	}
	for us := 1; us <= 30; us++ {
		trip(us)
		if want := math.Sqrt(float64(4*4 + 2*acked)); math.Abs(float64(flight)+0.5-want) > 1 {
			t.Fatalf("after %d acknowledgements %d packets are in flight, want %.1f", acked, flight, want)
		}
	}
	threshold := flight / 2
	poll(h, 100)
	flight = 1
	for us := 101; flight < threshold; us++ {
		before := flight
		if trip(us); flight != min(2*before, threshold) {
			t.Fatalf("after the timeout %d packets are sent in a round trip after one of %d, want twice as many up to %d", flight,
				before, threshold)
		}
	}
	if trip(140); flight > threshold+1 {
		t.Errorf("above the threshold of %d, %d packets are sent in a round trip", threshold, flight)
	}
}

// The rank of a packet is what remains of its flow from there on. The packet of the lowest rank goes first, and
// acknowledgements before all data.
func TestTheLowestRankGoesFirst(t *testing.T) {
	h := host(t, nil)
	send(t, h, 3500, 0)
	short := send(t, h, 1500, 1)
	h.HandleTimer(at(0))
	type packet struct {
		connection, number uint32
		rank               uint64
		payload            int
	}
	next := func() (got packet) {
		var p pfabric.Packet
		if h.Poll(at(1), &p) {
			got = packet{p.Connection, p.Number, p.Rank, p.Payload}
		}
		return got
	}
	if got, want := next(), (packet{0, 0, 3500, 1000}); got != want {
		t.Errorf("first %+v, want %+v", got, want)
	}
	h.HandleTimer(at(1))
	h.HandlePacket(at(1), &pfabric.Packet{From: 3, To: 1, Kind: pfabric.Data, Connection: 7, Total: 2, Payload: payload})
	var answer pfabric.Packet
	if !h.Poll(at(1), &answer) || answer.Kind != pfabric.Ack || answer.To != 3 || answer.Connection != 7 ||
		answer.Rank != 0 {
		t.Errorf("%+v, want an acknowledgement to host 3", answer)
	}
	for _, want := range []packet{{short, 0, 1500, 1000}, {short, 1, 500, 500}, {0, 1, 2500, 1000}, {0, 2, 1500, 1000},
		{0, 3, 500, 500}, {}} {
		if got := next(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestFlowsStartAtTheirTimeAndEndWithTheLastAcknowledgement(t *testing.T) {
	var seen events
	h := host(t, &seen)
	send(t, h, 2*payload, 30)
	if next, ok := h.NextTimer(); !ok || next != at(30) {
		t.Errorf("the first timer is at %v, %v", next, ok)
	}
	if got := poll(h, 29); got != "" {
		t.Errorf("sent %q before the start", got)
	}
	if got := poll(h, 30); got != "0 1" || h.Sent(0) != 2 {
		t.Errorf("sent %q, %d packets", got, h.Sent(0))
	}
	h.HandlePacket(at(31), &pfabric.Packet{From: 3, To: 1, Kind: pfabric.Ack, Number: 1, Total: 2}) // of another host
	if len(seen) > 0 {
		t.Errorf("%+v", seen)
	}
	ack(h, 32, 1, 0)
	ack(h, 33, 0, 2)
	want := events{{Kind: pfabric.Finished, Sender: 1, Receiver: 2, Sent: 2}}
	if !slices.Equal(seen, want) {
		t.Errorf("%+v, want %+v", seen, want)
	}
	if next, ok := h.NextTimer(); ok {
		t.Errorf("a timer runs until %v though all is acknowledged", next)
	}
}

func TestAStoppedFlowEndsWithAPacketThatSaysSo(t *testing.T) {
	var seen events
	h := host(t, &seen)
	if _, err := h.Send(pfabric.Flow{To: 2, Stop: at(20), Rank: remaining}); err != nil {
		t.Fatal(err)
	}
	if got := poll(h, 0); got != "0 1 2 3" {
		t.Errorf("sent %q", got)
	}
	ack(h, 10, 3, 4)
	if got := poll(h, 10); got != "4 5 6 7" {
		t.Errorf("sent %q", got)
	}
	ack(h, 21, 7, 8)
	h.HandleTimer(at(21))
	var last, more pfabric.Packet
	if !h.Poll(at(21), &last) || last.Number != 8 || last.Total != 9 || h.Poll(at(21), &more) {
		t.Errorf("after its stop it sends %+v, %+v", last, more)
	}
	if ack(h, 30, 8, 9); seen.count(pfabric.Finished) != 1 {
		t.Errorf("%+v", seen)
	}
}

// receive brings a packet of a flow of five, of which the last has 10 bytes. It returns number and count of its answer.
func receive(t *testing.T, h *pfabric.Host, kind pfabric.Kind, number uint32) (of, count uint32) {
	t.Helper()
	p := pfabric.Packet{From: 9, To: 1, Kind: kind, Connection: 3, Number: number, Total: 5, Payload: payload}
	if number == 4 {
		p.Payload = 10
	}
	h.HandlePacket(at(1), &p)
	var a, more pfabric.Packet
	if !h.Poll(at(1), &a) || h.Poll(at(1), &more) {
		t.Fatalf("packet %d is not answered by one packet: %+v %+v", number, a, more)
	}
	if a.Kind != pfabric.Ack || a.From != 1 || a.To != 9 || a.Connection != 3 || a.Payload != 0 {
		t.Fatalf("packet %d is answered by %+v", number, a)
	}
	return a.Number, a.Total
}

func TestReceiversAcknowledgeEachPacket(t *testing.T) {
	var seen events
	h := host(t, &seen)
	for i, s := range []struct {
		kind              pfabric.Kind
		number, of, count uint32
	}{
		{pfabric.Data, 0, 0, 1},
		{pfabric.Data, 2, 2, 1}, // after a gap
		{pfabric.Data, 2, 2, 1}, // again
		{pfabric.Probe, 1, none, 1},
		{pfabric.Data, 4, 4, 1},
		{pfabric.Data, 1, 1, 3}, // fills the gap
		{pfabric.Data, 0, 0, 3}, // again
		{pfabric.Probe, 3, none, 3},
	} {
		if of, count := receive(t, h, s.kind, s.number); of != s.of || count != s.count {
			t.Errorf("step %d: the answer is for %d and counts %d, want %d and %d", i, of, count, s.of, s.count)
		}
	}
	want := pfabric.Arrivals{Packets: 4, Duplicates: 2, Reordered: 1, Bytes: 3*payload + 10}
	if got, ok := h.Arrived(9, 3); !ok || got != want {
		t.Errorf("arrived %+v, %v, want %+v", got, ok, want)
	}
	receive(t, h, pfabric.Data, 3)
	want.Packets, want.Reordered, want.Bytes = 5, 2, want.Bytes+payload
	if all := (events{{Kind: pfabric.Received, Sender: 9, Receiver: 1, Connection: 3, Arrivals: want}}); !slices.Equal(seen, all) {
		t.Errorf("%+v, want %+v", seen, all)
	}
	// Copies and probes that come after the end are answered: the last answer may be lost.
	if of, count := receive(t, h, pfabric.Data, 2); of != 2 || count != 5 {
		t.Errorf("a late copy is answered by %d, %d", of, count)
	}
	if of, count := receive(t, h, pfabric.Probe, 4); of != none || count != 5 || seen.count(pfabric.Received) != 1 {
		t.Errorf("a late probe is answered by %d, %d; %+v", of, count, seen)
	}
}

func TestWhatHostsCannotDoIsRefused(t *testing.T) {
	fine := pfabric.Config{Payload: payload, Window: 1, RTO: rto}
	for want, change := range map[string]func(*pfabric.Config){
		"payload of 0 bytes":                func(c *pfabric.Config) { c.Payload = 0 },
		"payload of 65536 bytes":            func(c *pfabric.Config) { c.Payload = 65_536 },
		"initial window of 0 packets":       func(c *pfabric.Config) { c.Window = 0 },
		"must be positive":                  func(c *pfabric.Config) { c.RTO = 0 },
		"probes after -1 timeouts: must be": func(c *pfabric.Config) { c.ProbeAfter = -1 },
	} {
		cfg := fine
		change(&cfg)
		if _, err := pfabric.New(cfg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	h := host(t, nil)
	if _, err := h.Send(pfabric.Flow{To: 2, Bytes: 1<<31*payload + 1}); err == nil ||
		!strings.Contains(err.Error(), "2147483649 packets, at most 2147483648") {
		t.Errorf("a flow of more packets than numbers: %v", err)
	}
}

// The defaults fit 10 Gb/s with a round trip of 14.6 us: a bandwidth-delay product of packets of 1500 bytes is sent at
// once, and the timeout is three round trips.
func TestDefaultsFitTenGigabits(t *testing.T) {
	const trip = 14_600 * clock.Nanosecond
	product := int64(trip / (10 * clock.Gbps).Serialise(1500))
	for name, want := range map[string]string{"initial-window": fmt.Sprint(product), "probe-after": "5",
		"rto-us": fmt.Sprint(int64((3*trip + 5*clock.Microsecond) / (5 * clock.Microsecond) * 5))} {
		table := pfabric.Transport().Parameters
		if got := table[table.Find(name)].Default; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
