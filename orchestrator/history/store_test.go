package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/history"
)

var firstNight = time.Date(2026, 11, 1, 22, 0, 0, 0, time.UTC)

// made returns a run of a test with a finding and a metric.
func made(test string, night, repetition int) *history.Run {
	start := firstNight.AddDate(0, 0, night).Add(time.Duration(repetition) * time.Second)
	rng := rand.New(rand.NewPCG(uint64(night), uint64(repetition)))
	value := 1000 + 10*rng.Float64()
	return &history.Run{
		ID:   fmt.Sprintf("%032x", []byte(fmt.Sprintf("%-8.8s%04d%04d", test, night, repetition))),
		Test: history.Test{ID: test, Name: test + "-name", Path: test + ".yml", Owner: "team-" + test[:1]}, Testbed: "lab",
		Night: history.NightOf(start), Started: start, Finished: start.Add(time.Second), Analysed: start.Add(time.Second),
		Seed: 1<<63 + 7, Repetition: repetition, Config: strings.Repeat("ab", 32), Tool: "v1",
		Environment: map[string]string{"requester.firmware": "28.39.1002", "requester.kernel": "6.1.0"},
		Coverage:    map[string]history.Coverage{"gbn": {Seen: []string{"a"}, Unseen: []string{"b"}}},
		Metrics: []history.Metric{{Name: "retrans.nack-reaction", Unit: "ns", N: 10, Least: value - 1, Mean: value,
			P50: value, P99: value + 2, P999: value + 3, Most: value + 4, Histogram: []byte{1, 2, 3}}},
		Artefacts: []history.Artefact{{Kind: "directory", Location: "/runs/" + test}},
	}
}

func violation(rule string) history.Finding {
	return history.Finding{Rule: rule, Cause: "cause", Role: "responder", Severity: analyzers.Violation, Connection: 3,
		PSN: 7, TimeNS: 99, Packets: []uint64{4, 5}, Headline: "Responder of qpn 3 did it."}
}

// failing gives a run a violation.
func failing(r *history.Run, rules ...string) *history.Run {
	r.Verdict, r.Reasons = history.Fail, []string{fmt.Sprintf("%d violations", len(rules))}
	for _, rule := range rules {
		r.Findings = append(r.Findings, violation(rule))
	}
	return r
}

