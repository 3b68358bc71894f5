package sai_test

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	judge "candela.dev/candela/analyzers/sai"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/sai"
)

var (
	sender   = netip.MustParseAddr("10.0.0.2")
	receiver = netip.MustParseAddr("10.0.0.1")
)

// settings: queue 1 of both ports trims to 256 bytes with DSCP 48 by queue 6; queue 0 drops.
func settings() sai.Settings {
	s := sai.Settings{
		Trimming: sai.Trimming{Size: 256, DSCP: 48, Queue: 6},
		Profiles: []sai.Profile{{Name: "trim", Action: sai.DropAndTrim, Limit: 10_000}},
		Bindings: []sai.Binding{{Port: "Ethernet0", Queue: 1, Profile: "trim"},
			{Port: "Ethernet1", Queue: 1, Profile: "trim"}},
		DSCPTC: map[int]int{}, TCQueue: map[int]int{},
	}
	for i := range 64 {
		s.DSCPTC[i] = i >> 3
	}
	for i := range 8 {
		s.TCQueue[i] = i
	}
	return s
}

func newAnalyzer(change func(*judge.Config)) *judge.Analyzer {
	c := judge.Config{
		Ports: []string{"Ethernet0", "Ethernet1"}, Settings: []judge.Change{{Settings: settings()}}, Strict: true,
		Closed: true,
		PortOf: func(a netip.Addr) (int, bool) { return 0, a == receiver },
	}
	if change != nil {
		change(&c)
	}
	return judge.New(c)
}

// packet is what arrives unless a test says otherwise: 1500 bytes in queue 1.
func packet(number uint64, ns int64) sai.Observation {
	return sai.Observation{
		ID: number, TimePS: ns * 1000, Side: sai.Before, Port: 1, Queue: sai.UnknownQueue, Signature: number, Src: sender,
		Dst:     receiver,
		SrcPort: 1000, DstPort: 4791, Protocol: 17, DSCP: 8, TTL: 64, Length: 1500, IPLength: 1486,
	}
}

// whole is how p leaves untrimmed, copied as a copy.
func whole(p sai.Observation, ns int64) sai.Observation {
	p.Side, p.TimePS, p.Port, p.TTL = sai.After, ns*1000, 0, p.TTL-1
	p.ID += 1000
	return p
}

func copied(p sai.Observation, ns int64) sai.Observation {
	p = whole(p, ns)
	p.Length = min(p.Length, 256)
	p.IPLength, p.DSCP = p.Length-14, 48
	return p
}

