package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace"
)

// written holds the files that an analysis wrote.
type written struct {
	page     string
	analysis analyzers.Analysis
	junit    struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
}

func readWritten(t *testing.T, dir string) (w written) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%v, %v: want three files", entries, err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	w.page = string(read("report.html"))
	if err := json.Unmarshal(read("findings.json"), &w.analysis); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(read("junit.xml"), &w.junit); err != nil {
		t.Fatal(err)
	}
	return w
}

// tarred packs a run directory in the format of tar(1).
func tarred(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dir.tar")
	if err := writeTar(file, dir); err != nil {
		t.Fatal(err)
	}
	return file
}

const nackPlusOne = `name: wrong
responder: {nic: {bugs: [nack-psn-plus-one]}}
traffic:
  num-connections: 1
  message-size: 10240
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
`

// TestAnalyzeWritesAReportWhateverTheVerdict also checks that the files agree with the output.
func TestAnalyzeWritesAReportWhateverTheVerdict(t *testing.T) {
	run := runOf(t, nackPlusOne)
	responses := onlyResponses(t, filepath.Join(run, "trace.pcap"))
	for name, tt := range map[string]struct {
		args []string
		exit orchestrator.Exit
		page []string
	}{
		"a run": {[]string{run}, orchestrator.ExitFail,
			[]string{"FAIL", "gbn.nak-psn", "f1-packets", "PSN over time", "findings.json"}},
		"a bundle": {[]string{bundled(t, run, "--with-trace")}, orchestrator.ExitFail,
			[]string{"FAIL", "gbn.nak-psn", "f1-packets"}},
		"an archived run": {[]string{tarred(t, run)}, orchestrator.ExitFail,
			[]string{"FAIL", "gbn.nak-psn", "f1-packets"}},
		"a mirror trace": {[]string{filepath.Join(run, "trace.pcap")}, orchestrator.ExitFail,
			[]string{"FAIL", "gbn.nak-psn", "PSN over time"}},
		"an unjudged one": {[]string{"--input", "plain", responses}, orchestrator.ExitInvalid,
			[]string{"INVALID", "nothing was judged", "capture both directions"}},
		"a plain capture": {[]string{"--input", "plain", filepath.Join(run, "trace.pcap")}, orchestrator.ExitPass,
			[]string{"PASS", "Warnings and notes", "PSN over time"}},
		"a passing bundle": {[]string{bundled(t, runOf(t, oneDrop), "--with-trace")}, orchestrator.ExitPass,
			[]string{"PASS", "Packet by packet"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "report")
			junit := filepath.Join(t.TempDir(), "other.xml")
			status, stdout, stderr := candela(t,
				append([]string{"analyze", "--format", "json", "--out", dir, "--junit", junit}, tt.args...)...)
			if status != tt.exit || stderr != "" {
				t.Fatalf("exit status %d, want %d\n%s%s", status, tt.exit, stdout, stderr)
			}
			w := readWritten(t, dir)
			for _, text := range tt.page {
				if !strings.Contains(w.page, text) {
					t.Errorf("the page lacks %q", text)
				}
			}
			if strings.Contains(w.page, os.TempDir()+"/candela-bundle") || strings.Contains(w.page, "log.jsonl") {
				t.Error("the page names files that are not there")
			}
			var printed analyzers.Analysis
			if err := json.Unmarshal([]byte(stdout), &printed); err != nil ||
				len(printed.Findings) != len(w.analysis.Findings) || printed.Verdict != w.analysis.Verdict {
				t.Errorf("findings.json and what was printed differ: %v", err)
			}
			if failed := w.junit.Failures > 0; failed != (tt.exit == orchestrator.ExitFail) {
				t.Errorf("%d failures in junit.xml", w.junit.Failures)
			}
			if broken := w.junit.Errors > 0; broken != (tt.exit == orchestrator.ExitInvalid) {
				t.Errorf("%d errors in junit.xml", w.junit.Errors)
			}
			a, errA := os.ReadFile(junit)
			b, errB := os.ReadFile(filepath.Join(dir, "junit.xml"))
			if errA != nil || errB != nil || !bytes.Equal(a, b) {
				t.Errorf("--junit and junit.xml differ: %v, %v", errA, errB)
			}
		})
	}
}

