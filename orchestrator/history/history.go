// Package history is the lab's memory: a store of runs with their findings, distributions, environments, coverage,
// waivers and files, and the questions that it answers.
//
// The store is a file (SQLite) or a server (PostgreSQL) with one schema. A run is written in one transaction, whole or
// not at all, and once: importing it again changes nothing. [Store.Ingest] writes, [ReadDir] makes a [Run] of a run
// directory, and the questions are methods of [Store].
package history

import (
	"fmt"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
)

// A Run is what the store keeps of a run.
type Run struct {
	ID      string // run_id of run.json
	Test    Test
	Point   string // values of the point of a sweep; empty: the test has no sweep
	Testbed string
	Night   Night
	Started, Finished,
	// Analysed is when the analysis was made of which verdict, findings and metrics are: the latest counts.
	Analysed time.Time
	Seed        uint64
	Repetition  int    // from 1; 0: not repeated
	Config      string // SHA-256 of the configuration without its seed
	Tool        string // version
	Verdict     Verdict
	Reasons     []string
	Environment map[string]string // by component.property
	Coverage    map[string]Coverage
	Findings    []Finding
	Metrics     []Metric
	Artefacts   []Artefact
}

// A Test is recognised by metadata.id or, without one, by its path in the suite and its name.
type Test struct {
	ID          string // metadata.id
	Path, Name  string // path in the suite, with slashes
	Owner       string
	Requirement string
	Was         []string // former keys
}

// Key is what a test is recognised by.
func (t *Test) Key() string {
	switch {
	case t.ID != "":
		return t.ID
	case t.Path == "":
		return t.Name
	}
	return t.Path + "#" + t.Name
}

// Verdict is the exit status of a run.
type Verdict int

// Verdicts of runs.
const (
	Pass    = Verdict(orchestrator.ExitPass)
	Fail    = Verdict(orchestrator.ExitFail)
	Invalid = Verdict(orchestrator.ExitInvalid)
	Broken  = Verdict(orchestrator.ExitInfrastructure)
)

// Judged reports whether the run says anything about the device.
func (v Verdict) Judged() bool { return v == Pass || v == Fail }

func (v Verdict) String() string {
	switch v {
	case Pass:
		return "pass"
	case Fail:
		return "fail"
	case Invalid:
		return "invalid"
	case Broken:
		return "broken"
	}
	return fmt.Sprintf("exit %d", int(v))
}

// MarshalText writes the word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// A Night is a date, in days since 1970. Runs of a nightly plan have the date on which the plan began, others that on
// which they started, in UTC.
type Night int

const day = 24 * time.Hour

// NightOf returns the night of a run that started at t.
func NightOf(t time.Time) Night {
	seconds := t.Unix()
	days := seconds / int64(day/time.Second)
	if seconds < 0 && seconds%int64(day/time.Second) != 0 {
		days--
	}
	return Night(days)
}

// ParseNight reads a date, YYYY-MM-DD.
func ParseNight(text string) (Night, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, fmt.Errorf("night %q: want a date such as 2026-11-20", text)
	}
	return NightOf(t), nil
}

func (n Night) String() string {
	return time.Unix(int64(n)*int64(day/time.Second), 0).UTC().Format(time.DateOnly)
}

// MarshalText writes the date.
func (n Night) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads a date.
func (n *Night) UnmarshalText(text []byte) (err error) {
	*n, err = ParseNight(string(text))
	return err
}

// Coverage lists transitions of an analyzer's state machine, sorted.
type Coverage struct {
	Seen   []string `json:"seen"`
	Unseen []string `json:"unseen,omitempty"`
}

// A Finding of a run.
type Finding struct {
	Rule, Cause, Role string
	Severity          analyzers.Severity
	Expected          bool   // the test wants or tolerates it
	Waiver            string // reference, owner and expiry; empty: not waived
	Connection        int
	PSN               int64
	TimeNS            int64
	Packets           []uint64
	Headline          string
}

// Counts reports whether the finding counts against the device: a violation that nothing excuses.
func (f *Finding) Counts() bool {
	return f.Severity == analyzers.Violation && !f.Expected && f.Waiver == ""
}

// A Metric is a distribution that a run measured.
type Metric = analyzers.Pooled

// An Artefact is a place where files of a run are.
type Artefact struct {
	Kind     string `json:"kind"` // directory
	Location string `json:"location"`
}

// UnmarshalText reads the word.
func (v *Verdict) UnmarshalText(text []byte) (err error) {
	*v, err = ParseVerdict(string(text))
	return err
}
