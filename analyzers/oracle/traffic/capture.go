package traffic

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Session is the traffic of several connections between two hosts.
type Session struct {
	Connections []trace.Connection
	// Settled says that every connection came to rest with all messages completed.
	Settled bool
	frames  []sessionFrame // by the instant at the switch
}

// sessionFrame is a frame with the connection that it belongs to and its number among all that its host sent.
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
	Scenario    Scenario
}

// NewSession simulates a session. It is a function of seed and options.
func NewSession(seed uint64, o Options) *Session {
	rng := rand.New(rand.NewPCG(seed, 0x73657373696f6e))
	s := &Session{Settled: true}
	hosts := [2]netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1}), netip.AddrFrom4([4]byte{10, 0, 0, 2})}
	qpn := packet.QPN(0x100 + rng.IntN(1<<20))
	for i := range o.Connections {
		sc := o.Scenario
		sc.Seed, sc.StartNS = rng.Uint64(), rng.Int64N(200_000)
		sc.Messages = max(1, 2*o.Packets/o.Connections/(sc.Packets+2))
		c := trace.Connection{Index: i + 1, MTU: oracle.MTU, Verbs: sc.Verbs.words()}
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
			s.frames = append(s.frames, sessionFrame{Frame: frames[j], connection: i})
		}
	}
	slices.SortStableFunc(s.frames, func(a, b sessionFrame) int { return cmp.Compare(a.Sent, b.Sent) })
	var numbers [2]uint16
	for i := range s.frames {
		n := &numbers[direction(&s.frames[i].Packet)]
		*n++
		s.frames[i].number = *n
	}
	slices.SortStableFunc(s.frames, func(a, b sessionFrame) int { return cmp.Compare(a.Switch, b.Switch) })
	return s
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
		Send: {"send", "send-imm", "send-invalidate"}, Write: {"write", "write-imm"}, Read: {"read"}, Atomic: {"compare-swap", "fetch-add"},
	} {
		if v&verb != 0 {
			list = append(list, names...)
		}
	}
	slices.Sort(list)
	return list
}

// Frames returns how many frames the hosts sent.
func (s *Session) Frames() int { return len(s.frames) }

// A Tap is where frames are seen and what is wrong with what was seen.
type Tap struct {
	Place Place
	// OffsetNS and DriftPPM are those of its clock.
	OffsetNS int64
	DriftPPM float64
	Missing  float64 // share of frames that it misses
	// Doubled: every frame is recorded a second time soon after, by a router's other port (TTL one less) if Routed.
	Doubled, Routed bool
}

// Place is where a tap is.
type Place int

// Places.
const (
	AtSwitch    Place = iota // frames as they reach the switch
	BehindIt                 // frames as they leave the switch
	AtRequester              // at the requester's host: what it sends and what arrives
	AtResponder
)

type sighting struct {
	at    int64
	frame *sessionFrame
	ttl   uint8
}

// epoch is when sessions take place, in ns since 1970.
const epoch = 1_700_000_000_000_000_000

// Write writes the capture that a tap makes of the session.
func (s *Session) Write(w io.Writer, seed uint64, tap Tap) error {
	rng := rand.New(rand.NewPCG(seed, 0x746170))
	var all []sighting
	for i := range s.frames {
		f := &s.frames[i]
		at, ok := tap.Place.sees(&f.Frame)
		if !ok || rng.Float64() < tap.Missing {
			continue
		}
		all = append(all, sighting{at, f, 64})
		if tap.Doubled {
			again := sighting{at + 100 + rng.Int64N(1500), f, 64}
			if tap.Routed {
				again.ttl--
			}
			all = append(all, again)
		}
	}
	slices.SortStableFunc(all, func(a, b sighting) int { return cmp.Compare(a.at, b.at) })
	out := trace.NewPcapWriter(w, "capture", 0)
	var buf []byte
	for i := range all {
		buf = s.bytes(buf[:0], &all[i])
		clock := epoch + tap.OffsetNS + all[i].at + int64(float64(all[i].at)*tap.DriftPPM/1e6)
		if err := out.Write(clock, buf, len(buf)); err != nil {
			return err
		}
	}
	return out.Flush()
}

