package ndp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	wire "candela.dev/candela/packet/ndp"
)

const (
	payload = 1500
	soon    = clock.Time(10 * clock.Second)
)

func TestAnIncastTakesAsLongAsItsBytesAtTheRateOfThePulls(t *testing.T) {
	tests := []struct {
		name                  string
		senders, queue, first int
		packets               int
		bounce                bool
	}{
		{"two senders", 2, 8, 30, 100, false},
		{"sixteen senders", 16, 8, 20, 200, false},
		{"sixty-four senders whose first windows overflow the header queue", 64, 8, 1000, 300, true},
		{"a flow of one packet each", 32, 8, 30, 1, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := usual(test.senders+1, test.queue, test.first)
			cfg.bounce = test.bounce
			w := newWorld(t, cfg)
			w.send(t, ndp.Incast(endpoints(1, test.senders), endpoints(0, 1), uint64(test.packets)*payload, 0))
			w.run(soon)
			times := w.finished()
			if len(times) != test.senders {
				t.Fatalf("%d of %d flows finished", len(times), test.senders)
			}
			all := clock.Duration(test.senders*test.packets) * cfg.rate.Serialise(payload+64)
			if last := slices.Max(times); last < all || last > all*102/99+50*clock.Microsecond {
				t.Errorf("the last flow took %v, the bytes alone take %v", last, all)
			}
		})
	}
}

func TestEveryPacketIsAnsweredAndNothingIsSentWithoutNeed(t *testing.T) {
	cfg := usual(9, 8, 30)
	w := newWorld(t, cfg)
	w.send(t, ndp.Incast(endpoints(1, 8), endpoints(0, 1), 100*payload, 0))
	w.run(soon)
	c := w.hosts[0].core.Counters()
	if c.WholeReceived != 800 || c.Duplicates != 0 || c.TrimmedReceived != uint64(w.trims) ||
		c.BytesReceived != 800*payload {
		t.Errorf("the receiver counted %+v, %d were trimmed", c, w.trims)
	}
	if c.AcksSent != c.WholeReceived || c.NacksSent != c.TrimmedReceived {
		t.Errorf("answers: %+v", c)
	}
	if c.PullsSent > c.AcksSent+c.NacksSent {
		t.Errorf("%d PULLs for %d packets", c.PullsSent, c.AcksSent+c.NacksSent)
	}
}

func TestPullsOfAllConnectionsLeaveOneGapApartAndInTurn(t *testing.T) {
	cfg := usual(5, 8, 60)
	w := newWorld(t, cfg)
	var last clock.Time
	var order []ndp.Endpoint
	w.watch = func(now clock.Time, where string, p *ndp.Packet) {
		if where != "switch" || p.Header.Kind != wire.Pull {
			return
		}
		// An ACK of 64 bytes may delay a PULL and so shorten the gap to the next one.
		if slack := 3 * cfg.rate.Serialise(64); last > 0 && now.Sub(last) < cfg.host.PullGap-slack {
			t.Errorf("PULLs at %v and %v", last, now)
		}
		last = now
		order = append(order, p.To)
	}
	w.send(t, ndp.Incast(endpoints(1, 4), endpoints(0, 1), 200*payload, 0))
	w.run(soon)
	for i := 40; i+4 < len(order)/2; i++ {
		turn := slices.Sorted(slices.Values(order[i : i+4]))
		if len(slices.Compact(turn)) != 4 {
			t.Fatalf("PULLs %d to %d go to %v", i, i+3, order[i:i+4])
		}
	}
}

func TestALostPullIsMadeUpForByTheNext(t *testing.T) {
	h := host(t, ndp.Config{InitialWindow: 4})
	drain := connect(t, h, 20*payload)
	drain(4)
	ack(h, 0, 1)
	pull(h, 3)
	if got := drain(3); got[0] != 4 || got[2] != 6 {
		t.Errorf("PULL 3 after none: packets %v", got)
	}
	pull(h, 2)
	drain(0)
}

func TestRetransmissionsGoBeforeNewDataLowestFirst(t *testing.T) {
	h := host(t, ndp.Config{InitialWindow: 6})
	drain := connect(t, h, 20*payload)
	drain(6)
	nack(h, 4)
	nack(h, 1)
	drain(0)
	pull(h, 3)
	if got := drain(3); !slices.Equal(got, []uint32{1, 4, 6}) {
		t.Errorf("sent %v", got)
	}
}

func TestAReturnedHeaderWaitsForAPullUnlessNoneWillCome(t *testing.T) {
	h := host(t, ndp.Config{InitialWindow: 3})
	drain := connect(t, h, 20*payload)
	drain(3)
	returned(h, 0)
	drain(0)
	returned(h, 1)
	if got := drain(1); got[0] != 0 {
		t.Errorf("with one packet of the first window left: sent %v", got)
	}
	returned(h, 2)
	drain(1)
	if c := h.Counters(); c.ReturnedReceived != 3 || c.ReturnedAtOnce != 2 {
		t.Errorf("%+v", c)
	}
}

