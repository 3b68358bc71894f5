package traffic

import (
	"testing"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestSessionsHaveWhatTheirOptionsSay looks at the frames of sessions with what is rare.
func TestSessionsHaveWhatTheirOptionsSay(t *testing.T) {
	o := Options{
		Connections: 2, Packets: 400, MTU: 512, Reopened: true,
		Scenario: Scenario{
			Packets: 4, Window: 16, Reads: 2, Verbs: All, Odd: 0.5, DelayMin: 300, DelayMax: 900, Transit: 300, ProcessMax: 300,
			TimeoutNS: 1 << 20, Retry: 7, RNRRetry: 7, NotReady: 0.05, Credits: true, LongWaits: true, MSN: 1<<24 - 10,
		},
	}
	s := NewSession(1, o)
	if !s.Settled || len(s.ends) < 3 || s.ends[2].Requester.IPSN == s.ends[0].Requester.IPSN ||
		s.ends[2].Requester.QPN != s.ends[0].Requester.QPN {
		t.Fatalf("settled %t, queue pairs %+v", s.Settled, s.ends)
	}
	dec := trace.NewDecoder(trace.FormatPlain, nil, false)
	var full, odd, credits, long, low, high int
	for _, seen := range s.seen[AtSwitch] {
		var r trace.Record
		if err := dec.Decode(&trace.Frame{Data: seen.frame, OrigLen: len(seen.frame)}, &r); err != nil {
			t.Fatal(err)
		}
		if r.ICRC == packet.ICRCInvalid || r.PayloadLen > 512 {
			t.Fatalf("%v of %d bytes, iCRC %v", r.Opcode, r.PayloadLen, r.ICRC)
		}
		for n, yes := range map[*int]bool{
			&full: r.PayloadLen == 512, &odd: r.PayloadLen > 0 && r.PayloadLen < 512,
			&credits: r.Opcode == packet.Acknowledge && r.Syndrome.IsAck() && r.Syndrome != packet.SyndromeAckNoCredit,
			&long:    r.Opcode == packet.Acknowledge && r.Syndrome.IsRNR() && r.Syndrome.TimerCode() > 10,
			&low:     r.Has(trace.HasAETH) && r.MSN < 1000, &high: r.Has(trace.HasAETH) && r.MSN > 1<<24-11,
		} {
			if yes {
				*n++
			}
		}
	}
	if full == 0 || odd == 0 || credits == 0 || long == 0 || low == 0 || high == 0 {
		t.Errorf("%d full and %d short packets, %d credits, %d long RNR timers, %d low and %d high counts of messages", full,
			odd, credits, long, low, high)
	}
}
