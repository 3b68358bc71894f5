package switchtest_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// fewBugs reports whether a test of every bug leaves out the one with this index: under the race detector an eighth
// suffices.
func fewBugs(i int) bool { return testing.Short() && i%8 > 0 }

// fewer returns how many networks to draw: usually, or under the race detector.
func fewer(usually, race int) int {
	if testing.Short() {
		return race
	}
	return usually
}

// silence reports whether make silence runs, which looks at everything.
func silence() bool { return os.Getenv("CANDELA_TEST_SILENCE") != "" }

// seedsOfModel returns the number of networks that a test draws for each switch model; make silence sets a larger one.
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

// Incasts of 8 to 60 compliant TCP hosts cause no finding with any switch model, neither in the run nor from its
// captures.
func TestCompliantTCPHostsBehindEverySwitchModelAreNotBlamed(t *testing.T) {
	seeds := seedsOfModel(t, fewer(4, 1))
	for i, m := range configOptions().Switches {
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
			if 2*refused > seeds && seeds > 1 { // what PFC needs of the shared buffer is drawn too
				t.Errorf("%d of %d networks were refused", refused, seeds)
			}
		})
	}
}

// This incast, with all defaults, once caused findings against hosts with four models.
func TestIncastsOf32TCPSendersOf14212BytesBlameNobody(t *testing.T) {
	for _, m := range configOptions().Switches {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range seedsOfModel(t, 4) {
				blamesNobody(t, "topology: {kind: single-switch, hosts: 33}\nswitch-under-test: {model: "+m.Name+
					"}\nhosts: {transport: tcp}\n"+
					"workload: [incast: {senders: 32, bytes: 14212}]\ndeadline-us: 10000000\nseed: "+strconv.Itoa(seed)+"\n", false)
			}
		})
	}
}

// NDP hosts may have timeouts shorter than the RTT; several copies of a packet are then in flight.
func TestCompliantNDPHostsBehindEverySwitchModelAreNotBlamed(t *testing.T) {
	seeds := seedsOfModel(t, fewer(4, 1))
	for i, m := range configOptions().Switches {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			refused := 0
			for seed := range seeds {
				text := newNetworkDraw(uint64(seed), uint64(100+i)).ndpNetwork(m.Name, "10", "15", "20", "30", "50", "50", "200",
					"1000", "0")
				if !blamesNobody(t, text+captured, true) {
					refused++
				}
			}
			if 2*refused > seeds+1 { // by switches that trim into NDP's headers
				t.Errorf("%d of %d networks were refused", refused, seeds)
			}
		})
	}
}

// blamesNobody runs a network of compliant hosts and switches; it returns false if the test is refused.
func blamesNobody(t *testing.T, text string, recorded bool) bool {
	t.Helper()
	found, captures, reasons, ran := findings(t, text, recorded)
	for _, f := range append(found, captures...) {
		// These networks do lose packets silently, and a loop of deflections that the TTL ends is legal.
		if f.Severity != analyzers.Note && f.Rule != "ndp.silent-loss" && f.Rule != "deflect.ttl" {
			t.Errorf("%s t=%dns %s; expected %s\n%s", f.Rule, f.TimeNS, f.Message, f.Expected, text)
			break
		}
	}
	if len(reasons) > 0 && strings.HasPrefix(reasons[0], "integrity") {
		t.Errorf("%v\n%s", reasons, text)
	}
	return ran
}

// transfers and exchanges match the start of an item of a workload, by the ranks that it may have.
var (
	transfers = regexp.MustCompile(`(- (?:incast|flow|permutation): \{)`)
	exchanges = regexp.MustCompile(`(- (?:requests|ping): \{)`)
)

// needsRanks matches networks whose switches go by the ranks of packets.
var needsRanks = regexp.MustCompile(`model: (?:pifo|aifo|sp-pifo|pieo)\b`)

// needsRemaining matches those whose switches need the mark of remaining bytes.
var needsRemaining = regexp.MustCompile(`model: (?:pd|vertigo)\b`)

// ofFlows matches those whose switches sort packets by flow, and refuse to send some of their own.
var ofFlows = regexp.MustCompile(`model: (?:hpifo|h?csfq)\b`)

// refusesPFC matches those whose models refuse lossless classes, which lossless matches.
var (
	refusesPFC = regexp.MustCompile(`model: (?:(?:stfq-)?(?:aifo|sp-pifo|afq)|hpifo|` +
		`h?csfq|pd|vertigo|sd|dibs|naive-deflection|ecmp)\b`)
	lossless = regexp.MustCompile(`, pfc-(?:classes: \[[^]]*\]|[a-z]+-bytes: [0-9]+)`)
)

// findings returns the findings of a run and, if recorded, of its captures; ran is false if the test is refused.
func findings(t *testing.T, text string, recorded bool) (found, captures []analyzers.Finding, reasons []string,
	ran bool) {
	t.Helper()
	if needsRanks.MatchString(text) && !strings.Contains(text, "rank: ") { // it needs the rank of every packet
		text = transfers.ReplaceAllString(text, "${1}rank: remaining, ")
		text = exchanges.ReplaceAllString(text, "${1}rank: 7000, ")
	}
	if needsRemaining.MatchString(text) && !strings.Contains(text, "rank: ") {
		text = transfers.ReplaceAllString(text, "${1}rank: remaining, ")
		text = exchanges.ReplaceAllString(text, "${1}rank: remaining, ")
	}
	if refusesPFC.MatchString(text) {
		text = lossless.ReplaceAllString(text, "")
	}
	if ofFlows.MatchString(text) { // packets of a switch are nobody's there
		text = strings.ReplaceAll(text, ", bolt-src: true", "")
	}
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
	if err != nil {
		return nil, nil, nil, false
	}
	p, err := switchtest.New(tests[0])
	if err != nil {
		return nil, nil, nil, false
	}
	o := unwritten()
	if recorded {
		o = options(t.TempDir())
	}
	r, err := switchtest.Run(t.Context(), p, o)
	if err != nil {
		return nil, nil, nil, false
	}
	if recorded {
		defer func() { _ = os.RemoveAll(r.Dir) }() // captures of thousands of networks would fill the disk
		captures = rejudge(t, r.Dir).Analysis.Findings
	}
	return r.Analysis.Findings, captures, r.Verdict.Reasons, true
}

