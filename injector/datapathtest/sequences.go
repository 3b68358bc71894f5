package datapathtest

import (
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/packet"
)

// A Step changes the tables while nothing passes, and lets frames arrive.
type Step struct {
	Remove  []Entry // by table and key
	Entries []Entry // inserted or, if they are there, modified
	In      []Frame
	Reopens bool // opens a gate that is open
}

// A Sequence is a case in several steps on one switch, which starts with [Base] entries.
type Sequence struct {
	Name  string
	Steps []Step
}

func (s Step) apply(d switchd.Datapath) error {
	for _, e := range s.Remove {
		d.Unset(e.Table, e.Key)
	}
	return write(d, s.Entries)
}

// compareCounters returns the counters that differ from the reference's: hits of every entry that a step names, and
// those of ports and sessions. With arrived, the bytes of roce_tx are not compared: the target counts packets as they
// arrived.
func (s Sequence) compareCounters(want, got switchd.Datapath, arrived bool) error {
	for _, step := range s.Steps {
		for _, e := range step.Entries {
			switch e.Table {
			case p4.TableEvent, p4.TableEventAny, p4.TableControlEvent, p4.TableWatchedEvent:
				if w, g := want.Hits(e.Table, e.Key), got.Hits(e.Table, e.Key); w != g {
					return fmt.Errorf("table %d, key %v: %d hits, want %d", e.Table, e.Key, g, w)
				}
			}
		}
	}
	for _, c := range []struct {
		name string
		id   uint32
		n    int
	}{{"roce_rx", p4.CounterRoCERx, Ports}, {"roce_tx", p4.CounterRoCETx, Ports},
		{"mirrored", p4.CounterMirrored, sessionB + 1}} {
		for i := range c.n {
			wantPackets, wantBytes := want.Counter(c.id, i)
			gotPackets, gotBytes := got.Counter(c.id, i)
			if arrived && c.id == p4.CounterRoCETx {
				wantBytes = gotBytes
			}
			if wantPackets != gotPackets || wantBytes != gotBytes {
				return fmt.Errorf("counter %s[%d]: %d packets, %d bytes; want %d, %d", c.name, i, gotPackets, gotBytes, wantPackets,
					wantBytes)
			}
		}
	}
	return nil
}

var (
	closeGate = Entry{Table: p4.TableMirror, Default: true, Action: p4.NewAction(p4.ActionNoAction)}
	openGate  = Entry{Table: p4.TableMirror, Default: true, Action: p4.NewAction(p4.ActionOpen, 2)}
)

// Sequences returns the cases in several steps.
func Sequences() []Sequence {
	var list []Sequence
	for _, v := range []version{4, 6} {
		list = append(list, sequences(v)...)
	}
	return append(list, tagged(), trafficClasses())
}

func sequences(v version) []Sequence {
	name := func(s string) string { return fmt.Sprintf("IPv%d: %s", v, s) }
	twice := append(message(v, 1, 5), message(v, 3, 5)...)
	second := connection(v, 0)
	for i := range second {
		second[i].Action.Params[3] = epoch + 1
	}
	arrival := []Entry{
		{Table: p4.TableWatch, Key: p4.KeyOf(flow, 0, 0, uint64(ipsn.Add(2))), Action: p4.NewAction(p4.ActionSetWatch, 17)},
		{Table: p4.TableWatchedEvent, Key: p4.KeyOf(17, 2), Action: ecn},
	}
	ack := control(v, packet.Acknowledge, 1, packet.SyndromeAck)
	nth := Entry{Table: p4.TableControlEvent, Key: p4.KeyOf(answer, uint64(packet.ClassAck), 2), Action: drop}
	return []Sequence{
		{name("a gate that opens again starts with the first turn and goes on with the numbers"), []Step{
			{Entries: connection(v, 0), In: message(v, 1, 3)},
			{Entries: []Entry{closeGate}, In: message(v, 4, 5)},
			{Entries: []Entry{openGate}, In: message(v, 6, 8)},
			{Entries: []Entry{openGate}, In: message(v, 9, 11), Reopens: true},
		}},
		{name("a new epoch forgets rounds, ordinals and arrivals"), []Step{
			{Entries: append(append(connection(v, 0), event(4, 2, drop), nth), arrival...), In: append(twice, ack)},
			{Entries: second, In: append(append([]Frame{}, twice...), ack, ack, ack)},
		}},
		{name("entries change and go while packets pass"), []Step{
			{Entries: append(connection(v, 0), eventAny(3, ecn)), In: message(v, 1, 4)},
			{Entries: []Entry{eventAny(3, drop)}, In: message(v, 3, 4)},
			{Remove: []Entry{eventAny(3, drop)}, In: message(v, 3, 4)},
			{Entries: []Entry{eventAny(3, corrupt), eventAny(4, ecn)}, In: message(v, 3, 4)},
			{Remove: connection(v, 0), In: message(v, 3, 4)},
			{Entries: connection(v, 0), In: message(v, 3, 4)},
		}},
		{name("a host moves to another port, and away"), []Step{
			{Entries: append(connection(v, 0), forwarding(HostB, HostA)), In: message(v, 1, 2)},
			{Remove: []Entry{forwarding(HostB, HostA)}, In: message(v, 3, 4)},
			{Entries: []Entry{forwarding(HostB, HostB)}, In: message(v, 5, 6)},
		}},
		{name("a watch that goes counts no more"), []Step{
			{Entries: append(connection(v, 0), arrival...), In: message(v, 1, 3)},
			{Remove: arrival[:1], In: message(v, 3, 3)},
			{Entries: arrival[:1], In: append(message(v, 3, 3), message(v, 3, 3)...)},
		}},
	}
}

