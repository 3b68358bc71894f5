package switchtest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
)

func poissonTest(model, transport, more string) string {
	return fmt.Sprintf(`
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}}
switch-under-test: {model: %s}
hosts: {transport: %s}
workload: [poisson: {load: 0.3, stop-us: 2000, sizes: web-search, form: discrete, truncate: 0.5, pairs: inter-rack}]
%s
`, model, transport, more)
}

// The same seed gives every mechanism and every transport the same arrivals, judged or not.
func TestEveryMechanismGetsTheSameArrivals(t *testing.T) {
	type arrival struct{ start, src, dst, bytes int64 }
	var want []arrival
	for _, text := range []string{poissonTest("droptail", "ndp", ""), poissonTest("tofino", "ndp", ""),
		poissonTest("sai", "tcp", ""), poissonTest("ndp-ideal", "tcp", "judge: off")} {
		p, err := switchtest.New(parse(t, text)[0])
		if err != nil {
			t.Fatal(err)
		}
		var got []arrival
		for f := range p.All() {
			got = append(got, arrival{int64(f.Start), int64(f.Src), int64(f.Dst), f.Payload})
		}
		if want == nil {
			want = got
		}
		if len(got) < 10 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d flows %v, want %d %v", text, len(got), got, len(want), want)
		}
	}
}

// Flows of drawn sizes run, and their statistics have them by class of size.
func TestPoissonFlowsRun(t *testing.T) {
	for _, judge := range []string{"judge: full", "judge: off\nexpect: {unfinished: 0}"} {
		o := outcome(t, poissonTest("ndp-ideal", "ndp", judge))
		s := flowsOf(t, o.Dir).Statistics
		if o.Verdict.Exit != orchestrator.ExitPass || s.Finished != s.Flows || s.Flows < 10 {
			t.Errorf("%s: %+v %+v", judge, o.Verdict, s)
		}
	}
}

// An explanation says what the items offer.
func TestAnExplanationHasMeanAndLoad(t *testing.T) {
	p, err := switchtest.New(parse(t, poissonTest("droptail", "ndp", ""))[0])
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Explain(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kB on average", "0.3 of access capacity", "0.6 of fabric capacity"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
}
