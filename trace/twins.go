package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// A capture may hold each frame twice: from a SPAN port that copies both directions, from two interfaces with the same
// packet, or from both sides of a router. Twins differ only in their MAC addresses, TTL and what depends on it, and are
// captured one right after the other, whereas a retransmission comes a round trip later.

// twinWindowNS is how long after a frame its twin may come: the transit of a switch or router with full queues.
const twinWindowNS = 200_000

// twinSample is how many RoCE frames decide whether a capture holds twins.
const twinSample = 20_000

// twinsMissing is the largest share of frames without a twin in a capture of twins, which may miss some. Go-back-N can
// repeat as large a share of the requests, but not of the responses, too, nor with the same IPv4 identifications.
const twinsMissing = 0.2

// twinRecent is how many frames are looked back over.
const twinRecent = 1 << 12

// twinRule says which frames of a capture are second copies of the frame before them.
type twinRule struct {
	windowNS int64
	hops     int  // by how much the second one's TTL is lower
	marked   bool // some second copy has CE and the first one does not
}

// String says it for people.
func (t *twinRule) String() string {
	if t.hops == 0 {
		return fmt.Sprintf("the capture holds frames twice, at most %s apart", clock.TextNS(t.windowNS))
	}
	return fmt.Sprintf(
		"the capture was taken on both sides of a router: it holds frames twice, with a TTL that is %d lower", t.hops)
}

// A seenFrame is a frame that a twin may follow.
type seenFrame struct {
	hash   uint64
	timeNS int64
	ttl    uint8
	ce     bool
	paired bool
}

// twins finds second sights of frames, which it is shown in order.
type twins struct {
	windowNS int64
	hops     int // -1: any
	recent   []seenFrame
	next     int
	byHash   map[uint64]int // index in recent of the latest
	marked   bool           // see twinRule
}

func newTwins(windowNS int64, hops int) *twins {
	return &twins{windowNS: windowNS, hops: hops, recent: make([]seenFrame, 0, twinRecent),
		byHash: make(map[uint64]int, twinRecent)}
}

// twin reports whether f is the second copy of a RoCE frame, how long after the first it came, and by how much its TTL
// is lower.
func (t *twins) twin(f *Frame) (gapNS int64, hops int, ok, roce bool) {
	s, isRoCE, err := locateRoCE(f.Data, packet.Port)
	if !isRoCE || err != nil {
		return 0, 0, false, false
	}
	seen := seenFrame{hash: twinHash(f.Data[s.l3:s.end]), timeNS: f.TimeNS, ttl: f.Data[s.l3+7],
		ce: f.Data[s.l3+1]>>4&3 == byte(packet.CE)}
	if f.Data[s.l3]>>4 == 4 {
		seen.ttl, seen.ce = f.Data[s.l3+8], f.Data[s.l3+1]&3 == byte(packet.CE)
	}
	if i, found := t.byHash[seen.hash]; found {
		first := &t.recent[i]
		gapNS, hops = seen.timeNS-first.timeNS, int(first.ttl)-int(seen.ttl)
		if !first.paired && gapNS >= 0 && gapNS <= t.windowNS && hops >= 0 && (t.hops < 0 || hops == t.hops) {
			first.paired = true
			t.marked = t.marked || seen.ce && !first.ce
			return gapNS, hops, true, true
		}
	}
	t.remember(seen)
	return 0, 0, false, true
}

func (t *twins) remember(s seenFrame) {
	if len(t.recent) < twinRecent {
		t.byHash[s.hash] = len(t.recent)
		t.recent = append(t.recent, s)
		return
	}
	if old := t.recent[t.next]; t.byHash[old.hash] == t.next {
		delete(t.byHash, old.hash)
	}
	t.recent[t.next] = s
	t.byHash[s.hash] = t.next
	t.next = (t.next + 1) % twinRecent
}

