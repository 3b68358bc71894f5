package history_test

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/history"
)

// atPort gives a run a violation of a switch; role is what the switch and its port are to the test.
func atPort(r *history.Run, roles ...string) *history.Run {
	r.Verdict, r.Reasons = history.Fail, []string{"violations"}
	for _, role := range roles {
		r.Findings = append(r.Findings, history.Finding{Rule: "queues.rate", Cause: "early", Role: role,
			Severity: analyzers.Violation, Headline: "Port 4 of switch leaf-0 was early."})
	}
	return r
}

// The role of a port belongs to the identity of a finding. A finding of a version that did not know it goes on as the
// first with one, whether it is written before or after that; the names that it had go on, too.
func TestAFindingAtAPortContinuesTheOneWithoutThePortsRole(t *testing.T) {
	const receiver, trunk = "switch leaf, port to incast receiver", "switch leaf, trunk to spine"
	engines(t, func(t *testing.T, address string) {
		s := open(t, address)
		identities := func(run *history.Run) (ids []string) {
			t.Helper()
			shown, err := s.Show(t.Context(), run.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range shown.Findings {
				ids = append(ids, f.ID+" "+f.Role)
			}
			return ids
		}
		former := atPort(made("a", 0, 1), "switch leaf")
		ingest(t, s, former)
		was := identities(former)[0][:24]
		now := atPort(made("a", 1, 1), receiver, trunk)
		ingest(t, s, now)
		both := identities(now)
		if len(both) != 2 || both[0] == both[1] {
			t.Fatalf("two roles are %q", both)
		}
		if got := identities(former); got[0] != both[0] {
			t.Errorf("the former finding is %q, want that of %q", got, both[0])
		}
		late := atPort(made("a", 0, 2), "switch leaf") // an old directory that is imported now
		ingest(t, s, late)
		if got := identities(late); got[0] != both[0] {
			t.Errorf("imported later it is %q, want that of %q", got, both[0])
		}
		for _, what := range []string{was, both[0][:24]} {
			b, err := s.Blame(t.Context(), what, "", history.Window{})
			if err != nil || len(b.Blames) == 0 || b.Blames[0].Finding != both[0][:24] {
				t.Errorf("blame %s: %v, %v", what, b, err)
			}
		}
		c, err := s.Compare(t.Context(), "night-"+former.Night.String(), "night-"+now.Night.String())
		if err != nil {
			t.Fatal(err)
		}
		states := make(map[string]history.State)
		for _, f := range c.Findings {
			states[f.Role] = f.State
		}
		if len(c.Findings) != 2 || states[receiver] != history.Still || states[trunk] != history.New {
			t.Errorf("compared: %v", states)
		}
		// The test takes another name: its findings, and the names that they had, go with it.
		renamed := atPort(made("a", 2, 1), receiver)
		renamed.Test.ID, renamed.Test.Was = "b", []string{"zero", "a"}
		ingest(t, s, renamed)
		again := atPort(made("a", 2, 2), "switch leaf")
		again.Test.ID, again.Test.Was = "b", []string{"zero", "a"}
		ingest(t, s, again)
		if one, two := identities(renamed)[0], identities(again)[0]; one != two {
			t.Errorf("under another name: %q and %q", one, two)
		}
	})
}
