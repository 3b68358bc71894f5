package orchestrator

import (
	"fmt"
	"slices"

	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// maxStories bounds the number of touched packets that are followed, so that the report stays readable.
const maxStories = 64

// story follows one packet that the injector touched and the endpoints' answers to it.
type story struct {
	touched trace.Record
	iter    int64
	place   int64 // relative PSN
	arrived bool  // the receiver got the packet although the injector held, moved or changed it

	answer    string // the packet that informed the sender: "nak psn 5 #16"
	answerNS  int64
	resentID  uint64
	resentNS  int64
	resentHit trace.EventType // event that hit the retransmission
}

func (s *story) lost() bool { return !s.arrived && !s.touched.Delivered() }

// open reports whether the story has not ended.
func (s *story) open() bool {
	if s.lost() {
		return s.resentID == 0 && s.touched.Opcode.IsData()
	}
	return s.answer == "" && s.touched.Marked() && s.touched.Opcode.IsData()
}

// stories follows the first packets that the injector touched, in trace order. open are those that have not ended.
type stories struct {
	list []*story
	open []*story
}

// observe advances the open stories by r and starts one if the injector touched it.
func (s *stories) observe(r *trace.Record, iter, place int64) {
	kept := s.open[:0]
	for _, st := range s.open {
		st.advance(r, place)
		if st.open() {
			kept = append(kept, st)
		}
	}
	s.open = kept
	if r.Event != trace.EventNone && len(s.list) < maxStories {
		st := &story{touched: *r, iter: iter, place: place}
		s.list = append(s.list, st)
		if st.open() {
			s.open = append(s.open, st)
		}
	}
}

// left records that a touched packet left the injector after it was held, copied or changed. It counts as arrived only
// with its own PSN, opcode and flow.
func (s *stories) left(r *trace.Record) {
	for _, st := range s.list {
		if t := &st.touched; t.ID == r.ID && r.Delivered() && r.Flow == t.Flow && r.PSN == t.PSN && r.Opcode == t.Opcode {
			st.arrived = true
		}
	}
	s.open = slices.DeleteFunc(s.open, func(st *story) bool { return !st.open() })
}

// advance checks whether r answers or retransmits the touched packet.
func (st *story) advance(r *trace.Record, place int64) {
	t := &st.touched
	switch {
	case r.Flow == t.Flow && st.lost() && r.Opcode.IsData() && r.Opcode.Space() == t.Opcode.Space() && r.PSN == t.PSN:
		st.resentID, st.resentNS, st.resentHit = r.ID, r.TimeNS, r.Event
	case r.Flow != t.Flow.Peer() || st.answer != "":
	case !st.lost():
		if r.Opcode == packet.CNP {
			st.answered(r, "cnp")
		}
	case t.Opcode.IsReadResponse():
		if r.Opcode == packet.ReadRequest && !t.PSN.Before(r.PSN) {
			st.answered(r, fmt.Sprintf("read-request psn %d", place))
		}
	case (r.Class() == packet.ClassNak || r.Class() == packet.ClassRNR) && !t.PSN.Before(r.PSN):
		st.answered(r, fmt.Sprintf("%s psn %d", r.Class(), place))
	}
}

func (st *story) answered(r *trace.Record, what string) {
	st.answer, st.answerNS = fmt.Sprintf("%s #%d", what, r.ID), r.TimeNS
}

// String returns the story in one line.
func (st *story) String() string {
	t := &st.touched
	line := fmt.Sprintf("#%d qpn %d %s psn %d", t.ID, t.Flow.Connection(), t.Class(), st.place)
	if t.Class() == packet.ClassData {
		line += fmt.Sprintf(" iter %d", st.iter)
	} else if t.Opcode == packet.CNP {
		line = fmt.Sprintf("#%d qpn %d cnp", t.ID, t.Flow.Connection())
	}
	line += ": " + t.Event.String()
	if st.answer != "" {
		line += fmt.Sprintf(" → %s after %s", st.answer, report.Span(st.answerNS-t.TimeNS))
	}
	if !t.Opcode.IsData() || !st.lost() {
		return line
	}
	if st.resentID == 0 {
		return line + " → never retransmitted"
	}
	cause := ""
	if st.answer == "" {
		cause = " by timeout"
	}
	line += fmt.Sprintf(" → retransmitted%s as #%d, %s after the loss", cause, st.resentID,
		report.Span(st.resentNS-t.TimeNS))
	if st.resentHit != trace.EventNone {
		line += fmt.Sprintf(" (%s, too)", st.resentHit)
	}
	return line
}

func (s *stories) lines() []string {
	list := make([]string, len(s.list))
	for i, st := range s.list {
		list[i] = st.String()
	}
	return list
}
