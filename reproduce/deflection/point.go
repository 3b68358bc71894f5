package deflection

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// spread is a mean and a 99th percentile in ms; 0: there is nothing.
type spread struct {
	Mean float64 `json:"mean_ms"`
	P99  float64 `json:"p99_ms"`
}

// point is what a run measured. Times of queries and flows are of those that ended.
type point struct {
	QCT       spread  `json:"qct"`
	Least     float64 `json:"least_qct_ms"`
	Queries   int64   `json:"queries"`
	Completed int64   `json:"completed"`
	FCT       spread  `json:"fct"`    // of all flows
	Incast    spread  `json:"incast"` // of flows of queries
	Flows     int64   `json:"flows"`
	Finished  int64   `json:"finished"`
	Large     float64 `json:"large_mbps"` // goodput of flows from 10 MB on, mean
	LargeN    int64   `json:"large"`
	Sent      int64   `json:"sent"`      // packets that hosts sent
	Data      int64   `json:"data"`      // packets of TCP with data that left for their receiver
	Reordered int64   `json:"reordered"` // of these, after one of the same flow with a higher number
	Dropped   int64   `json:"dropped"`   // at switches
	Deflected int64   `json:"deflected"`
	Evaluated int64   `json:"evaluated"` // R
	Avoidable int64   `json:"avoidable"`
	Stale     int64   `json:"tail"`     // refused by a queue
	LateTTL   int64   `json:"ttl"`      // dropped for want of TTL
	Timeouts  int64   `json:"timeouts"` // of TCP
	Hops      int64   `json:"hops"`

	Ports []*port `json:"ports"` // by kind
	Paths []int64 `json:"paths"` // packets that left for a host, by how many switches they had visited
	Heat  []heat  `json:"heat"`  // deflections at each switch over time
	BinMS float64 `json:"bin_ms"`

	ends  []func()           // close what watch counts
	kinds map[string][]*port // of Ports, by switch and port
}

// port sums up the ports of a kind.
type port struct {
	Kind    string `json:"kind"`
	Arrived int64  `json:"arrived"`
	From    int64  `json:"deflected_from"`
	To      int64  `json:"deflected_to"`
	NoPort  int64  `json:"no_port"`
	Tail    int64  `json:"tail"`
	Evicted int64  `json:"displaced"`
}

// heat is how many packets a switch has deflected in each of bins intervals of equal length.
type heat struct {
	Switch string  `json:"switch"`
	Counts []int64 `json:"counts"`
}

// bins divide the simulated time.
const bins = 60

// longest is how many switches a path has in statistics; longer ones count there.
const longest = 32

// counted is a mechanism of a switch that deflects.
type counted interface{ Counters() deflect.Counters }

// watch counts deflections over the time that a test takes, and lengths of paths.
func (p *point) watch(took clock.Duration) func(net *fabric.Network) {
	bin := max(1, took/bins)
	p.BinMS = float64(bin) / float64(clock.Millisecond)
	return func(net *fabric.Network) {
		p.Paths = make([]int64, longest+1)
		p.Heat = make([]heat, net.Switches())
		newest := make(map[oneWay]uint32)
		p.ends, p.kinds, p.Ports = nil, make(map[string][]*port), nil
		for i := range net.Switches() {
			sw := net.Switch(i)
			m, deflects := sw.Mechanism().(counted)
			h := &p.Heat[i]
			*h = heat{Switch: sw.Name(), Counts: make([]int64, bins)}
			down := make([]bool, sw.Ports())
			for at := range down {
				_, down[at] = sw.Port(at).HostAt()
				p.place(sw.Port(at))
			}
			now, before := 0, int64(0) // bin, and deflections up to its start
			book := func(to int) {
				if sum := deflections(m); now < bins {
					h.Counts[now], before = sum-before, sum
				}
				now = to
			}
			sw.Watch(func(at fabric.Point, t clock.Time, of *fabric.Packet) {
				if n := int(t.Sub(0) / bin); deflects && n > now {
					book(n)
				}
				if at.Stage == fabric.Egress && down[at.Port] {
					p.Paths[min(longest, int(deflect.TTL-of.TTL))]++
					p.inOrder(newest, of)
				}
			})
			if deflects {
				p.ends = append(p.ends, func() { book(bins) })
			}
		}
	}
}

// oneWay is what a flow sends in one direction.
type oneWay struct {
	src, dst fabric.HostID
	flow     uint32
}

