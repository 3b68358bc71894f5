package rank

import (
	judge "candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Faults of AFQ.
const (
	noHorizon   = "no-horizon"
	keepsBid    = "keeps-bid"
	slowRounds  = "slow-rounds"
	neverRounds = "never-rounds"
)

func afq() switches.Model {
	return switches.Model{
		Model: parameter.Model{Name: "afq",
			Doc: "Approximate fair queueing (AFQ): a calendar of FIFOs, one for each round; a flow may send some bytes in a " +
				"round, for each unit of its weight, and is dropped when it is too many rounds ahead.",
			Parameters: parameter.Table{
				{Name: "rounds", Kind: parameter.Integer, Unit: "rounds", Default: "32", Min: 1, Max: 1 << 20,
					Doc: "How many rounds ahead a flow may be."},
				{Name: "round-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "80", Min: 1, Max: 1 << 30,
					Doc: "Bytes that a flow may send in a round."},
				{Name: "queue-packets", Kind: parameter.Integer, Unit: "packets", Default: "0", Max: 1 << 30,
					Doc: "Packets that may wait at a port, of all rounds; 0: no limit."},
			},
			Bugs: []parameter.Bug{
				{Name: noHorizon, Doc: "A flow may be twice as many rounds ahead.", Rule: "rank.horizon"},
				{Name: keepsBid, Doc: "A dropped packet counts as sent.", Rule: "rank.horizon"},
				{Name: slowRounds, Doc: "A round has twice its bytes.", Rule: "rank.start"},
				{Name: neverRounds, Doc: "A flow that was silent starts in the round in which it ended.", Rule: "rank.start"},
				{Name: sameWeights, Doc: "All flows weigh the same.", Rule: "rank.start"},
				{Name: misrecords, Doc: "Decision records give the round after the one that is served.", Rule: "rank.record"},
			}},
		Ranks: true, Weighs: true, OwnQueues: true, Check: lossy,
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = []fabric.QueueSpec{{Order: fabric.ByRank, MaxPackets: 1 << 30}}
			if n := v.Int("queue-packets"); n > 0 {
				s.Queues[0].MaxPackets = n
			}
			return nil
		},
		New: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			m := &AFQ{set: calendar(v), faults: faultsOf(bugs)}
			if m.faults[noHorizon] {
				m.set.Rounds *= 2
			}
			if m.faults[slowRounds] {
				m.set.RoundBytes *= 2
			}
			return m, nil
		},
	}
}

// calendar returns the settings of AFQ.
func calendar(v parameter.Values) judge.Calendar {
	return judge.Calendar{Rounds: v.Int("rounds"), RoundBytes: int64(v.Int("round-bytes"))}
}

// AFQ ranks packets by their round (Sharma et al. 2018, 3). The queue sorts them: FIFOs of rounds that are served in
// turn are one queue by round.
type AFQ struct {
	fabric.TailDrop
	set    judge.Calendar
	ports  []*calendarPort
	faults faults
}

type calendarPort struct {
	round int64          // served
	bids  map[flow]int64 // bytes for a weight of 1, in steps of 2^-judge.WeightBits
	limit int            // of flows, before those that are behind are forgotten
}

func (m *AFQ) port(i int) *calendarPort {
	for len(m.ports) <= i {
		m.ports = append(m.ports, &calendarPort{bids: make(map[flow]int64), limit: 1024})
	}
	return m.ports[i]
}

// Ingress implements fabric.Mechanism.
func (m *AFQ) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	v.Queue = 0
	port := sw.Port(int(v.Port))
	c, key := m.port(port.Index()), flowOf(p)
	perRound := m.set.RoundBytes << judge.WeightBits
	begins := c.round * perRound
	if m.faults[neverRounds] {
		begins = 0
	}
	weight := sw.Weight(p)
	if m.faults[sameWeights] {
		weight = fabric.WeightUnit
	}
	bid := max(begins, c.bids[key]) + int64(share(int64(p.Size), weight))
	round := bid / perRound
	p.SetRank(uint64(max(round, 0)))
	cause := causeAdmitted
	if round-c.round > int64(m.set.Rounds) {
		cause = causeHorizon
	} else if !sw.Fits(port, 0, p) {
		cause = causeFull
	}
	if sw.Decides() {
		record(now, sw, p, v, cause, port.Queue(0).Bytes(), round, c.round+number(m.faults[misrecords]))
	}
	if cause == causeAdmitted || m.faults[keepsBid] {
		c.bids[key] = bid
		c.forget(perRound, m.faults[neverRounds])
	}
	switch cause {
	case causeHorizon:
		return v.Drop(Horizon)
	case causeFull:
		return v.Drop(fabric.ReasonTail)
	}
	return v
}

// forget drops flows that are not ahead of the round that is served.
func (c *calendarPort) forget(perRound int64, never bool) {
	if len(c.bids) <= c.limit || never {
		return
	}
	for k, bid := range c.bids {
		if bid <= c.round*perRound {
			delete(c.bids, k)
		}
	}
	c.limit = max(1024, 2*len(c.bids))
}

// Dequeued implements fabric.Mechanism.
func (m *AFQ) Dequeued(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	c := m.port(int(v.Port))
	c.round = max(c.round, int64(p.Rank))
	return v
}
