package observer_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestRecordedTracesAreJudgedLikeTheOracle judges by the observer alone those traces on which the analyzers, or mutants
// of the observer, differed from the oracle.
func TestRecordedTracesAreJudgedLikeTheOracle(t *testing.T) {
	n := 0
	for _, file := range []string{"agreed", "mutants"} {
		data, err := os.ReadFile("../oracle/comparison/testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split("\n"+string(data), "\n## ")[1:] {
			title, text, _ := strings.Cut(block, "\n")
			tr, err := oracle.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if tr.View.MidStream || tr.View.Closed && tr.TwoWay() || reordered(tr) {
				continue
			}
			for _, seen := range observe(tr) {
				e := endpoint(&seen)
				want := oracle.Decide(tr, e).Verdict
				if got := worst(&seen); got != want {
					t.Errorf("%s: %v: %v; the oracle says %v of\n%v%+v", title, e, got, want, tr, seen)
				}
				n++
			}
		}
	}
	if n < 150 {
		t.Errorf("only %d endpoints were judged", n)
	}
}

// reordered reports whether frames overtook each other: the observer does not judge such traces.
func reordered(t *oracle.Trace) bool {
	return slices.ContainsFunc(t.Records(), func(r trace.Record) bool { return r.Event == trace.EventReorder })
}

// long draws the traffic of two compliant hosts, some hundred packets, as a tap sees it.
func long(rng *rand.Rand) *oracle.Trace {
	for {
		sc := traffic.Small(rng)
		sc.Messages, sc.Packets, sc.Window = 40+rng.IntN(120), 1+rng.IntN(6), 1+rng.IntN(40)
		sc.TimeoutNS, sc.Retry, sc.Refused, sc.TwoWay = 1<<20, 7, 0, false
		sc.Loss, sc.Transit = sc.Loss/8, rng.Int64N(3000)
		frames, settled := traffic.Run(sc)
		if !settled || len(frames) < 100 {
			continue
		}
		tr := traffic.Seen(sc, frames, traffic.AtSwitch)
		if rng.IntN(4) == 0 { // nothing but the packets is known
			tr.View = oracle.View{Retry: -1, RNRRetry: -1}
		}
		switch rng.IntN(4) {
		case 0:
			tr.Packets = traffic.Pair(tr.Packets, sc.Transit, sc.Transit)
		case 1, 2:
			tr.View.Plain, tr.View.Complete = true, rng.IntN(2) == 0
			for i := range tr.Packets {
				tr.Packets[i].Lost = false
			}
		}
		tr.View.Closed = rng.IntN(2) == 0
		return tr
	}
}

// drawn returns how many of n sessions are drawn.
func drawn(n int) int {
	if testing.Short() {
		return n / 2
	}
	return n
}

// TestLongSessionsOfCompliantHostsAreExplained also wants most of them judged to the end.
func TestLongSessionsOfCompliantHostsAreExplained(t *testing.T) {
	blind, all := 0, 0
	for i := range drawn(60) {
		tr := long(rand.New(rand.NewPCG(21, uint64(i))))
		for _, seen := range observe(tr) {
			if worst(&seen) != oracle.Possible {
				t.Fatalf("trace %d, %v: %+v", i, endpoint(&seen), seen)
			}
			if all++; len(seen.Blind) > 0 {
				blind++
			}
		}
	}
	if blind > all/10 {
		t.Errorf("%d of %d endpoints were not judged everywhere", blind, all)
	}
}