func TestAnUnansweredPacketIsRetransmittedAfterTheRTOAndThenAfterTwice(t *testing.T) {
	h := host(t, ndp.Config{InitialWindow: 1, RTO: clock.Millisecond})
	drain := connect(t, h, 5*payload)
	drain(1)
	for i, want := range []clock.Duration{1, 3, 7} {
		at, ok := h.NextTimer()
		if !ok || at != clock.Time(want*clock.Millisecond) {
			t.Fatalf("timeout %d at %v, want %v ms", i, at, want)
		}
		h.HandleTimer(at)
		var p ndp.Packet
		if !h.Poll(at, &p) || p.Header.Seq != 0 {
			t.Fatalf("timeout %d sent %+v", i, p)
		}
	}
}

func TestAConnectionWhoseLastPullIsLostGoesOnAfterTheRTO(t *testing.T) {
	h := host(t, ndp.Config{InitialWindow: 1, RTO: clock.Millisecond})
	drain := connect(t, h, 5*payload)
	drain(1)
	ack(h, 0, 1)
	drain(0)
	h.HandleTimer(clock.Time(clock.Millisecond))
	if got := drain(1); got[0] != 1 {
		t.Errorf("sent %v", got)
	}
}

func TestPacketsAreSprayedOverAllPathsEvenly(t *testing.T) {
	h := host(t, ndp.Config{InitialWindow: 64, Paths: 8})
	if _, err := h.Send(ndp.Flow{To: 1, Bytes: 64 * payload}); err != nil {
		t.Fatal(err)
	}
	h.HandleTimer(0)
	var tags []uint16
	var p ndp.Packet
	for h.Poll(0, &p) {
		tags = append(tags, p.Header.Path)
	}
	for i := 0; i < len(tags); i += 8 {
		if round := slices.Sorted(slices.Values(tags[i : i+8])); !slices.Equal(round, []uint16{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("round %d uses %v", i/8, round)
		}
	}
	if slices.Equal(tags[:8], tags[8:16]) {
		t.Error("two rounds in the same order")
	}
}

func TestTheLastPacketCarriesWhatIsLeft(t *testing.T) {
	h := host(t, ndp.Config{InitialWindow: 9})
	if _, err := h.Send(ndp.Flow{To: 1, Bytes: 2*payload + 7}); err != nil {
		t.Fatal(err)
	}
	h.HandleTimer(0)
	var p ndp.Packet
	var lengths []uint16
	for h.Poll(0, &p) {
		lengths = append(lengths, p.Header.Length)
	}
	if !slices.Equal(lengths, []uint16{payload, payload, 7}) || p.Header.Flags != wire.FlagSYN|wire.FlagLast {
		t.Errorf("lengths %v, the last with flags %v", lengths, p.Header.Flags)
	}
}

func TestWhateverIsLostEveryFlowArrivesOnceAndInFull(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(rt, "hosts")
		cfg := usual(n, rapid.IntRange(2, 12).Draw(rt, "queue"), rapid.IntRange(1, 40).Draw(rt, "window"))
		cfg.headers = 64 * rapid.IntRange(2, 40).Draw(rt, "headers")
		cfg.bounce = rapid.Bool().Draw(rt, "bounce")
		cfg.ratio = rapid.IntRange(1, 10).Draw(rt, "ratio")
		cfg.loss = rapid.SampledFrom([]float64{0, 0.01, 0.2}).Draw(rt, "loss")
		cfg.host.RTO = clock.Millisecond
		cfg.host.Paths = rapid.IntRange(1, 4).Draw(rt, "paths")
		cfg.seed = rapid.Uint64().Draw(rt, "seed")
		var flows []ndp.Transfer
		for range rapid.IntRange(1, 12).Draw(rt, "flows") {
			from := rapid.IntRange(0, n-1).Draw(rt, "from")
			to := (from + rapid.IntRange(1, n-1).Draw(rt, "to")) % n
			flows = append(flows, ndp.Transfer{From: ndp.Endpoint(from), Flow: ndp.Flow{To: ndp.Endpoint(to),
				Bytes: uint64(rapid.IntRange(1, 100*payload).Draw(rt, "bytes")),
				Start: clock.Time(clock.Duration(rapid.IntRange(0, 50).Draw(rt, "start")) * clock.Microsecond)}})
		}
		first := runWorld(t, cfg, flows)
		second := runWorld(t, cfg, flows)
		if diff := cmp.Diff(first.reports, second.reports, cmp.AllowUnexported(reported{})); diff != "" {
			rt.Fatalf("the same run twice differs:\n%s", diff)
		}
		var want, got uint64
		for _, f := range flows {
			want += f.Bytes
		}
		for _, h := range first.hosts {
			got += h.core.Counters().BytesReceived
		}
		if got != want || len(first.finished()) != len(flows) {
			rt.Fatalf("%d of %d bytes and %d of %d flows arrived", got, want, len(first.finished()), len(flows))
		}
	})
}

func runWorld(t testing.TB, cfg worldConfig, flows []ndp.Transfer) *world {
	w := newWorld(t, cfg)
	w.send(t, flows)
	w.run(soon)
	return w
}

