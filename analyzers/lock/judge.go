package lock

import (
	"fmt"
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// Judge judges all switches of a test.
type Judge struct {
	facts    lock.Network
	report   *analyzers.Reporter
	switches []*device
	hosts    map[netip.Addr]uint32
	servers  map[netip.Addr]clock.Time // when they stopped; Never: they have not
	tables
	tenants   map[uint32]*tenant
	queries   queries
	foreign   Others
	measures  measures
	noted     map[string]bool
	now       clock.Time
	begun     clock.Time
	seen      bool
	order     uint64 // of arrivals
	serial    uint64 // of grants
	gaps      int
	gap       clock.Time // the end of the last one
	replaced  bool       // a server has been
	failed    bool       // a switch that is not on standby has stopped
	failedAt  clock.Time
	unsure    int64
	overrun   bool
	crossings map[crossing]crossed
}

// device is what the judge knows of a switch.
type device struct {
	*lock.Switch
	number    int
	who       cause.Switch
	ports     []port
	out       bool
	restarted bool
	takeover  clock.Time // when it last began to own locks that another may have granted; Never: not
	changed   clock.Time // of the placement
	started   clock.Time // since when its registers have what comes: it returned, or took over
	entered   uint64     // the packet that came last
	enteredAt clock.Time
}

// port is the wire of a port.
type port struct {
	Wire
	trunk, peer bool
	desk        desk
}

// New returns a judge.
func New(facts lock.Network) (*Judge, error) {
	j := &Judge{facts: facts, report: analyzers.NewReporter(Name, Rules()), hosts: make(map[netip.Addr]uint32),
		servers: make(map[netip.Addr]clock.Time), tenants: make(map[uint32]*tenant), noted: make(map[string]bool),
		measures: newMeasures(), foreign: NewOthers(), queries: make(queries), crossings: make(map[crossing]crossed)}
	j.tables = newTables()
	j.facts.Switches = slices.Clone(facts.Switches)
	if len(facts.Switches) > mostSwitches {
		return nil, fmt.Errorf("%d switches, want at most %d", len(facts.Switches), mostSwitches)
	}
	if facts.Demands != nil && len(facts.Demands) != len(facts.Switches) {
		return nil, fmt.Errorf("demands of %d switches, want %d", len(facts.Demands), len(facts.Switches))
	}
	for _, s := range facts.Servers {
		j.servers[s] = clock.Never
	}
	for i := range j.facts.Switches {
		s := &j.facts.Switches[i]
		if err := check(s); err != nil {
			return nil, fmt.Errorf("switch %d: %w", i, err)
		}
		s.PipelineMost = max(s.PipelineMost, s.Pipeline)
		s.RecirculationMost = max(s.RecirculationMost, s.Recirculation)
		s.Passes = max(s.Passes, 1)
		d := &device{Switch: s, number: i, who: cause.Switch(s.Name), takeover: clock.Never, changed: unknown,
			started: unknown, ports: make([]port, len(s.Ports))}
		for n, p := range s.Ports {
			d.ports[n] = port{Wire: NewWire(&p), trunk: p.Trunk, peer: p.Peer}
		}
		if s.Placed {
			own := make(map[uint32]int, len(s.Locks))
			for l, n := range s.Locks {
				own[l] = n
			}
			s.Locks = own
		}
		j.switches = append(j.switches, d)
		j.judgeAllocation(d)
	}
	if facts.Joined {
		j.gaps++
		j.note("orders and counts of locks that were in use before", "the observation began while traffic ran")
	}
	return j, nil
}

func check(s *lock.Switch) error {
	switch {
	case s.Pipeline < 0 || s.Recirculation < 0 || s.Lease < 0 || s.Poll < 0 || s.Period < 0 || s.Settled < 0:
		return fmt.Errorf("a negative duration")
	case s.Priorities < 0 || s.Priorities > 255:
		return fmt.Errorf("%d priorities, want 0 to 255", s.Priorities)
	}
	return nil
}

// Packet observes a packet. Packets come in order of time.
func (j *Judge) Packet(p *Packet) {
	if p.Switch < 0 || p.Switch >= len(j.switches) {
		return
	}
	if !j.seen {
		j.seen, j.begun = true, p.Time
	}
	j.now = max(j.now, p.Time)
	d := j.switches[p.Switch]
	j.measures.packets++
	j.expire()
	j.exorcise()
	j.retired()
	since := p.Time
	if p.Stage == trace.Left {
		since = d.sends(p, j.facts.Uncertainty)
	}
	if p.Stage == trace.Entered {
		j.comesBy(d, p)
	}
	if !p.Lock {
		j.others(d, p)
		return
	}
	switch p.Stage {
	case trace.Entered:
		d.entered, d.enteredAt = p.ID, p.Time
		j.enters(d, p)
	case trace.Left:
		j.leavesFor(d, p)
		j.leaves(d, p, since)
	case trace.Dropped:
		j.dropped(d, p)
	}
}

// unknown is a time before which nothing is known.
const unknown clock.Time = -1 << 62

// sends returns since when the port has been busy with what it sends now; unknown: there is no telling.
func (d *device) sends(p *Packet, slack clock.Duration) clock.Time {
	if p.Port < 0 || p.Port >= len(d.ports) || d.Pauses {
		return unknown
	}
	return d.ports[p.Port].Sends(p.Time, p.Size, slack)
}

func (d *device) trunk(port int) bool { return port >= 0 && port < len(d.ports) && d.ports[port].trunk }

// peer reports whether a port leads to the other switch of a pair.
func (d *device) peer(port int) bool { return port >= 0 && port < len(d.ports) && d.ports[port].peer }

// host numbers an address.
func (j *Judge) host(a netip.Addr) uint32 {
	n, ok := j.hosts[a]
	if !ok {
		if len(j.hosts) >= mostHosts {
			j.giveUp("there are too many addresses")
			return 0
		}
		n = uint32(len(j.hosts)) + 1
		j.hosts[a] = n
	}
	return n
}

// keyOf names the request at a switch that a packet of its client is about.
func (j *Judge) keyOf(d *device, h *netlock.Header, client netip.Addr) key {
	if h.Address.IsValid() {
		client = h.Address
	}
	return key{lock: h.Lock, tid: h.Transaction, client: j.host(client), thread: h.Client, sw: uint8(d.number)}
}

// mostSwitches is how many there are numbers for.
const mostSwitches = 256

func (j *Judge) enters(d *device, p *Packet) {
	h := &p.Header
	trunk := d.trunk(p.Port)
	if slices.Contains(j.facts.Databases, p.Src) {
		j.database(d, p)
		return
	}
	if j.toDatabase(p) {
		switch {
		case !d.OneRTT:
		case d.peer(p.Port) && h.Mark == netlock.Unmarked:
			j.inside(d, p, p.Src)
		case h.Op == netlock.GrantFromServer:
			j.grantedByServer(d, p, j.keyOf(d, h, p.Src))
		}
		return
	}
	if j.crosses(d, p) {
		return
	}
	switch h.Op {
	case netlock.Acquire:
		if h.Mark != netlock.BufferOnly || !trunk { // otherwise another switch has the lock
			j.asks(d, p, trunk)
		}
	case netlock.Release:
		switch {
		case !trunk:
			j.releases(d, p)
		case d.peer(p.Port):
			j.releasedBack(d, p)
		}
	case netlock.PushBack:
		j.pushedBack(d, p)
	case netlock.PushEmpty:
		j.pushAnswered(d, p)
	case netlock.GrantFromServer:
		j.grantedByServer(d, p, j.keyOf(d, h, p.Dst))
	case netlock.Reject, netlock.PushRequest:
	}
}

func (j *Judge) leaves(d *device, p *Packet, since clock.Time) {
	h := &p.Header
	if slices.Contains(j.facts.Databases, p.Src) {
		return
	}
	if j.toDatabase(p) {
		j.database(d, p)
		j.asksDatabase(d, p, since)
		return
	}
	switch {
	case p.DstPort == netlock.ReplyPort && d.peer(p.Port) && !answers(h): // what a server answers the other switch
	case p.DstPort == netlock.ReplyPort && h.Op == netlock.Reject:
		j.rejected(d, p)
	case p.DstPort == netlock.ReplyPort && (h.Op == netlock.Acquire || h.Op == netlock.PushBack ||
		h.Op == netlock.GrantFromServer):
		j.granted(d, p, j.keyOf(d, h, p.Dst), since)
	case h.Op == netlock.Acquire:
		j.forwarded(d, p)
	case h.Op == netlock.Release:
		j.endsRightly(d, p)
		j.departed(d, p)
	case h.Op == netlock.PushRequest:
		j.pushRequested(d, p)
	}
}

// dropped follows what becomes of requests that the switch drops: an answer counts as sent.
func (j *Judge) dropped(d *device, p *Packet) {
	h := &p.Header
	arrives := p.ID == d.entered && p.Time == d.enteredAt
	switch {
	case slices.Contains(j.facts.Databases, p.Src) || j.crossingLost(d, p) || d.out:
	case j.toDatabase(p):
		j.asksDatabase(d, p, unknown)
	case h.Op == netlock.PushBack && arrives:
		j.returnsAgain(d, p)
	case h.Op == netlock.PushBack && d.peer(p.Port) && !answers(h): // what a server answers the other switch
	case p.DstPort == netlock.ReplyPort && (h.Op == netlock.Acquire || h.Op == netlock.PushBack ||
		h.Op == netlock.GrantFromServer):
		j.granted(d, p, j.keyOf(d, h, p.Dst), unknown)
	case p.DstPort == netlock.ReplyPort && h.Op == netlock.Reject:
		j.rejected(d, p)
	case h.Op == netlock.Acquire && h.Mark != netlock.Unmarked:
		j.facts.Lossless = false
		j.forwarded(d, p)
	case h.Op == netlock.Acquire:
		j.withdrawn(d, p)
	case h.Op == netlock.Release:
		if l := j.lockOf(d.number, h.Lock); l != nil {
			l.tainted = true
		}
		j.departed(d, p)
	case h.Op == netlock.PushEmpty:
		if l := j.lockOf(d.number, h.Lock); l != nil {
			c := l.classAt(classOf(d, h))
			c.settled = c.settledBefore
			c.handed.at, c.emptied.at = unknown, unknown
		}
	case h.Op == netlock.PushRequest:
		if l := j.lockOf(d.number, h.Lock); l != nil {
			l.classAt(classOf(d, h)).requested = p.Time
		}
	}
}

// Gap says that packets at a switch were missed between the last one shown and now.
func (j *Judge) Gap(now clock.Time, sw int) {
	j.now = max(j.now, now)
	j.gaps++
	j.gap = now
	j.forget()
	j.foreign.forget()
	for _, t := range j.tenants {
		t.forget()
	}
	j.note("orders and counts of locks that were in use meanwhile", "packets at the switch were missed")
}

// Placed says that a switch has slots for a lock from now on; 0: the server owns it.
func (j *Judge) Placed(now clock.Time, sw int, id uint32, slots int) {
	d := j.switches[sw]
	d.changed = now
	j.now = max(j.now, now)
	if d.Locks == nil {
		d.Locks = make(map[uint32]int)
	}
	if slots == 0 {
		delete(d.Locks, id)
	} else {
		d.Locks[id] = slots
	}
	if l := j.lockOf(sw, id); l != nil {
		l.tainted = true
	}
}