// TestAReportOfTwoCapturesSaysHowTheyWereRead checks the reported taps, clocks and the events between them.
func TestAReportOfTwoCapturesSaysHowTheyWereRead(t *testing.T) {
	const rxe = "../../packet/testdata/rxe/write-drop5"
	before, after := rxe+".in.pcap", rxe+".out.pcap"
	common := []string{"Between the captures", "the first capture", "drift", "uncertainty", "dropped in between",
		">taps</text>"}
	for name, tt := range map[string]struct {
		args []string
		page []string
	}{
		"after": {[]string{before, "--after", after},
			append([]string{"<td>before</td>", "<td>after</td>"}, common...)},
		"two names": {[]string{before, after}, append([]string{"<td>first</td>", "<td>second</td>"}, common...)},
		"places": {[]string{"--tap", "before=" + before, "--tap", "after=" + after},
			append([]string{"<td>before</td>"}, common...)},
		"one clock": {[]string{before, "--after", after, "--same-clock"}, []string{"one clock stamped both captures"}},
		"other traffic": {[]string{before, "--after", "../../packet/testdata/rxe/read-drop5resp.out.pcap"},
			[]string{"INVALID", "read-drop5resp.out.pcap"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, _, stderr := candela(t, append([]string{"analyze", "--out", dir}, tt.args...)...)
			w := readWritten(t, dir)
			for _, text := range tt.page {
				if !strings.Contains(w.page, text) {
					t.Errorf("the page lacks %q\n%s", text, stderr)
				}
			}
		})
	}
}

// TestAFailingAnalysisKeepsTheReportThatIsThere checks that unreadable captures and unwritable directories do not
// destroy an existing report.
func TestAFailingAnalysisKeepsTheReportThatIsThere(t *testing.T) {
	run := runOf(t, nackPlusOne)
	dir := t.TempDir()
	if status, _, stderr := candela(t, "analyze", run, "--out", dir); status != orchestrator.ExitFail {
		t.Fatal(stderr)
	}
	before := readWritten(t, dir)
	text := filepath.Join(t.TempDir(), "text.pcap")
	if err := os.WriteFile(text, []byte("this is text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{text, "--out", dir},
		{run, "--out", dir, "--junit", filepath.Join(dir, "no", "such", "directory.xml")},
		{run, "--out", dir, "--junit", dir},
	} {
		status, _, stderr := candela(t, append([]string{"analyze"}, args...)...)
		if status != orchestrator.ExitUsage && status != orchestrator.ExitInfrastructure || stderr == "" {
			t.Errorf("%v: exit status %d %s", args, status, stderr)
		}
		if after := readWritten(t, dir); after.page != before.page {
			t.Errorf("%v: the page has changed", args)
		}
	}
	made := filepath.Join(t.TempDir(), "made")
	if status, _, _ := candela(t, "analyze", text, "--out", made); status != orchestrator.ExitUsage {
		t.Errorf("exit status %d", status)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("an empty directory is left")
	}
	for place, want := range map[string]string{run: "is a run directory", text: "is not a directory"} {
		status, _, stderr := candela(t, "analyze", run, "--out", place)
		if status != orchestrator.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("--out %s: exit status %d, %q", place, status, stderr)
		}
	}
}

// TestBundlesAreRefusedWithAReason also checks that the message gives the remedy.
func TestBundlesAreRefusedWithAReason(t *testing.T) {
	run := runOf(t, oneDrop)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{bundled(t, run)}, "--with-trace"},
		{[]string{bundled(t, run, "--with-trace"), "--after", filepath.Join(run, "trace.pcap")}, "is a bundle"},
	} {
		status, _, stderr := candela(t, append([]string{"analyze"}, tt.args...)...)
		if status != orchestrator.ExitUsage || !strings.Contains(stderr, tt.want) ||
			strings.Contains(stderr, "candela-bundle-") {
			t.Errorf("%v: exit status %d, %q, want 2 and %q", tt.args, status, stderr, tt.want)
		}
	}
}

