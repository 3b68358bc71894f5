package orchestrator_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace"
)

// soft-RoCE with ACK timeout exponent 14 retransmits the lost tail after 67 ms. This is correct for 14 and too early
// for exponents above 15.
func TestACaptureIsJudgedByTheSettingsThatAreGiven(t *testing.T) {
	const capture = "../packet/testdata/rxe/write-droptail"
	rules := func(o orchestrator.AnalyzeOptions) (list []string) {
		for _, f := range analyze(t, o).Analysis.Findings {
			if f.Severity == analyzers.Violation {
				list = append(list, f.Rule)
			}
		}
		return list
	}
	for timeout, want := range map[int][]string{14: nil, 18: {"gbn.timeout-early", "retrans.timeout-early"}} {
		retry := 7
		o := orchestrator.AnalyzeOptions{
			Trace: capture + ".in.pcap", Second: capture + ".out.pcap",
			Settings: trace.Settings{Timeout: &timeout, Retry: &retry, RNRRetry: &retry},
		}
		if got := rules(o); !slices.Equal(got, want) {
			t.Errorf("--timeout %d: violations %v, want %v", timeout, got, want)
		}
	}
}

func TestADocumentSaysTheSettings(t *testing.T) {
	const capture = "../packet/testdata/rxe/write-droptail"
	checked, _, err := trace.Check(t.Context(), trace.FileSource(capture+".in.pcap"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := checked.Meta().Connections.All()
	for timeout, want := range map[int]orchestrator.Exit{14: orchestrator.ExitPass, 18: orchestrator.ExitFail} {
		retry := 7
		for i := range list {
			list[i].Settings = trace.Settings{Timeout: &timeout, Retry: &retry, RNRRetry: &retry}
		}
		connections, err := trace.NewConnections(list)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "connections.json")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := connections.Write(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		o := analyze(t, orchestrator.AnalyzeOptions{Trace: capture + ".in.pcap", Second: capture + ".out.pcap",
			Connections: path})
		if o.Verdict.Exit != want {
			t.Errorf("timeout %d: exit %d, want %d: %v", timeout, o.Verdict.Exit, want, o.Verdict.Reasons)
		}
	}
}

// soft-RoCE sends DSCP 0 and MigReq 0. Only a document that gives other values is contradicted.
func TestADocumentSaysWhatPacketsCarry(t *testing.T) {
	const capture = "../packet/testdata/rxe/clean-ib_write_bw.in.pcap"
	checked, _, err := trace.Check(t.Context(), trace.FileSource(capture), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := func(v int) *int { return &v }
	for _, tc := range []struct {
		name string
		set  trace.Settings
		want []string
	}{
		{"nothing", trace.Settings{}, nil},
		{"what they carry", trace.Settings{DSCP: n(0), MigReq: n(0)}, nil},
		{"another DSCP, which a switch may have changed", trace.Settings{DSCP: n(26)}, []string{"warning fields.dscp"}},
		{"another MigReq", trace.Settings{MigReq: n(1)}, []string{"violation fields.mig-req-setting"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := slices.Clone(checked.Meta().Connections.All())
			for i := range list {
				list[i].Settings = tc.set
			}
			connections, err := trace.NewConnections(list)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "connections.json")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(connections.Write(f), f.Close()); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range analyze(t, orchestrator.AnalyzeOptions{Trace: capture, Connections: path}).Analysis.Findings {
				if s := string(f.Severity) + " " + f.Rule; f.Analyzer == "fields" && !slices.Contains(got, s) {
					got = append(got, s)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("findings %v, want %v", got, tc.want)
			}
		})
	}
}