// inOrder counts data of TCP on its way from the last switch to its receiver, before a shim restores the order.
func (p *point) inOrder(newest map[oneWay]uint32, of *fabric.Packet) {
	if of.Protocol != fabric.TCP || int(of.Size) <= headers.HeaderSize(of.IPv6) {
		return
	}
	p.Data++
	way := oneWay{of.Src, of.Dst, of.Flow}
	if last, known := newest[way]; known && int32(of.Number-last) < 0 {
		p.Reordered++
	} else {
		newest[way] = of.Number
	}
}

var headers = tcp.Codec()

// place adds a port to those of its kind.
func (p *point) place(pt *fabric.Port) {
	kind := kindOf(pt)
	i := slices.IndexFunc(p.Ports, func(c *port) bool { return c.Kind == kind })
	if i < 0 {
		i = len(p.Ports)
		p.Ports = append(p.Ports, &port{Kind: kind})
	}
	name := pt.Switch().Name()
	p.kinds[name] = append(p.kinds[name], p.Ports[i])
}

// deflections counts the packets that a switch has deflected.
func deflections(m counted) (sum int64) {
	for _, c := range m.Counters().Ports {
		sum += int64(c.To)
	}
	return sum
}

// kindOf says where a port leads, by the kinds of the nodes: leaf to host, spine to leaf.
func kindOf(pt *fabric.Port) string {
	kind := func(sw *fabric.Switch) string {
		name, _, _ := strings.Cut(sw.Name(), "-")
		return name
	}
	if _, host := pt.HostAt(); host {
		return kind(pt.Switch()) + " to host"
	}
	return kind(pt.Switch()) + " to " + kind(pt.Peer())
}

// read takes what the documents of a run say.
func (p *point) read(r *experiments.Run) error {
	for _, end := range p.ends {
		end()
	}
	p.Hops = int64(r.Flows.Hops)
	p.groups(r.Flows.Statistics.Groups)
	if p.Queries == 0 {
		return errors.New("there were no queries")
	}
	p.Sent = int64(r.Flows.Sent)
	for name, n := range r.Counts {
		node, counter, _ := strings.Cut(name, ".")
		p.count(node, counter, n)
	}
	for i := range p.Ports {
		p.Deflected += p.Ports[i].To
	}
	return nil
}

// count adds a counter of a switch.
func (p *point) count(node, counter string, n int64) {
	of, rest, isPort := strings.Cut(counter, ".")
	switch {
	case strings.HasPrefix(counter, "dropped-"):
		p.Dropped += n
		if counter == "dropped-ttl" {
			p.LateTTL += n
		}
		return
	case !isPort || !strings.HasPrefix(of, "port-"):
		return
	}
	at, err := strconv.Atoi(of[len("port-"):])
	if err != nil || at >= len(p.kinds[node]) {
		return
	}
	c := p.kinds[node][at]
	switch rest {
	case "arrived":
		c.Arrived += n
	case "deflected-from":
		c.From += n
	case "deflected-to":
		c.To += n
	case "no-port":
		c.NoPort += n
	case "tail":
		c.Tail += n
	case "displaced":
		c.Evicted += n
	case "evaluations":
		p.Evaluated += n
	case "avoidable":
		p.Avoidable += n
	}
}

// groups takes statistics of flows.
func (p *point) groups(list []switchtest.Group) {
	for i := range list {
		g := &list[i]
		switch {
		case g.By == "all":
			p.FCT, p.QCT = ms(g.FCT), ms(g.QCT)
			if g.QCT != nil {
				p.Least = float64(g.QCT.Min) / 1e6
			}
			p.Queries, p.Completed, p.Flows, p.Finished = g.Queries, g.QueriesCompleted, g.Flows, g.Finished
			p.Timeouts = g.Timeouts
		case g.By == "tenant" && g.Name == "2":
			p.Incast = ms(g.FCT)
		case g.By == "size" && strings.HasPrefix(g.Name, "10000000 "):
			p.LargeN = g.Flows
			if g.Goodput != nil {
				p.Large = g.Goodput.Mean / 1e6
			}
		}
	}
}

// ms returns a spread in ms.
func ms(s *switchtest.Spread) spread {
	if s == nil {
		return spread{}
	}
	return spread{s.Mean / 1e6, float64(s.P99) / 1e6}
}

// share returns a part of a whole in percent.
func share(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }
