package switchtest

import (
	"fmt"
	"slices"

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

// visit is a packet inside a switch, or several that look alike: a retransmission can meet the header of a segment that another switch cut.
type visit struct{ sizes []int32 } // with which they came in

// take removes the packet that leaves or is dropped with a size, and reports whether one came in with it. A packet of another size can only
// be the header of the largest.
func (v *visit) take(size int32) bool {
	i := slices.Index(v.sizes, size)
	same := i >= 0
	if !same {
		i = slices.Index(v.sizes, slices.Max(v.sizes))
	}
	v.sizes = slices.Delete(v.sizes, i, i+1)
	return same
}

func identify(p *fabric.Packet) identity {
	k := identity{src: p.Src, dst: p.Dst, flow: p.Flow, protocol: p.Protocol, kind: p.NDP.Kind, connection: p.NDP.Connection, seq: uint64(p.Number)}
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
			t.forget(t.inside[at.Node], identify(p), p.Size)
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
	v.sizes = append(v.sizes, p.Size)
}

// forget removes a packet that is inside no more, and reports whether one came in with its size.
func (t *truth) forget(inside map[identity]*visit, k identity, size int32) bool {
	v := inside[k]
	if v == nil {
		return false
	}
	same := v.take(size)
	if len(v.sizes) == 0 {
		t.free = append(t.free, v)
		delete(inside, k)
	}
	return same
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
	default:
		came := slices.Max(v.sizes)
		if same := t.forget(inside, k, p.Size); !same && p.Flags&fabric.Trimmed == 0 {
			t.find(forwarding.PacketChanged, at, now, p, fmt.Sprintf("%d bytes, as it came", came), fmt.Sprintf("%d bytes", p.Size))
		}
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
