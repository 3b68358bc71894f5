package ndp_test

import (
	"testing"

	"candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/clock"
	wire "candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// Packets that a stopped switch lost are not blamed on the network; all other lost packets are.
func TestOnlyLossesOutsideAnOutageAreBlamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		outage func(*trace.Tap) bool // of packet 3
		blamed int
	}{
		{"no switch was stopped", func(*trace.Tap) bool { return false }, 2},
		{"a stopped switch lost it", func(*trace.Tap) bool { return true }, 1},
		{"a stopped switch lost its header on the way back", func(p *trace.Tap) bool {
			p.Src, p.Dst, p.NDP.Flags = p.Dst, p.Src, wire.FlagTrimmed|wire.FlagReturned
			return true
		}, 1},
		{"a stopped switch lost a packet of another connection", func(p *trace.Tap) bool { p.NDP.Connection++; return true },
			2},
		{"a stopped switch lost its ACK", func(p *trace.Tap) bool { p.NDP.Kind = wire.Ack; return true }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := ndp.New(ndp.Config{InitialWindow: 8})
			for i := range uint32(8) {
				p := trace.Tap{Time: clock.Time(int64(i+1) * int64(clock.Microsecond)), Point: trace.TapBefore, At: 2, Src: 1,
					Dst: 0, Size: 1500,
					Payload: payload, NDP: wire.Header{Kind: wire.Data, Seq: i, Counter: i, Length: payload}}
				a.Observe(&p)
				switch i {
				case 3:
					if c.outage(&p) {
						a.Outage(&p)
					}
				case 5: // nobody says why it is lost
				default:
					p.Point, p.At = trace.TapAfter, 1
					a.Observe(&p)
				}
			}
			a.Drain()
			blamed := 0
			for _, f := range a.Finish().Findings {
				if f.Rule == string(ndp.RuleSilentLoss) {
					blamed++
				}
			}
			if blamed != c.blamed {
				t.Errorf("%d losses are blamed, want %d", blamed, c.blamed)
			}
		})
	}
}
