package gbn_test

import (
	"testing"

	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/trace"
)

// TestTransitionsThatNoModelTakes feeds traces of devices that no seeded bug makes: a second fault after the first, or
// one within the flight time of a NAK. Package orchestrator's tests take the other illegal transitions.
func TestTransitionsThatNoModelTakes(t *testing.T) {
	for transition, s := range map[string]scene{
		"requester: idle + psn-skip -> sending": {traffic: "write*2 write*10", trace: `> 1-2; < ack 2; > 4-12`},
		"requester: resending + psn-skip -> sending": {traffic: "write*10",
			trace: `> 1-4; > 5 drop; > 6; < nak 5; > 5-6; > 8-10`},
		"requester: sending + restart-acknowledged -> resending": {traffic: "write*10", trace: `
			> 1-9; > 10 drop; < ack 9; @ 68ms; > 1-10`},
		"requester: resending + restart-off -> resending": {traffic: "write*10", trace: `
			> 1-10; @ 68ms; > 1-10; < ack 4; @ 20ms; > 3-10`},
		"requester: sending + round-gap -> resending": {traffic: "write*10", trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; > 5-6; < ack 7; > 8; > 10`},
		"requester: failed + psn-skip -> sending":    {traffic: "write*10", trace: `> 1-4; < nak-inv 2; > 6`},
		"requester: failed + round-gap -> resending": {traffic: "write*10", trace: `> 1-10; @ 68ms; > 1-2; < nak-inv 4; > 7`},
		"requester: failed + restart-acknowledged -> resending": {traffic: "write*10", trace: `
			> 1-10; < ack 6; @ 68ms; > 7-10; < nak-inv 7; > 2`},
		"responder: gap + nack-duplicate -> gap": {traffic: "write*10", trace: `
			> 1-4; > 5 drop; > 6; @ 68ms; > 1-4; < ack 4; < ack 2; < nak 3`},
		"responder: rnr + read-missing -> rnr":      {traffic: "read*3 send", trace: `> 1; < resp 1; > 4; < rnr 4`},
		"responder: rnr + read-out-of-order -> rnr": {traffic: "read*3 send", trace: `> 1; < resp 1; > 4; < rnr 4; < resp 3`},
		"responder: rnr + nack-wrong-psn -> rnr": {traffic: "send send send send", trace: `
			> 1-2; > 3 drop; > 4; < nak 3; > 3-4; < rnr 3; < nak 4`},
		"responder: nacked + nack-missing -> nacked": {traffic: "write*10", trace: `
			> 1-2; > 3 drop; > 4; > 3; > 5 drop; > 6; < nak 3; > 1; < ack 3`},
	} {
		t.Run(transition, func(t *testing.T) {
			taken := illegal(t, &s)
			if n, known := taken[transition]; !known || n == 0 {
				for name, n := range taken {
					if n > 0 {
						t.Log("taken:", name)
					}
				}
				t.Errorf("not taken (known: %v)", known)
			}
		})
	}
}

// illegal returns how often a scene takes each illegal transition.
func illegal(t *testing.T, s *scene) map[string]int64 {
	t.Helper()
	meta := trace.Meta{Kind: s.kind, Connections: connections(t, 1, s.ipsn, s.midway || s.inferred)}
	c := trace.CheckedRecords(meta, s.records(t))
	a := gbn.New(c.Meta(), s.cfg)
	err := c.ForEach(t.Context(), func(r *trace.Record) error {
		a.Packet(r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Finish()
	return a.Illegal()
}
