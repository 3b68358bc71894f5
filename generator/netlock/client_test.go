package netlock_test

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	packet "candela.dev/candela/packet/netlock"
)

// sink notes what becomes of transactions.
type sink struct {
	committed int
	took      clock.Duration
	ended     int
}

func (s *sink) Committed(_ clock.Time, _ int, took clock.Duration) {
	s.committed, s.took = s.committed+1, took
}
func (s *sink) Ended(clock.Time, int) { s.ended++ }

// bench is a client whose packets a test answers.
type bench struct {
	*netlock.Client
	sink
	now clock.Time
}

func newBench(t *testing.T, threads ...netlock.Thread) *bench {
	t.Helper()
	b := new(bench)
	b.Client = netlock.NewClient(3, 1, &b.sink)
	for _, of := range threads {
		of.Directory = func(lock uint32) wire.HostID { return wire.HostID(10 + lock%2) }
		if err := b.Add(of); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// to goes to an instant and returns what is sent on the way, as operations with locks.
func (b *bench) to(at clock.Duration) (sent []netlock.Packet) {
	for b.NextTimer() <= clock.Time(0).Add(at) {
		b.now = max(b.now, b.NextTimer())
		b.HandleTimer(b.now)
		sent = append(sent, b.sent()...)
	}
	b.now = clock.Time(0).Add(at)
	return sent
}

func (b *bench) sent() (sent []netlock.Packet) {
	for p := b.Poll(); p != nil; p = b.Poll() {
		sent = append(sent, *p)
	}
	return sent
}

// answer grants what a packet asks for, and returns what is sent then.
func (b *bench) answer(p netlock.Packet, op packet.Op) []netlock.Packet {
	h := p.Header
	h.Op = op
	b.Receive(b.now, &h, false)
	return b.sent()
}

func takes(locks ...uint32) func([]workload.Lock) []workload.Lock {
	return func(buf []workload.Lock) []workload.Lock {
		for _, id := range locks {
			buf = append(buf, workload.Lock{ID: id, Exclusive: id%2 == 1})
		}
		return buf
	}
}

func check(t *testing.T, what string, got []netlock.Packet, want ...string) {
	t.Helper()
	for i, p := range got {
		h := p.Header
		h.Timestamp = 0
		if i >= len(want) || h.String() != want[i] {
			t.Errorf("%s: packet %d is %v; want %q", what, i, h.String(), want)
		}
	}
	if len(got) < len(want) {
		t.Errorf("%s: %d packets, want %q", what, len(got), want)
	}
}

func TestATransactionTakesAllItsLocksAndReleasesThemAfterThinking(t *testing.T) {
	b := newBench(t, netlock.Thread{Next: takes(4, 7), Count: 1, Think: 50 * clock.Microsecond,
		Timeout: 400 * clock.Microsecond, Tenant: 9})
	sent := b.to(0)
	check(t, "at the start", sent, "ACQUIRE S lock 4 transaction 1 client 0 tenant 9",
		"ACQUIRE X lock 7 transaction 1 client 0 tenant 9")
	if sent[0].To != 10 || sent[1].To != 11 {
		t.Errorf("they are sent to %d and %d, want 10 and 11", sent[0].To, sent[1].To)
	}
	b.to(5 * clock.Microsecond)
	check(t, "after one grant", b.answer(sent[1], packet.GrantFromServer))
	check(t, "after a grant twice", b.answer(sent[1], packet.GrantFromServer))
	check(t, "after both", b.answer(sent[0], packet.Acquire))
	check(t, "while it thinks", b.to(54*clock.Microsecond))
	check(t, "then", b.to(55*clock.Microsecond), "RELEASE S lock 4 transaction 1 client 0 tenant 9",
		"RELEASE X lock 7 transaction 1 client 0 tenant 9")
	check(t, "afterwards", b.to(clock.Second))
	want := netlock.Counts{Requests: 2, Releases: 2, BySwitch: 1, ByServer: 1, Transactions: 1, Strays: 1}
	if b.Counts != want || b.committed != 1 || b.ended != 1 || b.took != 55*clock.Microsecond {
		t.Errorf("%+v, %d committed in %v, %d ended; want %+v, 1 in 55 us, 1", b.Counts, b.committed, b.took, b.ended, want)
	}
}

func TestAnExpiredTransactionReleasesWhatItHasAndStartsAnew(t *testing.T) {
	b := newBench(t, netlock.Thread{Next: takes(4, 7), Count: 1, Timeout: 400 * clock.Microsecond})
	first := b.to(0)
	b.answer(first[0], packet.Acquire)
	check(t, "before", b.to(399*clock.Microsecond))
	later := b.to(400*clock.Microsecond + 270*clock.Microsecond)
	check(t, "when it expires", later, "RELEASE S lock 4 transaction 1 client 0", "ACQUIRE S lock 4 transaction 2 client 0",
		"ACQUIRE X lock 7 transaction 2 client 0")
	check(t, "a late grant", b.answer(first[1], packet.Acquire), "RELEASE X lock 7 transaction 1 client 0")
	check(t, "the same again", b.answer(first[1], packet.Acquire))
	b.answer(later[1], packet.Acquire)
	check(t, "in the end", b.answer(later[2], packet.Acquire), "RELEASE S lock 4 transaction 2 client 0",
		"RELEASE X lock 7 transaction 2 client 0")
	if c := b.Counts; c.Expired != 1 || c.Late != 1 || c.Transactions != 1 || b.ended != 1 {
		t.Errorf("%+v", c)
	}
}

// Requests of a transaction that expired wait in queues. One that starts anew before they are answered waits behind
// them, and a few timeouts end with queues of nothing else.
func TestAnExpiredTransactionMayAwaitItsAnswers(t *testing.T) {
	const timeout = 400 * clock.Microsecond
	b := newBench(t, netlock.Thread{Next: takes(4, 7, 9), Count: 1, Timeout: timeout, Await: true})
	first := b.to(0)
	b.answer(first[0], packet.Acquire)
	check(t, "when it expires", b.to(timeout), "RELEASE S lock 4 transaction 1 client 0")
	check(t, "long after", b.to(8*timeout))
	check(t, "a late grant", b.answer(first[1], packet.Acquire), "RELEASE X lock 7 transaction 1 client 0")
	check(t, "the same again", b.answer(first[1], packet.Acquire))
	check(t, "after it", b.to(9*timeout))
	check(t, "a rejection, the last answer", b.answer(first[2], packet.Reject))
	again := b.to(9*timeout + 270*clock.Microsecond)
	check(t, "after the pause", again, "ACQUIRE S lock 4 transaction 2 client 0", "ACQUIRE X lock 7 transaction 2 client 0",
		"ACQUIRE X lock 9 transaction 2 client 0")
	for _, p := range again {
		b.answer(p, packet.Acquire)
	}
	if c := b.Counts; c.Expired != 1 || c.Late != 1 || c.Transactions != 1 || b.ended != 1 || c.Releases != 5 {
		t.Errorf("%+v", c)
	}
}

// An answer may be lost: then the transaction starts anew without it.
func TestAnExpiredTransactionAwaitsAnswersForABoundedTime(t *testing.T) {
	const timeout = 400 * clock.Microsecond
	b := newBench(t, netlock.Thread{Next: takes(7), Count: 1, Timeout: timeout, Await: true})
	first := b.to(0)
	check(t, "for ten timeouts more", b.to(11*timeout-1))
	check(t, "then", b.to(11*timeout+270*clock.Microsecond), "ACQUIRE X lock 7 transaction 2 client 0")
	check(t, "the answer", b.answer(first[0], packet.Acquire), "RELEASE X lock 7 transaction 1 client 0")
	if c := b.Counts; c.Expired != 1 || c.Late != 1 {
		t.Errorf("%+v", c)
	}
}

func TestResendingRepeatsARequestWithItsNumber(t *testing.T) {
	b := newBench(t, netlock.Thread{Next: takes(7), Count: 1, Timeout: 400 * clock.Microsecond, Resend: true})
	b.to(0)
	again := b.to(400 * clock.Microsecond)
	check(t, "after the timeout", again, "ACQUIRE X lock 7 transaction 1 client 0")
	check(t, "a refusal", b.answer(again[0], packet.Reject))
	check(t, "10 us later", b.to(410*clock.Microsecond), "ACQUIRE X lock 7 transaction 1 client 0")
	check(t, "the grant", b.answer(again[0], packet.Acquire), "RELEASE X lock 7 transaction 1 client 0")
}

// A rejection is an answer: what was rejected is asked for once after the pause, and the timeout begins anew.
// The switch may accept a request and its copy one after the other: the client has released the first by then.
func TestWhatACopyOfARequestIsGrantedIsReleased(t *testing.T) {
	b := newBench(t, netlock.Thread{Next: takes(3), Count: 1, Timeout: 100 * clock.Microsecond, Resend: true})
	sent := b.to(0)
	check(t, "after the timeout", b.to(100*clock.Microsecond), "ACQUIRE X lock 3 transaction 1 client 0")
	check(t, "after the grant", b.answer(sent[0], packet.Acquire), "RELEASE X lock 3 transaction 1 client 0")
	check(t, "after that of the copy", b.answer(sent[0], packet.PushBack), "RELEASE X lock 3 transaction 1 client 0")
	check(t, "after one that nobody asked for", b.answer(sent[0], packet.PushBack))
	if b.Counts.Late != 1 || b.Counts.Strays != 1 {
		t.Errorf("%d late grants and %d strays, want 1 and 1", b.Counts.Late, b.Counts.Strays)
	}
}

func TestARejectedRequestIsNotResentToo(t *testing.T) {
	b := newBench(t, netlock.Thread{Next: takes(7), Count: 1, Timeout: 400 * clock.Microsecond, Resend: true})
	sent := b.to(0)
	const request = "ACQUIRE X lock 7 transaction 1 client 0"
	b.to(395 * clock.Microsecond)
	b.answer(sent[0], packet.Reject)
	check(t, "while it pauses", b.to(404*clock.Microsecond))
	check(t, "after the pause", b.to(405*clock.Microsecond), request)
	check(t, "until the new timeout", b.to(804*clock.Microsecond))
	check(t, "after it", b.to(805*clock.Microsecond), request)
	b.answer(sent[0], packet.Reject)
	b.answer(sent[0], packet.Reject)
	check(t, "after both copies were rejected", b.to(1100*clock.Microsecond), request)
}

// A transaction that starts anew when one of its requests is rejected keeps nothing meanwhile: neither what it was
// granted before nor what it is granted then.
func TestATransactionStartsAnewWhenARequestIsRejected(t *testing.T) {
	b := newBench(t, netlock.Thread{Next: takes(7, 8, 9), Count: 1, Timeout: 400 * clock.Microsecond, Restart: true})
	sent := b.to(0)
	check(t, "a grant", b.answer(sent[0], packet.Acquire))
	check(t, "a rejection", b.answer(sent[1], packet.Reject), "RELEASE X lock 7 transaction 1 client 0")
	check(t, "a grant after it", b.answer(sent[2], packet.Acquire), "RELEASE X lock 9 transaction 1 client 0")
	check(t, "before the pause has ended", b.to(9*clock.Microsecond))
	check(t, "after the pause", b.to(10*clock.Microsecond), "ACQUIRE X lock 7 transaction 2 client 0",
		"ACQUIRE S lock 8 transaction 2 client 0", "ACQUIRE X lock 9 transaction 2 client 0")
	check(t, "the timeout of the first attempt", b.to(405*clock.Microsecond))
	check(t, "its own", b.to(3 * clock.Millisecond)[:3], "ACQUIRE X lock 7 transaction 3 client 0",
		"ACQUIRE S lock 8 transaction 3 client 0", "ACQUIRE X lock 9 transaction 3 client 0")
}

func TestADeadClientSendsNothingAndKeepsItsLocks(t *testing.T) {
	b := newBench(t, netlock.Thread{Next: takes(7), Think: 50 * clock.Microsecond, Timeout: 400 * clock.Microsecond,
		Kill: clock.Time(20 * clock.Microsecond)}, netlock.Thread{Next: takes(9), Count: 1, Timeout: 400 * clock.Microsecond})
	sent := b.to(0)
	b.answer(sent[0], packet.Acquire)
	check(t, "the dead thread", b.to(399*clock.Microsecond))
	check(t, "another one", b.answer(sent[1], packet.Acquire), "RELEASE X lock 9 transaction 1 client 1")
	check(t, "for ever", b.to(clock.Second))
}

func TestTransactionsStartAtIntervalsAsFarAsTheyMayOverlap(t *testing.T) {
	b := newBench(t, netlock.Thread{Next: takes(2), Interval: 10 * clock.Microsecond, Outstanding: 3,
		Timeout: 400 * clock.Microsecond})
	sent := b.to(100 * clock.Microsecond)
	if len(sent) != 3 {
		t.Fatalf("%d requests, want 3", len(sent))
	}
	check(t, "one ends", append(b.answer(sent[1], packet.Acquire), b.to(100*clock.Microsecond)...),
		"RELEASE S lock 2 transaction 2 client 0", "ACQUIRE S lock 2 transaction 4 client 0")
}

// Every header that hosts of a network send comes back from its bytes, and has the size that is announced.
func TestHeadersPassThroughPackets(t *testing.T) {
	for _, want := range []packet.Header{
		{Op: packet.Acquire, Mode: packet.Exclusive, Client: 255, Transaction: 1 << 31, Lock: 55_000, Timestamp: 1 << 60,
			Mark: packet.BufferOnly, Tenant: 515, Priority: 2},
		{Op: packet.PushRequest, Lock: 1, Avail: 1 << 31, Sent: 1 << 63, Index: 1 << 62, Received: 1 << 61},
		{Op: packet.PushBack, Transaction: 9, Lock: 1, Last: true, Received: 5, Index: 4, Sent: 7,
			Address: wire.HostID(6).IPv4()},
	} {
		for _, v6 := range []bool{false, true} {
			h := wire.Header{Src: 1, Dst: 2, IPv6: v6}
			if v6 && want.Address.IsValid() {
				want.Address = wire.HostID(6).IPv6()
			}
			netlock.Fill(&want, &h)
			if got := netlock.FromHeader(&h); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if size := int(netlock.Size(&want, v6)) - netlock.Codec().HeaderSize(v6) + packet.Size; size != len(want.AppendTo(nil)) {
				t.Errorf("%v: %d bytes are announced, %d are sent", want.String(), size, len(want.AppendTo(nil)))
			}
		}
	}
}

// A client that has a lock without a row asks the database for it, again if the row is lost, and releases the lock once
// it has the row. A row that comes as the grant is enough.
func TestAClientAsksTheDatabaseForWhatDidNotComeWithTheGrant(t *testing.T) {
	const patience = 100 * clock.Microsecond
	b := newBench(t, netlock.Thread{Count: 2, Timeout: patience, Resend: true,
		Next:     func(buf []workload.Lock) []workload.Lock { return append(buf, workload.Lock{ID: 7}) },
		Database: func(lock uint32) wire.HostID { return wire.HostID(20 + lock) }})
	first := b.to(0)
	if len(first) != 1 || first[0].Header.Mark != packet.Unmarked {
		t.Fatalf("%+v, want a request", first)
	}
	query := b.answer(first[0], packet.Acquire)
	if len(query) != 1 || query[0].To != 27 || query[0].Header.Op != packet.Acquire ||
		query[0].Header.Mark != packet.Owned || b.Counts.Queries != 1 {
		t.Fatalf("%+v, want a query", query)
	}
	again := b.to(patience)
	if len(again) != 1 || again[0].To != 27 || b.Counts.Resent != 0 || b.Counts.Queries != 2 {
		t.Fatalf("%+v, want the query again", again)
	}
	row := func(p netlock.Packet) []netlock.Packet {
		b.Receive(b.now, &p.Header, true)
		return b.sent()
	}
	done := row(again[0])
	if len(done) != 2 || done[0].Header.Op != packet.Release || done[1].Header.Op != packet.Acquire {
		t.Fatalf("%+v, want a release and the next request", done)
	}
	if more := row(query[0]); len(more) != 0 || b.Counts.Strays != 1 {
		t.Errorf("%+v after a row that is late, %d strays", more, b.Counts.Strays)
	}
	last := row(done[1])
	if len(last) != 1 || last[0].Header.Op != packet.Release || b.ended != 1 || b.Counts.Queries != 2 {
		t.Errorf("%+v, want a release; %d queries", last, b.Counts.Queries)
	}
}
