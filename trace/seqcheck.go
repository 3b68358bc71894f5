package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// sequenceCheck is condition 1: it follows the sequence numbers and keeps the holes, so that a late number is reported
// as disorder and not as missing.
type sequenceCheck struct {
	modulus Format // FormatLumina wraps 2³¹−1 → 1
	started bool
	next    uint64 // expected
	last    uint64 // seen
	first   uint64

	missing  int64
	holes    []SeqRange // in order, bounded by holeLimit
	overflow bool       // holes were dropped: late numbers can no longer be distinguished from duplicates
	dups     int64
	dupList  []SeqStep
	disorder int64
	disList  []SeqStep
}

// holeLimit bounds the memory of a sequence check, and its work on a trace in complete disorder.
const holeLimit = 1 << 12

const luminaMaxSeq = 1<<31 - 1

func (c *sequenceCheck) successor(seq uint64) uint64 {
	if c.modulus == FormatLumina && seq == luminaMaxSeq {
		return 1
	}
	return (seq + 1) & stampMask
}

func (c *sequenceCheck) predecessor(seq uint64) uint64 {
	if c.modulus == FormatLumina && seq == 1 {
		return luminaMaxSeq
	}
	return (seq - 1) & stampMask
}

// ahead returns the signed distance from c.next to seq on the circle of sequence numbers.
func (c *sequenceCheck) ahead(seq uint64) int64 {
	if c.modulus != FormatLumina {
		return distance48(c.next, seq)
	}
	d := (int64(seq) - int64(c.next)) % luminaMaxSeq
	switch {
	case d > luminaMaxSeq/2:
		d -= luminaMaxSeq
	case d < -luminaMaxSeq/2:
		d += luminaMaxSeq
	}
	return d
}

// add observes the sequence number of a frame.
func (c *sequenceCheck) add(seq, frame uint64) {
	if seq == c.next && c.started {
		c.last, c.next = seq, c.successor(seq)
		return
	}
	if !c.started {
		c.started, c.first = true, seq
		c.last, c.next = seq, c.successor(seq)
		return
	}
	c.irregular(seq, frame)
}

func (c *sequenceCheck) irregular(seq, frame uint64) {
	step := SeqStep{Frame: frame, Previous: c.last, Seq: seq}
	c.last = seq
	if d := c.ahead(seq); d > 0 {
		c.missing += d
		if len(c.holes) < holeLimit {
			c.holes = append(c.holes, SeqRange{c.next, c.predecessor(seq)})
		} else {
			c.overflow = true
		}
		c.next = c.successor(seq)
		return
	}
	filled := c.fill(seq)
	if filled {
		c.missing--
	}
	if filled || c.offset(seq) > c.offset(c.next) { // beyond everything seen, so really before the first
		c.disorder++
		c.disList = appendBounded(c.disList, step)
		return
	}
	c.dups++
	c.dupList = appendBounded(c.dupList, step)
}

// offset returns the distance of seq from the first sequence number, forwards around the circle.
func (c *sequenceCheck) offset(seq uint64) uint64 {
	if c.modulus != FormatLumina {
		return (seq - c.first) & stampMask
	}
	return (seq + luminaMaxSeq - c.first) % luminaMaxSeq
}

// fill takes seq out of the hole that it lies in, if any.
func (c *sequenceCheck) fill(seq uint64) bool {
	at := c.offset(seq)
	i, _ := slices.BinarySearchFunc(c.holes, at,
		func(h SeqRange, at uint64) int { return cmp.Compare(c.offset(h.Last), at) })
	if i == len(c.holes) || c.offset(c.holes[i].First) > at {
		return false
	}
	h := &c.holes[i]
	switch {
	case h.First == h.Last:
		c.holes = slices.Delete(c.holes, i, i+1)
	case seq == h.First:
		h.First = c.successor(seq)
	case seq == h.Last:
		h.Last = c.predecessor(seq)
	default:
		rest := SeqRange{c.successor(seq), h.Last}
		h.Last = c.predecessor(seq)
		if len(c.holes) == holeLimit {
			c.overflow = true
			break
		}
		c.holes = slices.Insert(c.holes, i+1, rest)
	}
	return true
}

func appendBounded[T any](list []T, v T) []T {
	if len(list) < listLimit {
		list = append(list, v)
	}
	return list
}

func (c *sequenceCheck) condition() Condition {
	out := Condition{
		Name: ConditionSequence, Status: StatusOK, MissingCount: c.missing, DuplicateCount: c.dups, Duplicates: c.dupList,
		DisorderCount: c.disorder, Disorder: c.disList, Missing: c.holes[:min(len(c.holes), listLimit)],
	}
	if !c.started {
		out.Status, out.Message = StatusViolated, "the trace holds no RoCE packet"
		return out
	}
	var parts []string
	if c.missing > 0 {
		parts = append(parts, fmt.Sprintf("%d mirror copies are missing: %s", c.missing, joinRanges(c.holes)))
	}
	if c.dups > 0 {
		what := "duplicates"
		if c.overflow {
			what = "duplicates or late copies (too many are missing to distinguish them)"
		}
		parts = append(parts, fmt.Sprintf("%d %s, the first is #%d in frame %d", c.dups, what, c.dupList[0].Seq,
			c.dupList[0].Frame))
	}
	if c.disorder > 0 {
		d := c.disList[0]
		parts = append(parts,
			fmt.Sprintf("%d copies out of order, the first is #%d after #%d in frame %d (are these unmerged shards?)",
				c.disorder, d.Seq, d.Previous, d.Frame))
	}
	if len(parts) > 0 {
		out.Status, out.Message = StatusViolated, strings.Join(parts, "; ")
		return out
	}
	out.Message = fmt.Sprintf("consecutive from #%d to #%d", c.first, c.last)
	return out
}

// joinRanges prints the first few ranges and counts the rest.
func joinRanges(ranges []SeqRange) string {
	const shown = 8
	var b strings.Builder
	for i, r := range ranges {
		if i == shown {
			fmt.Fprintf(&b, " and %d more ranges", len(ranges)-shown)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(r.String())
	}
	return b.String()
}
