package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/bundle"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

const bundles = "../../docs/reference/findings/"

// upstreamOf runs candela report --upstream and returns the text and the directory of the files.
func upstreamOf(t *testing.T, bundle string, args ...string) (text, dir string) {
	t.Helper()
	dir = t.TempDir()
	status, text, stderr := candela(t, slices.Concat([]string{"report", bundle, "--out", dir, "--upstream"}, args)...)
	if status != orchestrator.ExitPass {
		t.Fatalf("exit status %d\n%s", status, stderr)
	}
	return text, dir
}

func TestAFindingIsWrittenForItsMaintainers(t *testing.T) {
	text, dir := upstreamOf(t, bundles+"rxe-nak-after-rnr.tar", "gbn.nak-unprovoked", "--packets", "1-11")
	for _, want := range []string{
		"Subject: [BUG] RDMA/rxe: responder sent a NAK for psn 3",
		"responder (the device in question): model soft-RoCE (rdma_rxe); kernel\n  6.1.0-56-amd64",
		"IBTA volume 1, 9.7.4.1.1; 9.7.5.2.",
		"\n *#11       15.599 ms <- 00165204 (3)   ACKNOWLEDGE, NAK (PSN sequence\n",
		"of this connection 0 precede and 45 follow",
		"min_rnr_timer 5; 1 receive\nposted, each again",
		"\n      min-rnr-timer: 5\n",
		"- Capture, mirrored: 56 packets in the trace and mirrored by the switch.",
		"- Injector: it changed and dropped nothing.",
		"- Damage: each packet above carries a valid ICRC.",
		"- Peer: the requester broke no rule in this run.",
		"Differences over the run: out_of_seq_request 5,",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q\n%s", want, text)
		}
	}
	if strings.Contains(text, "#12") || strings.Contains(text, "Prior art") {
		t.Errorf("packets out of --packets, or prior art that nobody gave\n%s", text)
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 75 {
			t.Errorf("longer than 75 columns: %s", line)
		}
	}
	program, err := os.ReadFile(filepath.Join(dir, "reproducer.c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"OPCODE        IBV_WR_SEND\n", "MIN_RNR_TIMER 5\n", "REPOST_US     50 ", "ANSWERS       1\n"} {
		if !strings.Contains(string(program), want) {
			t.Errorf("the program lacks %q", want)
		}
	}
	if status, _, stderr := candela(t, "config", "check", filepath.Join(dir, "test.yml")); status != orchestrator.ExitPass {
		t.Errorf("the test is not valid: %s", stderr)
	}
}

