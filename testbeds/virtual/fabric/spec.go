package fabric

import (
	"errors"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/fairshim"
)

// Spec describes a network. New replaces zero fields by the defaults named in their comments.
type Spec struct {
	Seed     uint64
	Topology TopologySpec
	Switch   SwitchSpec // of every switch
	NIC      NICSpec    // of every host
	// Workers simulate the network in parallel if a window of the shortest link between partitions holds enough events;
	// default 1. They do not change the result.
	Workers int
	// Forced divides the network among Workers even if windows hold few hops: for tests.
	Forced bool
	flaps  bool // for tests, with Forced: joins and divides partitions all the time
	// SwitchNamed, if set, may change s, a copy of Switch, for the switch with this name.
	SwitchNamed func(name string, s *SwitchSpec)
}

// TopologyKind is the shape of a network.
type TopologyKind string

// Topologies.
const (
	SingleSwitch TopologyKind = "single-switch" // every host on a port of one switch
	Dumbbell     TopologyKind = "dumbbell"      // two switches with a link between, half of the hosts on each
	Standby      TopologyKind = "standby"       // two switches with hosts, between them one that serves and one on standby
	LeafSpine    TopologyKind = "leaf-spine"    // every leaf linked to every spine, hosts spread over the leaves in blocks
	FatTree      TopologyKind = "fat-tree"      // k pods of k/2 edge and k/2 aggregation switches, k²/4 cores, k³/4 hosts
)

// Balance is how a switch chooses among equal paths.
type Balance string

// Balances.
const (
	ECMP        Balance = "ecmp"  // by a hash of addresses, flow and entropy: one path per (flow, entropy)
	SprayRandom Balance = "spray" // a random path for every packet
	// round robin per destination group; the order is shuffled in each round
	SprayRoundRobin Balance = "spray-round-robin"
	// by the sender's path tag (entropy): one digit per switch on the path
	SourcePath Balance = "path"
)

// LinkSpec describes both directions of a link.
type LinkSpec struct {
	Rate    clock.BitRate
	Delay   clock.Duration // propagation
	Framing int            // bytes per frame beyond Packet.Size: 0 as in papers, 24 for Ethernet (FCS, preamble, gap)
	Failed  bool           // between switches: no route uses it, and its ports have no room
}

// TopologySpec describes how hosts and switches are linked.
type TopologySpec struct {
	Kind    TopologyKind // default: SingleSwitch
	Hosts   int          // default for FatTree: K³/4
	Link    LinkSpec     // between host and switch; default 100 Gb/s, 500 ns
	Uplink  LinkSpec     // between switches; default: Link
	Leaves  int          // LeafSpine
	Spines  int          // LeafSpine
	K       int          // FatTree: ports of a switch, even
	Right   int          // Standby: hosts at the switch on the right
	Balance Balance      // default: ECMP
	// LinkOf, if set, returns the link of a host and replaces Link.
	LinkOf func(HostID) LinkSpec
	// TrunkOf, if set, returns the link between two switches and replaces Uplink.
	TrunkOf func(a, b string) LinkSpec
	// LaterTrunk, if set, returns what SetTrunk will make of it. Partitions and headroom allow for it.
	LaterTrunk func(a, b string) []LinkSpec
}

// QueueSpec describes one queue of a port. A limit of 0 means unlimited.
type QueueSpec struct {
	MaxPackets int     // static limit
	MaxBytes   int     // static limit
	Alpha      float64 // dynamic limit: share of the shared buffer's free bytes that the queue may hold
	Private    bool    // has its own memory instead of the shared buffer
	Mark       MarkSpec
	Order      Order // default: ByArrival
	RankShift  uint8 // of ByRank: so many lower bits of ranks do not count; below 64
	Chosen     bool  // the mechanism, a Chooser, chooses among the packets; otherwise the first leaves first

	index *rankIndex // of one queue; nil: not by rank
}