// violated feeds observations and returns the rules that are violated.
func violated(a *judge.Analyzer, counters sai.Snapshot, list ...sai.Observation) []string {
	for i := range list {
		a.Observe(&list[i])
	}
	var rules []string
	for _, f := range book.Keep(a.Finish(counters).Findings) {
		if f.Severity == analyzers.Violation && !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	slices.Sort(rules)
	return rules
}

func TestWhatCopiesLookLike(t *testing.T) {
	tests := []struct {
		name string
		hurt func(arrived, left *sai.Observation)
		want string
	}{
		{"a proper copy", func(_, _ *sai.Observation) {}, ""},
		{"the hop is not counted", func(_, o *sai.Observation) { o.TTL++ }, ""},
		{"the copy is marked CE", func(a, o *sai.Observation) { a.ECN, o.ECN = 2, 3 }, ""},
		{"a packet that is not ECN-capable is marked", func(_, o *sai.Observation) { o.ECN = 3 }, "sai.headers"},
		{"cut too late", func(_, o *sai.Observation) { o.Length, o.IPLength = 270, 256 }, "sai.trim-size"},
		{"cut too early", func(_, o *sai.Observation) { o.Length, o.IPLength = 128, 114 }, "sai.trim-size"},
		{"not cut at all", func(_, o *sai.Observation) { o.Length, o.IPLength = 1500, 1486 }, "sai.trim-size"},
		{"the original's DSCP", func(_, o *sai.Observation) { o.DSCP = 8 }, "sai.dscp"},
		{"whole with a DSCP of its own", func(_, o *sai.Observation) { o.Length, o.IPLength, o.DSCP = 1500, 1486, 7 },
			"sai.whole-unchanged"},
		{"another queue", func(_, o *sai.Observation) { o.Queue = 5 }, "sai.queue"},
		{"the trim queue", func(_, o *sai.Observation) { o.Queue = 6 }, ""},
		{"the old IP length", func(_, o *sai.Observation) { o.IPLength = 1486 }, "sai.ip-length"},
		{"a wrong checksum", func(_, o *sai.Observation) { o.ChecksumWrong = true }, "sai.ip-checksum"},
		{"back to the sender", func(_, o *sai.Observation) { o.Src, o.Dst = o.Dst, o.Src }, "sai.forward-only"},
		{"another destination", func(_, o *sai.Observation) { o.Dst = netip.MustParseAddr("10.0.0.9") }, "sai.headers"},
		{"other ports", func(_, o *sai.Observation) { o.SrcPort++ }, "sai.headers"},
		{"other bytes", func(a, o *sai.Observation) { a.Prefix, o.Prefix = 1, 2 }, "sai.headers"},
		{"a TTL of another packet", func(_, o *sai.Observation) { o.TTL -= 5 }, "sai.headers"},
		{"nothing that arrived", func(_, o *sai.Observation) { o.Signature = 77 }, "sai.once"},
		{"of a queue that drops", func(a, _ *sai.Observation) { a.DSCP = 0 }, "sai.action"},
		{"a runt that is cut", func(a, o *sai.Observation) { a.Length, a.IPLength, o.Length, o.IPLength = 200, 186, 62, 48 },
			"sai.runt"},
		{"a runt that is whole", func(a, o *sai.Observation) {
			a.Length, a.IPLength, o.Length, o.IPLength = 200, 186, 200,
				186
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := packet(1, 100)
			c := copied(p, 300)
			test.hurt(&p, &c)
			got := violated(newAnalyzer(nil), sai.Snapshot{}, p, c)
			if test.want == "" && len(got) > 0 || test.want != "" && !slices.Equal(got, []string{test.want}) {
				t.Errorf("violated %v, want %q", got, test.want)
			}
		})
	}
}

func TestOrderOfCopies(t *testing.T) {
	a, b := packet(1, 100), packet(2, 200)
	other := packet(3, 90)
	other.Port = 0
	tests := []struct {
		name   string
		change func(*judge.Config)
		list   []sai.Observation
		want   []string
	}{
		{"in order", nil, []sai.Observation{a, b, copied(a, 300), copied(b, 320)}, nil},
		{"the later first", nil, []sai.Observation{a, b, copied(b, 300), copied(a, 320)}, []string{"sai.order"}},
		{"of another ingress port", nil, []sai.Observation{other, a, copied(a, 300), copied(other, 320)}, nil},
		{"data begins while the copy waits", nil, []sai.Observation{a, b, whole(a, 250), copied(b, 320)},
			[]string{"sai.overtake"}},
		{"data that had begun", nil, []sai.Observation{a, b, whole(a, 150), copied(b, 320)}, nil},
		{"data at the very instant", nil, []sai.Observation{a, b, whole(a, 200), copied(b, 320)}, nil},
		{"no strict priority", func(c *judge.Config) { c.Strict = false },
			[]sai.Observation{a, b, whole(a, 250), copied(b, 320)}, nil},
		{"a trim queue with a rate of its own", func(c *judge.Config) {
			c.Settings[0].Settings.Shapers = []sai.Shaper{{Port: "Ethernet0", Queue: 6, BPS: 1}}
		}, []sai.Observation{a, b, whole(a, 250), copied(b, 320)}, nil},
		{"neighbours that pause", func(c *judge.Config) { c.Settings[0].Settings.PFC = true },
			[]sai.Observation{a, b, whole(a, 250), copied(b, 320)}, nil},
		{"a switch that needs time", func(c *judge.Config) { c.ReactionPS = 100_000 },
			[]sai.Observation{a, b, whole(a, 250), copied(b, 320)}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := violated(newAnalyzer(test.change), sai.Snapshot{}, test.list...); !slices.Equal(got, test.want) {
				t.Errorf("violated %v, want %v", got, test.want)
			}
		})
	}
}

// repeated is p coming a second time.
func repeated(p sai.Observation, ns int64) sai.Observation {
	p.ID, p.TimePS = p.ID+500, ns*1000
	return p
}

