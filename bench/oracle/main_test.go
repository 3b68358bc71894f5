package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/runtimetest"
)

func TestMain(m *testing.M) { runtimetest.Main(m) }

// TestCompliantSessionsPass analyses sessions of compliant endpoints through the taps that show them without gaps.
func TestCompliantSessionsPass(t *testing.T) {
	count := "25"
	if testing.Short() {
		count = "5"
	}
	for _, view := range []string{"mirror", "plain", "pair", "hosts"} {
		var out, errors bytes.Buffer
		if status := run([]string{"check", "-view", view, "-count", count, "-packets", "300", "-limit", "0"}, &out,
			&errors); status != 0 {
			t.Errorf("%s: exit %d\n%s%s", view, status, &errors, &out)
		}
	}
}

func TestCapturesOfASessionAreKept(t *testing.T) {
	dir := t.TempDir()
	var out, errors bytes.Buffer
	if status := run([]string{"check", "-view", "pair", "-count", "1", "-keep", dir}, &out, &errors); status != 0 {
		t.Fatalf("exit %d\n%s", status, &errors)
	}
	for _, name := range []string{"before.pcap", "after.pcap"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALimitOfDisagreementsIsAnError(t *testing.T) {
	var out, errors bytes.Buffer
	count := "2000"
	if testing.Short() {
		count = "400"
	}
	status := run([]string{"compare", "-count", count, "-examples", "1", "-limit", "0"}, &out, &errors)
	if status == 0 && !strings.Contains(out.String(), "      0  disagreements") {
		t.Errorf("exit 0 with disagreements:\n%s", &out)
	}
	out.Reset()
	status = run([]string{"compare", "-count", "300", "-view", "plain", "-limit", "-1", "-examples", "1"}, &out, &errors)
	if status != 0 || strings.Contains(out.String(), "pair: ") || strings.Contains(out.String(), "mirror: ") {
		t.Errorf("exit %d for plain traces only\n%s%s", status, &errors, &out)
	}
	if status := run([]string{"compare", "-view", "mirrors"}, &out, &errors); status != 2 ||
		!strings.Contains(errors.String(), `"mirrors" is not a kind`) {
		t.Errorf("unknown view: exit %d, %s", status, &errors)
	}
	if status := run([]string{"judge"}, &out, &errors); status != 2 ||
		!strings.Contains(errors.String(), `"judge" is not a command`) {
		t.Errorf("unknown command: exit %d, %s", status, &errors)
	}
}

// TestEachFamilyOfTracesHasItsLimit draws traces of which some disagree, and gives the families limits.
func TestEachFamilyOfTracesHasItsLimit(t *testing.T) {
	blaming := func() comparison.Judge { // blames the requester of each trace in which both hosts send requests
		judge := comparison.Analyzers()
		return func(t *oracle.Trace) ([]analyzers.Finding, error) {
			if !t.TwoWay() {
				return judge(t)
			}
			return []analyzers.Finding{{Rule: "gbn.psn-skip", Severity: analyzers.Violation, Packets: []uint64{1}}}, nil
		}
	}
	const none = "basic=0/0,lengths=0/0,partial=0/0,elsewhere=0/0"
	for limits, want := range map[string]string{
		none + ",two-way=9999/9999": "",
		none + ",two-way=9999/0":    "two-way: ",
		none + ",two-way=0/9999":    "two-way: ",
		none:                        "two-way: ",
		"sideways=1/0":              `"sideways" is not a family of traces: want basic, lengths, partial, two-way, elsewhere, disturbed, hosts`,
		"basic=1":                   `"basic=1": want FAMILY=DISAGREEMENTS/UNJUST`,
		"basic=1/0,basic=1/0":       "basic has two limits",
	} {
		var out bytes.Buffer
		args := []string{"-count", "300", "-view", "mirror", "-examples", "0", "-limits", limits}
		err := compareWith(blaming, flag.NewFlagSet("oracle", flag.ContinueOnError), args, &out)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("-limits %s: %v, want %q\n%s", limits, err, want, &out)
		}
	}
}

// TestSessionsThatWereFalseAlarms analyses compliant sessions that a version of the analyzers blamed.
func TestSessionsThatWereFalseAlarms(t *testing.T) {
	for i, s := range [][3]string{
		// no bound of the clocks' drift late in the captures
		{"endpoints", "pair", "105572"}, {"endpoints", "pair", "118667"}, {"endpoints", "pair", "119648"},
		{"endpoints", "missing", "101624"},      // an old READ response is missing, too
		{"endpoints", "missing", "100218"},      // three frames of a short connection
		{"endpoints", "ipsn0", "100702"},        // the requests of a connection alone
		{"endpoints", "hosts-named", "101506"},  // as many ACKs as requests, but not one for each
		{"scenarios", "hosts", "123"},           // few frames, which one place in between seems to explain
		{"scenarios", "hosts-late", "71"},       // one capture starts later
		{"scenarios", "pair-doubled", "305"},    // few frames, all of them doubled
		{"scenarios", "pair-named", "2197"},     // stamps in whole microseconds
		{"scenarios", "pair-snapped", "138"},    // damage that does not show
		{"scenarios", "responder", "780"},       // damaged requests
		{"scenarios", "pair", "770"},            // equal initial PSNs: which directions belong together is unknown
		{"scenarios", "hosts", "931"},           // likewise, and the first request of a connection is lost
		{"scenarios", "hosts-named", "1204"},    // the responder's host sends the first request
		{"scenarios", "at-responder", "700898"}, // likewise, of a capture at one of them
		{"scenarios", "at-responder", "910314"},
		{"scenarios", "pair-snapped", "700368"}, // both captures cut requests off that their answers show
	} {
		if !runtimetest.Sampled(i) {
			continue
		}
		var out, errors bytes.Buffer
		args := []string{"check", "-configs", "../../configs", "-source", s[0], "-view", s[1], "-seed", s[2], "-count", "1",
			"-limit", "0"}
		if status := run(args, &out, &errors); status != 0 {
			t.Errorf("%s: exit %d\n%s%s", s, status, &errors, &out)
		}
	}
}

// TestThePageOfBugsThroughViewsIsUpToDate generates some lines of the page.
func TestThePageOfBugsThroughViewsIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/bug-views.md")
	if err != nil {
		t.Fatal(err)
	}
	every := 20
	if testing.Short() {
		every = 60
	}
	if runtimetest.Race {
		every = 200
	}
	var names, missing []string
	for i, bug := range rdma.Catalogue() {
		switch {
		case !strings.Contains(string(page), "\n| "+bug.Name+" | `"+bug.Rule+"` |"):
			missing = append(missing, bug.Name)
		case i%every == 3:
			names = append(names, bug.Name)
		}
	}
	if len(missing) > 0 {
		t.Errorf("docs/reference/bug-views.md lacks %v (make bug-views)", missing)
	}
	lines, err := bugLines("../../configs", strings.Join(names, ","))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		var b strings.Builder
		writeLine(&b, l)
		writeReasons(&b, l)
		for _, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
			if !strings.Contains(string(page), "\n"+line+"\n") {
				t.Errorf("docs/reference/bug-views.md lacks (make bug-views): %s", line)
			}
		}
		if len(l.alarms) > 0 {
			t.Errorf("%s without the bug: violations through %v", l.bug.Name, l.alarms)
		}
	}
}

// TestACompleteCaptureOfANamedConnectionShowsItsFirstPackets checks the reason in bug-views.md for bugs that the view
// counted does not show.
func TestACompleteCaptureOfANamedConnectionShowsItsFirstPackets(t *testing.T) {
	runtimetest.SkipRace(t)
	b := newBed("../../configs")
	defer func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}()
	v := viewNamed("counted")
	for _, bug := range rdma.Catalogue() {
		if !olderExplains[bug.Name] {
			continue
		}
		for _, sound := range []bool{false, true} {
			test, err := b.bench.BugTest(bug, profile, sound)
			if err != nil {
				t.Fatal(err)
			}
			recording, _, err := b.run(t.Context(), test)
			if err != nil {
				t.Fatal(err)
			}
			outcome, err := watch(v, recording, test, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := look(bug, v, outcome); (got == byRule || got == byOther) == sound {
				t.Errorf("%s, without the bug %t: %s", bug.Name, sound, got)
			}
		}
	}
}
