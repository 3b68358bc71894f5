package traffic

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Session is the traffic of several connections between two hosts.
type Session struct {
	Recording
	// Settled says that every connection came to rest with all messages completed.
	Settled bool

	mtu  int
	ends []trace.Connection // by life of a queue pair: those of Connections, then those that were reopened
}

// sessionFrame is a frame with its connection and its number among all that its host sent.
type sessionFrame struct {
	Frame
	connection int
	number     uint16
}

// Options say what the connections of a session look like.
type Options struct {
	Connections int
	Packets     int  // about as many in all
	EqualIPSN   bool // every initial PSN is 0
	MTU         int  // 0: 1024
	// Reopened: some queue pairs are reset after a while and reused with other initial PSNs, which the connections
	// document does not show.
	Reopened bool
	Scenario Scenario
}

// NewSession simulates a session. It is a function of seed and options.
func NewSession(seed uint64, o Options) *Session {
	rng := rand.New(rand.NewPCG(seed, 0x73657373696f6e))
	s := &Session{Settled: true, mtu: cmp.Or(o.MTU, oracle.MTU)}
	var all []sessionFrame
	var started []Scenario
	hosts := [2]netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1}), netip.AddrFrom4([4]byte{10, 0, 0, 2})}
	qpn := packet.QPN(0x100 + rng.IntN(1<<20))
	for i := range o.Connections {
		sc := o.Scenario
		sc.Seed, sc.StartNS = rng.Uint64(), rng.Int64N(200_000)
		sc.Messages = max(1, 2*o.Packets/o.Connections/(sc.Packets+2))
		c := trace.Connection{Index: i + 1, MTU: s.mtu, Verbs: sc.Verbs.words()}
		for end, side := range []*trace.Side{&c.Requester, &c.Responder} {
			qpn += packet.QPN(1 + rng.IntN(5))
			*side = trace.Side{IP: hosts[end], QPN: qpn}
			if !o.EqualIPSN {
				side.IPSN = packet.PSN(rng.IntN(1 << 24))
			}
		}
		n := run(sc)
		frames := n.frames
		s.Settled = s.Settled && n.budget > 0 && !n.failed()
		s.Connections = append(s.Connections, c)
		for j := range frames {
			all = append(all, sessionFrame{Frame: frames[j], connection: i})
		}
		started = append(started, sc)
	}
	s.ends = slices.Clone(s.Connections)
	if o.Reopened {
		all = s.reopen(rng, started, all)
	}
	slices.SortStableFunc(all, func(a, b sessionFrame) int { return cmp.Compare(a.Sent, b.Sent) })
	var numbers [2]uint16
	type sender struct{ connection, direction int }
	latest := map[sender]uint16{}
	for i := range all {
		d := direction(&all[i].Packet)
		from := sender{all[i].connection, d}
		if !all[i].Copy {
			numbers[d]++
			latest[from] = numbers[d]
		}
		all[i].number = latest[from]
	}
	slices.SortStableFunc(all, func(a, b sessionFrame) int { return cmp.Compare(a.Switch, b.Switch) })
	for i := range all {
		s.record(&all[i])
	}
	return s
}

// reopen uses some of the queue pairs once more, after a while.
func (s *Session) reopen(rng *rand.Rand, started []Scenario, all []sessionFrame) []sessionFrame {
	for i, sc := range started {
		if i > 0 && rng.IntN(2) == 0 {
			continue
		}
		end := int64(0)
		for j := range all {
			if all[j].connection == i {
				end = max(end, all[j].Sent, all[j].Arrived)
			}
		}
		sc.Seed, sc.StartNS = rng.Uint64(), end+sc.TimeoutNS+rng.Int64N(5_000_000)
		c := s.Connections[i]
		c.Requester.IPSN, c.Responder.IPSN = packet.PSN(rng.IntN(1<<24)), packet.PSN(rng.IntN(1<<24))
		n := run(sc)
		s.Settled = s.Settled && n.budget > 0 && !n.failed()
		for j := range n.frames {
			all = append(all, sessionFrame{Frame: n.frames[j], connection: len(s.ends)})
		}
		s.ends = append(s.ends, c)
	}
	return all
}