// cut is p as an earlier switch has trimmed it.
func cut(p sai.Observation) sai.Observation {
	p.Length, p.IPLength, p.DSCP = 256, 242, 48
	return p
}

func TestOfPacketsThatLookTheSameEitherMayBeMeant(t *testing.T) {
	p, next := packet(1, 100), packet(2, 200)
	short := cut(repeated(p, 300))
	slow := func(c *judge.Config) { c.Strict = false }
	drops := func(c *judge.Config) { c.Settings[0].Settings.Profiles[0].Action = sai.Drop }
	tests := []struct {
		name   string
		change func(*judge.Config)
		list   []sai.Observation
		want   []string
	}{
		{"the later leaves whole, then the copy of the earlier, then one that came between", slow,
			[]sai.Observation{p, next, repeated(p, 300), whole(p, 400), copied(p, 500), copied(next, 510)}, nil},
		{"the order of others is judged as ever", slow,
			[]sai.Observation{p, repeated(p, 110), next, packet(3, 210), whole(p, 400), copied(p, 500),
				copied(packet(3, 210), 510), copied(next, 520)}, []string{"sai.order"}},
		{"when the first pair has gone, the order is judged again", slow,
			[]sai.Observation{p, repeated(p, 110), whole(p, 120), copied(p, 130),
				repeated(p, 300), packet(3, 310), copied(packet(3, 310), 400), copied(p, 410)}, []string{"sai.order"}},
		{"one was cut before: the whole one leaves first", slow,
			[]sai.Observation{short, repeated(p, 310), whole(p, 400), whole(short, 410)}, nil},
		{"one was cut before: it leaves first", slow, []sai.Observation{p, short, whole(short, 400), whole(p, 410)}, nil},
		{"one was cut before, the other is cut here", slow,
			[]sai.Observation{short, repeated(p, 310), at(copied(p, 400), 0, 6), at(whole(short, 410), 0, 6)}, nil},
		{"one was cut before, and what leaves is like neither", slow,
			[]sai.Observation{short, repeated(p, 310), whole(short, 400), whole(cutTo(p, 700), 410)},
			[]string{"sai.dscp", "sai.trim-size"}},
		{"more leave than came", slow,
			[]sai.Observation{short, repeated(p, 310), whole(p, 400), whole(short, 410), whole(p, 420)}, []string{"sai.once"}},
		{"neither may be cut", drops, []sai.Observation{p, repeated(p, 110), copied(p, 400), whole(p, 410)},
			[]string{"sai.action"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := violated(newAnalyzer(test.change), sai.Snapshot{}, test.list...); !slices.Equal(got, test.want) {
				t.Errorf("violated %v, want %v", got, test.want)
			}
		})
	}
}

func cutTo(p sai.Observation, length int) sai.Observation {
	p.Length, p.IPLength = length, length-14
	return p
}

func TestCountersAreNotHeldAgainstAGuessWhichPacketLeft(t *testing.T) {
	na := sai.Unavailable
	p := packet(1, 100)
	short := cut(repeated(p, 90))
	trimmedHere := copied(p, 200)
	counts := func(dropped, trim, sent sai.Count) sai.Queue {
		return sai.Queue{Packets: na, Bytes: na, DroppedPackets: dropped, DroppedBytes: na, Trim: trim, TxTrim: sent,
			DroppedTrim: 0}
	}
	for _, c := range []struct {
		name string
		q    sai.Queue
		list []sai.Observation
		want []string
	}{
		{"the copy leaves, the packet that was cut before is lost", counts(1, 1, 1), []sai.Observation{short, p, trimmedHere},
			nil},
		{"the same of packets that look alike", counts(0, 0, 0),
			[]sai.Observation{p, repeated(p, 110), trimmedHere, whole(p, 300)},
			[]string{"sai.counter-dropped", "sai.counter-sent", "sai.counter-trim", "sai.interface"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot(c.q)
			if len(c.want) > 0 {
				s.Ports[0].OutDiscards = 0
			}
			got := violated(newAnalyzer(func(c *judge.Config) { c.Closed, c.Strict = false, false }), s, c.list...)
			if !slices.Equal(got, c.want) {
				t.Errorf("violated %v, want %v", got, c.want)
			}
		})
	}
}

