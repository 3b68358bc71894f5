package report

import (
	"fmt"
	"slices"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Sequence holds one connection over time: PSNs, the answers to them and the fate of both.
type Sequence struct {
	Connection int
	Reverse    bool // requests of the responder
	Points     []Point
	Omitted    int64 // ordinary packets that were thinned out
}

// Point is one packet of a trace, numbered as in the configuration.
type Point struct {
	TimeNS  int64
	PSN     int64  // relative; 0: none
	Iter    int64  // round of transmission of a data packet; 0: none
	ID      uint64 // Record.ID
	Class   packet.Class
	Event   trace.EventType
	Resent  bool // a data packet at or before the highest PSN seen
	Reverse bool // from responder to requester
	Damaged bool // arrived at the observer with a bad iCRC

	afterGap bool // earlier packets of the connection are omitted before this one
}

// lost reports whether the receiver cannot have accepted the packet, as far as the observer sees.
func (p *Point) lost() bool {
	return p.Damaged || p.Event.Loses()
}

// omittable reports whether p may be thinned out.
func (p *Point) omittable() bool {
	switch p.Class {
	case packet.ClassData:
		return !p.Resent && p.Event == trace.EventNone && !p.Damaged
	case packet.ClassAck, packet.ClassAtomicAck, packet.ClassReadRequest:
		return p.Event == trace.EventNone && !p.Damaged
	default:
		return false
	}
}

// what describes the packet as in the configuration: "data psn 5 iter 2".
func (p *Point) what() string {
	text := p.Class.String()
	if p.PSN != 0 && p.Class != packet.ClassCNP {
		text += fmt.Sprintf(" psn %d", p.PSN)
	}
	if p.Iter > 0 {
		text += fmt.Sprintf(" iter %d", p.Iter)
	}
	return text + p.fate()
}

func (p *Point) fate() string {
	switch {
	case p.Event != trace.EventNone:
		return " [" + p.Event.String() + "]"
	case p.Damaged:
		return " [bad iCRC]"
	}
	return ""
}

// Ladder is a series of packets of one connection, drawn as arrows between the hosts and the injector.
type Ladder struct {
	Connection int
	Title      string // "around mirror #1184"
	Finding    int    // number of its finding, from 1; 0: none
	Steps      []Step
}

// Step is one packet of a Ladder, or a number of omitted packets.
type Step struct {
	Point
	Accused bool // a packet of the finding
	Skipped int  // number of packets omitted here, instead of a packet
}

// packetNumber formats a packet number as reports of this kind do.
func (r *Report) packetNumber(id uint64) string {
	if r.PacketIDs == "packet" {
		return "#" + trace.PacketText(id)
	}
	return packetNumber(id)
}

// packetNumber formats Record.ID as trace show does: "#12", and "#+12" for a frame of the second of two captures.
func packetNumber(id uint64) string {
	if id >= trace.PairSecond {
		return fmt.Sprintf("#+%d", id-trace.PairSecond)
	}
	return fmt.Sprintf("#%d", id)
}

// aroundLines formats points in trace order. Consecutive packets of one kind share a line: "#1180 nak psn 5 t=809 us",
// "#1181-#1183 data psn 9-11 iter 1 +209 ns".
func (r *Report) aroundLines(points []Point) []string {
	var lines []string
	var before *Point // first packet of the previous line
	both := bothWays(points)
	for i := 0; i < len(points); {
		first := &points[i]
		n := 1
		for i+n < len(points) && first.continuedBy(&points[i+n], n) && points[i+n].ID == first.ID+uint64(n) {
			n++
		}
		if first.afterGap {
			lines, before = append(lines, "…"), nil
		}
		last := &points[i+n-1]
		text := packetNumber(first.ID)
		if n > 1 {
			text += "-" + packetNumber(last.ID)
		}
		if both {
			text += " " + first.way()
		}
		if n > 1 {
			text += fmt.Sprintf(" %s psn %d-%d", first.Class, first.PSN, last.PSN)
			if first.Iter > 0 {
				text += fmt.Sprintf(" iter %d", first.Iter)
			}
		} else {
			text += " " + first.what()
		}
		lines = append(lines, text+" "+r.moment(before, first))
		before = first
		i += n
	}
	return lines
}

// moment returns the time of p: absolute for the first line, then relative to before.
func (r *Report) moment(before, p *Point) string {
	if before == nil {
		return "t=" + r.instant(p.TimeNS)
	}
	return since(before.TimeNS, p.TimeNS)
}

// bothWays reports whether data goes in both directions. Lines then show the direction.
func bothWays(points []Point) bool {
	way := func(reverse bool) bool {
		return slices.ContainsFunc(points, func(p Point) bool { return p.Class == packet.ClassData && p.Reverse == reverse })
	}
	return way(false) && way(true)
}

// way returns the direction of a packet as trace show prints it.
func (p *Point) way() string {
	if p.Reverse {
		return "<-"
	}
	return "->"
}

// continuedBy reports whether q is the n-th packet after p in a run of packets of the same kind.
func (p *Point) continuedBy(q *Point, n int) bool {
	return p.Class == packet.ClassData && q.Class == p.Class && q.Iter == p.Iter && q.Reverse == p.Reverse &&
		q.PSN == p.PSN+int64(n) && q.fate() == "" && p.fate() == "" && !q.afterGap
}