// MarkSpec is ECN marking of arriving ECN-capable packets by the bytes that wait: never below MinBytes, always from
// MaxBytes on; between them the probability grows from 0 to Probability. MinBytes = MaxBytes is a step. MaxBytes 0:
// off. From Packets waiting packets on, all are marked, too; 0: off.
type MarkSpec struct {
	MinBytes, MaxBytes int
	Probability        float64
	Packets            int
}

// SchedulerKind is how a port chooses among its queues.
type SchedulerKind string

// Schedulers.
const (
	Strict SchedulerKind = "strict" // highest index first
	FIFO   SchedulerKind = "fifo"   // by arrival at the switch
	WRR    SchedulerKind = "wrr"    // weights in packets
	DWRR   SchedulerKind = "dwrr"   // weights in bytes
)

// SchedulerSpec describes the scheduler of a port.
type SchedulerSpec struct {
	Kind    SchedulerKind // default: Strict
	Weights []int         // per queue for WRR and DWRR; default 1 each; 0: strict priority before all queues with weights
	Quantum int           // DWRR: bytes of credit per weight and round; default 1500
}

// BufferSpec describes the traffic manager's memory.
type BufferSpec struct {
	Bytes int // shared by the queues of all ports; 0: queues have only their static limits
}

// PFCSpec is priority flow control (IEEE 802.1Q clause 36). Packets of lossless classes are limited per ingress port
// and class, not by queue limits.
type PFCSpec struct {
	Classes uint8 // bit set of lossless classes; 0: PFC off
	XOff    int   // bytes of one class from one port beyond which the sender is paused; default 100 000
	XOn     int   // bytes at which it may resume; default XOff/2
	// bytes that may still arrive after XOff; default: enough for the slowest reaction on the switch's longest link
	Headroom int
}

// RecirculationSpec describes the recirculation ports, one per pipeline. Rate 0: none.
type RecirculationSpec struct {
	Rate      clock.BitRate
	Latency   clock.Duration
	Queues    []QueueSpec // default: one, unlimited and private
	Scheduler SchedulerSpec
}

// SwitchSpec describes a switch.
type SwitchSpec struct {
	PortsPerPipeline int            // default: all ports in one pipeline
	Latency          clock.Duration // of forwarding, beyond store-and-forward; charged on the way out
	Queues           []QueueSpec    // of every front port; default: one of 100 packets
	Scheduler        SchedulerSpec
	Buffer           BufferSpec
	PFC              PFCSpec
	Recirculation    RecirculationSpec
	ClassOfDSCP      *[64]uint8 // class of arriving packets; nil: as the host set it
	Bolt             BoltSpec
	// LabelShim fills in the shim that a packet with the flag Shimmed carries between switches; nil: there are none. Its
	// bytes are part of Size and Original: the mechanism that sets or clears the flag adds or subtracts them.
	LabelShim func(h *Header, shim *fairshim.Header)
	// Gap is a fault: bytes by which each frame occupies a link longer; negative: shorter.
	Gap int
	// Routing is a fault.
	Routing RouteFault
}

// RouteFault is what a switch does wrong with its routes.
type RouteFault string

// Faults of routes: it goes on to use trunks that have failed, does not use again what comes back, has a port in its
// groups that leads no closer, has no routes to every other switch as soon as a trunk of its own has failed, takes new
// routes only when the old ones have lost latePackets more, or loses what it routes to a trunk that has come back.
const (
	KeepsFailed   RouteFault = "keeps-failed"
	IgnoresReturn RouteFault = "ignores-return"
	LeadsAway     RouteFault = "leads-away"
	ForgetsRoutes RouteFault = "forgets-routes"
	ReroutesLate  RouteFault = "reroutes-late"
	StaysDown     RouteFault = "stays-down"
)

// DefaultQuantum is SchedulerSpec.Quantum by default.
const DefaultQuantum = 1500

// maxQueues bounds the queues of a port: schedulers use bit sets of 64 bits.
const maxQueues = 64

