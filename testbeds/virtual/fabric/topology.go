package fabric

import (
	"fmt"

	"candela.dev/candela/clock"
)

// cable is a link of the plan: between two switches, or a switch and a host.
type cable struct {
	a, b int // switches, b a HostID if host
	host bool
}

// plan is a topology before it is built.
type plan struct {
	names  []string
	cables []cable
}

func (n *Network) plan() plan {
	t := &n.spec.Topology
	switch t.Kind {
	case Dumbbell:
		return dumbbell(t.Hosts)
	case LeafSpine:
		return leafSpine(t)
	case FatTree:
		return fatTree(t.K)
	default:
		p := plan{names: []string{"switch"}}
		p.attach(0, 0, t.Hosts)
		return p
	}
}

// attach puts hosts first to first+count-1 on a switch.
func (p *plan) attach(sw, first, count int) {
	for h := range count {
		p.cables = append(p.cables, cable{sw, first + h, true})
	}
}

func (p *plan) join(a, b int) { p.cables = append(p.cables, cable{a: a, b: b}) }

func dumbbell(hosts int) plan {
	p := plan{names: []string{"left", "right"}}
	p.attach(0, 0, hosts/2)
	p.attach(1, hosts/2, hosts/2)
	p.join(0, 1)
	return p
}

func leafSpine(t *TopologySpec) plan {
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

// fatTree is the three-level tree of Al-Fares et al. (SIGCOMM 2008): switches in the order edges, aggregations, cores; core
// c serves aggregation switch c/(k/2) of every pod.
func fatTree(k int) plan {
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

// maxPorts is what the port numbers of packets and verdicts tell apart.
const maxPorts = 1 << 16

// build makes hosts, switches, links and routes.
func (n *Network) build() error {
	t := &n.spec.Topology
	p := n.plan()
	degree := make([]int, len(p.names))
	for _, c := range p.cables {
		degree[c.a]++
		if !c.host {
			degree[c.b]++
		}
	}
	for i, name := range p.names {
		config := n.spec.Switch
		if n.spec.SwitchNamed != nil {
			n.spec.SwitchNamed(name, &config)
			if err := config.validate("switch " + name); err != nil {
				return err
			}
			config.complete(t)
		}
		if ports := degree[i] + config.recirculations(degree[i]); ports > maxPorts {
			return fmt.Errorf("switch %s: %d ports with those for recirculation: at most %d ports have numbers", name, ports, maxPorts)
		}
		n.switches = append(n.switches, n.newSwitch(i, name, degree[i], &config))
	}
	for id := range t.Hosts {
		h := &Host{id: HostID(id), net: n}
		h.port = Port{node: h, net: n, kind: NICPort}
		h.timer.host, h.timer.actor = h, &h.timer
		n.hosts = append(n.hosts, h)
	}
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
			a.connect(&h.port, &link, latency)
			h.port.connect(a, &link, 0)
			continue
		}
		b := take(c.b)
		a.connect(b, &t.Uplink, latency)
		b.connect(a, &t.Uplink, n.switches[c.b].config.Latency)
	}
	n.engine.span(n.reach())
	const many = 256 // links: a switch with 65 hosts has fewer and gains nothing, fat trees from 128 on gain a sixth or more
	n.engine.large = len(p.cables) > many
	n.route(&p)
	return nil
}

// linkOf returns the link between a host and its switch.
func (t *TopologySpec) linkOf(h HostID) LinkSpec {
	if t.LinkOf != nil {
		return t.LinkOf(h)
	}
	return t.Link
}

// reach returns a span within which nearly all events lie: twice the slowest serialisation and propagation.
func (n *Network) reach() clock.Duration {
	const frame = 1500
	var most clock.Duration
	for _, sw := range n.switches {
		for i := range sw.ports {
			most = max(most, sw.ports[i].serialise(frame)+sw.ports[i].delay)
		}
	}
	return 2 * most
}

// pipelines returns how many pipelines a switch with so many front ports has.
func (s *SwitchSpec) pipelines(ports int) int {
	if s.PortsPerPipeline == 0 {
		return 1
	}
	return (ports + s.PortsPerPipeline - 1) / s.PortsPerPipeline
}

// recirculations returns how many recirculation ports it has.
func (s *SwitchSpec) recirculations(ports int) int {
	if s.Recirculation.Rate == 0 {
		return 0
	}
	return s.pipelines(ports)
}

func (n *Network) newSwitch(id int, name string, ports int, config *SwitchSpec) *Switch {
	sw := &Switch{net: n, id: id, name: name, config: config, front: ports, rand: n.random("switch " + name)}
	sw.pipelines = config.pipelines(ports)
	extra := config.recirculations(ports)
	sw.buffer.spec = config.Buffer
	sw.ports = n.ports.take(ports + extra)
	for i := range sw.ports {
		pt := &sw.ports[i]
		*pt = Port{node: sw, net: n, kind: SwitchPort, index: int32(i)}
		if config.PortsPerPipeline > 0 {
			pt.pipeline = int32(i / config.PortsPerPipeline)
		}
		if config.PFC.Classes != 0 {
			pt.pause = new(pauseState)
		}
		if i < ports {
			pt.setQueues(n.queues.take(len(config.Queues)), config.Queues, &config.Scheduler)
		} else {
			pt.kind, pt.pipeline = RecirculationPort, int32(i-ports)
			r := &config.Recirculation
			pt.connect(pt, &LinkSpec{Rate: r.Rate}, r.Latency)
			pt.setQueues(n.queues.take(len(r.Queues)), r.Queues, &r.Scheduler)
		}
	}
	return sw
}

// block deals out adjacent values: those of neighbouring ports lie side by side and begin with a cache line, as they do not
// if the runtime allocates them in small pieces.
type block[T any] struct{ free []T }

func (b *block[T]) take(n int) []T {
	const many = 256 // ports or queues: more than the runtime's small objects hold
	if n > len(b.free) {
		b.free = make([]T, max(n, many))
	}
	taken := b.free[:n:n]
	b.free = b.free[n:]
	return taken
}

func (pt *Port) setQueues(queues []Queue, specs []QueueSpec, scheduler *SchedulerSpec) {
	pt.queues = queues
	for i := range specs {
		pt.queues[i].config = specs[i]
	}
	pt.scheduler = newScheduler(scheduler, len(specs))
}
