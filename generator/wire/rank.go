package wire

import (
	"encoding/binary"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// RankKind is what the sender of a flow derives the ranks of its packets from.
type RankKind uint8

// Kinds of ranks. Lower ranks are more urgent.
const (
	Unranked       RankKind = iota
	RankByBytes             // bytes of the flow from the packet's first byte on: shortest remaining first
	RankFixed               // Ranking.Value
	RankByDeadline          // the flow's deadline, Ranking.Value
)

// Ranking is how the sender of a flow ranks its packets. What the receiver of a flow sends has rank 0.
type Ranking struct {
	Kind  RankKind
	Value uint64 // RankFixed: the rank; RankByDeadline: nanoseconds since the start of the run
}

// Ranks of flows without end.
const endlessBytes = 1 << 62

// Rank returns the rank of a packet before which the flow has so many bytes, of all that it sends; 0: without end.
func (r *Ranking) Rank(all, before uint64) uint64 {
	switch {
	case r.Kind != RankByBytes:
		return r.Value
	case all == 0:
		all = endlessBytes
	}
	return all - min(before, all)
}

// From returns the ranking of a flow that starts at start: a deadline is counted from then.
func (r Ranking) From(start clock.Time) Ranking {
	if r.Kind == RankByDeadline {
		r.Value += uint64(start.Nanoseconds())
	}
	return r
}

// String returns the ranking in the words of the configuration.
func (r Ranking) String() string {
	switch r.Kind {
	case RankByBytes:
		return "remaining"
	case RankFixed:
		return fmt.Sprint(r.Value)
	case RankByDeadline:
		return "deadline"
	case Unranked:
	}
	return "none"
}

// A frame whose packet has a rank carries it in the first bytes of its payload, as far as there is room: four letters,
// then the rank. Payload is zeros otherwise.
const (
	rankMark = "RANK"
	RankLen  = len(rankMark) + 8
)

// appendRank appends what a ranked packet carries.
func (h *Header) appendRank(payload []byte) []byte {
	return binary.BigEndian.AppendUint64(append(payload, rankMark...), h.Rank)
}

// ParseRank takes the rank from the payload of a frame, and reports whether there is one.
func (h *Header) ParseRank(payload []byte) bool {
	if len(payload) < RankLen || string(payload[:len(rankMark)]) != rankMark {
		return false
	}
	h.SetRank(binary.BigEndian.Uint64(payload[len(rankMark):]))
	return true
}

// SetRank sets the packet's rank; lower is served first.
func (h *Header) SetRank(rank uint64) {
	h.Rank = rank
	h.Flags |= trace.Ranked
}