func TestNearAChangeEitherSettingWillDo(t *testing.T) {
	off := settings()
	off.Profiles[0].Action = sai.Drop
	late, early := packet(1, 150), packet(2, 400)
	for _, test := range []struct {
		name  string
		grace int64
		p     sai.Observation
		want  []string
	}{
		{"within the grace", 100_000, late, nil},
		{"without grace", 0, late, []string{"sai.action"}},
		{"long after", 100_000, early, []string{"sai.action"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAnalyzer(func(c *judge.Config) {
				c.GracePS, c.Settings = test.grace, append(c.Settings, judge.Change{FromPS: 100_000, Settings: off})
			})
			if got := violated(a, sai.Snapshot{}, test.p, copied(test.p, 500)); !slices.Equal(got, test.want) {
				t.Errorf("violated %v, want %v", got, test.want)
			}
		})
	}
}

// snapshot returns counters of two ports that fit queue 1 of port 0.
func snapshot(q sai.Queue) sai.Snapshot {
	na := sai.Unavailable
	s := sai.Snapshot{Schema: sai.Schema, TxTrim: na, DroppedTrim: na}
	for _, name := range []string{"Ethernet0", "Ethernet1"} {
		s.Ports = append(s.Ports, sai.Port{
			Name: name, InPackets: na, InOctets: na, OutPackets: na, OutOctets: na, OutDiscards: na, Trim: na, TxTrim: na,
			DroppedTrim: na,
			Queues:      make([]sai.Queue, 8),
		})
		for i := range s.Ports[0].Queues {
			s.Ports[len(s.Ports)-1].Queues[i].Packets = na
		}
	}
	s.Ports[0].Queues[1] = q
	return s
}

func TestLossesAndCounters(t *testing.T) {
	na := sai.Unavailable
	a, b, c := packet(1, 100), packet(2, 200), packet(3, 300)
	seen := []sai.Observation{a, b, copied(b, 250), c, whole(a, 400)} // c is lost
	counts := func(dropped, trim, sent, lost sai.Count) sai.Queue {
		return sai.Queue{Packets: na, Bytes: na, DroppedPackets: dropped, DroppedBytes: na, Trim: trim, TxTrim: sent,
			DroppedTrim: lost}
	}
	tests := []struct {
		name string
		q    sai.Queue
		want []string
	}{
		{"the copy was lost", counts(2, 2, 1, 1), nil},
		{"no counters at all", counts(na, na, na, na), nil},
		{"the packet was dropped untrimmed", counts(2, 1, 1, 0), []string{"sai.counter-trim", "sai.untrimmed"}},
		{"the copy vanished", counts(2, 2, 1, 0), []string{"sai.conservation", "sai.silent-loss"}},
		{"the packet vanished", counts(1, 1, 1, 0), []string{"sai.counter-dropped", "sai.counter-trim", "sai.untrimmed"}},
		{"a copy too many was lost", counts(2, 3, 1, 2),
			[]string{"sai.counter-dropped", "sai.counter-lost", "sai.counter-trim"}},
		{"no counter of lost copies", counts(2, 2, 1, na), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := violated(newAnalyzer(func(c *judge.Config) { c.Closed = false }), snapshot(test.q), seen...)
			if !slices.Equal(got, test.want) {
				t.Errorf("violated %v, want %v", got, test.want)
			}
		})
	}
}

