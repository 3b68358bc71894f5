// Package fabric simulates packet networks: hosts, links and switches whose queueing mechanism is the thing under test.
//
// A run is a function of its Spec (seed included) and of what the hosts' stacks do, to the byte: one engine orders
// events by (time; arrival, departure, timer; switch or host; port), and every component draws from a generator of its
// own, seeded by seed and name.
//
// Packets are store-and-forward: a frame arrives when its last bit has, and its first bit leaves when the wire is free.
// A queue counts waiting packets; the frame on the wire has left it and its buffer.
package fabric

import (
	"fmt"
	"hash/fnv"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/trace"
)

// Network is a set of hosts and switches with one clock. It is not safe for concurrent use.
type Network struct {
	parts    []*part // at least one
	windows  windows // of several partitions
	spec     Spec
	hosts    []*Host
	switches []*Switch
	ports    []Port  // of switches, in their order, then of hosts
	queues   []Queue // of ports, in their order
	homes    []home  // of hosts
	meters   []meter // of queues, in the order of ports; nil: they are not measured
	points   int     // of the occupancy of a queue
	tap      Tap     // at hosts, in order
	atHosts  Tap     // the same, as set
	all      Tap     // those of taps that see everything, as set
	decided  func(*Switch, *trace.Decision)
	started  bool
	frames   []keptFrame // by number of a packet; nil: no frames are kept
	codecs   *wire.Codecs
	weights  []int64              // of flows, by number; the first is WeightUnit
	share    func(*Header) uint16 // number of the weight of what a host sends; nil: all weigh the same

	spare string                 // the switch of a pair that packets do not pass
	avoid func(a, b string) bool // trunks that routes avoid

	machines  []Host     // what hosts points to
	foreseers []foreseer // stacks of hosts that are
}

// New builds the network that spec describes. mechanism makes the mechanism of each switch; nil, or a nil result: tail
// drop.
func New(spec *Spec, mechanism func(*Switch) Mechanism) (*Network, error) {
	n := &Network{spec: *spec, codecs: new(wire.Codecs), weights: []int64{WeightUnit}}
	if err := n.spec.complete(); err != nil {
		return nil, err
	}
	if err := n.build(); err != nil {
		return nil, err
	}
	for _, sw := range n.switches {
		sw.startBolt(0)
		if mechanism != nil {
			sw.mechanism = mechanism(sw)
		}
		if s, ok := sw.mechanism.(Starter); ok {
			s.Start(0, sw)
		}
	}
	n.equipNICs()
	return n, nil
}

// Spec returns the network's description with all defaults filled in; the caller only reads it.
func (n *Network) Spec() *Spec { return &n.spec }

// Hosts returns the number of hosts.
func (n *Network) Hosts() int { return len(n.hosts) }

// Host returns a host.
func (n *Network) Host(id HostID) *Host { return n.hosts[id] }

// Switches returns the number of switches.
func (n *Network) Switches() int { return len(n.switches) }

// Switch returns a switch.
func (n *Network) Switch(i int) *Switch { return n.switches[i] }

// SetTap has every packet shown to t, in addition to taps set before.
func (n *Network) SetTap(t Tap) {
	n.TapHosts(t)
	n.all = n.all.and(t)
	for _, sw := range n.switches {
		sw.Watch(t)
	}
	for _, h := range n.hosts {
		if h.egress != nil {
			h.egress.nic.Watch(t)
		}
	}
}

// TapHosts has every packet shown to t at the hosts alone, in addition to taps set before.
func (n *Network) TapHosts(t Tap) {
	n.atHosts = n.atHosts.and(t)
	n.tap = n.ordered(n.atHosts)
}

// and returns a tap that shows packets to both.
func (t Tap) and(next Tap) Tap {
	if t == nil {
		return next
	}
	return func(at Point, now clock.Time, p *Packet) {
		t(at, now, p)
		next(at, now, p)
	}
}

// Now returns the simulated time.
func (n *Network) Now() clock.Time { return n.now() }

// Next returns when the earliest event is due; ok is false if there is none.
func (n *Network) Next() (at clock.Time, ok bool) { return n.next() }

// Hops returns how often a packet, control packets included, has traversed a link.
func (n *Network) Hops() (hops uint64) {
	for _, p := range n.parts {
		hops += p.engine.hops
	}
	return hops
}

// Counts of packets of one kind. In flight is what was sent and copied, less what was delivered and dropped.
type Counts struct{ Sent, Copied, Delivered, Dropped uint64 }

// Counts returns what became of the packets of a kind.
func (n *Network) Counts(k Kind) (c Counts) {
	for _, p := range n.parts {
		c.Sent += p.sent[k]
		c.Copied += p.copied[k]
		c.Delivered += p.delivered[k]
		c.Dropped += p.dropped[k]
	}
	return c
}

// Total returns what became of the packets of all kinds.
func (n *Network) Total() (c Counts) {
	for k := range kinds {
		of := n.Counts(Kind(k))
		c.Sent += of.Sent
		c.Copied += of.Copied
		c.Delivered += of.Delivered
		c.Dropped += of.Dropped
	}
	return c
}

// InFlight returns how many packets exist: on links, in queues, or with a mechanism.
func (n *Network) InFlight() int {
	all := n.parts[0].pool.slabs.count * slab
	for _, p := range n.parts {
		all -= len(p.pool.free)
	}
	return all
}

// Run simulates until nothing is left to happen or the clock would pass until, and returns a stack's or mechanism's
// fault.
func (n *Network) Run(until clock.Time) error {
	if !n.started {
		n.started = true
		for _, h := range n.hosts {
			h.Kick(0)
		}
	}
	n.run(until)
	now := n.now()
	if at, ok := n.next(); n.fault() == nil && ok && at > until {
		now = until
	}
	for _, p := range n.parts {
		p.engine.now = now
	}
	return n.fault()
}

// deliver counts a packet that reached a host and shows it to the taps.
func (n *Network) deliver(now clock.Time, h *Host, p *Packet) {
	h.part.delivered[p.Kind()]++
	if n.tap != nil {
		n.tap(Point{Host: true, Node: int(h.id), Stage: Ingress}, now, p)
	}
}

// make returns a new packet that a switch or a shim sends, with the header h and an ID of its own.
func (n *part) make(now clock.Time, h Header, id uint64) *Packet {
	p := n.pool.get()
	p.Header = h
	n.complete(now, p, id)
	return p
}

// complete sets what is the same in all packets that a switch or a shim sends.
func (n *part) complete(now clock.Time, p *Packet, id uint64) {
	p.ID, p.Arrived = id, now
	p.Original, p.Flags = max(p.Original, p.Size), p.Flags|Made
	if p.TTL == 0 {
		p.TTL = InitialTTL
	}
	n.copied[p.Kind()]++
}

// seedOf makes a component's generator its own.
func seedOf(name string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, name)
	return h.Sum64()
}
