package forwarding

import (
	"math"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// routes recomputes by which ports packets may leave: those on shortest paths to their destination, over trunks that
// routes do not avoid. They change when routes learn of a trunk. A packet may have been routed at any time that it was
// inside.
type routes struct {
	net     *analyzers.Network
	numbers []int // of judged switches in the network; -1: a NIC
	epochs  []epoch
	now     int                     // the epoch of the latest packet
	entered []map[uint64]clock.Time // by judged switch and packet, as far as it is needed
}

// epoch is a time in which routes are the same.
type epoch struct {
	since   clock.Time
	avoided map[[2]int]bool // from a switch to another
	hops    map[int][]int32 // by switch of the destination, then by switch; -1: there is no path
	spread  []spread        // by judged switch
}

// spread is evidence about the ports of a switch that have carried nothing although they are on equally short paths.
type spread struct {
	counted bool
	pending int // ports among several that have carried nothing
	ports   []portEvidence
	flows   map[flowKey]bool
}

type portEvidence struct {
	shared, used bool
	choices      int
	log          float64    // of the probability that a fair choice never fell on the port
	latest       clock.Time // when the packets of these choices had come in
}

// flowKey is what a hash of a flow may depend on.
type flowKey struct {
	src, dst, flow uint32
	entropy        uint16
	protocol       trace.Protocol
}

// unlikely is the logarithm of the probability below which an unused path counts as never chosen: 10^-9 for each port
// and time between changes of routes.
const unlikely = -20.72

// newRoutes returns nil if the view does not know the network, or knows a single switch.
func newRoutes(v analyzers.SwitchView) *routes {
	view, ok := v.(analyzers.NetworkView)
	if !ok {
		return nil
	}
	r := &routes{net: view.Network()}
	for sw := range v.Switches() {
		n, ok := view.Number(sw)
		if !ok {
			n = -1
		}
		r.numbers = append(r.numbers, n)
	}
	first := epoch{avoided: make(map[[2]int]bool)}
	for _, f := range r.net.Failed {
		first.avoid(f, true)
	}
	r.epochs = []epoch{first}
	for i := range r.net.Learned {
		l := &r.net.Learned[i]
		last := &r.epochs[len(r.epochs)-1]
		next := epoch{since: l.At, avoided: make(map[[2]int]bool, len(last.avoided)+2)}
		for pair, avoided := range last.avoided {
			next.avoided[pair] = avoided
		}
		if next.avoided[l.Trunk] = l.Failed; !l.OneWay {
			next.avoid(l.Trunk, l.Failed)
		}
		r.epochs = append(r.epochs, next)
	}
	for i := range r.epochs {
		r.epochs[i].hops = make(map[int][]int32)
		r.epochs[i].spread = make([]spread, len(r.numbers))
	}
	r.entered = make([]map[uint64]clock.Time, len(r.numbers))
	for i := range r.entered {
		r.entered[i] = make(map[uint64]clock.Time)
	}
	return r
}

func (e *epoch) avoid(trunk [2]int, yes bool) {
	e.avoided[trunk], e.avoided[[2]int{trunk[1], trunk[0]}] = yes, yes
}

// enter notes when a packet came in.
func (r *routes) enter(t *trace.SwitchTap) {
	for r.now+1 < len(r.epochs) && t.Time >= r.epochs[r.now+1].since {
		r.now++
	}
	if r.needed(t.Switch) {
		r.entered[t.Switch][t.ID] = t.Time
	}
}

// needed reports whether it matters when packets come into a switch.
func (r *routes) needed(sw int) bool {
	if r.numbers[sw] < 0 {
		return false
	}
	return len(r.epochs) > 1 || r.net.Spread != analyzers.SpreadUnknown && r.evidence(0, sw).pending > 0
}

// evidence returns that of a switch in an epoch.
func (r *routes) evidence(epoch, sw int) *spread {
	s := &r.epochs[epoch].spread[sw]
	if !s.counted {
		r.count(s, epoch, r.numbers[sw])
	}
	return s
}

// forget drops what was inside a switch, and what is known of its choices: the port that seems unused may have held it.
func (r *routes) forget(sw int) {
	clear(r.entered[sw])
	for i := range r.epochs {
		r.epochs[i].spread[sw] = spread{}
	}
}

// left returns when the packet came in, and forgets it. What never came in may have been routed at any time.
func (r *routes) left(t *trace.SwitchTap) clock.Time {
	since, known := r.entered[t.Switch][t.ID]
	delete(r.entered[t.Switch], t.ID)
	if !known && len(r.epochs) == 1 {
		return t.Time
	}
	return since
}

// during returns the epochs, from first to before end, in which a packet was inside since; one that begins or ends as
// the packet comes or leaves counts.
func (r *routes) during(t *trace.SwitchTap, since clock.Time) (first, end int) {
	for first+1 < len(r.epochs) && r.epochs[first+1].since < since {
		first++
	}
	for end = first + 1; end < len(r.epochs) && r.epochs[end].since <= t.Time; end++ {
	}
	return first, end
}

// allows reports whether a packet inside since may be routed to the port of its tap.
func (r *routes) allows(t *trace.SwitchTap, since clock.Time) bool {
	sw := r.numbers[t.Switch]
	if sw < 0 || int(t.Dst) >= len(r.net.Homes) {
		return true
	}
	if t.Stage == trace.Left && t.Port < len(r.net.Peers[sw]) {
		if to := r.net.Peers[sw][t.Port]; to >= 0 && (r.net.Deflects || r.open(sw, to)) {
			return true
		}
	}
	home := r.net.Homes[t.Dst]
	if home.Switch == sw {
		return t.Port == home.Port
	}
	first, end := r.during(t, since)
	for i := first; i < end; i++ {
		if r.closer(i, r.hops(i, home.Switch), sw, t.Port) {
			return true
		}
	}
	return false
}

// open reports whether a switch may send another one any packet.
func (r *routes) open(from, to int) bool {
	return slices.Contains(r.net.Open, [2]int{from, to}) || slices.Contains(r.net.Open, [2]int{to, from})
}

// inService reports whether the port of a tap has a trunk, or a host, that is in service.
func (r *routes) inService(t *trace.SwitchTap) bool {
	sw := r.numbers[t.Switch]
	return sw >= 0 && t.Port < len(r.net.Peers[sw]) && !r.net.OutOfService(sw, t.Port, t.Time)
}

// always reports whether a packet inside since had a path all the time.
func (r *routes) always(t *trace.SwitchTap, since clock.Time) bool {
	sw := r.numbers[t.Switch]
	if sw < 0 || int(t.Dst) >= len(r.net.Homes) {
		return false
	}
	first, end := r.during(t, since)
	for i := first; i < end; i++ {
		if to := r.net.Homes[t.Dst].Switch; to != sw && r.hops(i, to)[sw] < 0 {
			return false
		}
	}
	return true
}

// closer reports whether a port of a switch leads closer in an epoch.
func (r *routes) closer(epoch int, hops []int32, sw, port int) bool {
	if port >= len(r.net.Peers[sw]) {
		return false
	}
	next := r.net.Peers[sw][port]
	return next >= 0 && hops[next] >= 0 && hops[next] == hops[sw]-1 && !r.epochs[epoch].avoided[[2]int{sw, next}]
}

// hops returns how many trunks lie between each switch and one of them in an epoch.
func (r *routes) hops(i, to int) []int32 {
	e := &r.epochs[i]
	if h := e.hops[to]; h != nil {
		return h
	}
	h := slices.Repeat([]int32{-1}, len(r.net.Peers))
	h[to] = 0
	for list := []int{to}; len(list) > 0; list = list[1:] {
		at := list[0]
		for _, next := range r.net.Peers[at] {
			if next >= 0 && h[next] < 0 && !e.avoided[[2]int{next, at}] {
				h[next] = h[at] + 1
				list = append(list, next)
			}
		}
	}
	e.hops[to] = h
	return h
}

// choose notes that a packet left, or was dropped, at a port as a choice among equally short paths.
func (r *routes) choose(t *trace.SwitchTap, since clock.Time) {
	sw := r.numbers[t.Switch]
	if sw < 0 || r.net.Spread == analyzers.SpreadUnknown || int(t.Dst) >= len(r.net.Homes) ||
		r.net.Homes[t.Dst].Switch == sw {
		return
	}
	first, end := r.during(t, since)
	for i := first; i < end; i++ {
		s := r.evidence(i, t.Switch)
		if s.pending == 0 || t.Port >= len(s.ports) {
			continue
		}
		if p := &s.ports[t.Port]; p.shared && !p.used {
			p.used = true
			s.pending--
		}
		if end == first+1 && s.pending > 0 {
			r.pass(s, i, t, since)
		}
	}
	if len(r.epochs) == 1 && r.epochs[0].spread[t.Switch].pending == 0 {
		clear(r.entered[t.Switch])
	}
}

// pass notes which ports a choice did not fall on.
func (r *routes) pass(s *spread, epoch int, t *trace.SwitchTap, since clock.Time) {
	sw := r.numbers[t.Switch]
	hops := r.hops(epoch, r.net.Homes[t.Dst].Switch)
	n, unused := 0, false
	for port := range s.ports {
		if r.closer(epoch, hops, sw, port) {
			n++
			unused = unused || !s.ports[port].used
		}
	}
	if n < 2 || !unused || !r.closer(epoch, hops, sw, t.Port) {
		return
	}
	if r.net.Spread == analyzers.SpreadFlows {
		key := flowKey{t.Src, t.Dst, t.Flow, t.Entropy, t.Protocol}
		if s.flows[key] {
			return
		}
		if s.flows == nil {
			s.flows = make(map[flowKey]bool)
		}
		s.flows[key] = true
	}
	for port := range s.ports {
		if p := &s.ports[port]; !p.used && p.log > unlikely && r.closer(epoch, hops, sw, port) {
			p.choices++
			p.log += math.Log1p(-1 / float64(n))
			p.latest = max(p.latest, since)
		}
	}
}

// unused calls f for each port that a switch has not used in an epoch although it was one of several often enough.
// Ports that may hold packets of that time do not count.
func (r *routes) unused(f func(sw, port int, e *portEvidence)) {
	for sw := range r.entered {
		oldest := clock.Time(math.MaxInt64)
		for _, since := range r.entered[sw] {
			oldest = min(oldest, since)
		}
		for i := range r.epochs {
			for port := range r.epochs[i].spread[sw].ports {
				if e := &r.epochs[i].spread[sw].ports[port]; !e.used && e.log <= unlikely && e.latest < oldest {
					f(sw, port, e)
				}
			}
		}
	}
}

// count finds the ports of a switch that share paths with others.
func (r *routes) count(s *spread, epoch, sw int) {
	s.counted, s.ports = true, make([]portEvidence, len(r.net.Peers[sw]))
	seen := make(map[int]bool)
	for _, home := range r.net.Homes {
		if seen[home.Switch] || home.Switch == sw {
			continue
		}
		seen[home.Switch] = true
		var list []int
		hops := r.hops(epoch, home.Switch)
		for port := range s.ports {
			if r.closer(epoch, hops, sw, port) {
				list = append(list, port)
			}
		}
		for _, port := range list {
			if len(list) > 1 && !s.ports[port].shared {
				s.ports[port].shared = true
				s.pending++
			}
		}
	}
}
