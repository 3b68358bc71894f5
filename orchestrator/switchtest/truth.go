package switchtest

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
	"candela.dev/candela/testbeds/virtual/switches/sai"
)

func switchAnalyzer() analyzer {
	return analyzer{
		name: forwarding.Name, rules: forwarding.Rules(), applies: func(*run) bool { return true },
		build: func(r *run) (judge, error) {
			t := &truth{r: r, report: analyzers.NewReporter(forwarding.Name, forwarding.Rules()), inside: make([]map[identity]*visit, r.net.Switches())}
			for i := range t.inside {
				t.inside[i] = make(map[identity]*visit)
			}
			return t, nil
		},
	}
}

// truth follows each packet through each switch by what is on the wire: it does not trust the simulator's packet numbers to tell a
// copy from its original. Memory is bounded by what is inside switches.
type truth struct {
	r      *run
	report *analyzers.Reporter
	inside []map[identity]*visit // by switch
	free   []*visit
}

// identity is what of a packet must survive a switch. Retransmissions have the same: visits count them.
type identity struct {
	src, dst   fabric.HostID
	flow       uint32
	protocol   fabric.Protocol
	kind       ndp.Kind
	connection uint32
	seq        uint64
}

// visit is a packet inside a switch, or several that look alike.
type visit struct {
	n    int   // how many are inside
	size int32 // of the last that came in
	id   uint64
}

func identify(p *fabric.Packet) identity {
	k := identity{src: p.Src, dst: p.Dst, flow: p.Flow, protocol: p.Protocol, kind: p.NDP.Kind, connection: p.NDP.Connection, seq: p.Rank}
	if p.Protocol == fabric.NDP {
		k.seq = uint64(p.NDP.Seq)<<32 | uint64(p.NDP.Counter)
	}
	return k
}

func (t *truth) name() string { return forwarding.Name }

func (t *truth) changed(clock.Time, int, parameter.Values) {}

// observe implements judge.
func (t *truth) observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if at.Host || at.Port >= t.r.net.Switch(at.Node).Ports() && at.Stage != fabric.Dropped || p.Flags&fabric.Notification != 0 {
		return
	}
	switch at.Stage {
	case fabric.Ingress:
		t.enter(t.inside[at.Node], p)
	case fabric.Egress:
		t.leave(at, now, p)
	case fabric.Dropped:
		// Of what a switch drops as trimmed a copy is still to leave, also of a copy that another switch made; whoever drops a copy of
		// its own drops the last of it.
		if at.Reason == sai.ReasonTrimmed {
			return
		}
		if at.Reason < fabric.ReasonOwn || p.Flags&(fabric.Trimmed|fabric.Mirrored) != 0 {
			t.forget(t.inside[at.Node], identify(p))
		}
	}
}

func (t *truth) enter(inside map[identity]*visit, p *fabric.Packet) {
	k := identify(p)
	v := inside[k]
	if v == nil {
		if n := len(t.free); n > 0 {
			v, t.free = t.free[n-1], t.free[:n-1]
		} else {
			v = new(visit)
		}
		inside[k] = v
	}
	v.n++
	v.size, v.id = p.Size, p.ID
}

func (t *truth) forget(inside map[identity]*visit, k identity) {
	v := inside[k]
	if v == nil {
		return
	}
	if v.n--; v.n == 0 {
		*v = visit{}
		t.free = append(t.free, v)
		delete(inside, k)
	}
}

func (t *truth) leave(at fabric.Point, now clock.Time, p *fabric.Packet) {
	inside, k := t.inside[at.Node], identify(p)
	v := inside[k]
	if v == nil && p.Flags&fabric.Returned != 0 { // turned round in this switch
		k.src, k.dst = k.dst, k.src
		v = inside[k]
	}
	switch {
	case v == nil && p.Flags&fabric.Trimmed != 0:
		t.find(forwarding.UnmatchedHeader, at, now, p, "the header of a packet that came in", "nothing like it is inside")
	case v == nil:
		t.find(forwarding.UnmatchedPacket, at, now, p, "a packet that came in", "nothing like it is inside")
	case p.Flags&fabric.Trimmed == 0 && p.Size != v.size && v.n == 1:
		t.find(forwarding.PacketChanged, at, now, p, fmt.Sprintf("%d bytes, as it came", v.size), fmt.Sprintf("%d bytes", p.Size))
	}
	if v != nil {
		t.forget(inside, k)
	}
}

// find reports a finding about a packet that leaves.
func (t *truth) find(rule string, at fabric.Point, now clock.Time, p *fabric.Packet, want, got string) {
	flow := t.r.ledger.flowOf(p)
	if !t.report.Wants(rule, flow) {
		return
	}
	t.report.Report(analyzers.Finding{
		Rule: rule, Connection: flow, Packets: []uint64{p.ID}, TimeNS: now.Nanoseconds(), PSN: int64(p.NDP.Seq),
		Expected: want, Actual: got,
		Message: fmt.Sprintf("switch %s port %d sends a packet from host %d to %d (%s %s): %s", t.r.net.Switch(at.Node).Name(), at.Port, p.Src, p.Dst,
			p.Kind(), p.Flags, got),
	})
}

func (t *truth) finish(*run) (analyzers.Result, error) {
	return analyzers.Result{Findings: t.report.Findings()}, nil
}