// record notes a frame at each place that it passes.
func (s *Session) record(f *sessionFrame) {
	bytes := s.bytes(nil, f)
	if !f.Copy {
		s.AddMirror(f.Switch, bytes, f.Event)
	}
	for place := range places {
		if at, ok := place.sees(&f.Frame); ok {
			s.Add(place, at, bytes)
		}
		if at, ok := place.seesCopy(&f.Frame); ok {
			s.Add(place, at, bytes)
		}
	}
}

func direction(p *oracle.Packet) int {
	if p.Back {
		return 1
	}
	return 0
}

// words names the operations as connection documents do.
func (v Verbs) words() []string {
	var list []string
	for verb, names := range map[Verbs][]string{
		Send: {"send", "send-imm", "send-invalidate"}, Write: {"write", "write-imm"}, Read: {"read"},
		Atomic: {"compare-swap", "fetch-add"},
	} {
		if v&verb != 0 {
			list = append(list, names...)
		}
	}
	slices.Sort(list)
	return list
}

// bytes appends the frame as it is on the wire.
func (s *Session) bytes(b []byte, f *sessionFrame) []byte {
	c := &s.ends[f.connection]
	from, to := &c.Requester, &c.Responder
	if f.Back {
		from, to = to, from
	}
	ipsn := c.Requester.IPSN
	if f.Op.IsRequest() == f.Back {
		ipsn = c.Responder.IPSN
	}
	p := packet.Packet{
		Derived: true, HasUDP: true,
		Eth: packet.Ethernet{Dst: mac(to), Src: mac(from), Type: packet.EtherTypeIPv4},
		IP: packet.IP{
			Version: 4, TOS: uint8(packet.ECT0), TTL: ttl, Protocol: packet.ProtocolUDP, ID: f.number, Src: from.IP, Dst: to.IP,
		},
		UDP: packet.UDP{SrcPort: 0xc000 | uint16(from.QPN)&0x3fff, DstPort: packet.Port},
		BTH: packet.BTH{
			Opcode: f.Op, PKey: trace.DefaultPKey, DestQP: to.QPN, AckReq: f.AckReq, MigReq: true,
			PSN: packet.NewPSN(int64(ipsn) + int64(f.PSN)), PadCount: uint8(s.lacking(f.Lacks) & 3),
		},
		Headers: packet.HasBTH | f.Op.Headers(),
		RETH: packet.RETH{VA: s.address(f.VA), RKey: 0x1000 + uint32(c.Index),
			Length: uint32(f.Count*s.mtu - s.lacking(f.Short))},
		AETH:  packet.AETH{Syndrome: f.Syndrome, MSN: uint32(f.MSN) & 0xffffff},
		ImmDt: uint32(f.PSN), IETH: 0x9000 + uint32(f.PSN),
		AtomicETH: packet.AtomicETH{VA: 0x4000_0000 + 8*uint64(f.PSN), RKey: 0x1000 + uint32(c.Index), Swap: uint64(f.PSN),
			Compare: 1},
		AtomicAckETH: f.VA,
	}
	if verb := f.Op.Verb(); verb == packet.VerbSend || verb == packet.VerbWrite || f.Op.IsReadResponse() {
		p.Payload = contents(f.PSN)[:s.mtu-s.lacking(f.Lacks)]
	}
	return p.AppendTo(b)
}

// lacking scales bytes that a packet lacks of a path MTU of 1024: all of them, none, or some.
func (s *Session) lacking(bytes int) int {
	switch bytes {
	case 0:
		return 0
	case oracle.MTU:
		return s.mtu
	default:
		return 1 + (bytes-1)*(s.mtu-1)/(oracle.MTU-1)
	}
}

// address scales the address of a PSN at a path MTU of 1024.
func (s *Session) address(va uint64) uint64 {
	base := oracle.Address(0)
	return base + (va-base)/oracle.MTU*uint64(s.mtu)
}

func mac(s *trace.Side) packet.MAC {
	ip := s.IP.As4()
	return packet.MAC{2, 0, ip[0], ip[1], ip[2], ip[3]}
}

// contents returns the data that the packet with this PSN carries, always the same.
func contents(psn int) []byte {
	b := make([]byte, 4096)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(psn)*0x9e3779b97f4a7c15+uint64(i))
	}
	return b
}
