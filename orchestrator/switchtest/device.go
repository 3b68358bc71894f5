package switchtest

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/decision"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// devices returns how many switches judges see: those of the network, and behind them the NICs of all hosts if these
// have queues.
func devices(net *fabric.Network) int {
	if net.NICs() {
		return net.Switches() + net.Hosts()
	}
	return net.Switches()
}

// deviceAt returns one of them.
func deviceAt(net *fabric.Network, i int) *fabric.Switch {
	if n := net.Switches(); i >= n {
		return net.Host(fabric.HostID(i - n)).NIC()
	}
	return net.Switch(i)
}

// device is switches of a run as a judge sees them, by their numbers in the run.
type device struct {
	r    *run
	list []int
	many bool // the analyzer would judge several if it saw them all
}

// OneOfMany implements what [analyzers.OneOfMany] asks for.
func (d device) OneOfMany() bool { return d.many }

// at returns a switch by the number that the judge knows it by.
func (d device) at(sw int) *fabric.Switch { return deviceAt(d.r.net, d.list[sw]) }

// family returns that of a switch.
func (d device) family(sw int) *family { return d.r.familyAt(d.list[sw]) }

func (d device) Switches() int                   { return len(d.list) }
func (d device) SwitchName(sw int) string        { return d.at(sw).Name() }
func (d device) Ports(sw int) int                { return d.at(sw).Ports() }
func (d device) Bounded() bool                   { return d.r.plan.Test.Duration > 0 }
func (d device) InFlight() bool                  { return d.r.net.InFlight() > 0 }
func (d device) Decisions() []trace.DecisionKind { return d.r.plan.family.Decisions }

// Makes implements analyzers.SwitchView. SRC packets of Bolt are made by switches, too.
func (d device) Makes(sw int) bool {
	return d.family(sw).Makes || d.list[sw] < d.r.net.Switches() && d.r.plan.declared.Bolt.SRC
}

func (d device) Reason(sw int, code uint8) analyzers.DropReason {
	return d.family(sw).Reason(fabric.Reason(code))
}

func (d device) HostAt(sw, port int) (uint32, bool) {
	h, ok := d.at(sw).Port(port).HostAt()
	return uint32(h), ok
}

// OnRealFrames says it to analyzers.OnRealFrames.
func (d device) OnRealFrames() bool { return d.r.plan.live }

func (d device) Link(sw, port int) (rate clock.BitRate, framing int) {
	at := d.at(sw)
	if host, nic := at.Host(); nic {
		l := d.r.plan.Test.Topology.HostLinkOf(int(host))
		return l.Rate, l.Framing
	}
	link := d.r.plan.portConfig(at, at.Port(port))
	return link.Rate, link.Framing
}

// Pauses says it to analyzers.Pauses.
func (d device) Pauses() bool { return d.r.plan.declared.PFC.Classes != 0 }

func (d device) Address(host uint32, v6 bool) netip.Addr {
	if v6 {
		return fabric.HostID(host).IPv6()
	}
	return fabric.HostID(host).IPv4()
}

func (d device) Settings(sw int) (any, error) {
	values := d.r.plan.Test.Switch.Values
	if i := d.list[sw]; i < len(d.r.current) {
		values = d.r.current[i]
	} else if n := d.r.plan.nics; n != nil {
		values = n.Values
	}
	return d.family(sw).Settings(values, d.at(sw).Ports())
}

// Number implements analyzers.NetworkView.
func (d device) Number(sw int) (int, bool) { return d.list[sw], d.list[sw] < d.r.net.Switches() }

// Network implements analyzers.NetworkView: the wiring of the network, and the trunks that the test lets fail.
func (d device) Network() *analyzers.Network {
	net, test := d.r.net, d.r.plan.Test
	n := &analyzers.Network{Homes: make([]analyzers.Home, net.Hosts())}
	switch d.r.plan.Spec.Topology.Balance {
	case fabric.ECMP:
		n.Spread = analyzers.SpreadFlows
	case fabric.SprayRandom, fabric.SprayRoundRobin:
		n.Spread = analyzers.SpreadPackets
	case fabric.SourcePath:
	}
	n.Routing = n.Spread
	if n.Deflects = d.r.plan.family.Deflects; n.Deflects { // they may choose among equal paths themselves
		n.Spread = analyzers.SpreadUnknown
	}
	numbers := make(map[string]int)
	for i := range net.Switches() {
		numbers[net.Switch(i).Name()] = i
	}
	for i := range net.Switches() {
		sw := net.Switch(i)
		peers := make([]int, sw.Ports())
		for port := range peers {
			peers[port] = -1
			if peer := sw.Port(port).Peer(); peer != nil {
				peers[port] = numbers[peer.Name()]
				if _, failed := test.Topology.TrunkBetween(sw.Name(), peer.Name()); failed {
					n.Failed = append(n.Failed, [2]int{i, peers[port]})
				}
				if i < peers[port] {
					n.Outages = append(n.Outages, d.r.plan.outages(sw.Name(), peer.Name(), [2]int{i, peers[port]})...)
				}
			} else if host, ok := sw.Port(port).HostAt(); ok {
				n.Homes[host] = analyzers.Home{Switch: i, Port: port}
			}
		}
		n.Peers = append(n.Peers, peers)
	}
	for _, c := range sortedChanges(test.Changes) {
		if c.Trunk != nil && c.Trunk.Failed != nil {
			n.Learned = append(n.Learned, analyzers.Learned{At: clock.Time(0).Add(c.At + test.Topology.Reroute()),
				Trunk: [2]int{numbers[c.Trunk.From], numbers[c.Trunk.To]}, Failed: *c.Trunk.Failed})
		}
	}
	n.Learned = append(n.Learned, preferred(n, test)...)
	slices.SortStableFunc(n.Learned, func(a, b analyzers.Learned) int { return cmp.Compare(a.At, b.At) })
	if test.Topology.Pair() {
		n.Learned = combined(n)
	}
	return n
}

