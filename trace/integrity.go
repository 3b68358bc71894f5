package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// IntegritySchema names the format of integrity.json.
const IntegritySchema = "candela.integrity/v1"

// listLimit bounds the lists of a report. The counts beside them are always exact.
const listLimit = 100

// Names of the conditions of an IntegrityReport.
const (
	ConditionSequence = "sequence" // (1) mirror sequence numbers are consecutive
	ConditionTime     = "time"     // (2) timestamps do not decrease except on wrap-around
	ConditionMirrored = "mirrored" // (3) packets in the trace = packets mirrored by the switch
	ConditionRoCERx   = "roce-rx"  // (4) packets in the trace = RoCE packets received by the switch
	ConditionCopies   = "copies"   // no mirror copy was damaged on its way, as far as that shows
	// every RoCE frame can be decoded: a missing record would look like a missing packet
	ConditionDecodable = "decodable"
)

// Status is the outcome of one condition.
type Status string

// Outcomes of a condition.
const (
	StatusOK         Status = "ok"
	StatusViolated   Status = "violated"
	StatusNotChecked Status = "not-checked" // what to compare with was not given, or the trace is no mirror trace
)

// SeqRange is a closed range of mirror sequence numbers.
type SeqRange struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// String prints one number, or both ends.
func (r SeqRange) String() string {
	if r.First == r.Last {
		return fmt.Sprintf("#%d", r.First)
	}
	return fmt.Sprintf("#%d-#%d", r.First, r.Last)
}

// SeqStep is a place where sequence numbers go back instead of on.
type SeqStep struct {
	Frame    uint64 `json:"frame"` // 1-based number of the frame with Seq
	Previous uint64 `json:"previous"`
	Seq      uint64 `json:"seq"`
}

// TimeStep is a place where time goes back.
type TimeStep struct {
	Frame      uint64 `json:"frame"`
	Seq        uint64 `json:"seq"`
	PreviousNS int64  `json:"previous_ns"`
	TimeNS     int64  `json:"t_ns"`
}

// Counter is a packet counter of the switch, as a difference to its value before the run.
type Counter struct {
	Name  string `json:"name"` // e.g. "mirrored session 1", "roce_rx port 2"
	Value int64  `json:"value"`
}

// Counters are compared with the trace's length. An empty list means that the counter is unknown.
type Counters struct {
	Mirrored []Counter // per clone session
	RoCERx   []Counter // per port
}

// Condition is the outcome of one of the integrity conditions (spec §4), with the fields that its name needs.
type Condition struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Message string `json:"message"`

	MissingCount   int64      `json:"missing_count,omitempty"`
	Missing        []SeqRange `json:"missing,omitempty"`
	DuplicateCount int64      `json:"duplicate_count,omitempty"`
	Duplicates     []SeqStep  `json:"duplicates,omitempty"`
	DisorderCount  int64      `json:"disorder_count,omitempty"`
	Disorder       []SeqStep  `json:"disorder,omitempty"`

	BackCount int64      `json:"back_count,omitempty"`
	Back      []TimeStep `json:"back,omitempty"`
	// DisorderNS is the most by which a stamp was below an earlier one; only of switches whose queues may disagree.
	DisorderNS *int64 `json:"time-disorder-ns,omitempty"`

	Expected *int64    `json:"expected,omitempty"` // sum of the counters
	Actual   *int64    `json:"actual,omitempty"`   // packets in the trace
	Counters []Counter `json:"counters,omitempty"`

	DamagedCount int64    `json:"damaged_count,omitempty"`
	Damaged      []string `json:"damaged,omitempty"`

	UndecodableCount int64    `json:"undecodable_count,omitempty"`
	Undecodable      []string `json:"undecodable,omitempty"`
}

// IntegrityReport is the outcome of Check: the contents of integrity.json.
type IntegrityReport struct {
	Schema      string      `json:"schema"`
	Valid       bool        `json:"valid"`
	Format      string      `json:"format"`
	Packets     int64       `json:"packets"`
	OtherFrames int64       `json:"other_frames"` // not RoCE, skipped
	FirstSeq    uint64      `json:"first_seq"`
	LastSeq     uint64      `json:"last_seq"`
	StartNS     int64       `json:"start_ns"`
	EndNS       int64       `json:"end_ns"`
	Conditions  []Condition `json:"conditions"`

	// Events counts the copies of a mirror trace by what the injector did.
	Events [MaxEventType + 1]int64 `json:"-"`
}

// Condition returns the condition of that name, or nil.
func (r *IntegrityReport) Condition(name string) *Condition {
	for i := range r.Conditions {
		if r.Conditions[i].Name == name {
			return &r.Conditions[i]
		}
	}
	return nil
}

// Violations returns the messages of the violated conditions.
func (r *IntegrityReport) Violations() []string {
	var out []string
	for _, c := range r.Conditions {
		if c.Status == StatusViolated {
			out = append(out, c.Name+": "+c.Message)
		}
	}
	return out
}

// Write writes the report as indented JSON.
func (r *IntegrityReport) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// An IntegrityError says that a trace must not be analysed.
type IntegrityError struct {
	Name   string
	Report *IntegrityReport
}

// Error lists every violated condition.
func (e *IntegrityError) Error() string {
	return fmt.Sprintf("%s: integrity: %s", e.Name, strings.Join(e.Report.Violations(), "; "))
}
