package orchestrator

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// FlowSummary counts what one direction of a connection carried, as seen at the injector.
type FlowSummary struct {
	Data     int64     `json:"data"`      // data packets seen, retransmissions included
	Resent   int64     `json:"resent"`    // of those, retransmitted: PSN at or before the highest seen
	Rounds   int       `json:"rounds"`    // ITER of the last data packet, in connection scope
	Acks     int64     `json:"acks"`      // positive ACKs and atomic ACKs
	Naks     int64     `json:"naks"`      // NAKs other than RNR
	RNRs     int64     `json:"rnrs"`      // RNR NAKs
	Reads    int64     `json:"reads"`     // READ requests
	CNPs     int64     `json:"cnps"`      //
	Events   int64     `json:"events"`    // packets that an event touched
	Marked   int64     `json:"marked"`    // packets with CE after the injector
	Classes  [16]int64 `json:"-"`         // packets by class
	LastPSN  int64     `json:"last-psn"`  // highest relative PSN of a data packet; 0: none
	LastSeen int64     `json:"last-t-ns"` // of any packet
	// Retries counts the retransmissions in a row of the most recently retransmitted packet. For a failed connection these
	// are the retries of the fatal packet.
	Retries int `json:"retries"`
}

// Summary counts what each connection did. It implements analyzers.Analyzer, is fed in the same pass and has no
// findings.
type Summary struct {
	Flows   []FlowSummary // by FlowID
	Packets int64
	Unknown int64 // packets of no known connection

	stories stories
	iters   *trace.IterTracker
	repeats []repeats // by FlowID of the repeated requests or responses
	watched map[packetKey]*passages
	hints   [256]uint64 // Bloom filter of watched packets; avoids most map look-ups
}

// packetKey identifies a data packet; a retransmission has the key of the original.
type packetKey struct {
	flow  trace.FlowID
	space packet.Space
	psn   packet.PSN
}

// hint returns the bit of k in Summary.hints.
func (k packetKey) hint() (word int, bit uint64) {
	h := (uint64(k.flow)<<24 ^ uint64(k.psn)) * 0x9e3779b97f4a7c15 >> 50
	return int(h / 64), 1 << (h % 64)
}

// passages records each time that a watched packet passed, by ITER in connection scope.
type passages struct {
	count int64
	iters []int // the first maxPassages
}

// maxPassages bounds what is kept of a watched packet; a longer list would not help the reader.
const maxPassages = 8

// repeats counts the go-backs in a row to one PSN.
type repeats struct {
	restart packet.PSN // where the latest round started
	count   int        // rounds in a row that started there
	iter    int64      // of the latest data packet
	high    [2]int64   // highest relative PSN of a data packet, by space
	read    packet.PSN // of the latest READ request
}

func newSummary(c *trace.Connections) *Summary {
	return &Summary{
		Flows: make([]FlowSummary, 2*c.Len()), repeats: make([]repeats, 2*c.Len()),
		iters: trace.NewIterTracker(c), watched: map[packetKey]*passages{},
	}
}

// watch records the passages of data packet k.
func (s *Summary) watch(k packetKey) {
	if s.watched[k] == nil {
		s.watched[k] = &passages{}
		word, bit := k.hint()
		s.hints[word] |= bit
	}
}

// Name implements analyzers.Analyzer.
func (s *Summary) Name() string { return "summary" }

// Finish implements analyzers.Analyzer; the results are in the fields.
func (s *Summary) Finish() analyzers.Result { return analyzers.Result{} }

// Packet implements analyzers.Analyzer.
func (s *Summary) Packet(r *trace.Record) {
	if !r.Has(trace.Sent) {
		s.stories.left(r)
		return
	}
	s.Packets++
	if r.Flow == trace.NoFlow || int(r.Flow) >= len(s.Flows) {
		s.Unknown++
		return
	}
	f := &s.Flows[r.Flow]
	iter, place := s.iters.Observe(r)
	if r.Event != trace.EventNone || len(s.stories.open) > 0 {
		s.stories.observe(r, iter, place)
	}
	f.LastSeen = r.TimeNS
	if r.Event == trace.EventNone && r.ECN != packet.CE && r.Opcode.IsData() {
		f.Classes[packet.ClassData]++
		s.data(f, r, iter, place)
		return
	}
	if r.Event != trace.EventNone {
		f.Events++
	}
	if r.Marked() {
		f.Marked++
	}
	class := r.Class()
	f.Classes[class&15]++
	switch class {
	case packet.ClassData:
		s.data(f, r, iter, place)
	case packet.ClassAck, packet.ClassAtomicAck:
		f.Acks++
	case packet.ClassNak, packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp:
		f.Naks++
	case packet.ClassRNR:
		f.RNRs++
	case packet.ClassCNP:
		f.CNPs++
	case packet.ClassReadRequest:
		f.Reads++
		s.read(f, r)
	case packet.ClassOther:
	}
}

// data counts a data packet of round iter at relative PSN place.
func (s *Summary) data(f *FlowSummary, r *trace.Record, iter, place int64) {
	f.Data++
	rep := &s.repeats[r.Flow]
	if high := &rep.high[r.Opcode.Space()]; place > *high {
		*high = place
		f.LastPSN = max(f.LastPSN, place)
	} else {
		f.Resent++
	}
	if iter > max(rep.iter, 1) {
		f.Retries = rep.from(r.PSN)
	}
	rep.iter = iter
	key := packetKey{r.Flow, r.Opcode.Space(), r.PSN}
	if word, bit := key.hint(); s.hints[word]&bit != 0 {
		s.passed(key, iter)
	}
	f.Rounds = max(f.Rounds, int(iter))
}

func (s *Summary) passed(k packetKey, iter int64) {
	w := s.watched[k]
	if w == nil {
		return
	}
	w.count++
	if len(w.iters) < maxPassages {
		w.iters = append(w.iters, int(iter))
	}
}

// from records a go-back to psn and returns the number in a row.
func (rep *repeats) from(psn packet.PSN) int {
	if rep.count > 0 && rep.restart == psn {
		rep.count++
	} else {
		rep.restart, rep.count = psn, 1
	}
	return rep.count
}

// read counts the retries of READ requests. The ITER tracker treats them as control packets.
func (s *Summary) read(f *FlowSummary, r *trace.Record) {
	rep := &s.repeats[r.Flow]
	if f.Reads > 1 && !rep.read.Before(r.PSN) {
		f.Retries = rep.from(r.PSN)
	}
	rep.read = r.PSN
}
