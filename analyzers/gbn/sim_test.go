package gbn_test

import (
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// The simulation below is a second, independent implementation of the protocol: an RC requester and responder written
// for this test, joined by links of random delay through an observer that loses packets. What such endpoints do is
// correct by construction, so the analyzer must report nothing; with one of the bugs below it must.

type bug string

const (
	bugNone            bug = ""
	bugNakNext         bug = "nak-psn+1"
	bugNakPrevious     bug = "nak-psn-1"
	bugNakTwice        bug = "nak-twice"
	bugNakNever        bug = "nak-never"
	bugNakDuplicate    bug = "nak-duplicate"
	bugAckLost         bug = "ack-lost"
	bugAckOld          bug = "ack-old"
	bugAckNever        bug = "ack-never"
	bugMSNStuck        bug = "msn-stuck"
	bugMSNEager        bug = "msn-eager"
	bugReadShort       bug = "read-short"
	bugReadSkip        bug = "read-skip"
	bugReadOpcode      bug = "read-opcode"
	bugRestartNext     bug = "restart-after-nacked"
	bugRestartEarlier  bug = "restart-two-early"
	bugSelective       bug = "selective-repeat"
	bugSkipPSN         bug = "skip-psn"
	bugIgnoreNak       bug = "ignore-nak-give-up"
	bugChangeLength    bug = "retransmit-length"
	bugReadRestartOld  bug = "read-restart-old-length"
	bugEarlyTimeout    bug = "early-timeout"
	bugWrongPad        bug = "wrong-pad"
	bugWrongMiddleSize bug = "short-middle"
)

type simMessage struct {
	verb        packet.Verb
	first, last int64
	length      int64
}

// simConfig is one scenario; everything random in it comes from seed.
type simConfig struct {
	seed      uint64
	messages  int
	maxPSNs   int
	verbs     []packet.Verb
	delayNS   int64 // links take 0 to delayNS
	lossPct   int   // of all packets, either way
	losses    int   // at most so many
	timeoutNS int64
	window    int // PSNs outstanding
	ipsn      packet.PSN
	rnrs      int
	kernel    bool // READ replays go on with MIDDLE and LAST
	bug       bug
}

type simPacket struct {
	trace.Record
	rel int64 // PSN, from 0
}

type simEvent struct {
	atNS int64
	seq  int
	run  func()
}

type simulation struct {
	cfg    simConfig
	rng    *rand.Rand
	nowNS  int64
	seq    int
	events []simEvent // a heap would be faster; runs are short
	links  [4]int64   // last arrival on A→S, S→B, B→S, S→A
	lost   int

	messages []simMessage
	records  []trace.Record
	a        simRequester
	b        simResponder
	fired    bool // the bug showed on the wire
}

func simulate(cfg simConfig) *simulation {
	s := &simulation{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 7))}
	next := int64(0)
	for range cfg.messages {
		v := cfg.verbs[s.rng.IntN(len(cfg.verbs))]
		n := int64(1 + s.rng.IntN(cfg.maxPSNs))
		length := n*mtu - int64(s.rng.IntN(mtu))
		if v == packet.VerbAtomic {
			n, length = 1, 8
		} else if n == 1 && s.rng.IntN(4) == 0 {
			length = 0
		}
		s.messages = append(s.messages, simMessage{v, next, next + n - 1, length})
		next += n
	}
	s.a = simRequester{s: s, end: next, skip: s.rng.IntN(2) == 0 && cfg.bug == bugNone, pipeline: s.rng.IntN(6)}
	s.b = simResponder{s: s, acked: -1, lazy: s.rng.IntN(3), ownPSN: s.rng.IntN(2) == 0, rnrs: cfg.rnrs,
		eager: s.rng.IntN(8)}
	s.b.lateMSN = s.rng.IntN(2) == 0
	s.after(0, s.a.pump)
	limit := 200_000
	if cfg.bug != bugNone {
		limit = 5_000 // endpoints with bugs may never finish
	}
	for range limit {
		if len(s.events) == 0 {
			break
		}
		s.pop().run()
	}
	return s
}

func (s *simulation) after(d int64, run func()) {
	s.seq++
	s.events = append(s.events, simEvent{s.nowNS + d, s.seq, run})
	for i := len(s.events) - 1; i > 0; { // sift up
		p := (i - 1) / 2
		if !s.less(i, p) {
			break
		}
		s.events[i], s.events[p] = s.events[p], s.events[i]
		i = p
	}
}

func (s *simulation) less(i, j int) bool {
	a, b := &s.events[i], &s.events[j]
	return a.atNS < b.atNS || a.atNS == b.atNS && a.seq < b.seq
}

func (s *simulation) pop() simEvent {
	e := s.events[0]
	n := len(s.events) - 1
	s.events[0] = s.events[n]
	s.events = s.events[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && s.less(c+1, c) {
			c++
		}
		if !s.less(c, i) {
			break
		}
		s.events[i], s.events[c] = s.events[c], s.events[i]
		i = c
	}
	s.nowNS = e.atNS
	return e
}

// link carries a packet over link n in FIFO order and calls arrive at its end.
func (s *simulation) link(n int, arrive func()) {
	at := s.nowNS + s.rng.Int64N(s.cfg.delayNS+1)
	at = max(at, s.links[n]+1)
	s.links[n] = at
	s.after(at-s.nowNS, arrive)
}

// send carries p from A (forward) or B through the observer to the other side.
func (s *simulation) send(forward bool, p simPacket) {
	p.Flow = trace.NewFlowID(1, !forward)
	p.PSN = s.cfg.ipsn.Add(int(p.rel))
	up, down := 2, 3
	if forward {
		up, down = 0, 1
	}
	s.link(up, func() {
		s.observe(&p)
		if !p.Delivered() {
			return
		}
		s.link(down, func() {
			if forward {
				s.b.receive(p)
			} else {
				s.a.receive(p)
			}
		})
	})
}

// observe records p and decides its fate.
func (s *simulation) observe(p *simPacket) {
	p.ID, p.TimeNS = uint64(len(s.records)+1), s.nowNS
	p.Flags |= trace.Sent | trace.Passed
	if s.lost < s.cfg.losses && s.rng.IntN(100) < s.cfg.lossPct {
		s.lost++
		p.Event = trace.EventDrop
		if s.rng.IntN(4) == 0 {
			p.Event = trace.EventCorrupt
		}
	}
	s.records = append(s.records, p.Record)
}

func (s *simulation) messageAt(rel int64) *simMessage {
	lo, hi := 0, len(s.messages)-1
	for lo < hi {
		mid := (lo + hi) / 2
		if s.messages[mid].last < rel {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return &s.messages[lo]
}

func (c simConfig) String() string {
	return fmt.Sprintf("seed %d: %d messages of up to %d packets, verbs %v, delay %d ns, loss %d%% (%d), T %d ns, "+
		"window %d, ipsn %d, rnr %d",
		c.seed, c.messages, c.maxPSNs, c.verbs, c.delayNS, c.lossPct, c.losses, c.timeoutNS, c.window, c.ipsn, c.rnrs)
}