// TestOneImpossiblePacketInALongSessionIsFound changes one packet, usually a late one, to one that no compliant host
// sends.
func TestOneImpossiblePacketInALongSessionIsFound(t *testing.T) {
	// the share that is found in single captures, where any frame may be lost after the tap
	captured := map[string]float64{
		"an ACK of what was never sent": 0.9, "a count of messages that are not complete": 0.9,
		"requests left out": 0.4, "a request from long ago": 0.1,
	}
	for name, change := range map[string]func(*oracle.Packet) bool{
		"an ACK of what was never sent": func(p *oracle.Packet) bool {
			p.PSN += 2000
			return p.Op == packet.Acknowledge && p.Syndrome.IsAck()
		},
		"a count of messages that are not complete": func(p *oracle.Packet) bool {
			p.MSN += 1000
			return p.Op == packet.Acknowledge && p.Syndrome.IsAck()
		},
		"requests left out": func(p *oracle.Packet) bool {
			p.PSN += 1000
			return p.Op == packet.WriteOnly || p.Op == packet.SendOnly || p.Op == packet.SendFirst
		},
		"a request from long ago": func(p *oracle.Packet) bool {
			p.PSN -= 60
			return p.Op == packet.SendOnly || p.Op == packet.SendFirst
		},
	} {
		t.Run(name, func(t *testing.T) {
			var changed, found [2]int // where the trace shows what arrives, in single captures
			for i := range drawn(60) {
				rng := rand.New(rand.NewPCG(22, uint64(i)))
				tr := long(rng)
				from := len(tr.Packets)/2 + rng.IntN(len(tr.Packets)/4)
				at := from + slices.IndexFunc(tr.Packets[from:], func(p oracle.Packet) bool {
					return p.Seen&trace.Sent != 0 && change(&p)
				})
				if at < from {
					continue
				}
				change(&tr.Packets[at])
				kind := 0
				if tr.View.Plain {
					kind = 1
				}
				changed[kind]++
				if slices.ContainsFunc(observe(tr), func(o analyzers.Observed) bool {
					return slices.ContainsFunc(o.Unexplained, func(f analyzers.Finding) bool {
						return f.Severity == analyzers.Violation && slices.Contains(f.Packets, tr.Records()[at].ID)
					})
				}) {
					found[kind]++
				}
			}
			if changed[0] < drawn(10) || found[0] < changed[0] || float64(found[1]) < captured[name]*float64(changed[1]) {
				t.Errorf("%d of %d were found, %d of %d in single captures", found[0], changed[0], found[1], changed[1])
			}
		})
	}
}

// TestACaptureThatBeginsMidwayIsJudgedFromWhereItsPacketsShowTheEndpoints removes the first packets of long captures.
// What happens after the state of an endpoint is known must be judged, and nothing before.
func TestACaptureThatBeginsMidwayIsJudgedFromWhereItsPacketsShowTheEndpoints(t *testing.T) {
	observeCut := func(tr *oracle.Trace, from int) (requester, responder analyzers.Observed) {
		connections := *oracle.Connections()
		connections.Inferred = true
		meta := tr.Checked(&connections).Meta()
		o := observer.New(meta, observer.Config{Default: limits(tr.View)})
		for i, r := range tr.Records() {
			if i >= from {
				o.Packet(&r)
			}
		}
		seen := o.Finish()
		return seen[0], seen[1]
	}
	found, judged, sessions := 0, 0, 0
	for i := range drawn(120) {
		rng := rand.New(rand.NewPCG(23, uint64(i)))
		tr := long(rng)
		from := 1 + rng.IntN(len(tr.Packets)/2)
		at := 3 * len(tr.Packets) / 4
		for at < len(tr.Packets) && !(tr.Packets[at].Op == packet.Acknowledge && tr.Packets[at].Syndrome.IsAck()) {
			at++
		}
		if tr.Packets[from].Op.IsResponse() || at == len(tr.Packets) || !tr.View.Plain {
			continue
		}
		sessions++
		requester, responder := observeCut(tr, from)
		if worst(&requester) != oracle.Possible || worst(&responder) != oracle.Possible {
			t.Fatalf("trace %d: %+v %+v", i, requester, responder)
		}
		blindFrom := func(o *analyzers.Observed) uint64 { return o.Blind[0].From }
		if len(requester.Blind) == 0 || len(responder.Blind) == 0 || blindFrom(&requester) != blindFrom(&responder) {
			t.Fatalf("trace %d is judged from its first packet on: %+v %+v", i, requester, responder)
		}
		if responder.Blind[len(responder.Blind)-1].To == 0 {
			continue
		}
		judged++
		tr.Packets[at].PSN += 2000
		if _, responder = observeCut(tr, from); worst(&responder) == oracle.Violation {
			found++
		}
	}
	if sessions < drawn(20) || judged < sessions/3 || found < judged*3/4 {
		t.Errorf("%d impossible ACKs found in %d judged of %d sessions", found, judged, sessions)
	}
}
