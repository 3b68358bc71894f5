package orchestrator

import (
	"strings"
	"testing"

	"candela.dev/candela/analyzers/counters"
)

func TestCountersThatCannotBeJudgedAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		doc  Counters
		want string
	}{
		{"another schema", Counters{Schema: "candela.counters/v2"}, `schema "candela.counters/v2"`},
		{"an unknown naming", Counters{Schema: counters.Schema,
			Input: counters.Input{Hosts: []counters.Host{{Name: "a", Naming: "acme"}}}}, `naming "acme"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.doc.check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
