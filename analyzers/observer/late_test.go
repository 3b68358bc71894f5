package observer_test

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
)

// TestALateRestart has more packets between a NAK and the restart than states of a requester are kept for.
func TestALateRestart(t *testing.T) {
	for name, c := range map[string]struct {
		response string // to the first 20 requests
		restart  int
		want     string // rule
	}{
		"obeys a NAK that acknowledges something": {"nak 10 msn=10", 10, ""},
		"obeys a NAK after an ACK":                {"ack 9 msn=10\n< nak 10 msn=10", 10, ""},
		"has no NAK":                              {"ack 9 msn=10", 10, "gbn.timeout-early"},
		"starts elsewhere":                        {"nak 10 msn=10", 15, "gbn.retransmit-first"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString("! plain complete retry=7 T=4194.304 H=20\n")
			for psn := range 200 {
				fmt.Fprintf(&b, "> send-only %d ar\n", psn)
				if psn == 19 {
					fmt.Fprintf(&b, "< %s\n", c.response)
				}
			}
			for psn := c.restart; psn < 200; psn++ {
				fmt.Fprintf(&b, "> send-only %d ar\n", psn)
			}
			tr, err := oracle.Parse(b.String())
			if err != nil {
				t.Fatal(err)
			}
			findings, err := comparison.Analyzers()(tr)
			if err != nil {
				t.Fatal(err)
			}
			rule := ""
			for _, f := range findings {
				if f.Severity == analyzers.Violation && rule == "" {
					rule = f.Rule
				}
			}
			if rule != c.want {
				t.Errorf("violation %q, want %q: %+v", rule, c.want, findings)
			}
		})
	}
}

// TestABurstOfUnseenFrames: a tap misses five requests in a row. If both endpoints show it, the tap is at fault.
func TestABurstOfUnseenFrames(t *testing.T) {
	for name, c := range map[string]struct {
		after int // the request that follows the ACK of request 25
		want  analyzers.Severity
	}{
		"the requester goes on after them":        {26, analyzers.Warning},
		"the requester has not sent them by then": {21, analyzers.Violation},
		"the requester leaves out two more":       {28, analyzers.Warning},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString("! plain\n")
			for psn := range 21 {
				fmt.Fprintf(&b, "> send-only %d ar\n< ack %d msn=%d\n", psn, psn, psn+1)
			}
			b.WriteString("< ack 25 msn=26\n")
			for psn := c.after; psn < 40; psn++ {
				fmt.Fprintf(&b, "> send-only %d ar\n< ack %d msn=%d\n", psn, max(25, psn), max(25, psn)+1)
			}
			tr, err := oracle.Parse(b.String())
			if err != nil {
				t.Fatal(err)
			}
			findings, err := comparison.Analyzers()(tr)
			if err != nil {
				t.Fatal(err)
			}
			got := analyzers.Warning
			for _, f := range findings {
				if f.Severity == analyzers.Violation {
					got = analyzers.Violation
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s: %+v", got, c.want, findings)
			}
		})
	}
}