// Two copies are lost in the trim queue as its link fails, a third is refused there: a switch may count the two as lost
// or not, but neither one of them nor others.
func TestCopiesThatAFailedLinkLostAreCountedAsLostAllOrNone(t *testing.T) {
	// nobody knows the port of trunks: what is lost there is not judged, so that only the sum remains
	unknown := func(c *judge.Config) { c.PortOf = func(netip.Addr) (int, bool) { return 0, false } }
	for _, c := range []struct {
		name    string
		flushed int
		lost    sai.Count
		want    []string
	}{
		{"none of them", 2, 1, nil},
		{"all", 2, 3, nil},
		{"one of them", 2, 2, []string{"sai.conservation"}},
		{"nor the one that was refused", 2, 0, []string{"sai.conservation"}},
		{"more than were trimmed", 2, 4, []string{"sai.conservation"}},
		{"no link failed", 0, 1, []string{"sai.conservation"}},
		{"a link failed while one waited", 1, 1, []string{"sai.conservation"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAnalyzer(unknown)
			var arrivals []sai.Observation
			for i := range uint64(5) {
				p := packet(i+1, 100+int64(i))
				arrivals = append(arrivals, p)
				a.Observe(&p)
			}
			for i := range c.flushed {
				p := copied(arrivals[i], 200)
				p.Queue = 6
				a.Flush(&p)
			}
			original := whole(arrivals[4], 200) // it waits, too
			original.Queue = 1
			a.Flush(&original)
			left := copied(arrivals[3], 300)
			na := sai.Unavailable
			got := violated(a, snapshot(sai.Queue{Packets: na, Bytes: na, DroppedPackets: 4, DroppedBytes: na, Trim: 4, TxTrim: 1,
				DroppedTrim: c.lost}), left)
			if !slices.Equal(got, c.want) {
				t.Errorf("violated %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhatIsNotKnownIsNotBlamed(t *testing.T) {
	lost := packet(1, 100)
	for name, change := range map[string]func(*judge.Config){
		"an unknown egress port": func(c *judge.Config) { c.PortOf, c.Closed = nil, false },
		"packets may be inside":  func(c *judge.Config) { c.Undrained = true },
		"an exempt packet's loss": func(c *judge.Config) {
			c.Settings[0].Settings.Rules = []sai.Rule{{Name: "r", Source: netip.PrefixFrom(sender, 32)}}
			c.Closed = false
		},
	} {
		q := sai.Queue{Packets: sai.Unavailable, Bytes: sai.Unavailable, DroppedPackets: 1, DroppedBytes: 1500}
		if got := violated(newAnalyzer(change), snapshot(q), lost); got != nil {
			t.Errorf("%s: violated %v", name, got)
		}
	}
}

func TestMemoryIsBoundedByWhatIsPending(t *testing.T) {
	a := newAnalyzer(func(c *judge.Config) { c.MaxPending = 100 })
	p := packet(0, 0)
	a.Observe(&p)
	observe := func(packets int) {
		for range packets {
			p.Signature++
			p.TimePS += 1000
			a.Observe(&p)
		}
	}
	observe(1000)
	before := runtimetest.Heap()
	observe(50_000)
	if grown := runtimetest.Heap() - before; grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes with 50,000 packets that are lost; 100 may be pending", grown)
	}
	runtime.KeepAlive(a)
}

func FuzzObserve(f *testing.F) {
	f.Add([]byte{1, 0, 1, 8, 200, 2, 0, 1, 48, 100, 2, 0, 9, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		a := newAnalyzer(func(c *judge.Config) { c.MaxPending = 8 })
		var at int64
		for ; len(b) >= 5; b = b[5:] {
			at += int64(b[4])
			o := packet(uint64(b[2]%16), at)
			o.Side, o.Port, o.DSCP, o.Queue = sai.Side(b[0]%4), int(b[1])-1, b[3], int(b[0]%12)-2
			o.Length = int(binary.BigEndian.Uint16(b[3:]))
			a.Observe(&o)
		}
		causetest.Declared(t, judge.Causes(), a.Finish(snapshot(sai.Queue{})).Findings)
	})
}

func BenchmarkObserve(b *testing.B) {
	a := newAnalyzer(nil)
	p := packet(0, 0)
	b.ReportAllocs()
	for b.Loop() {
		p.Signature++
		p.TimePS += 100_000
		a.Observe(&p)
		c := copied(p, p.TimePS/1000+50)
		a.Observe(&c)
	}
}

// octetCounters are those of a switch that one packet of so many bytes has crossed, from port 1 to port 0.
func octetCounters(in, out, acl int64) sai.Snapshot {
	none := make([]sai.Queue, 8)
	return sai.Snapshot{Schema: sai.Schema, ACL: []sai.ACL{{Rule: "r", Packets: 1, Bytes: sai.Count(acl)}},
		Ports: []sai.Port{
			{Name: "Ethernet0", OutPackets: 1, OutOctets: sai.Count(out), Queues: none},
			{Name: "Ethernet1", InPackets: 1, InOctets: sai.Count(in), Queues: none},
		}}
}

func TestOctetsOfShortFramesAndBesidePauseFrames(t *testing.T) {
	for _, c := range []struct {
		name         string
		length       int
		pfc          bool
		in, out, acl int64
		blamed       bool
	}{
		{"a long frame with its FCS", 100, false, 104, 104, 100, false},
		{"a long frame, counted as if padded", 100, false, 104, 104, 104 + 8, true},
		{"a short frame, as the tap saw it", 50, false, 50, 50, 50, false},
		{"a short frame, padded", 50, false, 60, 60, 60, false},
		{"a short frame, padded, with its FCS", 50, false, 64, 64, 64, false},
		{"a short frame, padded to more than the least one", 50, false, 65, 64, 64, true},
		{"three pause frames and the packet, all with FCS", 100, true, 104, 104 + 3*64, 100, false},
		{"three pause frames and the packet, all without FCS", 100, true, 100 + 3*60, 100, 100, false},
		{"half a pause frame", 100, true, 104, 104 + 32, 100, true},
		{"pause frames where there is no flow control", 100, false, 104, 104 + 3*64, 100, true},
		{"less than the packet", 100, true, 40, 104, 100, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAnalyzer(func(config *judge.Config) {
				s := &config.Settings[0].Settings
				s.PFC = c.pfc
				s.Rules = []sai.Rule{{Name: "r", Source: netip.PrefixFrom(sender, 32)}}
			})
			p := packet(1, 0)
			p.Length, p.IPLength = c.length, c.length-14
			p.DSCP = 0
			got := violated(a, octetCounters(c.in, c.out, c.acl), p, whole(p, 100))
			if slices.Contains(got, "sai.octets") != c.blamed || len(got) > 1 {
				t.Errorf("violated %v", got)
			}
		})
	}
}

func TestACopyIsBlamedOnlyIfItsQueueSurelyHadRoom(t *testing.T) {
	for _, c := range []struct {
		name         string
		pool, before int // bytes of the buffer, packets that arrived before and leave later
		limit        int
		want         []string
	}{
		{"the queue was empty", 1_000_000, 0, 20_000, []string{"sai.room"}},
		{"it held less than half", 1_000_000, 2, 20_000, []string{"sai.room"}},
		{"it held about half", 1_000_000, 6, 20_000, nil},
		{"the buffer may have been full", 12_000, 0, 20_000, nil},
		{"the buffer is not known", 0, 0, 20_000, nil},
		{"there is no limit but the buffer", 1_000_000, 20, 0, []string{"sai.room"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAnalyzer(func(config *judge.Config) {
				config.PoolBytes, config.Strict = c.pool, false
				config.Settings[0].Settings.Profiles[0].Limit = c.limit
			})
			var list []sai.Observation
			for i := range c.before {
				list = append(list, packet(uint64(i+1), 0))
			}
			p := packet(100, 10)
			list = append(list, p, copied(p, 20))
			for i := range c.before {
				list = append(list, whole(packet(uint64(i+1), 0), int64(100+i)))
			}
			if got := violated(a, sai.Snapshot{}, list...); !slices.Equal(got, c.want) {
				t.Errorf("violated %v, want %v", got, c.want)
			}
		})
	}
}

func TestPacketsLeaveByTheirPortAndTheirQueue(t *testing.T) {
	p := packet(1, 0)
	for _, c := range []struct {
		name string
		left sai.Observation
		want []string
	}{
		{"whole, by its queue", at(whole(p, 10), 0, 1), nil},
		{"whole, by the trim queue", at(whole(p, 10), 0, 6), []string{"sai.whole-unchanged"}},
		{"whole, by another queue", at(whole(p, 10), 0, 2), []string{"sai.whole-unchanged"}},
		{"whole, by another port", at(whole(p, 10), 1, 1), []string{"sai.forward-only"}},
		{"a copy by the trim queue", at(copied(p, 10), 0, 6), nil},
		{"a copy by another port", at(copied(p, 10), 1, 6), []string{"sai.forward-only"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := violated(newAnalyzer(nil), sai.Snapshot{}, p, c.left); !slices.Equal(got, c.want) {
				t.Errorf("violated %v, want %v", got, c.want)
			}
		})
	}
}

func at(o sai.Observation, port, queue int) sai.Observation {
	o.Port, o.Queue = port, queue
	return o
}
