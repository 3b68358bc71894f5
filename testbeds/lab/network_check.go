package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"candela.dev/candela/agent"
	"candela.dev/candela/framelog"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Probes of a cable.
const (
	probes      = 5
	listenFor   = 500 * time.Millisecond
	probeTries  = 3
	clockMayErr = time.Second
)

// Check verifies every machine and its cable. It returns its results in lines and reasons against a test in problems.
func (n *Network) Check(ctx context.Context, version string) (lines, problems []string, err error) {
	ctx, end := n.during(ctx)
	defer end()
	ask := func(c *agent.Client, devices ...string) error {
		asked := time.Now()
		d, err := c.Describe(ctx)
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%s: version %s, privileges %s", c.Name(), d.GetVersion(),
			strings.Join(d.GetPrivileges(), ", ")))
		for _, p := range unfit(d, devices, version, asked, time.Now()) {
			problems = append(problems, c.Name()+": "+p)
		}
		return nil
	}
	if err := ask(n.sw, n.used()...); err != nil {
		return lines, problems, err
	}
	for i, c := range n.hosts {
		if err := ask(c, n.cfg.Hosts[i].Interface); err != nil {
			return lines, problems, err
		}
	}
	wrong, err := n.Cabling(ctx)
	return lines, append(problems, wrong...), err
}

// used returns the switch interfaces that hosts are cabled to.
func (n *Network) used() (list []string) {
	for _, s := range n.cfg.Hosts {
		list = append(list, n.cfg.Interfaces[s.Port])
	}
	return list
}

// unfit returns the reasons why a machine can't be a host or switch.
func unfit(d *agentpb.DescribeResponse, devices []string, version string, asked, answered time.Time) (list []string) {
	add := func(format string, args ...any) { list = append(list, agent.Printable(fmt.Sprintf(format, args...))) }
	if v := d.GetVersion(); v != version {
		add("version %s, this is %s", v, version)
	}
	for _, need := range []string{"CAP_NET_ADMIN", "CAP_NET_RAW"} {
		if !slices.Contains(d.GetPrivileges(), need) {
			add("it lacks %s", need)
		}
	}
	now := time.Unix(0, d.GetNowUnixNs())
	if now.Before(asked.Add(-clockMayErr)) || now.After(answered.Add(clockMayErr)) {
		add("its clock is off by about %v", now.Sub(asked).Round(time.Millisecond))
	}
	for _, device := range devices {
		at := slices.IndexFunc(d.GetInterfaces(), func(i *agentpb.Interface) bool { return i.GetName() == device })
		switch {
		case at < 0:
			add("its agent doesn't serve interface %s", device)
		case !d.GetInterfaces()[at].GetUp():
			add("interface %s is down or has no carrier", device)
		}
	}
	return list
}

// Cabling checks by probe frames, in both directions, that every host is at the described port. It retries, because a
// busy machine may lose probes.
func (n *Network) Cabling(ctx context.Context) (problems []string, err error) {
	for range probeTries {
		if problems, err = n.probe(ctx); err != nil || len(problems) == 0 {
			break
		}
	}
	return problems, err
}

func (n *Network) probe(ctx context.Context) (problems []string, err error) {
	heard, err := n.sw.Listen(ctx, n.used(), listenFor, n.sending(ctx, func(ctx context.Context, i int) error {
		return n.hosts[i].Probe(ctx, n.cfg.Hosts[i].Interface, n.route(i, packet.MAC{}), probes)
	}))
	if err != nil {
		return nil, err
	}
	for i, s := range n.cfg.Hosts {
		problems = append(problems, n.placed(s, n.macs[i], heard)...)
	}
	group, hearing := errgroup.WithContext(ctx)
	got := make([]int, len(n.hosts))
	for i, c := range n.hosts {
		s := n.cfg.Hosts[i]
		group.Go(func() error {
			send := n.sending(ctx, func(ctx context.Context, j int) error {
				if j != i {
					return nil
				}
				return n.sw.Probe(ctx, n.cfg.Interfaces[s.Port], n.route(i, n.macs[i]), probes)
			})
			list, err := c.Listen(hearing, []string{s.Interface}, listenFor, send)
			for _, h := range list {
				got[i] += h.Frames
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, s := range n.cfg.Hosts {
		if got[i] < probes {
			problems = append(problems, fmt.Sprintf("%s got %d of %d probe frames that interface %s of the switch sent: the "+
				"way to it loses them", s.Name, got[i], probes, n.cfg.Interfaces[s.Port]))
		}
	}
	return problems, nil
}

// sending returns a function that sends every host's probes once the receivers listen. An error shows as missing
// frames.
func (n *Network) sending(ctx context.Context, send func(ctx context.Context, host int) error) func() {
	return func() {
		for i := range n.hosts {
			_ = send(ctx, i)
		}
	}
}

// route returns the route of a host's probes, which are never answered.
func (n *Network) route(host int, to packet.MAC) framelog.Route {
	id := fabric.HostID(host)
	if to == (packet.MAC{}) {
		to = packet.MAC{0x02, 0xca, 0xdf} // an unused address
	}
	return framelog.Route{ToMAC: to, From: id.IPv4(), To: fabric.HostID(host + 1).IPv4()}
}

// placed returns the differences between the ports that received a host's probes and the described port.
func (n *Network) placed(s Station, mac packet.MAC, heard []agent.Heard) []string {
	want := n.cfg.Interfaces[s.Port]
	var where []string
	for _, h := range heard {
		if h.From != mac {
			continue
		}
		if h.Interface == want && h.Frames == probes {
			return nil
		}
		where = append(where, fmt.Sprintf("%d at %s", h.Frames, h.Interface))
	}
	if len(where) == 0 {
		return []string{fmt.Sprintf("%s is cabled to no port of the switch, the description says port %d (%s): it sent %d "+
			"probe frames from %s, and none came", s.Name, s.Port, want, probes, s.Interface)}
	}
	return []string{fmt.Sprintf("%s is described at port %d (%s) of the switch: it sent %d probe frames, and there came "+
		"%s", s.Name, s.Port, want, probes, strings.Join(where, ", "))}
}
