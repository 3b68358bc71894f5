package switchtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// watched is the ports at which packets are seen, and how many were seen there.
type watched struct {
	ports [][]bool // by switch, NICs behind them; nil: none of its ports
	whole []bool   // all ports of the switch
	in    [][]uint64
	out   [][]uint64

	hosts           bool // packets are seen at the NICs of hosts, too
	sent, delivered [256]uint64
}

// observe sets the taps of the run, and opens its books.
func (r *run) observe() (err error) {
	if !r.plan.Streamed() {
		r.ledger = newLedger(r.net, r.plan)
		r.net.SetTap(r.ledger.observe)
		return nil
	}
	r.stream = newStream(r.plan)
	r.stream.ideal, r.stream.table = r.ideal, r.table
	if r.watched, err = r.plan.watch(r.net); err != nil {
		return err
	}
	for i := range r.watched.ports {
		if r.watched.ports[i] != nil {
			deviceAt(r.net, i).Watch(r.watched.count)
		}
	}
	if r.watched.hosts = r.plan.Test.Judge.Flows > 0; r.watched.hosts {
		r.net.TapHosts(r.watched.census)
	}
	return nil
}

// books returns what endpoints tell about their flows.
func (r *run) books() books {
	if r.stream != nil {
		return r.stream
	}
	return r.ledger
}

// connections returns what says which flow a packet belongs to.
func (r *run) connections() *connections {
	if r.stream != nil {
		return r.stream.connections
	}
	return r.ledger.connections
}

// portStream tells the choice of ports from what else is drawn from the seed.
const portStream = 0x706f727473

// watch chooses the ports that the test asks for.
func (p *Plan) watch(net *fabric.Network) (*watched, error) {
	n := devices(net)
	w := &watched{ports: make([][]bool, n), whole: make([]bool, n), in: make([][]uint64, n), out: make([][]uint64, n)}
	for i := range n {
		w.in[i], w.out[i] = make([]uint64, deviceAt(net, i).Ports()), make([]uint64, deviceAt(net, i).Ports())
	}
	switch of := &p.Test.Judge.Ports; {
	case of.All:
		for i := range n {
			w.add(net, i, deviceAt(net, i).Ports())
		}
	case len(of.List) > 0:
		for i, name := range of.List {
			if err := w.find(net, name); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Test.Where(fmt.Sprintf("judge.ports[%d]", i)), err)
			}
		}
	default:
		left := of.Count
		for _, i := range rand.New(rand.NewPCG(p.Test.Seed, portStream)).Perm(n) {
			count := min(left, deviceAt(net, i).Ports())
			w.add(net, i, count)
			left -= count
		}
	}
	for i := range n {
		w.whole[i] = len(w.ports[i]) > 0
		for _, seen := range w.ports[i] {
			w.whole[i] = w.whole[i] && seen
		}
	}
	return w, nil
}

// add adds the first ports of a switch.
func (w *watched) add(net *fabric.Network, sw, count int) {
	for port := range count {
		w.see(net, sw, port)
	}
}

func (w *watched) see(net *fabric.Network, sw, port int) {
	if w.ports[sw] == nil {
		w.ports[sw] = make([]bool, deviceAt(net, sw).Ports())
	}
	w.ports[sw][port] = true
}

// find adds a port, or all ports of a switch, by name.
func (w *watched) find(net *fabric.Network, name string) error {
	sw, port, one := strings.Cut(name, ".port-")
	for i := range w.ports {
		d := deviceAt(net, i)
		if d.Name() != sw {
			continue
		}
		if !one {
			w.add(net, i, d.Ports())
			return nil
		}
		n, err := strconv.Atoi(port)
		if err != nil || n >= d.Ports() {
			return fmt.Errorf("switch %s has no port %s; its ports are 0 to %d", sw, port, d.Ports()-1)
		}
		w.see(net, i, n)
		return nil
	}
	return fmt.Errorf("there is no switch %s; the first of %d is %s", sw, len(w.ports), deviceAt(net, 0).Name())
}

// count counts what passes a port, for the comparison with the port's own counters.
func (w *watched) count(at fabric.Point, _ clock.Time, _ *fabric.Packet) {
	if at.Host || at.Stage == fabric.Dropped || at.Stage == fabric.Lost ||
		at.Port >= len(w.ports[at.Node]) || !w.ports[at.Node][at.Port] {
		return
	}
	if at.Stage == fabric.Ingress {
		w.in[at.Node][at.Port]++
	} else {
		w.out[at.Node][at.Port]++
	}
}

// census counts what passes the hosts.
func (w *watched) census(at fabric.Point, _ clock.Time, p *fabric.Packet) {
	switch at.Stage {
	case fabric.Egress:
		w.sent[p.Kind()]++
	case fabric.Ingress:
		w.delivered[p.Kind()]++
	default:
	}
}

// missedAtHosts compares what was seen at hosts with what the network counts.
func (w *watched) missedAtHosts(net *fabric.Network) string {
	for k := range kinds {
		kind := fabric.Kind(k)
		c := net.Counts(kind)
		if kind.Protocol() != fabric.PFC && (w.sent[k] != c.Sent || w.delivered[k] != c.Delivered) {
			return fmt.Sprintf("%s: the taps saw %d sent, %d delivered; the network counts %d, %d", kind, w.sent[k],
				w.delivered[k], c.Sent, c.Delivered)
		}
	}
	return ""
}

// missed compares what was seen at ports with what they count.
func (w *watched) missed(net *fabric.Network) string {
	for i := range net.Switches() {
		for port, seen := range w.ports[i] {
			if !seen {
				continue
			}
			c := net.Switch(i).Port(port).Counters()
			if in, out := w.in[i][port]+c.PausesReceived, w.out[i][port]+c.PausesSent; in != c.Received || out < c.Sent ||
				out-c.Sent > c.PausesSent {
				return fmt.Sprintf("switch %s port %d: the tap saw %d in and %d out, the port counts %d and %d",
					net.Switch(i).Name(), port, in, out, c.Received, c.Sent)
			}
		}
	}
	return ""
}

// wholeSwitches returns the switches all of whose ports are seen, among those from first up to end.
func (r *run) wholeSwitches(first, end int) []int {
	var list []int
	for i := first; i < end; i++ {
		if r.watched == nil || r.watched.whole[i] {
			list = append(list, i)
		}
	}
	return list
}

// nothingJudged says why a run of a test has nothing to judge; empty: it has.
func (p *Plan) nothingJudged() string {
	e := &p.Test.Expect
	expects := len(e.Metrics)+len(e.Flows)+len(e.Counters)+len(e.Relations) > 0
	if !p.Streamed() || !p.Test.Judge.Off() || expects {
		return ""
	}
	return "judge is off and the test expects nothing of metrics, flows or counters: there is nothing to judge; add " +
		"expect, for example {unfinished: 0}, or judge more"
}
