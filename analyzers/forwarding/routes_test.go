package forwarding_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/clock"
)

// twoPaths is switch 0 with host 0 at port 2, switch 3 with host 1, and switches 1 and 2 between them. The trunk
// between 0 and 1 fails at 90 us, which routes learn at 100 us; it is back at 190 us, which they learn at 200 us. Host
// 2 is at switch 4, which nothing leads to.
type twoPaths struct {
	view
	spread analyzers.Spread
}

func us(n int) clock.Time { return clock.Time(0).Add(clock.Duration(n) * clock.Microsecond) }

func (twoPaths) Switches() int                    { return 1 }
func (twoPaths) Number(int) (number int, ok bool) { return 0, true }
func (v twoPaths) Network() *analyzers.Network {
	return &analyzers.Network{
		Peers:   [][]int{{1, 2, -1}, {0, 3}, {0, 3}, {1, 2, -1}, {-1}},
		Homes:   []analyzers.Home{{Switch: 0, Port: 2}, {Switch: 3, Port: 2}, {Switch: 4}},
		Learned: []analyzers.Learned{{At: us(100), Trunk: [2]int{0, 1}, Failed: true}, {At: us(200), Trunk: [2]int{1, 0}}},
		Outages: []analyzers.Outage{{Trunk: [2]int{1, 0}, From: us(90), To: us(190)}},
		Spread:  v.spread,
	}
}

func (twoPaths) Reason(_ int, code uint8) analyzers.DropReason {
	return analyzers.DropReason{Name: []string{"tail", "trunk-down", "unreachable", "trunk-failed"}[code]}
}

func TestPacketsLeaveByShortestPaths(t *testing.T) {
	const tail, down, lost, waited = 0, 1, 2, 3
	type visit struct {
		in, out   int // us
		port, dst int
		dropped   bool
		why       uint8
	}
	for _, c := range []struct {
		name string
		visit
		want string
	}{
		{"one path", visit{1, 2, 0, 1, false, 0}, ""},
		{"the other", visit{1, 2, 1, 1, false, 0}, ""},
		{"to the host itself", visit{1, 2, 2, 0, false, 0}, ""},
		{"to a host elsewhere", visit{1, 2, 2, 1, false, 0}, forwarding.WrongPort},
		{"away from its host", visit{1, 2, 1, 0, false, 0}, forwarding.WrongPort},
		{"to the failed trunk, before routes know", visit{98, 99, 0, 1, true, down}, ""},
		{"to a trunk that has not failed yet", visit{88, 89, 0, 1, true, down}, forwarding.InService},
		{"as it fails", visit{90, 90, 0, 1, true, down}, ""},
		{"waiting as it fails", visit{80, 90, 0, 1, true, waited}, ""},
		{"waiting before it fails", visit{80, 89, 0, 1, true, waited}, forwarding.InService},
		{"to a trunk that is back", visit{201, 201, 0, 1, true, down}, forwarding.InService},
		{"to a trunk that never failed", visit{95, 95, 1, 1, true, down}, forwarding.InService},
		{"to a host, as if by a trunk", visit{95, 95, 2, 0, true, down}, forwarding.InService},
		{"as routes learn", visit{100, 100, 0, 1, true, down}, ""},
		{"afterwards", visit{101, 102, 0, 1, true, down}, forwarding.WrongPort},
		{"routed before, left after", visit{99, 150, 0, 1, false, 0}, ""},
		{"full queue of a failed trunk", visit{101, 102, 0, 1, true, tail}, ""},
		{"inside as it comes back", visit{150, 200, 0, 1, false, 0}, ""},
		{"it is back", visit{201, 202, 0, 1, false, 0}, ""},
		{"unreachable, though the other path is there", visit{150, 151, 0, 1, true, lost}, forwarding.PathMissed},
		{"a host that nothing leads to", visit{150, 151, 0, 2, true, lost}, ""},
		{"a host that is not there", visit{150, 151, 0, 9, true, lost}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := forwarding.New(twoPaths{})
			if err != nil {
				t.Fatal(err)
			}
			p := packet(enter, 1, 1500, 0)
			p.Src, p.Dst, p.Time = 0, uint32(c.dst), us(c.in)
			a.Observe(&p)
			p.Time, p.Port, p.Stage = us(c.out), c.port, leave
			if c.dropped {
				p.Stage, p.Reason = drop, c.why
			}
			a.Observe(&p)
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if found := rules(t, a); !slices.Equal(found, want) {
				t.Errorf("found %v, want %v", found, want)
			}
		})
	}
}

// deflecting is twoPaths with switches that may deflect.
type deflecting struct{ twoPaths }

func (v deflecting) Network() *analyzers.Network {
	n := v.twoPaths.Network()
	n.Deflects = true
	return n
}

// A packet may be deflected to any switch, and never to another host.
func TestDeflectionLeadsToSwitchesAlone(t *testing.T) {
	for port, want := range map[int][]string{0: nil, 1: nil, 2: {forwarding.WrongPort}} {
		a, err := forwarding.New(deflecting{twoPaths{spread: analyzers.SpreadUnknown}})
		if err != nil {
			t.Fatal(err)
		}
		p := packet(enter, 1, 1500, 0)
		p.Src, p.Dst, p.Port = 0, 1, 0
		a.Observe(&p)
		p.Stage, p.Port = leave, port
		a.Observe(&p)
		p.Stage, p.Port, p.Dst, p.ID, p.Number = enter, 0, 0, 2, 2 // its host is here
		a.Observe(&p)
		p.Stage, p.Port = leave, port
		a.Observe(&p)
		if port == 2 { // which is right for the second packet
			want = want[:1]
		}
		if found := rules(t, a); !slices.Equal(found, want) {
			t.Errorf("port %d: %v, want %v", port, found, want)
		}
	}
}

func TestEachOfEqualPathsIsUsed(t *testing.T) {
	for _, c := range []struct {
		name     string
		spread   analyzers.Spread
		from, to int // us: packets, one in each, by port 1 alone
		flows    int
		want     int // findings
	}{
		{"of few packets", analyzers.SpreadPackets, 201, 229, 1, 0},
		{"of many", analyzers.SpreadPackets, 201, 230, 1, 1},
		{"that came in while the other was down", analyzers.SpreadPackets, 110, 199, 1, 0},
		{"of one flow", analyzers.SpreadFlows, 201, 400, 1, 0},
		{"of many flows", analyzers.SpreadFlows, 201, 400, 40, 1},
		{"that hosts choose", analyzers.SpreadUnknown, 201, 400, 40, 0},
		{"before and after", analyzers.SpreadPackets, 1, 400, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := forwarding.New(twoPaths{spread: c.spread})
			if err != nil {
				t.Fatal(err)
			}
			for at := c.from; at <= c.to; at++ {
				p := packet(enter, uint64(at), 1500, 0)
				p.Src, p.Dst, p.Time, p.ID, p.Flow = 0, 1, us(at), uint64(at), uint32(at%c.flows)
				a.Observe(&p)
				p.Stage, p.Port = leave, 1
				a.Observe(&p)
			}
			want := slices.Repeat([]string{forwarding.PathUnused}, c.want)
			if found := rules(t, a); !slices.Equal(found, want) {
				t.Errorf("found %v, want %v", found, want)
			}
		})
	}
}
