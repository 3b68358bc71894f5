package remote

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/agent"
	"candela.dev/candela/framelog"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds"
)

// Received returns the number of RoCE frames received by each port of the switch.
type Received = func(context.Context) (map[uint16]uint64, error)

// Probes of a cable.
const (
	probeFrames   = 5 // per attempt
	probeAttempts = 3
	probePatience = time.Second // until the switch has counted them
	probeEvery    = 2 * time.Millisecond
)

// CheckCabling finds the switch port of each machine by frames that only the switch counts, and returns the differences
// from the description. It must not run during traffic.
func (t *Testbed) CheckCabling(ctx context.Context, received Received) (problems []string, err error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	machines := append(t.m.Hosts[:], t.m.Dumpers...)
	for i, c := range t.agents() {
		problem, err := t.locate(ctx, c, &machines[i], t.route(i), received)
		if err != nil {
			return nil, t.Blame(err)
		}
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems, t.unlessFailed(problems)
}

// unlessFailed returns the failure of a component, if any: it explains problems better than a cable.
func (t *Testbed) unlessFailed(problems []string) error {
	if len(problems) == 0 || t.alive.Err() == nil {
		return nil
	}
	return t.Blame(context.Cause(t.alive))
}

// route returns the route of a machine's probes: a host's go to its peer, a dumper's to an unused address.
func (t *Testbed) route(i int) framelog.Route {
	hosts := &t.spec.Hosts
	if i < len(hosts) {
		// One connection shows addresses of one family.
		ips := t.spec.Connections[0].IPs
		return framelog.Route{FromMAC: *hosts[i].MAC, ToMAC: *hosts[1-i].MAC, From: ips[i], To: ips[1-i]}
	}
	documentation := netip.AddrFrom4([4]byte{192, 0, 2, 1}) // RFC 5737
	return framelog.Route{ToMAC: nobody, From: documentation, To: documentation.Next()}
}

// nobody is an unused MAC address.
var nobody = packet.MAC{0x02, 0xca, 0xde, 0x1a, 0xff, 0xff}

// probesArrived returns how many probe frames each host has received.
func (t *Testbed) probesArrived(ctx context.Context) (n [2]uint64, err error) {
	return n, each(len(t.hosts), func(i int) error {
		c, err := t.hosts[i].Counters(ctx)
		n[i] = c.Probes
		return err
	})
}

// locate probes the cable of a machine. A machine under load may lose frames in the first attempt; the result of three
// attempts is final.
func (t *Testbed) locate(ctx context.Context, c *agent.Client, m *Machine, route framelog.Route,
	received Received) (problem string, err error) {
	for range probeAttempts {
		before, err := received(ctx)
		if err != nil {
			return "", err
		}
		if err := c.Probe(ctx, m.Interface, route, probeFrames); err != nil {
			return "", err
		}
		grown, err := growth(ctx, before, m.Port, received)
		if err != nil {
			return "", err
		}
		if problem = m.misplaced(grown); problem == "" {
			return "", nil
		}
	}
	return problem, nil
}

// growth waits until any port has counted the probes and returns the increase of each port.
func growth(ctx context.Context, before map[uint16]uint64, port uint16, received Received) (grown map[uint16]uint64,
	err error) {
	for deadline := time.Now().Add(probePatience); ; {
		now, err := received(ctx)
		if err != nil {
			return nil, err
		}
		grown = make(map[uint16]uint64)
		elsewhere := false
		for p, n := range now {
			if n > before[p] {
				grown[p] = n - before[p]
				elsewhere = elsewhere || p != port && grown[p] >= probeFrames
			}
		}
		if grown[port] >= probeFrames || elsewhere || time.Now().After(deadline) {
			return grown, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(probeEvery):
		}
	}
}

// misplaced describes the actual port of a machine if it differs from the description.
func (m *Machine) misplaced(grown map[uint16]uint64) string {
	if grown[m.Port] == probeFrames {
		return ""
	}
	var others []string
	for _, p := range slices.Sorted(maps.Keys(grown)) {
		if p != m.Port && grown[p] >= probeFrames {
			others = append(others, fmt.Sprint(p))
		}
	}
	switch n := grown[m.Port]; {
	case n > 0:
		return fmt.Sprintf("cable or port %d of the %s: the %s sent %d probe frames, the port counted %d", m.Port, m.Name,
			m.Name, probeFrames, n)
	case len(others) > 0:
		return fmt.Sprintf(
			"the %s is cabled to port %s, the description says %d: it sent %d probe frames, and that port counted them",
			m.Name, strings.Join(others, " or "), m.Port, probeFrames)
	}
	return fmt.Sprintf("the %s is cabled to no port of the switch, the description says %d: it sent %d probe frames "+
		"from %s, and no port counted them",
		m.Name, m.Port, probeFrames, m.Interface)
}

// CheckDelivery checks that the hosts' frames reach each other, once the switch is programmed.
func (t *Testbed) CheckDelivery(ctx context.Context) (problems []string, err error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	before, err := t.probesArrived(ctx)
	if err != nil {
		return nil, t.Blame(err)
	}
	arrived := [2]bool{}
	for range probeAttempts {
		err := each(len(t.hosts), func(i int) error {
			return t.hosts[i].Probe(ctx, t.m.Hosts[i].Interface, t.route(i),
				probeFrames)
		})
		if err == nil {
			arrived, err = t.awaitProbes(ctx, before)
		}
		if err != nil {
			return nil, t.Blame(err)
		}
		if arrived[0] && arrived[1] {
			return nil, nil
		}
	}
	for i := range arrived {
		if h := &t.m.Hosts[i]; !arrived[i] {
			problems = append(problems,
				fmt.Sprintf("cable or port %d of the %s: the %s sent it %d probe frames over the switch, and none arrived",
					h.Port, h.Name, t.m.Hosts[1-i].Name, probeAttempts*probeFrames))
		}
	}
	return problems, t.unlessFailed(problems)
}

// awaitProbes waits until each host has received another probe frame, and reports which hosts have.
func (t *Testbed) awaitProbes(ctx context.Context, before [2]uint64) (arrived [2]bool, err error) {
	for deadline := time.Now().Add(probePatience); ; {
		now, err := t.probesArrived(ctx)
		if err != nil {
			return arrived, err
		}
		for i := range arrived {
			// A device shows frames that belong to no connection to nobody.
			arrived[i] = now[i] > before[i] || t.m.Hosts[i].RDMA != nil
		}
		if arrived[0] && arrived[1] || time.Now().After(deadline) {
			return arrived, nil
		}
		select {
		case <-ctx.Done():
			return arrived, context.Cause(ctx)
		case <-time.After(probeEvery):
		}
	}
}

// Cables returns the hosts' records of their frames.
func (t *Testbed) Cables(ctx context.Context) ([]testbeds.Cable, error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	list := make([]testbeds.Cable, len(t.hosts))
	err := each(len(t.hosts), func(i int) error {
		if d := t.m.Hosts[i].RDMA; d != nil {
			list[i] = testbeds.Cable{Host: t.spec.Hosts[i].Name, Port: t.m.Hosts[i].Port,
				Trusted: fmt.Sprintf("the RDMA device %s records no frames", d.Device)}
			return nil
		}
		sent, err := t.hosts[i].Frames(ctx, false)
		if err != nil {
			return err
		}
		received, err := t.hosts[i].Frames(ctx, true)
		if err != nil {
			return err
		}
		list[i] = testbeds.Cable{Host: t.spec.Hosts[i].Name, Port: t.m.Hosts[i].Port, Sent: sent.Entries,
			Received: received.Entries,
			Ordered:  sent.Ordered && t.timeDisorder() == 0}
		if n := max(sent.Count, received.Count); n > framelog.Limit {
			list[i].Trusted = fmt.Sprintf("it records %d frames of a direction at most, and there were %d", framelog.Limit, n)
			list[i].Sent, list[i].Received = nil, nil
		}
		return nil
	})
	return list, t.Blame(err)
}