// TestAStoppedAnalysisLeavesNothingOfABundle also checks that it exits as any interrupted command does.
func TestAStoppedAnalysisLeavesNothingOfABundle(t *testing.T) {
	file := bundled(t, runOf(t, oneDrop), "--with-trace")
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if status := run(ctx, []string{"analyze", file}, &out, &errs); status != orchestrator.ExitInfrastructure ||
		!strings.Contains(errs.String(), "stopped") {
		t.Errorf("exit status %d, %s", status, errs.String())
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestAnalyzingARecordedRunGivesItsVerdict compares verdict, reasons and findings of a directory, a bundle and an
// unpacked bundle.
func TestAnalyzingARecordedRunGivesItsVerdict(t *testing.T) {
	for name, text := range map[string]string{
		"a pass": oneDrop, "a violation": nackPlusOne, "several verbs": severalVerbs,
		"a corrupted packet": strings.Replace(oneDrop, "type: drop", "type: corrupt", 1),
	} {
		t.Run(name, func(t *testing.T) {
			run := runOf(t, text)
			opened, err := orchestrator.OpenRun(run)
			if err != nil {
				t.Fatal(err)
			}
			want := opened.Document.Verdict
			findings, err := orchestrator.MergeAnalysis(opened.ReadFile)
			if err := opened.Close(); err != nil {
				t.Fatal(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			directory := t.TempDir()
			file := bundled(t, run, "--with-trace")
			if err := untar(file, directory); err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{run, file, directory} {
				status, stdout, stderr := candela(t, "analyze", from, "--format", "json")
				var a analyzers.Analysis
				if err := json.Unmarshal([]byte(stdout), &a); err != nil {
					t.Fatalf("%s: %v %s", from, err, stderr)
				}
				if status != want.Exit || a.Verdict != want.Verdict {
					t.Errorf("%s: exit %d, %s; the run had %d, %s", from, status, a.Verdict, want.Exit, want.Verdict)
				}
				if !slices.Equal(rulesOf(&a, true), rulesOf(findings, true)) {
					t.Errorf("%s: %v; the run had %v", from, rulesOf(&a, true), rulesOf(findings, true))
				}
			}
		})
	}
}

// TestARunOfTheVirtualTestbedIsRejudgedWithItsCables flips a bit. Virtual cables do not corrupt frames, so the device
// sent a wrong iCRC.
func TestARunOfTheVirtualTestbedIsRejudgedWithItsCables(t *testing.T) {
	run := runOf(t, oneDrop)
	file := filepath.Join(run, "trace.pcap")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const fileHeader, frameHeader = 24, 16
	end := fileHeader + frameHeader + int(binary.LittleEndian.Uint32(data[fileHeader+8:]))
	data[end-1] ^= 0x10
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := candela(t, "analyze", run)
	if status != orchestrator.ExitFail || !strings.Contains(stdout, "icrc") {
		t.Errorf("exit status %d, want 1 and a finding about the iCRC\n%s%s", status, stdout, stderr)
	}
}

// onlyResponses writes a copy of a trace that contains only its ACKs.
func onlyResponses(t *testing.T, path string) string {
	t.Helper()
	var b bytes.Buffer
	file := filepath.Join(t.TempDir(), "responses.pcap")
	w := trace.NewPcapWriter(&b, file, 0)
	const opcodeAt, ack = 42, 0x11
	err := trace.FileSource(path).ForEachFrame(t.Context(), func(f *trace.Frame) error {
		if f.Data[opcodeAt] != ack {
			return nil
		}
		return w.Write(f.TimeNS, f.Data, f.OrigLen)
	})
	if err := errors.Join(err, w.Flush(), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// writeTar packs dir including its name, as tar -cf file dir does.
func writeTar(file, dir string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	defer func() { err = errors.Join(err, w.Close(), f.Close()) }()
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(filepath.Dir(dir), path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Size: int64(len(data)),
			Mode: 0o644}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

// untar unpacks an archive that these tests made.
func untar(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		data, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			return err
		}
	}
}
