package rank

import (
	"slices"

	judge "candela.dev/candela/analyzers/rank"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Faults of start-time fair queueing.
const (
	noUndo       = "no-undo"
	noClock      = "no-virtual-time"
	countsEvenly = "counts-packets"
	sameWeights  = "ignores-flow-weights"
)

// fair returns a model whose ports rank packets themselves.
func fair(m switches.Model) switches.Model {
	m.Name = "stfq-" + m.Name
	m.Doc = "Start-time fair queueing (STFQ): each port ranks packets by when their flow would start to send them in a " +
		"fair queue. " + m.Doc
	m.Ranks, m.Weighs = true, true
	m.Parameters = append(slices.Clone(m.Parameters), parameter.Parameter{Name: stfqFlag, Kind: parameter.Boolean,
		Default: "true", Doc: "A packet that is dropped does not count as sent: its flow does not move on."})
	records := slices.DeleteFunc(slices.Clone(m.Bugs), func(b parameter.Bug) bool { return b.Rule != "rank.record" })
	m.Bugs = append([]parameter.Bug{
		{Name: noUndo, Doc: "A dropped packet counts as sent.", Rule: "rank.start"},
		{Name: noClock, Doc: "A flow that was silent starts where it ended.", Rule: "rank.start"},
		{Name: countsEvenly, Doc: "Each packet counts as one byte.", Rule: "rank.start"},
		{Name: sameWeights, Doc: "All flows weigh the same.", Rule: "rank.start"},
	}, records...)
	return m
}

// stfqFlag is a parameter that all these models have and no other.
const stfqFlag = "undo-drops"

// ranker returns the ranks that the ports of a model give; nil: packets carry them.
func ranker(v parameter.Values, bugs []string) *stfq {
	if v.Table().Find(stfqFlag) < 0 {
		return nil
	}
	return &stfq{undoes: v.Bool(stfqFlag), faults: faultsOf(bugs)}
}

// sorted returns s of ports whose queue is sorted by rank.
func (s *stfq) sorted() *stfq {
	if s != nil {
		s.rises = true
	}
	return s
}

// stfq is start-time fair queueing of every port: the virtual time is the rank of the packet that was served last, and
// a packet's rank is where its flow ended, or the virtual time if that is later. A packet moves its flow on by its
// bytes over the weight of the flow.
type stfq struct {
	ports  []*virtualTime
	undoes bool
	rises  bool // the virtual time never falls, as the queue is sorted by rank: flows that are behind it start there
	faults faults
}

type virtualTime struct {
	now    uint64 // bytes for a weight of 1, in steps of 2^-judge.WeightBits
	finish map[flow]uint64
	limit  int // of flows, before those that are behind are forgotten
}

// flow is what a switch distinguishes.
type flow struct {
	src, dst fabric.HostID
	number   uint32
	protocol fabric.Protocol
	v6       bool
}

func flowOf(p *fabric.Packet) flow { return flow{p.Src, p.Dst, p.Flow, p.Protocol, p.IPv6} }

func (s *stfq) port(i int) *virtualTime {
	for len(s.ports) <= i {
		s.ports = append(s.ports, &virtualTime{finish: make(map[flow]uint64), limit: 1024})
	}
	return s.ports[i]
}

func (s *stfq) length(sw *fabric.Switch, p *fabric.Packet) uint64 {
	size, weight := int64(p.Size), sw.Weight(p)
	if s.faults[countsEvenly] {
		size = 1
	}
	if s.faults[sameWeights] {
		weight = fabric.WeightUnit
	}
	return share(size, weight)
}

// share returns by how much a packet of size bytes moves a flow of a weight, in millionths, on.
func share(size, weight int64) uint64 {
	if weight == fabric.WeightUnit {
		return uint64(size) << judge.WeightBits
	}
	return (uint64(size) << judge.WeightBits) * fabric.WeightUnit / uint64(weight)
}

// rank gives a packet its rank.
func (s *stfq) rank(sw *fabric.Switch, port int, p *fabric.Packet) {
	if s == nil {
		return
	}
	v, key := s.port(port), flowOf(p)
	start := max(v.now, v.finish[key])
	if s.faults[noClock] {
		start = v.finish[key]
	}
	v.finish[key] = start + s.length(sw, p)
	p.SetRank(start)
	if len(v.finish) > v.limit && s.rises && !s.faults[noClock] {
		for k, f := range v.finish {
			if f <= v.now {
				delete(v.finish, k)
			}
		}
		v.limit = max(1024, 2*len(v.finish))
	}
}

// undo takes back what a packet that is dropped has moved its flow on by.
func (s *stfq) undo(sw *fabric.Switch, port int, p *fabric.Packet) {
	if s != nil && s.undoes && !s.faults[noUndo] {
		v, key := s.port(port), flowOf(p)
		if f, known := v.finish[key]; known {
			v.finish[key] = f - min(f, s.length(sw, p))
		}
	}
}

// served notes a packet that the port sends.
func (s *stfq) served(port int, p *fabric.Packet) {
	if s != nil {
		s.port(port).now = p.Rank
	}
}