// complete fills in defaults and returns all errors.
func (s *Spec) complete() error {
	t := &s.Topology
	if t.Kind == "" {
		t.Kind = SingleSwitch
	}
	if t.Balance == "" {
		t.Balance = ECMP
	}
	if t.Link == (LinkSpec{}) {
		t.Link = LinkSpec{Rate: 100 * clock.Gbps, Delay: 500 * clock.Nanosecond}
	}
	if t.Uplink == (LinkSpec{}) {
		t.Uplink = t.Link
	}
	if t.Kind == FatTree && t.Hosts == 0 {
		t.Hosts = t.K * t.K * t.K / 4
	}
	var nic check
	s.NIC.validate(&nic, &s.Switch.PFC)
	err := errors.Join(t.validate(), s.Switch.validate("switch"), errors.Join(nic...))
	if err == nil {
		s.Switch.complete(t)
	}
	return err
}

// A FieldError names the invalid field of a Spec and the reason.
type FieldError struct {
	Field  string // such as "topology.leaves"
	Value  any
	Reason string // what is allowed
}

// Error implements error.
func (e *FieldError) Error() string { return fmt.Sprintf("%s: %v: %s", e.Field, e.Value, e.Reason) }

// check collects the errors of conditions on fields.
type check []error

func (c *check) that(ok bool, field string, value any, reason string) {
	if !ok {
		*c = append(*c, &FieldError{field, value, reason})
	}
}

func (t *TopologySpec) validate() error {
	var c check
	c.that(t.Hosts >= 1 && t.Hosts <= 1<<16, "topology.hosts", t.Hosts, "must be 1 to 65536")
	if shape := ShapeOf(t.Kind); shape == nil {
		c.that(false, "topology.kind", t.Kind, "must be "+shapeNames())
	} else if shape.validate != nil {
		shape.validate(t, &c)
	}
	c.that(t.Balance == ECMP || t.Balance == SprayRandom || t.Balance == SprayRoundRobin || t.Balance == SourcePath,
		"topology.balance", t.Balance, "must be ecmp, spray, spray-round-robin or path")
	t.Link.validate(&c, "topology.link")
	t.Uplink.validate(&c, "topology.uplink")
	return errors.Join(c...)
}

func (l *LinkSpec) validate(c *check, field string) {
	c.that(l.Rate > 0 && l.Rate <= 10_000*clock.Gbps, field+".rate", l.Rate, "must be positive, at most 10 Tb/s")
	c.that(l.Delay >= 0 && l.Delay <= clock.Second, field+".delay", l.Delay, "must be 0 to 1 s")
	c.that(l.Framing >= 0 && l.Framing <= 256, field+".framing", l.Framing, "must be 0 to 256 bytes")
}

func (s *SwitchSpec) validate(field string) error {
	var c check
	c.that(s.PortsPerPipeline >= 0, field+".ports-per-pipeline", s.PortsPerPipeline, "must not be negative")
	c.that(s.Latency >= 0, field+".latency", s.Latency, "must not be negative")
	c.that(s.Buffer.Bytes >= 0, field+".buffer.bytes", s.Buffer.Bytes, "must not be negative")
	validateQueues(&c, field+".queues", s.Queues)
	s.Scheduler.validate(&c, field+".scheduler", len(s.Queues))
	b := &s.Bolt
	c.that(!b.On() || b.Threshold >= 1 && b.MTU >= 1, field+".bolt", *b, "threshold and MTU must be at least 1 byte")
	p := &s.PFC
	c.that(p.XOff >= 0 && p.XOn >= 0 && p.Headroom >= 0, field+".pfc", *p, "thresholds must not be negative")
	c.that(p.XOff == 0 || p.XOn <= p.XOff, field+".pfc.xon", p.XOn, fmt.Sprintf("must not be above xoff (%d)", p.XOff))
	r := &s.Recirculation
	c.that(r.Rate >= 0, field+".recirculation.rate", r.Rate, "must not be negative")
	c.that(r.Latency >= 0, field+".recirculation.latency", r.Latency, "must not be negative")
	validateQueues(&c, field+".recirculation.queues", r.Queues)
	r.Scheduler.validate(&c, field+".recirculation.scheduler", len(r.Queues))
	return errors.Join(c...)
}

