package rank

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Faults of PIEO.
const (
	ignoresPace  = "ignores-pace"
	headBlocks   = "head-blocks"
	halfPace     = "half-pace"
	lastEligible = "last-eligible"
	portPace     = "port-pace"
	wakesLate    = "wakes-late"
)

func pieo() switches.Model {
	base := pifo()
	return switches.Model{
		Model: parameter.Model{Name: "pieo",
			Doc: "PIFO whose ports send the lowest rank of the packets that may leave (push in, extract out, PIEO): a " +
				"flow may " +
				"send again when its last packet has left and its pace allows it. Without a pace it is PIFO.",
			Parameters: append(slices.Clone(base.Parameters), parameter.Parameter{Name: "pace-mbps", Kind: parameter.Rate,
				Unit: "Mbps", Optional: true, Min: 1, Max: 1_000_000,
				Doc: "The rate at which a port sends each flow at most, in bytes of frames without framing; the port stays " +
					"idle if no " +
					"flow may send. Default: none."}),
			Bugs: []parameter.Bug{
				{Name: ignoresPace, Doc: "A packet leaves although its flow may not send.", Rule: "rank.eligible"},
				{Name: halfPace, Doc: "Flows are sent at half their pace.", Rule: "rank.idle"},
				{Name: headBlocks, Doc: "The port waits until the lowest rank may leave.", Rule: "rank.idle"},
				{Name: portPace, Doc: "All flows of a port share one pace.", Rule: "rank.idle"},
				{Name: wakesLate, Doc: "A port whose packets all wait for their pace sends 1 us after it may.",
					Rule: "rank.idle"},
				{Name: lastEligible, Doc: "Of the packets that may leave the last is sent.", Rule: "rank.departure"},
				{Name: tailDrops, Doc: "The packet that arrives is dropped.", Rule: "rank.drop"},
				{Name: dropsFirst, Doc: "The lowest rank is dropped.", Rule: "rank.drop"},
				{Name: misrecords, Doc: "Decision records count a packet more that waits.", Rule: "rank.record"},
			}},
		NeedsRanks: true, Check: lossy, Holds: func(v parameter.Values) bool { return v.Has("pace-mbps") },
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			err := base.Configure(v, s)
			s.Queues[0].Chosen = true
			return err
		},
		New: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			m := &PIEO{PIFO: PIFO{ranks: ranker(v, bugs), tailDrops: has(bugs, tailDrops), dropsFirst: has(bugs, dropsFirst),
				misrecords: has(bugs, misrecords)},
				pace: pace(v), faults: faultsOf(bugs)}
			if m.faults[halfPace] {
				m.pace /= 2
			}
			return m, nil
		},
	}
}

// pace returns the rate of each flow; 0: no limit.
func pace(v parameter.Values) clock.BitRate {
	if !v.Has("pace-mbps") {
		return 0
	}
	return v.Rate("pace-mbps")
}

// PIEO sends the lowest rank of the packets whose flows may send (Shrivastav 2019, 3).
type PIEO struct {
	PIFO
	pace   clock.BitRate
	ports  []*pacer
	faults faults
}

// pacer is when the flows of a port may send again.
type pacer struct {
	next  map[flow]clock.Time
	woken clock.Time // a timer will serve the port then, if it is not in the past
	limit int        // of flows, before those that may send are forgotten
}

func (m *PIEO) port(i int) *pacer {
	for len(m.ports) <= i {
		m.ports = append(m.ports, &pacer{next: make(map[flow]clock.Time), limit: 1024})
	}
	return m.ports[i]
}

func (m *PIEO) key(p *fabric.Packet) flow {
	if m.faults[portPace] {
		return flow{}
	}
	return flowOf(p)
}

// Choose implements fabric.Chooser.
func (m *PIEO) Choose(now clock.Time, sw *fabric.Switch, port *fabric.Port, queue int) *fabric.Packet {
	q := port.Queue(queue)
	if m.pace == 0 {
		return q.Head()
	}
	c := m.port(port.Index())
	var chosen *fabric.Packet
	soonest := clock.Time(0)
	for p := q.Head(); p != nil; p = q.After(p) {
		next := c.next[m.key(p)]
		if next <= now || m.faults[ignoresPace] {
			if chosen = p; !m.faults[lastEligible] {
				break
			}
		} else if soonest == 0 || next < soonest {
			soonest = next
		}
		if m.faults[headBlocks] {
			break
		}
	}
	if chosen != nil {
		c.next[m.key(chosen)] = now.Add(m.pace.Serialise(int(chosen.Size)))
		c.forget(now)
	} else if m.faults[wakesLate] && c.woken <= now {
		c.woken = soonest.Add(clock.Microsecond)
		sw.Wake(c.woken, uint64(port.Index()))
	} else if c.woken <= now || soonest < c.woken && !m.faults[wakesLate] {
		c.woken = soonest
		sw.Wake(soonest, uint64(port.Index()))
	}
	return chosen
}

// HandleTimer implements fabric.Timed.
func (m *PIEO) HandleTimer(now clock.Time, sw *fabric.Switch, token uint64) {
	sw.Serve(now, sw.Port(int(token)))
}

// forget drops flows that may send.
func (c *pacer) forget(now clock.Time) {
	if len(c.next) <= c.limit {
		return
	}
	for k, next := range c.next {
		if next <= now {
			delete(c.next, k)
		}
	}
	c.limit = max(1024, 2*len(c.next))
}