// readPackets returns the packets of a plain capture, all of which must carry a valid ICRC.
func readPackets(t *testing.T, dir string) (list []trace.Record) {
	t.Helper()
	checked, _, err := trace.Check(t.Context(), trace.FileSource(filepath.Join(dir, "packets.pcap")), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = checked.ForEach(t.Context(), func(r *trace.Record) error {
		if r.ICRC != packet.ICRCValid {
			t.Errorf("frame %d: ICRC %v", r.ID, r.ICRC)
		}
		list = append(list, *r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestTheCaptureOfAResponderHasWhatItReceived: the change of the injector proves the finding, so it is in the capture.
func TestTheCaptureOfAResponderHasWhatItReceived(t *testing.T) {
	text, dir := upstreamOf(t, bundles+"rxe-dma-length.tar", "1")
	if !strings.Contains(text, "[switch: dma-length becomes 2049, ICRC updated]") ||
		!strings.Contains(text, "A program at the hosts is not enough: the switch has to touch packets.") {
		t.Errorf("the text does not say what the switch does\n%s", text)
	}
	list := readPackets(t, dir)
	if len(list) != 3 || list[0].DMALen != 2049 || list[0].PayloadLen != 1024 {
		t.Errorf("the capture has %+v", list)
	}
	if _, err := os.Stat(filepath.Join(dir, "reproducer.c")); err == nil {
		t.Error("there is a program for a finding that needs the switch")
	}
	_, dir = upstreamOf(t, bundles+"rxe-read-replay.tar", "gbn.replay-opcode")
	if list := readPackets(t, dir); len(list) == 0 || slices.ContainsFunc(list, func(r trace.Record) bool {
		return r.Event != trace.EventNone
	}) {
		t.Errorf("the capture has %+v", list)
	}
}

// TestAPeerThatIsNeverReachedIsAPeerThatDoesNotAnswer: a requester cannot tell these apart, so a program is enough.
func TestAPeerThatIsNeverReachedIsAPeerThatDoesNotAnswer(t *testing.T) {
	art := filepath.Join(t.TempDir(), "art.txt")
	if err := os.WriteFile(art, []byte("An earlier report:\n\x1b[31m  https://example.org/1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	text, dir := upstreamOf(t, bundles+"rxe-retry-7.tar", "gbn.retry-exceeded", "--prior-art", art, "--source", art,
		"--subject", "retry count 7")
	for _, want := range []string{
		"Subject: [BUG] RDMA/rxe: retry count 7\n", "\nPrior art\n---------\n\nAn earlier report:\n[31m  https://example.org/1\n",
		"\nWhere it comes from\n", "IBV_WC_RETRY_EXC_ERR after 8 transmissions",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a control character came through")
	}
	program, err := os.ReadFile(filepath.Join(dir, "reproducer.c"))
	if err != nil || !strings.Contains(string(program), "ANSWERS       0 ") {
		t.Errorf("the responder of the program answers (%v)", err)
	}
	if list := readPackets(t, dir); len(list) != 12 {
		t.Errorf("the capture has %d packets, want the 11 transmissions, dropped or not, and the ACK", len(list))
	}
}

// TestTheProgramsCompile needs a C compiler and the headers of libibverbs.
func TestTheProgramsCompile(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if _, herr := os.Stat("/usr/include/infiniband/verbs.h"); err != nil || herr != nil {
		t.Skip("needs cc and libibverbs-dev")
	}
	_, dir := upstreamOf(t, bundles+"rxe-retry-7.tar", "gbn.retry-exceeded")
	out, err := exec.CommandContext(t.Context(), cc, "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
		filepath.Join(dir, "reproducer.c")).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUpstreamRefusesWhatItCannotReport(t *testing.T) {
	bundle := bundles + "rxe-retry-7.tar"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{bundle, "--upstream", "gbn.nak-psn"}, "want a number from 1 to 6 or one of gbn.retry-exceeded"},
		{[]string{bundle, "--upstream", "7"}, "finding 7: the run has 6"},
		{[]string{bundle, "--upstream", "0"}, "finding 0: the run has 6"},
		{[]string{bundle, "--upstream", "1", "--packets", "5"}, "--packets 5: want FIRST-LAST"},
		{[]string{bundle, "--upstream", "1", "--packets", "90-99"}, "the trace has none of these packets"},
		{[]string{bundle, "--upstream", "1", "--prior-art", "no-such-file"}, "--prior-art: "},
		{[]string{bundle, "--upstream", "1", "--test", bundle}, "--test: "},
		{[]string{bundle, "--upstream", "1", "--title", "x"}, "--title: "},
		{[]string{bundle, bundle, "--upstream", "1"}, "want one run directory or bundle"},
		{[]string{bundle, "--prior-art", "x"}, "--prior-art: only --upstream"},
		{[]string{"../../packet/testdata/rxe/README.md", "--upstream", "1"}, "want a run directory or a bundle"},
	} {
		status, stdout, stderr := candela(t, slices.Concat([]string{"report"}, c.args)...)
		if status == orchestrator.ExitPass || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit status %d, want an error with %q:\n%s", c.args, status, c.want, stderr)
		}
	}
}

// TestAFindingAboutAModelIsReportedFromARunDirectory: the documents of a run are those of a bundle.
func TestAFindingAboutAModelIsReportedFromARunDirectory(t *testing.T) {
	out := t.TempDir()
	if status, _, stderr := candela(t, "run", "../../configs/detect/nack-psn-plus-one.yml", "--out", out); status !=
		orchestrator.ExitPass {
		t.Fatal(stderr)
	}
	runs, err := filepath.Glob(filepath.Join(out, "*", "run.json"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v %v", runs, err)
	}
	text, dir := upstreamOf(t, filepath.Dir(runs[0]), "gbn.nak-psn")
	if !regexp.MustCompile(`(?m)^Subject: \[BUG\] model spec: responder `).MatchString(text) {
		t.Errorf("the subject does not name the device\n%s", text)
	}
	readPackets(t, dir)
}

var updateUpstream = flag.Bool("update", false, "rewrite docs/reference/findings/upstream")

// ours are the findings of docs/reference/findings.md as they are written for the kernel's maintainers, by bundle, with
// the arguments of candela report.
var ours = map[string][]string{
	"rxe-stale-timer": {"retrans.timeout-early", "--packets", "621-625",
		"--subject", "retransmit timer of an acknowledged request expires under the next one"},
	"rxe-stale-timer-6.12": {"gbn.timeout-early", "--packets", "59-123",
		"--subject", "retransmit timer of an acknowledged request expires under the next one"},
	"rxe-retry-7":       {"gbn.retry-exceeded", "--subject", "retry_cnt 7 is taken for infinite"},
	"rxe-nak-after-rnr": {"gbn.nak-unprovoked", "--packets", "1-11", "--subject", "sequence NAK for a PSN that was answered with an RNR NAK"},
	"rxe-dma-length":    {"gbn.nak-fatal-missing", "--subject", "WRITE that is shorter than its DMA length is acknowledged"},
	"rxe-read-replay": {"gbn.replay-opcode", "--packets", "10-18",
		"--subject", "responses to a repeated READ begin with READ_RESPONSE_MIDDLE"},
}

// TestOurFindingsAreThoseThatTheBundlesGive writes each again from its trace and compares every file.
func TestOurFindingsAreThoseThatTheBundlesGive(t *testing.T) {
	for name, args := range ours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := bundles + "upstream/" + name
			_, dir := upstreamOf(t, bundles+name+".tar", slices.Concat(args, []string{"--source", kept + ".source.txt"})...)
			if *updateUpstream {
				if err := errors.Join(os.RemoveAll(kept), os.CopyFS(kept, os.DirFS(dir))); err != nil {
					t.Fatal(err)
				}
			}
			made, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			found, err := os.ReadDir(kept)
			if err != nil || len(found) != len(made) || len(made) < 3 {
				t.Errorf("%s has %d files, want %d (%v): go test ./cmd/candela -run OurFindings -update", kept, len(found),
					len(made), err)
			}
			for _, file := range made {
				got, err := os.ReadFile(filepath.Join(dir, file.Name()))
				want, werr := os.ReadFile(filepath.Join(kept, file.Name()))
				if err != nil || werr != nil || !bytes.Equal(got, want) {
					t.Errorf("%s/%s differs (%v, %v): go test ./cmd/candela -run OurFindings -update", kept, file.Name(), err, werr)
				}
			}
			readPackets(t, kept)
		})
	}
	for _, pattern := range []string{"*.tar", "upstream/*.source.txt"} {
		if files, err := filepath.Glob(bundles + pattern); err != nil || len(files) != len(ours) {
			t.Errorf("%d files %s for %d findings (%v)", len(files), pattern, len(ours), err)
		}
	}
}

// TestTheFirstElevenPacketsProveTheThirdFinding: nothing that comes later is needed for it, no retransmission and no
// other RNR NAK.
func TestTheFirstElevenPacketsProveTheThirdFinding(t *testing.T) {
	dir := t.TempDir()
	unpacked, err := os.Open(bundles + "rxe-nak-after-rnr.tar")
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	if _, err := bundle.Unpack(unpacked, dir); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(dir, "part.pcap")
	for _, command := range [][]string{
		{"trace", "slice", filepath.Join(dir, "trace.pcap"), "--first", "1", "--last", "11", "--out", part},
		{"analyze", part, "--connections", filepath.Join(dir, "connections.json"), "--format", "json"},
	} {
		status, stdout, stderr := candela(t, command...)
		switch {
		case command[0] == "trace" && status == orchestrator.ExitPass:
		case status != orchestrator.ExitFail:
			t.Fatalf("exit status %d\n%s", status, stderr)
		default:
			var a analyzers.Analysis
			if err := json.Unmarshal([]byte(stdout), &a); err != nil {
				t.Fatal(err)
			}
			if rules := rulesOf(&a, true); !slices.Equal(rules, []string{"gbn.nak-unprovoked"}) {
				t.Errorf("found %v", rules)
			}
		}
	}
}