// twinHash hashes an IP packet without what a switch or router may change: TTL, checksums, DSCP and ECN.
func twinHash(b []byte) uint64 {
	h := uint64(len(b))
	for i, at := 0, b; len(at) > 0; i++ {
		var word uint64
		n := min(8, len(at))
		for j := range n {
			word = word<<8 | uint64(at[j])
		}
		at = at[n:]
		switch {
		case b[0]>>4 == 4 && i == 0:
			word &^= 0xff << 48 // DSCP, ECN
		case b[0]>>4 == 4 && i == 1:
			word &^= 0xff<<56 | 0xffff<<32 // TTL, header checksum
		case b[0]>>4 == 6 && i == 0:
			word &^= 0x0ff0_0000<<32 | 0xff // traffic class, hop limit
		}
		h = mix(h^word, uint64(i))
	}
	return h
}

// findTwins returns the rule if the capture holds its frames twice, else nil.
func findTwins(ctx context.Context, src Source) (*twinRule, error) {
	t := newTwins(twinWindowNS, -1)
	var e twinEvidence
	err := src.ForEachFrame(ctx, func(f *Frame) error {
		gap, hops, second, roce := t.twin(f)
		if roce {
			e.add(f, second, gap, hops)
		}
		if e.frames == twinSample {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) && !errors.Is(err, ErrTruncatedFile) {
		return nil, err
	}
	rule := e.rule()
	if rule != nil {
		rule.marked = t.marked
	}
	return rule, nil
}

// twinEvidence counts what decides whether a capture holds its frames twice.
type twinEvidence struct {
	frames int
	gaps   []int64
	hops   map[int]int // twins by the difference in TTL
	ways   map[flowKey]*twinWay
	ids    map[uint16]bool // IPv4 identifications of twins
}

type twinWay struct{ frames, twins int }

func (e *twinEvidence) add(f *Frame, second bool, gapNS int64, hops int) {
	if e.ways == nil {
		e.ways, e.hops, e.ids = make(map[flowKey]*twinWay), make(map[int]int), make(map[uint16]bool)
	}
	s, _, _ := locateRoCE(f.Data, packet.Port)
	key := frameFlowKey(f.Data, &s, 0)
	way := e.ways[key]
	if way == nil {
		way = &twinWay{}
		e.ways[key] = way
	}
	e.frames++
	way.frames++
	if !second {
		return
	}
	way.twins++
	e.gaps = append(e.gaps, gapNS)
	e.hops[hops]++
	if f.Data[s.l3]>>4 == 4 {
		e.ids[be16(f.Data[s.l3+4:])] = true
	}
}

// rule returns which frames are second copies, or nil if the capture does not hold frames twice.
func (e *twinEvidence) rule() *twinRule {
	const few = 8
	if len(e.gaps) == 0 || len(e.gaps) < few && 2*len(e.gaps) != e.frames {
		return nil // too few to decide, unless each frame has its twin
	}
	slices.Sort(e.gaps)
	rule := &twinRule{windowNS: min(twinWindowNS, 4*e.gaps[len(e.gaps)*9/10]+1000)}
	for n, count := range e.hops {
		if 2*count > len(e.gaps) {
			rule.hops = n
		}
	}
	identified := len(e.ids) > 1 && 2*len(e.ids) > len(e.gaps)
	if identified || rule.hops > 0 { // no retransmission looks like a twin
		rule.windowNS = twinWindowNS
	}
	doubled := 0
	for _, w := range e.ways {
		if float64(2*w.twins) >= (1-twinsMissing)*float64(w.frames) {
			doubled++
		} else if rule.hops == 0 {
			return nil
		}
	}
	if rule.hops > 0 && doubled > 0 || identified || doubled > 1 {
		return rule
	}
	return nil
}

// withoutTwins returns the capture with each frame once, and what was noticed, if it holds frames twice.
func (src Source) withoutTwins(ctx context.Context) (Source, string, error) {
	rule, err := findTwins(ctx, src)
	if err != nil || rule == nil {
		return src, "", err
	}
	src.twins = rule
	return src, rule.String() + "; the second of each pair was left out", nil
}