func (p Place) sees(f *Frame) (at int64, ok bool) {
	switch {
	case p == AtSwitch:
		return f.Switch, true
	case p == BehindIt:
		return f.Passed, !f.Lost
	case (p == AtRequester) != f.Back:
		return f.Sent, true
	default:
		return f.Arrived, !f.Lost
	}
}

// WriteMirror writes the mirror trace of an injector at the switch.
func (s *Session) WriteMirror(w io.Writer) error {
	out := trace.NewPcapWriter(w, "mirror", 0)
	var buf []byte
	for i := range s.frames {
		f := &s.frames[i]
		buf = s.bytes(buf[:0], &sighting{f.Switch, f, 64})
		m := trace.MirrorMeta{Seq: uint64(i + 1), TimeNS: 1_000_000 + f.Switch, UDPDstPort: packet.Port}
		if f.Lost {
			m.Event = trace.EventDrop
		}
		if err := trace.EncodeMirror(buf, m); err != nil {
			return err
		}
		if err := out.Write(epoch+f.Switch, buf, len(buf)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// bytes appends the frame that a tap sees.
func (s *Session) bytes(b []byte, at *sighting) []byte {
	f := at.frame
	c := &s.Connections[f.connection]
	from, to := &c.Requester, &c.Responder
	if f.Back {
		from, to = to, from
	}
	p := packet.Packet{
		Derived: true, HasUDP: true,
		Eth: packet.Ethernet{Dst: mac(to), Src: mac(from), Type: packet.EtherTypeIPv4},
		IP: packet.IP{
			Version: 4, TOS: uint8(packet.ECT0), TTL: at.ttl, Protocol: packet.ProtocolUDP, ID: f.number, Src: from.IP, Dst: to.IP,
		},
		UDP: packet.UDP{SrcPort: 0xc000 | uint16(from.QPN)&0x3fff, DstPort: packet.Port},
		BTH: packet.BTH{
			Opcode: f.Op, PKey: trace.DefaultPKey, DestQP: to.QPN, AckReq: f.AckReq, MigReq: true,
			PSN: packet.NewPSN(int64(c.Requester.IPSN) + int64(f.PSN)),
		},
		Headers: packet.HasBTH | f.Op.Headers(),
		RETH:    packet.RETH{VA: f.VA, RKey: 0x1000 + uint32(c.Index), Length: uint32(f.Count) * oracle.MTU},
		AETH:    packet.AETH{Syndrome: f.Syndrome, MSN: uint32(f.MSN) & 0xffffff},
		ImmDt:   uint32(f.PSN), IETH: 0x9000 + uint32(f.PSN),
		AtomicETH:    packet.AtomicETH{VA: 0x4000_0000 + 8*uint64(f.PSN), RKey: 0x1000 + uint32(c.Index), Swap: uint64(f.PSN), Compare: 1},
		AtomicAckETH: f.VA,
	}
	if verb := f.Op.Verb(); verb == packet.VerbSend || verb == packet.VerbWrite || f.Op.IsReadResponse() {
		p.Payload = contents(f.PSN)
	}
	return p.AppendTo(b)
}

func mac(s *trace.Side) packet.MAC {
	ip := s.IP.As4()
	return packet.MAC{2, 0, ip[0], ip[1], ip[2], ip[3]}
}

// contents returns the data that the packet with this PSN carries, always the same.
func contents(psn int) []byte {
	b := make([]byte, oracle.MTU)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(psn)*0x9e3779b97f4a7c15+uint64(i))
	}
	return b
}

// WriteConnections writes the connections document of the session.
func (s *Session) WriteConnections(w io.Writer) error {
	c, err := trace.NewConnections(s.Connections)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	return c.Write(w)
}