func forwarding(host int, port uint64) Entry {
	return Entry{Table: p4.TableL2Forward, Key: p4.KeyOf(MAC(host).Uint48()), Action: p4.NewAction(p4.ActionForward, port)}
}

// withTag puts an 802.1Q tag into a frame.
func withTag(f Frame) Frame {
	b := append([]byte(nil), f.Data[:12]...)
	b = append(b, 0x81, 0x00, 0x60, 0x2a)
	return Frame{f.Port, append(b, f.Data[12:]...)}
}

// tagged runs every event over tagged packets.
func tagged() Sequence {
	s := Sequence{Name: "packets with a tag"}
	for _, v := range []version{4, 6} {
		for _, a := range []p4.Action{drop, ecn, corrupt, trim(60, 5, 7), trim(128, 5, packet.TrimSetDSCP)} {
			var in []Frame
			for _, f := range message(v, 1, 3) {
				in = append(in, withTag(f))
			}
			in = append(in, withTag(control(v, packet.Acknowledge, 1, packet.SyndromeAck)))
			s.Steps = append(s.Steps, Step{Entries: append(connection(v, 0), eventAny(2, a)), In: in})
		}
	}
	return s
}

// trafficClasses are all values of the traffic class, whose bits are in two bytes of an IPv6 header, with extreme flow
// labels.
func trafficClasses() Sequence {
	s := Sequence{Name: "IPv6: traffic classes and flow labels at the edges"}
	for _, a := range []p4.Action{ecn, trim(64, 63, 7), trim(64, 0, packet.TrimSetDSCP)} {
		var in []Frame
		for _, class := range []byte{0x00, 0x01, 0x02, 0x03, 0x0f, 0x10, 0xf0, 0xfc, 0xff} {
			for _, label := range []byte{0, 0xf} {
				f := data(6, packet.WriteOnly, 1, 256)
				f.Data[14] = 0x60 | class>>4
				f.Data[15] = class<<4 | label
				in = append(in, f)
			}
		}
		s.Steps = append(s.Steps, Step{Entries: append(connection(6, 0), eventAny(1, a)), In: in})
	}
	return s
}

// Random returns a sequence of random entries and frames, some of them damaged; the same seed gives the same one.
func Random(seed uint64) Sequence {
	rng := rand.New(rand.NewPCG(seed, 0xda7a))
	s := Sequence{Name: fmt.Sprintf("random sequence, seed %d", seed)}
	var there []Entry
	for range 3 {
		v := version(4 + 2*rng.IntN(2))
		var options uint64
		if rng.IntN(3) == 0 {
			options = p4.FlowMessageScope
		}
		step := Step{Entries: connection(v, options)}
		for range rng.IntN(6) {
			step.Entries = append(step.Entries, randomEntry(rng, options))
		}
		for _, e := range there {
			if rng.IntN(3) == 0 {
				step.Remove = append(step.Remove, e)
			}
		}
		there = step.Entries
		for _, port := range []uint16{HostA, HostB} { // one after the other
			for range 5 + rng.IntN(15) {
				step.In = append(step.In, randomFrame(rng, v, port))
			}
		}
		s.Steps = append(s.Steps, step)
	}
	return s
}

func randomEntry(rng *rand.Rand, options uint64) Entry {
	psn := uint64(ipsn.Add(rng.IntN(6)))
	actions := []p4.Action{drop, ecn, corrupt, trim(rng.IntN(300), rng.IntN(64), packet.TrimFlags(rng.IntN(8)))}
	a := actions[rng.IntN(len(actions))]
	of := flow | options
	switch rng.IntN(5) {
	case 0:
		return Entry{Table: p4.TableEventAny, Key: p4.KeyOf(of, 0, psn), Action: a}
	case 1:
		return Entry{Table: p4.TableControlEvent,
			Key: p4.KeyOf(answer|options, uint64(packet.ClassAck)+rng.Uint64N(4), 1+rng.Uint64N(3)), Action: a}
	case 2:
		return Entry{Table: p4.TableWatch, Key: p4.KeyOf(of, 0, 0, psn), Action: p4.NewAction(p4.ActionSetWatch, 3)}
	case 3:
		return Entry{Table: p4.TableWatchedEvent, Key: p4.KeyOf(3, 1+rng.Uint64N(3)), Action: a}
	}
	return Entry{Table: p4.TableEvent, Key: p4.KeyOf(of, 0, psn, 1+rng.Uint64N(3)), Action: a}
}

// randomFrame returns a packet of the connection; a few have a random bit flipped or are cut.
func randomFrame(rng *rand.Rand, v version, port uint16) Frame {
	var f Frame
	switch psn, kind := 1+rng.IntN(6), rng.IntN(4); {
	case port == HostB && kind > 0:
		f = control(v, packet.Acknowledge, psn, packet.Syndrome(rng.IntN(256)))
	case port == HostB:
		f = control(v, packet.CNP, psn, 0)
	case kind == 0:
		f = read(v, psn)
	default:
		opcodes := []packet.Opcode{packet.WriteFirst, packet.WriteMiddle, packet.WriteLast, packet.WriteOnly, packet.SendOnly}
		f = data(v, opcodes[rng.IntN(len(opcodes))], psn, rng.IntN(600))
	}
	if rng.IntN(5) == 0 {
		f = withTag(f)
	}
	switch rng.IntN(10) {
	case 0:
		// Neither addresses nor EtherType: a receiving kernel hands frames of unknown protocols to packet sockets after the
		// others of a batch.
		const from = 18
		bit := 8*from + rng.IntN(8*(len(f.Data)-from))
		f.Data[bit/8] ^= 1 << (bit % 8)
	case 1:
		f.Data = f.Data[:max(20, rng.IntN(len(f.Data)))] // the kernel drops tagged frames that are shorter
	}
	return f
}
