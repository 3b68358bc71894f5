package tcp_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// What the packets of a handshake say of ECN is judged, and data by it.
func TestTheNegotiationOfECNIsJudged(t *testing.T) {
	type says struct {
		ece, cwr bool
		ecn      packet.ECN
	}
	offer, accept, nothing := says{ece: true, cwr: true}, says{ece: true}, says{}
	data := says{ecn: packet.ECT0}
	for _, tt := range []struct {
		name              string
		off               bool // the hosts don't use ECN
		syn, synACK, data says
		lost              bool // the first SYN, which said the same
		retransmitted     *says
		want              []string
	}{
		{"offered and accepted", false, offer, accept, data, false, nil, nil},
		{"not used", true, nothing, nothing, nothing, false, nil, nil},
		{"not offered, and used", false, nothing, nothing, data, false, nil, []string{"tcp.ecn-negotiation", "tcp.ect"}},
		{"offered again without, which is not accepted", false, offer, nothing, nothing, true, &nothing, nil},
		{"refused, and used", false, offer, nothing, data, false, nil, []string{"tcp.ecn-negotiation", "tcp.ect"}},
		{"a reflected offer", false, offer, offer, data, false, nil, []string{"tcp.ecn-negotiation", "tcp.ect"}},
		{"offered without ECN", true, offer, nothing, nothing, false, nil, []string{"tcp.ecn-negotiation"}},
		{"accepted unasked", true, nothing, accept, nothing, false, nil, []string{"tcp.ecn-negotiation"}},
		{"a SYN with ECT", false, says{true, true, packet.ECT0}, accept, data, false, nil, []string{"tcp.ect"}},
	} {
		c := tcp.Config{MSS: 1000, InitialWindow: 3, MinRTO: 200 * clock.Microsecond, FirstSequence: 1, Handshake: true,
			ECN: tcp.ECN{On: !tt.off}}
		a := tcp.New(c)
		packets := uint64(0)
		sees := func(us int, back bool, s says, o tcp.Observation, lost bool) {
			packets++
			o.Number, o.Connection, o.Src, o.Dst, o.Window = packets, 1, 1, 2, 1<<16
			o.ECE, o.CWR, o.ECN = s.ece, s.cwr, s.ecn
			if back {
				o.Src, o.Dst = 2, 1
			}
			for _, o.Sent = range []bool{true, false} {
				if o.Time = clock.Time(0).Add(clock.Duration(us) * clock.Microsecond); !lost || o.Sent {
					a.Observe(&o)
				}
				us += 10
			}
		}
		start := 0
		if tt.lost {
			sees(0, false, tt.syn, tcp.Observation{SYN: true}, true)
			start = 300
		}
		again := tt.syn
		if tt.retransmitted != nil {
			again = *tt.retransmitted
		}
		sees(start, false, again, tcp.Observation{SYN: true}, false)
		sees(start+20, true, tt.synACK, tcp.Observation{SYN: true, HasACK: true, Ack: 1}, false)
		sees(start+44, false, tt.data, tcp.Observation{HasACK: true, Seq: 1, Ack: 1, Payload: 1000}, false)
		var found []string
		for _, f := range book.Keep(a.Finish(clock.Time(clock.Millisecond / 2)).Findings) {
			found = append(found, f.Rule)
		}
		if !slices.Equal(found, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, found, tt.want)
		}
	}
}
