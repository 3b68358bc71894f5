package netlock

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	wire "candela.dev/candela/generator/netlock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// bins divide the simulated time of a point.
const bins = 200

// tenants are counted apart up to this number.
const tenants = 2

// counts are grants of an interval.
type counts struct {
	bySwitch, byServer int64
	tenants            [tenants + 1]int64 // of both, by tenant; 0: all others
	byBackup           int64              // of bySwitch
	// Of transactions that were committed: locks that switch and servers granted, and how many transactions.
	kept         [2]int64
	transactions int64
}

func (c *counts) all() int64 { return c.bySwitch + c.byServer }

// point is the outcome of one run.
type point struct {
	experiments.Run
	course     [bins]counts // grants that left for clients
	bin        clock.Duration
	took       [2]*analyzers.Distribution // from the client's sending to the grant's leaving: of switch and server
	waited     analyzers.Metric           // from a request's arrival at the switch to its grant there, if it was judged
	trips      []int64                    // of transactions in ns: the first thousand of each thread, in order of size
	mean       float64                    // of all transactions, in ns
	violations int64                      // that judges found
	judged     int64                      // requests that judges of locks saw
	settled    clock.Duration             // see settledOf
	active     map[thread]*active         // transactions that are under way
	times      []int64                    // of those that were committed while locks did not move, in ns, in order of size
}

// thread is one of a client.
type thread struct {
	host   fabric.HostID
	number uint8
}

// active is what a switch has seen of the latest transaction of a thread, which has one at a time.
type active struct {
	number    uint32
	began     clock.Time // of the first attempt
	waiting   int
	granted   [2]int64
	released  bool
	committed bool
}

// clear prepares for a run.
func (p *point) clear() {
	p.bin = p.Test.Duration / bins
	p.took[0] = analyzers.NewDistribution("switch", analyzers.UnitNS, 0)
	p.took[1] = analyzers.NewDistribution("server", analyzers.UnitNS, 0)
	p.settled, p.active, p.times = settledOf(p.Test), make(map[thread]*active), nil
}

// watch counts what leaves the first switch for clients, and its backup if there is one.
func (p *point) watch(net *fabric.Network) {
	p.clear()
	first := net.Switch(0)
	p.count(first, false)
	if port, _ := first.Pair(); port >= 0 {
		p.count(first.Port(port).Peer(), true)
	}
}

// count counts what leaves a switch for clients.
func (p *point) count(sw *fabric.Switch, backup bool) {
	pair, _ := sw.Pair()
	sw.Watch(func(at fabric.Point, now clock.Time, of *fabric.Packet) {
		if of.Protocol != fabric.NetLock || at.Port == pair {
			return
		}
		c, who := &p.course[min(bins-1, now.Sub(0)/p.bin)], 0
		if at.Stage == fabric.Ingress && of.Flags&fabric.Returned == 0 {
			p.asked(now, of, c)
		}
		if at.Stage != fabric.Egress || of.Flags&fabric.Returned == 0 {
			return
		}
		h := wire.FromHeader(&of.Header)
		switch h.Op {
		case netlock.Acquire, netlock.PushBack:
			c.bySwitch++
			if backup {
				c.byBackup++
			}
		case netlock.GrantFromServer:
			c.byServer++
			who = 1
		default:
			return
		}
		if now.Sub(0) >= p.settled {
			p.took[who].Record(now.Nanoseconds() - int64(h.Timestamp))
		}
		if a := p.active[thread{of.Dst, h.Client}]; a != nil && a.number == h.Transaction {
			a.waiting--
			a.granted[who]++
		}
		if int(h.Tenant) <= tenants {
			c.tenants[h.Tenant]++
		} else {
			c.tenants[0]++
		}
	})
}

// asked takes a packet of a client. A transaction was committed if it had all of its locks when it released the first:
// those of one that starts anew do not count (section 7).
func (p *point) asked(now clock.Time, of *fabric.Packet, c *counts) {
	h := wire.FromHeader(&of.Header)
	key := thread{of.Src, h.Client}
	a := p.active[key]
	if a == nil {
		a = &active{committed: true}
		p.active[key] = a
	}
	switch {
	case h.Op == netlock.Acquire:
		if a.number != h.Transaction {
			began := now
			if !a.committed {
				began = a.began
			}
			*a = active{number: h.Transaction, began: began}
		}
		a.waiting++
	case h.Op == netlock.Release && a.number == h.Transaction && !a.released:
		a.released = true
		if a.committed = a.waiting == 0; a.committed {
			if now.Sub(0) >= p.settled {
				p.times = append(p.times, now.Sub(a.began).Nanoseconds())
			}
			c.transactions++
			c.kept[0] += a.granted[0]
			c.kept[1] += a.granted[1]
		}
	}
}

