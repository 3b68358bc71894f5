package switchtest_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// seedsOfModel returns how many networks of each switch model a test draws; make silence asks for more.
func seedsOfModel(t *testing.T, usually int) int {
	t.Helper()
	text := os.Getenv("CANDELA_TEST_SILENCE")
	if text == "" {
		return usually
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("CANDELA_TEST_SILENCE=%q: want the number of networks to draw for each switch model, such as 40", text)
	}
	return n
}

// Incasts of 8 to 60 compliant TCP hosts behind every switch model: nobody is blamed, neither in the run nor from its captures.
func TestCompliantTCPHostsBehindEverySwitchModelAreNotBlamed(t *testing.T) {
	seeds := seedsOfModel(t, 4)
	for i, m := range switchtest.Options().Switches {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			refused := 0
			for seed := range seeds {
				d := newNetworkDraw(uint64(seed), uint64(i))
				text := d.tcpNetwork(m.Name)
				recorded := d.one(4)
				if recorded {
					text += captured
				}
				if !blamesNobody(t, text, recorded) {
					refused++
				}
			}
			if 4*refused > seeds {
				t.Errorf("%d of %d networks were refused", refused, seeds)
			}
		})
	}
}

// The incast that blamed hosts behind four models, with the defaults of everything.
func TestIncastsOf32TCPSendersOf14212BytesBlameNobody(t *testing.T) {
	for _, m := range switchtest.Options().Switches {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range seedsOfModel(t, 4) {
				blamesNobody(t, "topology: {kind: single-switch, hosts: 33}\nswitch-under-test: {model: "+m.Name+"}\nhosts: {transport: tcp}\n"+
					"workload: [incast: {senders: 32, bytes: 14212}]\ndeadline-us: 10000000\nseed: "+strconv.Itoa(seed)+"\n", false)
			}
		})
	}
}

// blamesNobody runs a network of compliant hosts and switches; false: the test is refused.
func blamesNobody(t *testing.T, text string, recorded bool) bool {
	t.Helper()
	found, reasons, ran := findings(t, text, recorded)
	for _, f := range found {
		if f.Severity != analyzers.Note {
			t.Errorf("%s t=%dns %s; expected %s\n%s", f.Rule, f.TimeNS, f.Message, f.Expected, text)
			break
		}
	}
	if len(reasons) > 0 && strings.HasPrefix(reasons[0], "integrity") {
		t.Errorf("%v\n%s", reasons, text)
	}
	return ran
}

// findings returns what the analyzers find in a run and, if it is recorded, in its captures; false: the test is refused.
func findings(t *testing.T, text string, recorded bool) (found []analyzers.Finding, reasons []string, ran bool) {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), switchtest.Options())
	if err != nil {
		return nil, nil, false
	}
	p, err := switchtest.New(tests[0])
	if err != nil {
		return nil, nil, false
	}
	o := options(t.TempDir())
	o.NoReports = true
	r, err := switchtest.Run(t.Context(), p, o)
	if err != nil {
		return nil, nil, false
	}
	defer func() { _ = os.RemoveAll(r.Dir) }() // captures of thousands of networks would fill a disk
	found = r.Analysis.Findings
	if recorded {
		found = append(found, judgeAgain(t, r.Dir).Analysis.Findings...)
	}
	return found, r.Verdict.Reasons, true
}

// Hosts with a seeded bug are caught in networks of the same kinds. A bug shows where it has an occasion, which most networks do not give;
// make silence prints in how many each is caught.
func TestSeededTCPBugsAreCaughtInRandomNetworks(t *testing.T) {
	const tries = 60
	models := switchtest.Options().Switches
	for _, bug := range tcp.Catalogue() {
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			all := os.Getenv("CANDELA_TEST_SILENCE") != ""
			networks := len(models) * seedsOfModel(t, tries/len(models))
			caught := 0
			for i := 0; i < networks && (all || caught == 0); i++ {
				m := i % len(models)
				text := newNetworkDraw(uint64(i/len(models)), uint64(m)).tcpNetwork(models[m].Name)
				found, _, _ := findings(t, seeded(text, bug), false)
				if slices.ContainsFunc(found, func(f analyzers.Finding) bool { return f.Rule == bug.Rule }) {
					caught++
				}
			}
			if caught == 0 {
				t.Errorf("%s was not found in %d networks", bug.Rule, networks)
			}
			if all {
				t.Logf("%s was found in %d of %d networks", bug.Rule, caught, networks)
			}
		})
	}
}

// timers are parameters of hosts.
var timers = regexp.MustCompile(`, (min-rto-us|delayed-ack-us): \d+`)

// seeded gives the hosts of a network a bug. An acknowledgement is late after half a second; before that a retransmission asks for it,
// unless the timer is longer.
func seeded(text string, bug tcp.BugInfo) string {
	more := ""
	if bug.Bug == tcp.BugForgetsAck || bug.Bug == tcp.BugLateAck {
		text, more = timers.ReplaceAllString(text, ""), " delayed-ack-us: 100000, min-rto-us: 2000000,"
	}
	return strings.Replace(text, "{transport: tcp,", "{transport: tcp, bugs: ["+bug.Name+"],"+more, 1)
}
