// Package netchain judges switches that have all locks of a lock manager, exclusive ones without queues, by what their
// ports show: the baseline of the reference model (netlock.md, section 13), by those rules of its section 10 that hold
// for it. Package lock judges switches with queues.
//
// If there are more lock ids than locks, neighbouring ids share one. A transaction owns a lock from the first grant of
// one of its ids to the release of the last id that it uses, or to the end of the lease, which begins with the first
// grant. Requests of others are rejected at once. So packets are decided in the order in which they enter, and the
// judge follows each lock through releases and requests; answers show what was decided.
package netchain

import (
	"maps"
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	locks "candela.dev/candela/analyzers/lock"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// unknown is a time before which nothing is known.
const unknown clock.Time = -1 << 62

// Judge judges all switches of a test.
type Judge struct {
	report   *analyzers.Reporter
	switches []*device
	hosts    map[netip.Addr]uint32
	others   locks.Others
	measures measures
	noted    map[string]bool
	now      clock.Time
}

// device is what the judge knows of a switch.
type device struct {
	*lock.NetChain
	who       cause.Switch
	share     int64
	wires     []locks.Wire
	cells     map[int64]*cell  // by id divided by share
	asked     map[key]*request // the first copy that has no answer
	open      []*request       // by arrival: those that may have one in time
	overdue   []*request       // those that had none in time
	transits  map[transit]int  // packets of the lock manager that are not for the switch, and are inside
	suspects  []suspect        // for rule owner
	otherwise bool             // locks that were held were granted also without a release
	out       bool
	returned  clock.Time // unknown: it never was out of service
	entered   uint64     // the packet that came last
	enteredAt clock.Time
}

// transit names packets that pass the switch.
type transit struct {
	key
	answer bool
	op     netlock.Op
	mark   netlock.Mark
}

func (j *Judge) transit(p *locks.Packet) transit {
	h, client := &p.Header, p.Src
	if forClients(p) {
		client = p.Dst
	}
	return transit{j.keyOf(h, client), forClients(p), h.Op, h.Mark}
}

// New returns a judge.
func New(switches []lock.NetChain) *Judge {
	j := &Judge{report: analyzers.NewReporter(Name, Rules()), hosts: make(map[netip.Addr]uint32),
		others: locks.NewOthers(), noted: make(map[string]bool), measures: newMeasures()}
	for i := range switches {
		of := switches[i]
		d := &device{NetChain: &of, who: cause.Switch(of.Name), share: of.Share(), returned: unknown}
		for n := range of.Ports {
			p := of.Ports[n]
			if of.Pauses {
				p.Rate = 0
			}
			d.wires = append(d.wires, locks.NewWire(&p))
		}
		d.forget()
		j.switches = append(j.switches, d)
	}
	return j
}

// forget drops all that is known of a switch: it has lost its registers.
func (d *device) forget() {
	d.cells, d.asked, d.transits = make(map[int64]*cell), make(map[key]*request), make(map[transit]int)
	d.open, d.overdue = nil, nil
}

// Packet observes a packet. Packets come in order of time.
func (j *Judge) Packet(p *locks.Packet) {
	if p.Switch < 0 || p.Switch >= len(j.switches) {
		return
	}
	j.now = max(j.now, p.Time)
	j.measures.packets++
	d := j.switches[p.Switch]
	since := unknown
	if p.Stage == trace.Left && p.Port >= 0 && p.Port < len(d.wires) {
		since = d.wires[p.Port].Sends(p.Time, p.Size, 0)
	}
	switch {
	case d.out:
		return
	case !p.Lock:
		j.other(d, p)
		return
	}
	j.wait(d)
	switch p.Stage {
	case trace.Entered:
		d.entered, d.enteredAt = p.ID, p.Time
		j.enters(d, p)
	case trace.Left:
		j.leaves(d, p, since)
	case trace.Dropped:
		j.dropped(d, p)
	}
}

// client returns the number of an address.
func (j *Judge) client(a netip.Addr) uint32 {
	n, ok := j.hosts[a]
	if !ok {
		n = uint32(len(j.hosts)) + 1
		j.hosts[a] = n
	}
	return n
}

func (j *Judge) keyOf(h *netlock.Header, client netip.Addr) key {
	return key{transaction{j.client(client), h.Transaction, h.Client}, h.Lock}
}

func (d *device) trunk(port int) bool { return port < 0 || port >= len(d.Ports) || d.Ports[port].Trunk }

func (d *device) place(id uint32, packet uint64) place { return place{d.who, id, packet} }

// forClients reports whether a packet is an answer.
func forClients(p *locks.Packet) bool { return p.DstPort == netlock.ReplyPort }

func (j *Judge) enters(d *device, p *locks.Packet) {
	h := &p.Header
	switch {
	case forClients(p) && h.Op == netlock.GrantFromServer:
		if !d.trunk(p.Port) {
			j.tell(byServer(d.place(h.Lock, p.ID)), p.Time, p.ID)
		}
	case forClients(p), h.Mark != netlock.Unmarked: // what a client asks a database, and its answer
		d.transits[j.transit(p)]++
	case h.Op == netlock.Acquire:
		j.asks(d, p)
	case h.Op == netlock.Release:
		j.releases(d, p)
	}
}

// passes reports whether a packet that leaves came as it is.
func (j *Judge) passes(d *device, p *locks.Packet) bool {
	of := j.transit(p)
	n := d.transits[of]
	switch {
	case n > 1:
		d.transits[of] = n - 1
	case n == 1:
		delete(d.transits, of)
	}
	return n > 0
}

func (j *Judge) leaves(d *device, p *locks.Packet, since clock.Time) {
	h := &p.Header
	switch {
	case forClients(p) && h.Op == netlock.GrantFromServer, j.passes(d, p):
	case forClients(p):
		j.answers(d, p, since)
	case h.Op == netlock.Acquire || h.Op == netlock.Release:
		j.tell(sentAway(d.place(h.Lock, p.ID), h.Op.String()), p.Time, p.ID)
		if r := d.match(j.keyOf(h, p.Src), h, unknown); r != nil && h.Op == netlock.Acquire {
			j.close(d, r, sent)
		}
	}
}

// dropped follows what the switch drops: an answer counts as sent, and a request counts, unless the switch waits for
// leases to end.
func (j *Judge) dropped(d *device, p *locks.Packet) {
	if p.ID != d.entered || p.Time != d.enteredAt {
		j.leaves(d, p, unknown)
		return
	}
	switch h := &p.Header; {
	case j.passes(d, p):
	case h.Op == netlock.Acquire && !forClients(p) && (p.Outage || d.recovers(p.Time)):
		for r := d.asked[j.keyOf(h, p.Src)]; r != nil; r = r.next {
			if r.id == p.ID {
				j.measures.withdrawn++
				j.close(d, r, withdrawn)
				break
			}
		}
	}
}

// recovers reports whether a switch that has lost its registers may not know whether locks are held.
func (d *device) recovers(at clock.Time) bool {
	return d.returned != unknown && d.Lease > 0 && at <= d.returned.Add(d.Lease+d.Poll+d.Pipeline)
}

// quiet returns until when what was to leave by the port at which a packet came has left: an answer goes back there.
func (d *device) quiet(port int, now clock.Time) clock.Time {
	if !d.trunk(port) {
		return d.wires[port].QuietSince(now)
	}
	for i := range d.wires {
		now = min(now, d.wires[i].QuietSince(now))
	}
	return now
}

// wait finds the requests whose answers are overdue.
func (j *Judge) wait(d *device) {
	n := 0
	for _, r := range d.open {
		if r.answer == open {
			if r.at.Add(d.Pipeline) >= d.quiet(r.port, j.now) {
				break
			}
			r.answer = overdue
			d.overdue = append(d.overdue, r)
			j.settle(d, r.cell)
		}
		n++
	}
	if d.open = d.open[n:]; len(d.overdue) > mostOverdue {
		j.lost(d)
	}
}

// mostOverdue bounds memory: of requests that were overdue before answers are no longer expected.
const mostOverdue = 1 << 14

// ends judges what nothing will explain any more.
func (j *Judge) ends(d *device) {
	j.wait(d)
	j.lost(d)
	for _, n := range slices.Sorted(maps.Keys(d.cells)) {
		j.forgotten(d, d.cells[n])
	}
}

// lost judges that requests never get an answer.
func (j *Judge) lost(d *device) {
	for _, r := range d.overdue {
		if r.answer == overdue {
			d.unlink(r)
			j.tell(unanswered(d.place(r.key.lock, r.id)), r.at, r.id)
		}
	}
	d.overdue = nil
}

// other judges what a switch does to packets of others.
func (j *Judge) other(d *device, p *locks.Packet) {
	if p.Flow == 0 || p.Digest == 0 {
		return
	}
	j.measures.others++
	switch what, with := j.others.Packet(p); what {
	case locks.Changed:
		j.tell(changed(d.who, p.ID), p.Time, p.ID)
	case locks.Reordered:
		j.tell(reordered(d.who, p.ID, with), p.Time, p.ID, with)
	case locks.Unfollowed:
		j.note("packets of others", "there are too many flows")
	case locks.Untouched:
	}
}

// Stopping says that a switch goes out of service: its registers are lost.
func (j *Judge) Stopping(now clock.Time, sw int) {
	j.now = max(j.now, now)
	d := j.switches[sw]
	j.ends(d)
	d.forget()
	d.out = true
}

// Started says that it returns.
func (j *Judge) Started(now clock.Time, sw int) {
	j.now = max(j.now, now)
	d := j.switches[sw]
	d.out, d.returned = false, now
}

// note says once that something is not judged.
func (j *Judge) note(what, why string) {
	if !j.noted[what] {
		j.noted[what] = true
		j.tell(notJudged(what, why), j.now)
	}
}

// tell reports a finding about packets.
func (j *Judge) tell(c cause.Cause, at clock.Time, packets ...uint64) {
	if j.report.Wants(c.Rule, 0) {
		j.report.Tell(c, analyzers.Finding{Packets: packets, TimeNS: at.Nanoseconds(), Message: c.Sentence()})
	}
}
