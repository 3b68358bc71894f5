package orchestrator

import (
	"strings"
	"testing"

	"candela.dev/candela/testbeds"
)

func TestTheHostDelayOfARunIsTheLongerOfBothHosts(t *testing.T) {
	both := &Counters{HostDelays: []testbeds.HostDelay{{Host: "requester", BoundNS: 5_368_709_120, Echoes: 1877},
		{Host: "responder", BoundNS: 40_000_000, Echoes: 12}}}
	one := &Counters{HostDelays: both.HostDelays[:1]}
	if got := both.hostDelayNS(); got != 5_368_709_120 {
		t.Errorf("%d ns", got)
	}
	if got := one.hostDelayNS(); got != 0 {
		t.Errorf("%d ns of a run in which one host was not measured", got)
	}
	if got := (*Counters)(nil).hostDelayNS(); got != 0 {
		t.Errorf("%d ns without counters", got)
	}
	for _, tt := range []struct {
		c        *Counters
		software bool
		want     string
	}{
		{both, true, "requester at most 5.3687s (1877 echoes), responder at most 40ms (12 echoes)"},
		{one, true, "250 ms are assumed"},
		{both, false, ""},
	} {
		if got := tt.c.hostDelayNote(tt.software); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
