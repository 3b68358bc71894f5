package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// NetworkConfig describes a lab without an injector: hosts and a machine that is the switch.
type NetworkConfig struct {
	Hosts      []Station // by host
	Switch     string    // address of the agent of the switch's machine
	Interfaces []string  // of that machine, by port
	Credentials
}

// Network is such a lab, leased for one run. It must be used by one goroutine.
type Network struct {
	cfg    NetworkConfig
	conns  []*grpc.ClientConn
	leases []*agent.Lease
	sw     *agent.Client
	hosts  []*agent.Client
	macs   []packet.MAC // by host
}

// OpenNetwork connects to the first hosts of a lab and its switch, and leases them. The caller closes the Network.
func OpenNetwork(ctx context.Context, cfg NetworkConfig, hosts int) (_ *Network, err error) {
	if have := len(cfg.Hosts); hosts > have {
		return nil, fmt.Errorf("lab: the test has %d hosts, the lab %d", hosts, have)
	}
	cfg.Hosts = cfg.Hosts[:hosts]
	n := &Network{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("lab: %w", err), n.Close())
		}
	}()
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	run := "run-" + hex.EncodeToString(id[:])
	open := func(name, address string) (*agent.Client, error) {
		files := cfg.files(transport.Agent)
		if strings.HasPrefix(address, "unix:") {
			files = nil // never leaves the machine
		}
		conn, err := transport.Dial(address, files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		n.conns = append(n.conns, conn)
		c := agent.NewClient(name, conn, run)
		lease, err := c.Hold(ctx)
		if err == nil {
			n.leases = append(n.leases, lease)
		}
		return c, err
	}
	if n.sw, err = open("switch", cfg.Switch); err != nil {
		return nil, err
	}
	for _, s := range cfg.Hosts {
		c, err := open(s.Name, s.Agent)
		if err != nil {
			return nil, err
		}
		n.hosts = append(n.hosts, c)
		mac, err := macOf(ctx, c, s.Interface)
		if err != nil {
			return nil, err
		}
		n.macs = append(n.macs, mac)
	}
	return n, nil
}

// macOf returns the Ethernet address of a machine's interface.
func macOf(ctx context.Context, c *agent.Client, device string) (mac packet.MAC, err error) {
	d, err := c.Describe(ctx)
	if err != nil {
		return mac, err
	}
	for _, i := range d.GetInterfaces() {
		if i.GetName() == device && len(i.GetMac()) == len(mac) {
			return packet.MAC(i.GetMac()), nil
		}
	}
	return mac, fmt.Errorf("%s: its agent doesn't serve an Ethernet interface %s", c.Name(), device)
}

// Close releases the machines.
func (n *Network) Close() error {
	var wait sync.WaitGroup
	for _, l := range n.leases {
		wait.Go(l.Close)
	}
	wait.Wait()
	var failed []error
	for _, c := range n.conns {
		if err := c.Close(); err != nil && status.Code(err) != codes.Canceled {
			failed = append(failed, err)
		}
	}
	n.leases, n.conns = nil, nil
	return errors.Join(failed...)
}

// during returns a context that ends with ctx or when a machine is lost; the cause names it. The caller calls end.
func (n *Network) during(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	for _, l := range n.leases {
		watch.Go(func() {
			select {
			case <-l.Lost():
				cancel(l.Err())
			case <-ctx.Done():
			}
		})
	}
	return ctx, func() { cancel(nil); watch.Wait() }
}

// NetworkTest is a test of a switch for the machines of a lab.
type NetworkTest struct {
	Config      []byte // complete
	Connections []live.Connection
	Datagrams   bool // hosts run the test with UDP sockets; Connections are what is to end
	MaxFrame    int  // bytes of the longest frame without FCS
	Slowdown    int64
}

// mostReal bounds a run: the traffic of a live switch takes at most ten minutes.
const mostReal = 15 * time.Minute

// Run runs a test on the switch's machine and passes the run's files to file.
func (n *Network) Run(ctx context.Context, t *NetworkTest, file func(name string, data []byte) error) error {
	ctx, end := n.during(ctx)
	defer end()
	err := n.run(ctx, t, file)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (n *Network) run(ctx context.Context, t *NetworkTest, file func(name string, data []byte) error) error {
	var ports []agent.SwitchPort
	for i, s := range n.cfg.Hosts {
		ports = append(ports, agent.SwitchPort{Interface: n.cfg.Interfaces[s.Port], MAC: n.macs[i]})
	}
	// Start the switch first: frames that hosts count from then on come from its rings.
	sw, err := n.sw.RunSwitch(ctx, mostReal, t.Config, ports)
	if err != nil {
		return err
	}
	defer sw.Close()
	for h, c := range n.hosts {
		if err := c.Equip(ctx, n.hostOf(h, t)); err != nil {
			return err
		}
	}
	if err := sw.Start(); err != nil {
		return err
	}
	group, transfers := errgroup.WithContext(ctx)
	for _, c := range n.hosts {
		group.Go(func() error {
			return c.Transfer(transfers, mostReal, func(number int, why string) { _ = sw.Finished(number, why) }) // see WaitOver
		})
	}
	over := sw.WaitOver()
	if over != nil {
		sw.Close()
	}
	var counts []*agentpb.UnequipResponse
	var failed []error
	for _, c := range n.hosts { // also if the switch failed: this ends Transfer
		count, err := c.Unequip(ctx)
		counts, failed = append(counts, count), append(failed, err)
	}
	stopped := errors.Join(failed...)
	if err := group.Wait(); over == nil && err != nil {
		return err
	}
	switch {
	case over != nil:
		return over
	case stopped != nil:
		return stopped
	}
	if err := sw.Hosts(counts); err != nil {
		return err
	}
	return sw.Files(file)
}

func (n *Network) hostOf(h int, t *NetworkTest) *agent.SocketHost {
	const ethernet = 14
	own := fabric.HostID(h)
	host := &agent.SocketHost{Interface: n.cfg.Hosts[h].Interface, MTU: t.MaxFrame - ethernet}
	host.IPs = append(host.IPs, own.IPv4())
	v6 := slices.ContainsFunc(t.Connections, func(c live.Connection) bool { return c.IPv6 })
	if v6 {
		host.IPs = append(host.IPs, own.IPv6())
	}
	for i, mac := range n.macs {
		peer := fabric.HostID(i)
		if i == h {
			continue
		}
		host.Peers = append(host.Peers, agent.SocketPeer{IP: peer.IPv4(), MAC: mac})
		if v6 {
			host.Peers = append(host.Peers, agent.SocketPeer{IP: peer.IPv6(), MAC: mac})
		}
	}
	if t.Datagrams {
		host.Test, host.Host, host.Slowdown = t.Config, h, t.Slowdown
		return host
	}
	for i := range t.Connections {
		c := &t.Connections[i]
		if c.Src != own && c.Dst != own {
			continue
		}
		x := c.Transfer()
		m := &agentpb.SocketConnection{Number: uint32(c.Number), Receives: c.Dst == own, LocalIp: x.From.AsSlice(),
			RemoteIp: x.To.AsSlice(), Port: uint32(x.Port), Bytes: x.Bytes, CongestionControl: x.Congestion,
			Dscp: uint32(x.DSCP), StartNs: c.Start.Nanoseconds() * t.Slowdown}
		if m.GetReceives() {
			m.LocalIp, m.RemoteIp = m.GetRemoteIp(), m.GetLocalIp()
		}
		host.Connections = append(host.Connections, m)
	}
	return host
}