func validateQueues(c *check, field string, queues []QueueSpec) {
	c.that(len(queues) <= maxQueues, field, len(queues), fmt.Sprintf("must be at most %d", maxQueues))
	for i := range queues {
		q, name := &queues[i], fmt.Sprintf("%s[%d]", field, i)
		c.that(q.MaxPackets >= 0, name+".max-packets", q.MaxPackets, "must not be negative")
		c.that(q.MaxBytes >= 0, name+".max-bytes", q.MaxBytes, "must not be negative")
		c.that(q.Alpha >= 0, name+".alpha", q.Alpha, "must not be negative")
		c.that(q.RankShift < 64, name+".rank-shift", q.RankShift, "must be below 64")
		m := &q.Mark
		c.that(m.MinBytes >= 0 && m.MinBytes <= m.MaxBytes, name+".mark.min-bytes", m.MinBytes,
			fmt.Sprintf("must be 0 to max-bytes (%d)", m.MaxBytes))
		c.that(m.Probability >= 0 && m.Probability <= 1, name+".mark.probability", m.Probability, "must be 0 to 1")
	}
}

func (s *SchedulerSpec) validate(c *check, field string, queues int) {
	switch s.Kind {
	case "", Strict, FIFO, WRR, DWRR:
	default:
		c.that(false, field+".kind", s.Kind, "must be strict, fifo, wrr or dwrr")
	}
	c.that(len(s.Weights) == 0 || len(s.Weights) == max(queues, 1), field+".weights", s.Weights,
		fmt.Sprintf("must be one per queue (%d)", max(queues, 1)))
	for i, w := range s.Weights {
		c.that(w >= 0 && w <= 1<<20, fmt.Sprintf("%s.weights[%d]", field, i), w, "must be 0 (strict) to 1048576")
	}
	c.that(s.Quantum >= 0 && s.Quantum <= 1<<20, field+".quantum", s.Quantum, "must be 0 (default) to 1048576 bytes")
}

func (s *SwitchSpec) complete(t *TopologySpec) {
	if len(s.Queues) == 0 {
		s.Queues = []QueueSpec{{MaxPackets: 100}}
	}
	if len(s.Recirculation.Queues) == 0 {
		s.Recirculation.Queues = []QueueSpec{{Private: true}}
	}
	for _, c := range []*SchedulerSpec{&s.Scheduler, &s.Recirculation.Scheduler} {
		if c.Kind == "" {
			c.Kind = Strict
		}
		if c.Quantum == 0 {
			c.Quantum = DefaultQuantum
		}
	}
	if s.PFC.Classes == 0 {
		return
	}
	if s.PFC.XOff == 0 {
		s.PFC.XOff = 100_000
	}
	if s.PFC.XOn == 0 {
		s.PFC.XOn = s.PFC.XOff / 2
	}
	if s.PFC.Headroom == 0 {
		s.PFC.Headroom = max(t.Link.headroom(s.Latency), t.Uplink.headroom(s.Latency))
		if t.TrunkOf != nil || t.LaterTrunk != nil {
			for _, trunk := range t.Trunks() {
				for _, l := range t.statesOf(trunk) {
					s.PFC.Headroom = max(s.PFC.Headroom, l.headroom(s.Latency))
				}
			}
		}
		for h := range t.Hosts {
			own := t.linkOf(HostID(h))
			s.PFC.Headroom = max(s.PFC.Headroom, own.headroom(s.Latency))
		}
	}
}

// headroom returns the bytes that may still arrive over a link after the decision to pause: a round trip, including the
// switches' latency, at line rate; the frame that the pause waits for; the frame that the sender has begun; and the
// pause itself (IEEE 802.1Q annex N).
func (l *LinkSpec) headroom(latency clock.Duration) int {
	flight := 2 * (l.Delay + latency).Microseconds() * float64(l.Rate) / 8e6
	return int(flight) + 2*(maxFrame+l.Framing) + pauseFrame + l.Framing + maxFrame
}

// maxFrame is the largest frame that headroom allows for.
const maxFrame = 9216
