package gbn_test

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
)

// A requester must give up after retry_cnt retries without progress (IBTA volume 1, 9.9.2.1.1). The finding is a note
// if the injector caused each failure. A requester that gives up earlier in the same situation is still blamed.
func TestARequesterThatGivesUpAfterExactlyItsRetriesIsNotBlamed(t *testing.T) {
	limits := gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(2), RNRRetry: gbn.AtMost(2)}
	cfg := gbn.Config{Default: limits, HostDelayNS: 10_000}
	for name, tc := range map[string]struct {
		scene
		severity analyzers.Severity
	}{
		"each transmission is lost": {severity: analyzers.Note, scene: scene{traffic: "write",
			want: []string{"incomplete"}, trace: `> 1 drop; @ 68ms; > 1 drop; @ 68ms; > 1 drop`}},
		"one retry fewer": {severity: analyzers.Violation, scene: scene{traffic: "write",
			want: []string{"incomplete"}, trace: `> 1 drop; @ 68ms; > 1 drop`}},
		"no retry at all": {severity: analyzers.Violation, scene: scene{traffic: "write",
			want: []string{"incomplete"}, trace: `> 1 drop`}},
		"the last packet of a message": {severity: analyzers.Note, scene: scene{traffic: "write*5",
			want: []string{"incomplete"}, trace: `> 1-4; > 5 drop; < ack 4; @ 68ms; > 5 drop; @ 68ms; > 5 corrupt`}},
		"a NACK, then timeouts": {severity: analyzers.Note, scene: scene{traffic: "write*5",
			want: []string{"incomplete"}, trace: `> 1-2; > 3 drop; > 4-5; < nak 3; > 3 drop; > 4-5; @ 68ms; > 3 drop; > 4-5`}},
		"a NACK, then one timeout fewer": {severity: analyzers.Violation, scene: scene{traffic: "write*5",
			want: []string{"incomplete"}, trace: `> 1-2; > 3 drop; > 4-5; < nak 3; > 3 drop; > 4-5`}},
		"each acknowledgement is lost": {severity: analyzers.Note, scene: scene{traffic: "write",
			want: []string{"incomplete"}, trace: `> 1; < ack 1 drop; @ 68ms; > 1; < ack 1 drop; @ 68ms; > 1; < ack 1 drop`}},
		"each acknowledgement is lost, and one retry fewer": {severity: analyzers.Violation, scene: scene{traffic: "write",
			want: []string{"incomplete"}, trace: `> 1; < ack 1 drop; @ 68ms; > 1; < ack 1 drop`}},
		"request, then acknowledgement, then request": {severity: analyzers.Note, scene: scene{traffic: "write",
			want: []string{"incomplete"}, trace: `> 1 drop; @ 68ms; > 1; < ack 1 drop; @ 68ms; > 1 drop`}},
		"each READ request is lost": {severity: analyzers.Note, scene: scene{traffic: "read*3",
			want: []string{"incomplete"}, trace: `> 1 drop; @ 68ms; > 1 drop; @ 68ms; > 1 drop`}},
		"one response of a READ is lost again and again": {severity: analyzers.Note, scene: scene{traffic: "read*3",
			want: []string{"nak-unanswered"}, trace: `
			> 1; < resp 1; < resp 2 drop; < resp 3; > 2; < resp 2 drop; < resp 3; > 2; < resp 2 drop; < resp 3`}},
		"one response of a READ is lost, and one retry fewer": {severity: analyzers.Violation, scene: scene{traffic: "read*3",
			want: []string{"nak-unanswered"}, trace: `> 1; < resp 1; < resp 2 drop; < resp 3; > 2; < resp 2 drop; < resp 3`}},
		"progress restores the retries": {severity: analyzers.Violation, scene: scene{traffic: "write*2",
			want:  []string{"incomplete"},
			trace: `> 1-2 drop; @ 68ms; > 1-2 drop; @ 68ms; > 1; > 2 drop; < ack 1; @ 68ms; > 2 drop`}},
		"progress restores the retries, all of which are used": {severity: analyzers.Note, scene: scene{traffic: "write*2",
			want: []string{"incomplete"}, trace: `
			> 1-2 drop; @ 68ms; > 1-2 drop; @ 68ms; > 1; > 2 drop; < ack 1; @ 68ms; > 2 drop; @ 68ms; > 2 drop`}},
		"the receiver is never ready": {severity: analyzers.Note, scene: scene{traffic: "send",
			want: []string{"nak-unanswered"}, trace: `> 1; < rnr 1; @ 1ms; > 1; < rnr 1; @ 1ms; > 1; < rnr 1`}},
		"the receiver is not ready, and one retry fewer": {severity: analyzers.Violation, scene: scene{traffic: "send",
			want: []string{"nak-unanswered"}, trace: `> 1; < rnr 1; @ 1ms; > 1; < rnr 1`}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg = cfg
			check(t, map[string]scene{"": tc.scene})
			for _, f := range tc.scene.run(t).Findings {
				if f.Severity != tc.severity {
					t.Errorf("%s is a %s, want a %s\n%s", f.Rule, f.Severity, tc.severity, dump([]analyzers.Finding{f}))
				}
			}
		})
	}
}

// A silent responder makes its requester give up: only the responder is blamed.
func TestASilentResponderIsBlamedForARequesterThatGaveUp(t *testing.T) {
	cfg := gbn.Config{Default: gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(2), RNRRetry: gbn.AtMost(7)},
		HostDelayNS: 10_000}
	check(t, map[string]scene{
		"from the first request on": {traffic: "write", cfg: cfg, want: []string{"ack-missing", "ack-missing", "ack-missing"},
			trace: `
			> 1; @ 68ms; > 1; @ 68ms; > 1`},
		"after the first was lost": {traffic: "write", cfg: cfg, want: []string{"ack-missing", "ack-missing"}, trace: `
			> 1 drop; @ 68ms; > 1; @ 68ms; > 1`},
	})
}
