package orchestrator_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/detection"
	"candela.dev/candela/runtimetest"
)

// softwareScenarios is the default number of scenarios with software events; CANDELA_SCENARIOS overrides it.
const softwareScenarios = 60

// TestUnbrokenNICIsNeverBlamedForWhatTheSwitchDelaysDuplicatesAndReorders is TestUnbrokenNICIsNeverBlamed with the
// actions of software targets. A late packet looks like a lost one to the receiver, so the analyzers must know when it
// arrived.
func TestUnbrokenNICIsNeverBlamedForWhatTheSwitchDelaysDuplicatesAndReorders(t *testing.T) {
	n, start := softwareScenarios, 0
	if runtimetest.Race {
		n /= 8
	}
	if s := os.Getenv("CANDELA_SCENARIOS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CANDELA_SCENARIOS: %v", err)
		}
	}
	if s := os.Getenv("CANDELA_SCENARIO"); s != "" { // run one scenario
		var err error
		if start, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CANDELA_SCENARIO: %v", err)
		}
		n = 1
	}
	fired := map[string]int{}
	failures := 0
	for i := start; i < start+n && failures < 5; i++ {
		text := softwareScenario(uint64(i))
		outcome := runScenario(t, text, distances(uint64(i)))
		for _, e := range outcome.Report.Events {
			what, _, _ := strings.Cut(e.What, " ")
			fired[what] += int(min(e.Hits, 1))
		}
		if problem := blamed(outcome); problem != "" {
			failures++
			t.Errorf("scenario %d: %s\n%s", i, problem, text)
		}
	}
	for _, what := range []string{"delay", "duplicate", "reorder", "rewrite"} {
		if n > 50 && fired[what] < n/10 {
			t.Errorf("only %d events %s fired in %d scenarios: they test nothing", fired[what], what, n)
		}
	}
}

// softwareScenario returns the i-th scenario with half of its events replaced by events of software targets.
func softwareScenario(i uint64) string {
	r := rand.New(rand.NewPCG(i, 0x50f7))
	lines := strings.Split(detection.Scenario(i), "\n")
	for n, line := range lines {
		at := strings.Index(line, "type: ")
		if at < 0 || r.IntN(3) == 0 {
			continue
		}
		lines[n] = line[:at] + softwareEvent(r) + "}"
	}
	return strings.Join(lines, "\n")
}

func softwareEvent(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		return fmt.Sprintf("type: delay, delay-us: %d", []int{1, 3, 10, 100, 2000}[r.IntN(5)])
	case 1:
		return fmt.Sprintf("type: duplicate, copies: %d", 1+r.IntN(3))
	case 2:
		return fmt.Sprintf("type: reorder, by: %d", 1+r.IntN(4))
	}
	return fmt.Sprintf("type: rewrite, field: %s, value: %d",
		[]string{"dscp", "hop-limit", "src-port", "ack-req", "ecn", "psn", "dest-qpn", "msn"}[r.IntN(8)], 1)
}
