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
	ConditionSequence  = "sequence"  // (1) mirror sequence numbers are consecutive
	ConditionTime      = "time"      // (2) timestamps do not decrease except on wrap-around
	ConditionMirrored  = "mirrored"  // (3) packets in the trace = packets mirrored by the switch
	ConditionRoCERx    = "roce-rx"   // (4) packets in the trace = RoCE packets received by the switch
	ConditionDecodable = "decodable" // every RoCE frame can be decoded: a record that is missing is a packet that is missing
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

// Counters are what the trace's length is compared with. An empty list means that the counter is not known.
type Counters struct {
	Mirrored []Counter // per clone session
	RoCERx   []Counter // per port
}

// Condition is the outcome of one of the integrity conditions (spec §4). Only the fields that its name calls for are set.
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

	Expected *int64    `json:"expected,omitempty"` // sum of the counters
	Actual   *int64    `json:"actual,omitempty"`   // packets in the trace
	Counters []Counter `json:"counters,omitempty"`

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

// sequenceCheck is condition 1: it follows the sequence numbers and remembers the holes, so that a number that comes late is
// reported as disorder and not as missing.
type sequenceCheck struct {
	modulus Format // FormatLumina wraps 2³¹−1 → 1
	started bool
	next    uint64 // expected
	last    uint64 // seen
	first   uint64

	missing  int64
	holes    []SeqRange // bounded by holeLimit
	overflow bool       // holes were forgotten: late numbers can't be told from duplicates any more
	dups     int64
	dupList  []SeqStep
	disorder int64
	disList  []SeqStep
}

// holeLimit bounds the memory of a sequence check.
const holeLimit = 1 << 16

const luminaMaxSeq = 1<<31 - 1

func (c *sequenceCheck) successor(seq uint64) uint64 {
	if c.modulus == FormatLumina && seq == luminaMaxSeq {
		return 1
	}
	return (seq + 1) & stampMask
}

func (c *sequenceCheck) predecessor(seq uint64) uint64 {
	if c.modulus == FormatLumina && seq == 1 {
		return luminaMaxSeq
	}
	return (seq - 1) & stampMask
}

// ahead returns the signed distance from c.next to seq on the circle of sequence numbers.
func (c *sequenceCheck) ahead(seq uint64) int64 {
	if c.modulus != FormatLumina {
		return distance48(c.next, seq)
	}
	d := (int64(seq) - int64(c.next)) % luminaMaxSeq
	switch {
	case d > luminaMaxSeq/2:
		d -= luminaMaxSeq
	case d < -luminaMaxSeq/2:
		d += luminaMaxSeq
	}
	return d
}

// add observes the sequence number of a frame.
func (c *sequenceCheck) add(seq, frame uint64) {
	if seq == c.next && c.started {
		c.last, c.next = seq, c.successor(seq)
		return
	}
	if !c.started {
		c.started, c.first = true, seq
		c.last, c.next = seq, c.successor(seq)
		return
	}
	c.irregular(seq, frame)
}

func (c *sequenceCheck) irregular(seq, frame uint64) {
	step := SeqStep{Frame: frame, Previous: c.last, Seq: seq}
	c.last = seq
	if d := c.ahead(seq); d > 0 {
		c.missing += d
		if len(c.holes) < holeLimit {
			c.holes = append(c.holes, SeqRange{c.next, c.predecessor(seq)})
		} else {
			c.overflow = true
		}
		c.next = c.successor(seq)
		return
	}
	if c.fill(seq) {
		c.missing--
		c.disorder++
		c.disList = appendBounded(c.disList, step)
		return
	}
	c.dups++
	c.dupList = appendBounded(c.dupList, step)
}

// fill takes seq out of the hole that it lies in, if any. Holes are searched from the latest: late packets are rarely very
// late.
func (c *sequenceCheck) fill(seq uint64) bool {
	for i := len(c.holes) - 1; i >= 0; i-- {
		h := c.holes[i]
		if seq < h.First || seq > h.Last {
			continue
		}
		switch {
		case h.First == h.Last:
			c.holes = append(c.holes[:i], c.holes[i+1:]...)
		case seq == h.First:
			c.holes[i].First++
		case seq == h.Last:
			c.holes[i].Last--
		default:
			c.holes[i].Last = seq - 1
			c.holes = append(c.holes, SeqRange{})
			copy(c.holes[i+2:], c.holes[i+1:])
			c.holes[i+1] = SeqRange{seq + 1, h.Last}
		}
		return true
	}
	return false
}

func appendBounded[T any](list []T, v T) []T {
	if len(list) < listLimit {
		list = append(list, v)
	}
	return list
}

func (c *sequenceCheck) condition() Condition {
	out := Condition{
		Name: ConditionSequence, Status: StatusOK, MissingCount: c.missing, DuplicateCount: c.dups, Duplicates: c.dupList,
		DisorderCount: c.disorder, Disorder: c.disList, Missing: c.holes[:min(len(c.holes), listLimit)],
	}
	if !c.started {
		out.Status, out.Message = StatusViolated, "the trace holds no RoCE packet"
		return out
	}
	var parts []string
	if c.missing > 0 {
		parts = append(parts, fmt.Sprintf("%d mirror copies are missing: %s", c.missing, joinRanges(c.holes)))
	}
	if c.dups > 0 {
		parts = append(parts, fmt.Sprintf("%d duplicates, the first is #%d in frame %d", c.dups, c.dupList[0].Seq, c.dupList[0].Frame))
	}
	if c.disorder > 0 {
		d := c.disList[0]
		parts = append(parts, fmt.Sprintf("%d copies out of order, the first is #%d after #%d in frame %d (are these unmerged shards?)",
			c.disorder, d.Seq, d.Previous, d.Frame))
	}
	if len(parts) > 0 {
		out.Status, out.Message = StatusViolated, strings.Join(parts, "; ")
		return out
	}
	out.Message = fmt.Sprintf("consecutive from #%d to #%d", c.first, c.last)
	return out
}

// joinRanges prints the first few ranges and counts the rest.
func joinRanges(ranges []SeqRange) string {
	const shown = 8
	var b strings.Builder
	for i, r := range ranges {
		if i == shown {
			fmt.Fprintf(&b, " and %d more ranges", len(ranges)-shown)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(r.String())
	}
	return b.String()
}