// LockServers and Databases are the hosts with which lock switches work.
func (d device) LockServers() (hosts []uint32, v6 bool) {
	return d.lockHosts(func(l *workload.Locks) []int { return l.Servers })
}

// Databases lists those that answer clients for a lock switch.
func (d device) Databases() []uint32 {
	hosts, _ := d.lockHosts(func(l *workload.Locks) []int { return l.Databases })
	return hosts
}

func (d device) lockHosts(of func(*workload.Locks) []int) (hosts []uint32, v6 bool) {
	for f := range d.r.plan.All() {
		if f.Locks == nil {
			continue
		}
		v6 = f.Mark.IPv6
		for _, h := range of(f.Locks) {
			if !slices.Contains(hosts, uint32(h)) {
				hosts = append(hosts, uint32(h))
			}
		}
	}
	return hosts, v6
}

// ServersBegin returns before when lock servers grant nothing.
func (d device) ServersBegin() clock.Time {
	const name = "server-not-before-us"
	v := d.r.plan.Test.Hosts.Values
	if v.Table().Find(name) < 0 {
		return 0
	}
	return clock.Time(0).Add(v.Duration(name))
}

// ServerLease returns after which lock servers end leases, and how often they look.
func (d device) ServerLease() (lease, poll clock.Duration) {
	const lasts, looks = "lease-us", "poll-us"
	v := d.r.plan.Test.Hosts.Values
	if v.Table().Find(lasts) < 0 || v.Table().Find(looks) < 0 {
		return 0, 0
	}
	return v.Duration(lasts), v.Duration(looks)
}

// ServerTimes returns how long lock servers take at most: there and back, for a packet, and between two that they send.
func (d device) ServerTimes() (way, takes, gap clock.Duration, ok bool) {
	v := d.r.plan.Test.Hosts.Values
	if d.r.plan.live || v.Table().Find("server-ns") < 0 {
		return 0, 0, 0, false
	}
	hosts, _ := d.LockServers()
	for _, h := range hosts {
		way = max(way, d.r.plan.Test.Topology.HostLinkOf(int(h)).Delay)
	}
	way = 2*(way+v.Duration("host-delay-ns")+v.Duration("host-jitter-ns")) + v.Duration("server-drain-us")
	if of := d.r.plan.Test.Switch.Values; of.Table().Find("latency-ns") >= 0 { // taps show what leaves before it
		way += of.Duration("latency-ns")
	}
	return way, v.Duration("server-ns"), v.Duration("client-ns"), true
}

// Lossless reports whether hosts get all that leaves for them.
func (d device) Lossless() bool {
	const name = "loss"
	v := d.r.plan.Test.Hosts.Values
	return !d.r.plan.live && v.Table().Find(name) >= 0 && v.Number(name) == 0
}

// End returns when the run ended.
func (d device) End() clock.Time { return d.r.end }

func (d device) Counters(sw int) (any, error) { return d.family(sw).Snapshot(d.at(sw)) }

func (d device) FlowOf(t *trace.SwitchTap) int {
	sender, connection := t.Src, t.Flow
	if t.Flags&trace.Returned != 0 {
		sender = t.Dst
	}
	if of := d.r.connections().speaks[t.Protocol]; of != nil && of.Connection != nil {
		connection = t.Connection
	}
	return d.r.connections().flowOfConnection(t.Protocol, fabric.HostID(sender), connection)
}

// decisions are the records that switches make of what they decide: a file, and judges that hear of them.
type decisions struct {
	file   io.WriteCloser
	buffer *bufio.Writer
	writer *trace.DecisionWriter
	err    error
}

// newDecisions has the decisions of the run written and judged.
func newDecisions(r *run) (*decisions, error) {
	format := r.plan.Test.Taps.Decisions()
	file, err := r.Dir.Create("decisions." + format)
	if err != nil {
		return nil, err
	}
	d := &decisions{file: file, buffer: bufio.NewWriter(file)}
	names := make([]string, devices(r.net))
	for i := range names {
		names[i] = deviceAt(r.net, i).Name()
	}
	if d.writer, err = trace.NewDecisionWriter(d.buffer, format, r.plan.family.Decisions, names); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r.net.SetDecisions(func(record *trace.Decision) {
		if d.err == nil {
			d.err = d.writer.Write(record)
		}
		for _, j := range r.judges {
			if j.decide != nil {
				j.decide(record)
			}
		}
	})
	return d, nil
}

func (d *decisions) close() error {
	return errors.Join(d.err, d.writer.Close(), d.buffer.Flush(), d.file.Close())
}

// unjudged says which rules need decision records that the run does not have.
func (r *run) unjudged() []string {
	if r.plan.judgesDecisions() {
		return nil
	}
	var names []string
	for _, rule := range decision.Rules() {
		names = append(names, rule.ID)
	}
	why := "the test does not ask for them (`taps: {decisions: csv}`)"
	switch {
	case len(r.plan.family.Decisions) == 0:
		why = "the switch keeps none"
	case r.plan.Test.Taps.Decisions() != "":
		why = "they leave out the SRC packets of bolt-src"
	}
	return []string{fmt.Sprintf("judged from the taps alone, without decision records: %s; not judged: %s", why,
		strings.Join(names, ", "))}
}