func TestAPermutationLeavesNobodyOutAndNobodyAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "hosts")
		seen := make(map[ndp.Endpoint]bool)
		for _, f := range ndp.Permutation(endpoints(0, n), 1, 0, rapid.Uint64().Draw(t, "seed")) {
			if f.From == f.To || seen[f.To] {
				t.Fatalf("%d sends to %d", f.From, f.To)
			}
			seen[f.To] = true
		}
	})
}

func TestWrongConfigurationsAreRefused(t *testing.T) {
	good := ndp.Config{InitialWindow: 1, Payload: 1, PullGap: 1, Paths: 1}
	tests := map[string]func(c *ndp.Config){
		"initial window": func(c *ndp.Config) { c.InitialWindow = 0 },
		"payload":        func(c *ndp.Config) { c.Payload = 1 << 16 },
		"gap":            func(c *ndp.Config) { c.PullGap = 0 },
		"RTO":            func(c *ndp.Config) { c.RTO = -1 },
		"paths":          func(c *ndp.Config) { c.Paths = 1<<16 + 1 },
	}
	for what, spoil := range tests {
		c := good
		spoil(&c)
		if _, err := ndp.New(c, nil); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := ndp.ParseBugs([]string{"double-pull", "nope"}); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("an unknown bug: %v", err)
	}
}

// FuzzHost passes arbitrary packets to a host. It may ignore them, but must not panic.
func FuzzHost(f *testing.F) {
	f.Add([]byte{1, 1, 0, 0, 0, 0, 2, 0, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h := host(t, ndp.Config{InitialWindow: 3, RTO: clock.Microsecond})
		if _, err := h.Send(ndp.Flow{To: 1, Bytes: 10 * payload}); err != nil {
			t.Fatal(err)
		}
		now := clock.Time(0)
		var out ndp.Packet
		for ; len(b) >= 6; b = b[6:] {
			now = now.Add(clock.Duration(b[5]) * clock.Nanosecond)
			h.HandleTimer(now)
			h.HandlePacket(now, &ndp.Packet{From: ndp.Endpoint(b[0] & 1), Payload: uint16(b[4]) * 8, Header: wire.Header{
				Kind: wire.Kind(b[0] >> 4), Flags: wire.Flags(b[1] & 15), Connection: uint32(b[0] >> 1 & 1), Seq: uint32(b[2]),
				Counter: uint32(b[3]), Length: uint16(b[4]&0xf) * 100}})
			for range 20 {
				if !h.Poll(now, &out) {
					break
				}
			}
		}
	})
}

// host returns a host with address 0. The test sends the packets of its peer.
func host(t testing.TB, c ndp.Config) *ndp.Host {
	t.Helper()
	c.Payload, c.PullGap, c.Paths = payload, 100*clock.Nanosecond, max(c.Paths, 1)
	h, err := ndp.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// connect starts a flow to host 1 and returns a function that polls all packets and fails unless there are n.
func connect(t *testing.T, h *ndp.Host, bytes uint64) func(n int) []uint32 {
	t.Helper()
	if _, err := h.Send(ndp.Flow{To: 1, Bytes: bytes}); err != nil {
		t.Fatal(err)
	}
	h.HandleTimer(0)
	return func(n int) (seqs []uint32) {
		t.Helper()
		var p ndp.Packet
		for h.Poll(0, &p) {
			seqs = append(seqs, p.Header.Seq)
		}
		if len(seqs) != n {
			t.Fatalf("sent packets %v, want %d of them", seqs, n)
		}
		return seqs
	}
}

func feed(h *ndp.Host, header wire.Header) {
	h.HandlePacket(0, &ndp.Packet{From: 1, Header: header})
}

func ack(h *ndp.Host, seq, below uint32) {
	feed(h, wire.Header{Kind: wire.Ack, Seq: seq, Counter: below})
}
func nack(h *ndp.Host, seq uint32)     { feed(h, wire.Header{Kind: wire.Nack, Seq: seq}) }
func pull(h *ndp.Host, counter uint32) { feed(h, wire.Header{Kind: wire.Pull, Counter: counter}) }
func returned(h *ndp.Host, seq uint32) {
	feed(h, wire.Header{Kind: wire.Data, Seq: seq, Flags: wire.FlagTrimmed | wire.FlagReturned, Length: payload})
}

// BenchmarkTransfer moves packets between two hosts without a network. One operation is a data packet, its ACK and its
// PULL.
func BenchmarkTransfer(b *testing.B) {
	cfg := ndp.Config{Address: 0, InitialWindow: 100, Payload: payload, PullGap: 1, Paths: 1}
	sender, err := ndp.New(cfg, nil)
	if err != nil {
		b.Fatal(err)
	}
	cfg.Address = 1
	receiver, err := ndp.New(cfg, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := sender.Send(ndp.Flow{To: 1}); err != nil {
		b.Fatal(err)
	}
	sender.HandleTimer(0)
	now := clock.Time(0)
	var p ndp.Packet
	b.ReportAllocs()
	for b.Loop() {
		now++
		sender.Poll(now, &p)
		receiver.HandlePacket(now, &p)
		for receiver.Poll(now, &p) {
			sender.HandlePacket(now, &p)
		}
	}
}