func ingest(t testing.TB, s *history.Store, runs ...*history.Run) history.Ingested {
	t.Helper()
	done, err := s.Ingest(context.Background(), runs...)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestARunIsReadAsItWasWrittenAndImportingAgainChangesNothing(t *testing.T) {
	engines(t, func(t *testing.T, address string) {
		s := open(t, address)
		run := failing(made("x", 0, 1), "gbn.nak-psn")
		run.Findings[0].Waiver = "DEF-7, nic-team, until 2027-01-01"
		if done := ingest(t, s, run, made("x", 0, 2)); done != (history.Ingested{New: 2}) {
			t.Errorf("first: %+v", done)
		}
		before, err := s.Show(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		f := before.Findings[0]
		if before.Seed != run.Seed || before.Verdict != history.Fail || f.Rule != "gbn.nak-psn" || f.Packets != "4 5" ||
			f.Waiver != run.Findings[0].Waiver || before.Metrics[0].P50 != run.Metrics[0].P50 ||
			before.Environment["requester.firmware"] != "28.39.1002" || before.Coverage["gbn"].Unseen[0] != "b" ||
			before.Artefacts[0].Location != "/runs/x" || before.Owner != "team-x" || before.Night.String() != "2026-11-01" {
			t.Errorf("read: %+v", before)
		}
		if done := ingest(t, s, run, made("x", 0, 2), run); done != (history.Ingested{Unchanged: 3}) {
			t.Errorf("again: %+v", done)
		}
		after, err := s.Show(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(before, after); d != "" {
			t.Error(d)
		}
		list, err := s.List(t.Context(), history.Filter{Tests: []string{"x"}})
		if err != nil || len(list) != 2 || list[0].Repetition != 2 {
			t.Errorf("list: %+v, %v", list, err)
		}
	})
}

func TestTheLatestAnalysisCounts(t *testing.T) {
	engines(t, func(t *testing.T, address string) {
		s := open(t, address)
		first, later, older := failing(made("x", 0, 1), "gbn.nak-psn"), made("x", 0, 1), failing(made("x", 0, 1), "gbn.a")
		later.Analysed, later.Tool = first.Analysed.Add(time.Hour), "v2"
		older.Analysed = first.Analysed.Add(time.Minute)
		ingest(t, s, first)
		for i, want := range []history.Ingested{{Updated: 1}, {Unchanged: 1}} {
			if done := ingest(t, s, later); done != want {
				t.Errorf("%d: %+v", i, done)
			}
		}
		for range 2 {
			if done := ingest(t, s, older, first); done != (history.Ingested{Unchanged: 2}) {
				t.Errorf("older: %+v", done)
			}
		}
		r, err := s.Show(t.Context(), first.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != history.Pass || len(r.Findings) != 0 || len(r.Metrics) != 1 || len(r.Analyses) != 3 ||
			r.Tool != "v2" {
			t.Errorf("%+v", r)
		}
	})
}

func TestARenamedTestKeepsItsFindings(t *testing.T) {
	engines(t, func(t *testing.T, address string) {
		for _, order := range []string{"old first", "new first", "was added later"} {
			t.Run(order, func(t *testing.T) {
				s := open(t, address)
				name := strings.ReplaceAll(order, " ", "-")
				old, renamed := failing(made(name, 0, 1), "gbn.a"), failing(made(name, 1, 1), "gbn.a")
				renamed.Test.ID, renamed.Test.Was = name+"-b", []string{name}
				bare := failing(made(name, 2, 1), "gbn.a", "gbn.c")
				bare.Test.ID = name + "-b"
				switch order {
				case "old first":
					ingest(t, s, old)
					ingest(t, s, renamed, bare)
				case "new first":
					ingest(t, s, renamed)
					ingest(t, s, bare, old)
				default:
					ingest(t, s, old)
					ingest(t, s, bare)
					ingest(t, s, renamed)
				}
				ids := make(map[string]int)
				for _, r := range []*history.Run{old, renamed, bare} {
					shown, err := s.Show(t.Context(), r.ID)
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range shown.Findings {
						ids[f.Rule+" "+f.ID]++
					}
				}
				if len(ids) != 2 {
					t.Errorf("identities: %v", ids)
				}
				for _, key := range []string{name, name + "-b"} {
					list, err := s.List(t.Context(), history.Filter{Tests: []string{key}})
					if err != nil || len(list) != 3 {
						t.Errorf("%s: %d runs, %v", key, len(list), err)
					}
				}
			})
		}
	})
}

func TestErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	text, damaged := filepath.Join(dir, "text.db"), filepath.Join(dir, "damaged.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := history.Open(t.Context(), damaged)
	if err != nil {
		t.Fatal(err)
	}
	for night := range 20 {
		ingest(t, s, failing(made("x", night, 1), "gbn.a"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(data); i++ {
		data[i] = byte(i)
	}
	if err := os.WriteFile(damaged, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, address, want string
		usage               bool
	}{
		{"another scheme", "mysql://u:secret@host/db", "want a file, sqlite:FILE or postgres://", true},
		{"no address", "", "the address is empty", true},
		{"a file that does not exist", filepath.Join(dir, "none.db"), "there is no such file", true},
		{"a directory", dir, "this is a directory", true},
		{"another file", text, "not a results store", true},
		{"a damaged file", damaged, "damaged", false},
		{"a server that does not answer", "postgres://u:secret@127.0.0.1:1/db", "cannot be reached", false},
		{"a broken address", "postgres://u:secret@host:port/db", "results store", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := history.OpenExisting(t.Context(), tt.address)
			if err == nil {
				_, err = s.List(t.Context(), history.Filter{})
				_ = s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v; want %q", err, tt.want)
			}
			if errors.Is(err, history.ErrUsage) != tt.usage {
				t.Errorf("usage error: %v, want %v: %v", !tt.usage, tt.usage, err)
			}
		})
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	engines(t, func(t *testing.T, address string) {
		s := open(t, address)
		if err := history.SetVersion(s, 99); err != nil {
			t.Fatal(err)
		}
		_, err := history.Open(t.Context(), address)
		if err == nil || !strings.Contains(err.Error(), "schema has version 99") {
			t.Errorf("error %v", err)
		}
	})
}