// Hosts with a seeded bug are caught in networks of the same kinds. In most networks the bug has no occasion to occur;
// make silence prints the number of networks in which each bug is caught.
func TestSeededTCPBugsAreCaughtInRandomNetworks(t *testing.T) {
	for i, bug := range withoutECN() {
		if fewBugs(i) {
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			caughtIn(t, bug.Rule, false, func(seed, stream uint64, model string) string {
				return seeded(newNetworkDraw(seed, stream).tcpNetwork(model), bug)
			})
		})
	}
}

// Timeouts shorter than the RTT do not excuse faults that resemble them, neither in the run nor in its captures.
func TestShortTimeoutsOfNDPHostsExcuseNoFault(t *testing.T) {
	runtimetest.SkipRace(t)
	for i, bug := range ndp.Catalogue() {
		if fewBugs(i) {
			continue
		}
		switch bug.Bug {
		case ndp.BugEarlyTimeout, ndp.BugSendsWithoutPull, ndp.BugRetransmitsWithoutPull, ndp.BugRetransmitsAcknowledged,
			ndp.BugForgetsNack:
		default: // they need other conditions
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			caughtIn(t, bug.Rule, true, func(seed, stream uint64, model string) string {
				text := newNetworkDraw(seed, 100+stream).ndpNetwork(model, "10", "20", "30", "50")
				return strings.Replace(text, "{transport: ndp,", "{transport: ndp, bugs: ["+bug.Name+"],", 1) + captured
			})
		})
	}
}

// forwarders lists the models that do nothing but forward packets in one way or another: not those that manage locks,
// which forward all but their own packets as droptail does.
func forwarders() []parameter.Model {
	return slices.DeleteFunc(slices.Clone(configOptions().Switches), func(m parameter.Model) bool {
		return m.Name == "netlock" || m.Name == "netchain"
	})
}

// caughtIn checks that a rule is violated in at least one of the networks that draw returns. It checks the run and, if
// recorded, its captures.
func caughtIn(t *testing.T, rule string, recorded bool, draw func(seed, stream uint64, model string) string) {
	t.Helper()
	const tries = 108
	models := forwarders()
	all := silence()
	networks := len(models) * seedsOfModel(t, tries/len(models))
	caught, rejudged, first := 0, 0, firstOf(t.Name(), models)
	for n := 0; n < networks && (all || caught == 0 || recorded && rejudged == 0); n++ {
		i := (first + n) % networks
		m := i % len(models)
		in, captures, _, _ := findings(t, draw(uint64(i/len(models)), uint64(m), models[m].Name), recorded)
		broken := func(f analyzers.Finding) bool { return f.Rule == rule }
		found, again := slices.ContainsFunc(in, broken), slices.ContainsFunc(captures, broken)
		if found {
			caught++
		}
		if again {
			rejudged++
		}
		if n > 0 && !all && found && (again || !recorded) {
			t.Logf("sooner found with firstCaught[%q] = {%q, %d}", t.Name(), models[m].Name, i/len(models))
		}
	}
	rates := fmt.Sprintf("%s was found in %d of %d networks", rule, caught, networks)
	if recorded {
		rates += fmt.Sprintf(", and in the captures of %d", rejudged)
	}
	if caught == 0 || recorded && rejudged == 0 {
		t.Error(rates)
	}
	if all {
		t.Log(rates)
	}
}

// timers matches the timer parameters of hosts.
var timers = regexp.MustCompile(`, (min-rto-us|delayed-ack-us|initial-rto-us|max-rto-us): \d+`)

// seeded adds a bug to the hosts of a network. A late ACK takes half a second; the timer must be longer, as a
// retransmission would elicit an ACK earlier.
func seeded(text string, bug tcp.BugInfo) string {
	more := ""
	if bug.Bug == tcp.BugNoBackoff { // a minute without backoff generates millions of packets
		text = strings.Replace(text, "deadline-us: 60000000", "deadline-us: 2000000", 1)
	}
	if bug.Bug == tcp.BugForgetsAck || bug.Bug == tcp.BugLateAck {
		text, more = timers.ReplaceAllString(text, ""), " delayed-ack-us: 100000, min-rto-us: 2000000,"
	}
	if bug.Bug == tcp.BugFastRetransmits && !strings.Contains(text, ", fast-retransmit: false") {
		more = " fast-retransmit: false,"
	}
	if bug.Bug == tcp.BugIgnoresMaxRTO {
		text, more = timers.ReplaceAllString(text, ""), " min-rto-us: 1000, max-rto-us: 2000,"
	}
	if bug.Bug == tcp.BugSamplesRetransmissions { // retransmissions of what only waits
		text, more = timers.ReplaceAllString(text, ""), " min-rto-us: 1, initial-rto-us: 50,"
	}
	return strings.Replace(text, "{transport: tcp,", "{transport: tcp, bugs: ["+bug.Name+"],"+more, 1)
}
