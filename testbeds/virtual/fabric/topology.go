package fabric

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"candela.dev/candela/clock"
)

// cable is a link of the plan, between two switches or a switch and a host.
type cable struct {
	a, b int // switches; b is a HostID if host is set
	host bool
}

// plan is a topology before it is built.
type plan struct {
	names   []string
	cables  []cable
	degrees []int // links of each switch
}

// attach puts hosts first to first+count-1 on a switch.
func (p *plan) attach(sw, first, count int) {
	for h := range count {
		p.cables = append(p.cables, cable{sw, first + h, true})
	}
}

func (p *plan) join(a, b int) { p.cables = append(p.cables, cable{a: a, b: b}) }

func planLeafSpine(t *TopologySpec) plan {
	var p plan
	for i := range t.Leaves {
		p.names = append(p.names, fmt.Sprintf("leaf-%d", i))
		p.attach(i, i*t.Hosts/t.Leaves, t.Hosts/t.Leaves)
	}
	for s := range t.Spines {
		p.names = append(p.names, fmt.Sprintf("spine-%d", s))
		for i := range t.Leaves {
			p.join(i, t.Leaves+s)
		}
	}
	return p
}

// fatTree is the three-level tree of Al-Fares et al. (SIGCOMM 2008): switches in the order edges, aggregations, cores;
// core c serves aggregation switch c/(k/2) of every pod.
func planFatTree(k int) plan {
	var p plan
	half, pods := k/2, k
	for e := range pods * half {
		p.names = append(p.names, fmt.Sprintf("edge-%d", e))
		p.attach(e, e*half, half)
	}
	for a := range pods * half {
		p.names = append(p.names, fmt.Sprintf("aggregation-%d", a))
		for e := range half {
			p.join(a/half*half+e, pods*half+a)
		}
	}
	for c := range half * half {
		p.names = append(p.names, fmt.Sprintf("core-%d", c))
		for pod := range pods {
			p.join(pods*half+pod*half+c/half, 2*pods*half+c)
		}
	}
	return p
}

// maxPorts is the range of port numbers in packets and verdicts.
const maxPorts = 1 << 16

func (n *Network) build() error {
	t := &n.spec.Topology
	p := ShapeOf(t.Kind).plan(t)
	configs, err := n.configure(&p)
	if err != nil {
		return err
	}
	n.makeNodes(&p, configs)
	next := make([]int, len(p.names)) // free port of each switch
	take := func(sw int) *Port {
		next[sw]++
		return &n.switches[sw].ports[next[sw]-1]
	}
	for _, c := range p.cables {
		a, latency := take(c.a), n.switches[c.a].config.Latency
		if c.host {
			h := n.hosts[c.b]
			a.kind = HostPort
			link := t.linkOf(h.id)
			a.connect(h.port, &link, latency)
			h.port.connect(a, &link, 0)
			continue
		}
		b, link := take(c.b), t.trunkOf(p.names[c.a], p.names[c.b])
		a.connect(b, &link, latency)
		b.connect(a, &link, n.switches[c.b].config.Latency)
	}
	n.partition(&p)
	n.route()
	return nil
}

// MostPorts returns the largest number of ports of a switch that lead outside; 0 if the shape is unknown.
func (t *TopologySpec) MostPorts() int {
	shape := ShapeOf(t.Kind)
	if shape == nil {
		return 0
	}
	p := shape.plan(t)
	p.countLinks()
	return slices.Max(p.degrees)
}

// countLinks sets degrees.
func (p *plan) countLinks() {
	p.degrees = make([]int, len(p.names))
	for _, c := range p.cables {
		p.degrees[c.a]++
		if !c.host {
			p.degrees[c.b]++
		}
	}
}

// configure returns the specification of each switch of the plan, and sets degrees.
func (n *Network) configure(p *plan) ([]SwitchSpec, error) {
	p.countLinks()
	configs := make([]SwitchSpec, len(p.names))
	all := n.spec.Topology.Hosts // ports
	for i, name := range p.names {
		config := &configs[i]
		*config = n.spec.Switch
		if n.spec.SwitchNamed != nil {
			n.spec.SwitchNamed(name, config)
			if err := config.validate("switch " + name); err != nil {
				return nil, err
			}
			config.complete(&n.spec.Topology)
		}
		if ports := config.ports(p.degrees[i]); ports > maxPorts {
			return nil, fmt.Errorf("switch %s: %d ports with those for recirculation: at most %d ports have numbers", name,
				ports, maxPorts)
		}
		if all += config.ports(p.degrees[i]); all > 1<<portBits {
			return nil, fmt.Errorf("%d switches: more than %d ports in all, which is how many have numbers", len(p.names),
				1<<portBits)
		}
	}
	return configs, nil
}

// makeNodes makes switches and hosts. All ports, and all queues, are allocated in one slice each, so that every element
// starts a cache line.
func (n *Network) makeNodes(p *plan, configs []SwitchSpec) {
	hosts := n.spec.Topology.Hosts
	ports, queues := hosts, 0
	for i := range configs {
		c, front := &configs[i], p.degrees[i]
		ports += c.ports(front)
		queues += front*len(c.Queues) + c.recirculations(front)*len(c.Recirculation.Queues)
	}
	n.ports, n.queues = make([]Port, ports), make([]Queue, queues)
	first, free := 0, n.queues
	for i, name := range p.names {
		sw := n.newSwitch(i, name, p.degrees[i], first, &configs[i])
		free = sw.setQueues(free)
		first += len(sw.ports)
		n.switches = append(n.switches, sw)
	}
	all := make([]Host, hosts)
	for id := range all {
		h := &all[id]
		*h = Host{id: HostID(id), net: n, port: &n.ports[first+id], ids: identitiesOf(id)}
		*h.port = Port{host: h, net: n, kind: NICPort, number: int32(first + id)}
		h.timer.host, h.timer.actor, h.timer.node = h, &h.timer, h.port.number
		n.hosts = append(n.hosts, h)
	}
	n.machines, n.foreseers = all, make([]foreseer, hosts)
}

