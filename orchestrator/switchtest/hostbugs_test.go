package switchtest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"candela.dev/candela/generator/ndp"
)

// provoke returns a test in which a bug of NDP hosts can occur.
func provoke(bug ndp.Bug, name string) string {
	paths := ""
	senders, window, packets, queue, more, delay, rto := 8, 60, 300, "data-queue-bytes: 12000, header-queue-bytes: 25600",
		"", 500, 1000
	switch bug {
	case ndp.BugEchoesIncast, ndp.BugIgnoresReturned:
		queue, more = "data-queue-bytes: 12000, header-queue-bytes: 1280", ", header-weight: 1"
	case ndp.BugEarlyTimeout:
		delay, rto = 20_000, 1000
	case ndp.BugDoublePull: // visible if the first windows do not fill the RTT
		senders, window, delay = 3, 4, 5000
	case ndp.BugWastesPull:
		window = 4
	case ndp.BugPacesSlowly, ndp.BugPacesFast, ndp.BugUnfairPull:
		packets = 600
	case ndp.BugIgnoresScoreboard, ndp.BugExcludesWithoutCause: // by chance one of equal paths is an outlier
		paths = ", paths: 4, path-penalty: true, penalty-answers: 4, penalty-share-percent: 1, penalty-factor-percent: 100"
	}
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 9, link: {gbps: 100, delay-ns: %d}}
switch-under-test: {model: ndp-ideal, %s%s}
hosts: {transport: ndp, initial-window: %d, rto-us: %d%s, bugs: [%s]}
workload: [incast: {senders: %d, packets: %d}]
deadline-us: 20000
`, delay, queue, more, window, rto, paths, name, senders, packets)
}

func TestEverySeededBugOfNDPHostsIsCaughtThroughASwitch(t *testing.T) {
	for i, bug := range ndp.Catalogue() {
		if fewBugs(i) {
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			text := provoke(bug.Bug, bug.Name)
			found := rulesOf(t, text)
			if !slices.Contains(found, bug.Rule) {
				t.Errorf("want %s, got %v", bug.Rule, found)
			}
			t.Log(found)
			if sound := rulesOf(t, strings.Replace(text, ", bugs: ["+bug.Name+"]", "", 1)); len(sound) > 0 {
				t.Errorf("hosts without the bug break %v", sound)
			}
		})
	}
}

// judged has the rules that tests violate: many bugs have the same test without them.
var judged sync.Map // of func() []string by text

// rulesOf returns the rules that a test violates. It runs each test once.
func rulesOf(t *testing.T, text string) []string {
	t.Helper()
	once, _ := judged.LoadOrStore(text, sync.OnceValue(func() []string { return newRulesOf(t, text) }))
	return slices.Clone(once.(func() []string)())
}

func newRulesOf(t *testing.T, text string) (rules []string) {
	t.Helper()
	for _, f := range judge(t, parse(t, text)[0]).Analysis.Findings {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}
