package netchain

import (
	"maps"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

func TestEveryRuleHasCausesWithSentences(t *testing.T) { causetest.Table(t, Rules(), Causes()) }

// judge returns the causes that are found, and how often.
func (t *tape) judge(test *testing.T) map[string]int {
	test.Helper()
	j := New(t.facts)
	for _, show := range t.list {
		show(j)
	}
	r := j.Finish(j.now.Add(us))
	causetest.Declared(test, Causes(), r.Findings)
	return codes(&r)
}

func codes(r *analyzers.Result) map[string]int {
	found := make(map[string]int)
	for _, f := range r.Findings {
		found[f.Rule[len(Name)+1:]+"/"+f.Cause]++
	}
	return found
}

// Each script is what one switch does that has 12 lock ids, of which 3 share a lock, a lease of 100 us and a poll
// period of 10 us. Times are in ns.
var scripts = []struct {
	what string
	show func(t *tape)
	want []string
}{
	{"one owner after another", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.rejected(100, 1, 1, 5)
		t.release(200, 0, 1, 5)
		t.granted(300, 1, 1, 5)
	}, nil},
	{"neighbouring ids are one lock", func(t *tape) {
		t.granted(0, 0, 1, 3)
		t.rejected(100, 1, 1, 5)
		t.granted(200, 1, 1, 6)
		t.granted(300, 0, 1, 5)
		t.release(400, 0, 1, 3)
		t.rejected(500, 1, 1, 3)
		t.release(600, 0, 1, 5)
		t.granted(700, 1, 1, 3)
	}, nil},
	{"two own a lock", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(100, 1, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"two transactions of one client own a lock", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(100, 0, 2, 3)
	}, []string{"mutual-exclusion/overlapping"}},
	{"shared requests exclude each other, too", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(100, 1, 1, 5)
		for _, p := range t.packets {
			p.Header.Mode = netlock.Shared
		}
	}, []string{"mutual-exclusion/overlapping"}},
	{"one id is released, another is in use", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(10, 0, 1, 4)
		t.release(100, 0, 1, 5)
		t.granted(200, 1, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"a request comes again while its owner has it", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(100, 0, 1, 5)
		t.release(200, 0, 1, 5)
		t.granted(300, 1, 1, 5)
	}, nil},
	{"a copy of a request is answered after both came, as the port was busy", func(t *tape) {
		t.other(0, trace.Entered, 1) // occupies no port of a client
		t.busy(0)
		t.ask(5, 0, 1, 5)
		t.ask(10, 0, 1, 5)
		t.grant(17, 0, 1, 5)
		t.grant(34, 0, 1, 5)
	}, nil},
	{"the first of two copies is lost in the switch", func(t *tape) {
		t.ask(0, 0, 1, 5)
		t.granted(20, 0, 1, 5)
	}, []string{"lost/unanswered"}},
	{"an answer too many", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.grant(100, 0, 1, 5)
	}, []string{"exactly-once/unasked"}},
	{"a rejection too many", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.rejected(100, 1, 1, 5)
		t.reject(200, 1, 1, 5)
	}, []string{"exactly-once/unasked"}},
	{"an answer to another transaction", func(t *tape) {
		t.ask(0, 0, 1, 5)
		t.grant(0, 0, 2, 5)
	}, []string{"exactly-once/unasked", "lost/unanswered"}},
	{"an answer with another time stamp", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.packets[1].Header.Timestamp++
	}, []string{"exactly-once/unasked", "lost/unanswered"}},
	{"no answer", func(t *tape) { t.ask(0, 0, 1, 5) }, []string{"lost/unanswered"}},
	{"no answer, and who asks next gets the lock", func(t *tape) {
		t.ask(0, 0, 1, 5)
		t.granted(100, 1, 1, 5)
		t.rejected(200, 0, 2, 5)
	}, []string{"lost/unanswered"}},
	{"rejected without a reason", func(t *tape) { t.rejected(0, 0, 1, 5) }, []string{"rejection/free"}},
	{"the owner is rejected", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.rejected(100, 0, 1, 4)
	}, []string{"rejection/owner"}},
	{"a release is forgotten", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.release(100, 0, 1, 5)
		t.rejected(200, 1, 1, 5)
		t.rejected(300, 1, 1, 5) // it has been told
	}, []string{"release/rejected"}},
	{"a release is forgotten, and nobody asks again", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.release(100, 0, 1, 5)
		t.rejected(200, 1, 1, 5)
	}, []string{"release/rejected"}},
	{"a release is forgotten until the lease ends", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.release(100, 0, 1, 5)
		t.rejected(200, 1, 1, 5)
		t.granted(100_001, 1, 1, 5)
	}, []string{"release/rejected"}},
	{"a free lock is refused once", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.release(100, 0, 1, 5)
		t.rejected(200, 1, 1, 5)
		t.granted(300, 1, 1, 5)
	}, []string{"rejection/once"}},
	{"a release is forgotten as the switch stops", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.release(100, 0, 1, 5)
		t.rejected(200, 1, 1, 5)
		t.restart(300, 400)
	}, []string{"release/rejected"}},
	{"a release that came just before", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.ask(100, 1, 1, 5)
		t.release(100, 0, 1, 5)
		t.reject(100, 1, 1, 5)
		t.granted(200, 2, 1, 5)
	}, nil},
	{"another frees the lock", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.release(100, 1, 1, 5)
		t.granted(200, 2, 1, 5)
	}, []string{"mutual-exclusion/overlapping", "owner/freed"}},
	{"another releases the lock, which stays held", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.release(100, 1, 1, 5)
		t.rejected(200, 2, 1, 5)
		t.granted(300, 1, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"held locks are granted with and without a release by another", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.release(100, 1, 1, 5)
		t.granted(200, 2, 1, 5)
		t.granted(300, 1, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"a request goes to the server", func(t *tape) {
		t.ask(0, 0, 1, 5)
		p := t.packet(0, trace.Left, netlock.Acquire, 0, 1, 5, false)
		p.Port, p.Header.Mark = serverPort, netlock.Owned
	}, []string{"placement/sent-away"}},
	{"a release goes to the server", func(t *tape) {
		t.release(0, 0, 1, 5)
		t.packet(0, trace.Left, netlock.Release, 0, 1, 5, false).Port = serverPort
	}, []string{"placement/sent-away"}},
	{"a server grants", func(t *tape) {
		t.packet(0, trace.Entered, netlock.GrantFromServer, 0, 1, 5, true).Port = serverPort
		t.packet(0, trace.Left, netlock.GrantFromServer, 0, 1, 5, true)
	}, []string{"placement/by-server"}},
	{"ids that no lock has are rejected", func(t *tape) {
		t.rejected(0, 0, 1, 12)
		t.rejected(0, 1, 1, 1<<31)
	}, nil},
	{"an id that no lock has is granted", func(t *tape) { t.granted(0, 0, 1, 12) }, []string{"placement/beyond"}},
	{"what a client asks a database passes, and the answer", func(t *tape) {
		t.packet(0, trace.Entered, netlock.Acquire, 0, 1, 5, false).Header.Mark = netlock.Owned
		t.packet(0, trace.Left, netlock.Acquire, 0, 1, 5, false).Header.Mark = netlock.Owned
		t.packet(9, trace.Entered, netlock.Acquire, 0, 1, 5, true).Port = serverPort
		t.packet(9, trace.Left, netlock.Acquire, 0, 1, 5, true)
	}, nil},
	{"a request is dropped while what its client asks a database is inside", func(t *tape) {
		t.restart(10, 20)
		t.packet(30, trace.Entered, netlock.Acquire, 0, 1, 5, false).Header.Mark = netlock.Owned
		t.ask(31, 0, 1, 5)
		t.packet(31, trace.Dropped, netlock.Acquire, 0, 1, 5, false).ID = t.serial - 1
		t.packet(40, trace.Left, netlock.Acquire, 0, 1, 5, false).Header.Mark = netlock.Owned
	}, nil},
	{"an answer is late", func(t *tape) {
		t.ask(0, 0, 1, 5)
		t.grant(1, 0, 1, 5)
	}, []string{"delay/late"}},
	{"an answer waits for its port", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.ask(1, 0, 1, 8)
		t.grant(17, 0, 1, 8) // 62 and 24 bytes take 17.2 ns
	}, nil},
	{"a lease has ended", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(100_000, 1, 1, 5)
		t.release(100_100, 0, 1, 5)
		t.rejected(100_200, 2, 1, 5)
	}, nil},
	{"a lease ends early", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(99_999, 1, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"a lease has ended, and nobody has looked", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.rejected(110_000, 1, 1, 5)
	}, nil},
	{"a lease does not end", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.rejected(110_001, 1, 1, 5)
	}, []string{"lease/late"}},
	{"a lease begins with the first grant", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(90_000, 0, 1, 4)
		t.granted(100_001, 1, 1, 5)
	}, nil},
	{"no leases", func(t *tape) {
		t.facts[0].Lease = 0
		t.granted(0, 0, 1, 5)
		t.rejected(1_000_000, 1, 1, 5)
		t.granted(2_000_000, 2, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"the owner asks again as its lease has ended: its other ids may be free", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(100_001, 0, 1, 4)
		t.rejected(100_002, 1, 1, 5)
		t.release(100_003, 0, 1, 4)
		t.rejected(100_004, 1, 1, 5)
		t.granted(100_005, 1, 1, 5)
	}, nil},
	{"the owner asks again just as its lease ends, which ends nevertheless", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(100_000, 0, 1, 5)
		t.granted(100_001, 1, 1, 5)
	}, nil},
	{"the owner asks again before the switch looks whether its lease has ended", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(105_000, 0, 1, 4)
		t.release(105_001, 0, 1, 4) // it may use lock 5
		t.granted(106_000, 0, 1, 4)
		t.granted(110_000, 1, 1, 5)
	}, nil},
	{"the owner asks again as its lease has ended, and another is granted the lock beside it", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(110_001, 0, 1, 4)
		t.granted(110_002, 1, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"the owner asks again as its lease may have ended, and once more as it has", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(105_000, 0, 1, 5)
		t.granted(110_001, 0, 1, 5) // since 105 us or now
		t.granted(204_999, 1, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"the owner asks again as its lease may have ended, and holds on", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.granted(105_000, 0, 1, 5)
		t.rejected(215_000, 1, 1, 5)
		t.rejected(215_001, 1, 1, 5)
	}, []string{"lease/late"}},
	{"a switch returns and waits", func(t *tape) {
		t.granted(0, 0, 1, 5)
		t.ask(10, 1, 1, 5) // lost in it
		t.restart(10, 20)
		t.ask(30, 1, 1, 5)
		t.packet(30, trace.Dropped, netlock.Acquire, 1, 1, 5, false).ID = t.serial - 1
		t.rejected(100, 2, 1, 5)
		t.granted(110_020, 1, 1, 5)
	}, nil},
	{"a switch returns and grants at once", func(t *tape) {
		t.restart(10, 20)
		t.granted(100_019, 1, 1, 5)
	}, []string{"failover/soon"}},
	{"a request is dropped without an outage", func(t *tape) {
		t.ask(30, 1, 1, 5)
		t.packet(30, trace.Dropped, netlock.Acquire, 1, 1, 5, false).ID = t.serial - 1
	}, []string{"lost/unanswered"}},
	{"an answer is dropped at the port", func(t *tape) {
		t.ask(0, 0, 1, 5)
		t.packet(0, trace.Dropped, netlock.Acquire, 0, 1, 5, true)
		t.rejected(10, 1, 1, 5)
	}, nil},
	{"the grant of the second copy of a request is dropped, as the rejection of the first waits", func(t *tape) {
		t.granted(0, 1, 1, 5)
		t.busy(5)
		t.ask(6, 0, 1, 5)
		t.release(8, 1, 1, 5)
		t.ask(10, 0, 1, 5)
		t.refuse(10, netlock.Acquire, 0, 1, 5)
		t.reject(22, 0, 1, 5)
		t.rejected(100, 2, 1, 5)
	}, nil},
	{"the rejection of the second copy of a request is dropped, as the grant of the first waits", func(t *tape) {
		t.busy(5)
		t.ask(6, 0, 1, 5)
		t.release(8, 0, 1, 5)
		t.granted(9, 1, 1, 5)
		t.ask(10, 0, 1, 5)
		t.refuse(10, netlock.Reject, 0, 1, 5)
		t.grant(22, 0, 1, 5)
	}, nil},
	{"the grant of the second copy of a request is dropped, which another owner should have prevented", func(t *tape) {
		t.granted(0, 1, 1, 5)
		t.busy(5)
		t.ask(6, 0, 1, 5)
		t.ask(10, 0, 1, 5)
		t.refuse(10, netlock.Acquire, 0, 1, 5)
		t.reject(22, 0, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"an answer that waits is dropped as its link fails, as the second copy of its request comes", func(t *tape) {
		t.granted(0, 1, 1, 5)
		t.busy(5)
		t.ask(6, 0, 1, 5)
		t.release(8, 1, 1, 5)
		t.ask(10, 0, 1, 5)
		t.refuse(10, netlock.Reject, 0, 1, 5).Outage = true
		t.grant(22, 0, 1, 5)
		t.rejected(100, 2, 1, 5)
	}, nil},
	{"another switch has granted the lock", func(t *tape) {
		t.facts = append(t.facts, t.facts[0])
		t.granted(0, 0, 1, 5)
		t.sw = 1
		t.granted(10, 1, 1, 5)
	}, []string{"mutual-exclusion/overlapping"}},
	{"packets of others pass", func(t *tape) {
		t.other(0, trace.Entered, 1)
		t.other(1, trace.Left, 1)
	}, nil},
	{"a packet of others is changed", func(t *tape) {
		t.other(0, trace.Entered, 1)
		t.other(1, trace.Left, 2)
	}, []string{"transparency/changed"}},
	{"packets of others are reordered", func(t *tape) {
		t.other(0, trace.Entered, 1)
		t.other(0, trace.Entered, 2)
		t.other(1, trace.Left, 2)
		t.other(2, trace.Left, 1)
	}, []string{"transparency/reordered"}},
}

func TestWhatASwitchDoesIsJudged(t *testing.T) {
	for _, c := range scripts {
		t.Run(c.what, func(t *testing.T) {
			tape := newTape()
			c.show(tape)
			if got := slices.Sorted(maps.Keys(tape.judge(t))); !slices.Equal(got, c.want) {
				t.Errorf("found are %v, want %v", got, c.want)
			}
		})
	}
}