// exits returns the switch ports with their first and last queues.
func (n *Network) exits() []exit {
	exits := make([]exit, len(n.ports)-len(n.hosts))
	for i := range exits {
		pt := &n.ports[i]
		exits[i] = exit{pt, &pt.queues[0], &pt.queues[len(pt.queues)-1]}
	}
	return exits
}

func (t *TopologySpec) linkOf(h HostID) LinkSpec {
	if t.LinkOf != nil {
		return t.LinkOf(h)
	}
	return t.Link
}

func (t *TopologySpec) trunkOf(a, b string) LinkSpec {
	if t.TrunkOf != nil {
		return t.TrunkOf(a, b)
	}
	return t.Uplink
}

// statesOf returns what a trunk is from the start, and later.
func (t *TopologySpec) statesOf(of Trunk) []LinkSpec {
	states := []LinkSpec{t.trunkOf(of.A, of.B)}
	if t.LaterTrunk != nil {
		states = append(states, t.LaterTrunk(of.A, of.B)...)
	}
	return states
}

// A Trunk is a link between two switches, as the shape names them.
type Trunk struct{ A, B string }

// Trunks lists the links between switches, in the order of the shape; none if the shape is unknown.
func (t *TopologySpec) Trunks() []Trunk {
	shape := ShapeOf(t.Kind)
	if shape == nil {
		return nil
	}
	var trunks []Trunk
	p := shape.plan(t)
	for _, c := range p.cables {
		if !c.host {
			trunks = append(trunks, Trunk{p.names[c.a], p.names[c.b]})
		}
	}
	return trunks
}

// scales returns two durations. reach covers nearly all events: twice the slowest serialisation and propagation. least
// is the serialisation of the shortest frame on the fastest link; within it, an event of a port hardly leads to
// another.
func (n *Network) scales() (reach, least clock.Duration) {
	const frame, minFrame = 1500, 64
	least = clock.Second
	for i := range n.ports {
		pt := &n.ports[i]
		reach = max(reach, 2*(pt.serialise(frame)+pt.delay))
		least = min(least, pt.serialise(minFrame))
	}
	return reach, least
}

// pipelines returns the number of pipelines of a switch with that many front ports.
func (s *SwitchSpec) pipelines(ports int) int {
	if s.PortsPerPipeline == 0 {
		return 1
	}
	return (ports + s.PortsPerPipeline - 1) / s.PortsPerPipeline
}

// recirculations returns its number of recirculation ports.
func (s *SwitchSpec) recirculations(ports int) int {
	if s.Recirculation.Rate == 0 {
		return 0
	}
	return s.pipelines(ports)
}

// ports returns its number of ports, including recirculation ports.
func (s *SwitchSpec) ports(front int) int { return front + s.recirculations(front) }

func (n *Network) newSwitch(id int, name string, front, first int, config *SwitchSpec) *Switch {
	sw := &Switch{
		net: n, id: int32(id), name: name, config: config, front: front, first: int32(first),
		pipelines: config.pipelines(front), classOfDSCP: config.ClassOfDSCP, losslessClasses: config.PFC.Classes,
		booked: config.PFC.Classes != 0,
		buffer: buffer{spec: config.Buffer}, ids: identitiesOf(n.spec.Topology.Hosts + id),
	}
	sw.source.seed(n.spec.Seed, seedOf("switch "+name))
	sw.rand = rand.New(&sw.source)
	sw.ports = n.ports[first : first+config.ports(front)]
	for i := range sw.ports {
		pt := &sw.ports[i]
		*pt = Port{sw: sw, net: n, kind: SwitchPort, index: uint16(i), number: int32(first + i)}
		if config.PortsPerPipeline > 0 {
			pt.pipeline = i / config.PortsPerPipeline
		}
		if config.PFC.Classes != 0 {
			pt.pause = new(pauseState)
		}
		if i >= front {
			pt.kind, pt.pipeline = RecirculationPort, i-front
			pt.connect(pt, &LinkSpec{Rate: config.Recirculation.Rate}, config.Recirculation.Latency)
		}
	}
	return sw
}

// setQueues takes the queues of the switch's ports from free and returns the rest.
func (sw *Switch) setQueues(free []Queue) (rest []Queue) {
	front, inner := sw.config.Queues, sw.config.Recirculation.Queues
	sw.scheduler = sw.config.Scheduler.scheduler(len(front))
	sw.recirculation = sw.config.Recirculation.Scheduler.scheduler(len(inner))
	for i := range sw.ports {
		pt, specs := &sw.ports[i], front
		if pt.kind == RecirculationPort {
			specs = inner
		}
		pt.queues, free = free[:len(specs):len(specs)], free[len(specs):]
		for j := range specs {
			pt.queues[j].configure(&specs[j])
			sw.chooses = sw.chooses || specs[j].Chosen
		}
	}
	return free
}