// read takes what judges found and measured.
func (p *point) read(out *orchestrator.Outcome) error {
	slices.Sort(p.times)
	if out.Analysis == nil {
		return nil
	}
	for i := range out.Analysis.Findings {
		if out.Analysis.Findings[i].Severity == analyzers.Violation {
			p.violations++
		}
	}
	for _, judge := range []string{"lock", "netchain"} {
		p.judged += out.Analysis.Coverage[judge]["requests"]
	}
	var sum, n int64
	for i := range out.Analysis.Metrics {
		switch m := &out.Analysis.Metrics[i]; m.Name {
		case "lock.latency-switch":
			p.waited = *m
		case "flows.rtt":
			p.trips = append(p.trips, m.Values...)
			sum, n = sum+m.Sum, n+m.Count
		}
	}
	slices.Sort(p.trips)
	p.mean = float64(sum) / float64(n)
	return nil
}

// quantile returns a quantile of the time that a transaction takes, in us.
func (p *point) quantile(q float64) float64 { return quantile(p.trips, q) }

// quantile returns a quantile, in us, of ns in order of size.
func quantile(list []int64, q float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return float64(list[min(len(list)-1, int(q*float64(len(list))))]) / 1000
}

// mean returns the mean of ns in us.
func mean(list []int64) float64 {
	var sum int64
	for _, ns := range list {
		sum += ns
	}
	return float64(sum) / 1000 / float64(len(list))
}

// measured returns the counts of the time in which locks do not move.
func (p *point) measured() counts { return p.between(p.settled, p.Test.Duration) }

// committed returns transactions each second while locks do not move, in millions.
func (p *point) committed() float64 {
	return mrps(p.measured().transactions, p.Test.Duration-p.settled)
}

// kept returns the rate of locks of committed transactions while locks do not move, in MRPS.
func (p *point) kept() float64 {
	c := p.measured()
	return mrps(c.kept[0]+c.kept[1], p.Test.Duration-p.settled)
}

// between sums up the grants of a part of the time.
func (p *point) between(from, to clock.Duration) (sum counts) {
	for i := int(from / p.bin); i < min(bins, int(to/p.bin)); i++ {
		c := &p.course[i]
		sum.bySwitch += c.bySwitch
		sum.byServer += c.byServer
		sum.byBackup += c.byBackup
		sum.kept[0] += c.kept[0]
		sum.kept[1] += c.kept[1]
		sum.transactions += c.transactions
		for t := range sum.tenants {
			sum.tenants[t] += c.tenants[t]
		}
	}
	return sum
}

// mrps turns a number in a part of the time into millions each second.
func mrps(n int64, of clock.Duration) float64 { return float64(n) / seconds(of) / 1e6 }

// grants returns the rate of grants in a part of the time, in MRPS.
func (p *point) grants(from, to clock.Duration) float64 {
	c := p.between(from, to)
	return mrps(c.all(), to-from)
}

// sum adds up a counter of hosts.
func (p *point) sum(counter string) (n int64) {
	for name, of := range p.Counts {
		if host, rest, _ := strings.Cut(name, "."); strings.HasPrefix(host, "host-") && rest == counter {
			n += of
		}
	}
	return n
}

// note says what a row leaves out.
func (p *point) note() string {
	c := p.between(0, p.Test.Duration)
	text := fmt.Sprintf("%d grants by the switch, %d by servers, %d transactions, %d expired", c.bySwitch, c.byServer,
		p.sum("locks.transactions"), p.sum("locks.expired"))
	if p.violations > 0 {
		text += fmt.Sprintf("; the judge found %d violations", p.violations)
	}
	return text
}

// line draws what value says over the time in ms, with so many bins together.
func (p *point) line(name string, together int, value func(c *counts) int64) comparison.Series {
	s := comparison.Series{Name: name, Style: comparison.Line}
	width := clock.Duration(together) * p.bin
	for i := 0; i+together <= bins; i += together {
		sum := int64(0)
		for k := range together {
			sum += value(&p.course[i+k])
		}
		s.X = append(s.X, (float64(i/together)+0.5)*float64(width)/float64(clock.Millisecond))
		s.Y = append(s.Y, mrps(sum, width))
	}
	return s
}
