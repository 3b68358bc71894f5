package generator

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"candela.dev/candela/clock"
)

// ReportSchema names the format of generator.json.
const ReportSchema = "candela.generator/v1"

// MessageResult is the result of one message. The JSON form has times in nanoseconds on the testbed's clock.
type MessageResult struct {
	Verb      Verb
	Length    int // bytes
	Posted    clock.Time
	Completed clock.Time
	Status    Status // StatusNone while it is outstanding, or if it was never posted
}

// messageJSON is the JSON form of a MessageResult.
type messageJSON struct {
	Verb      string `json:"verb"`
	Length    int    `json:"length"`
	Status    Status `json:"status"`
	Posted    int64  `json:"posted_ns"`
	Completed *int64 `json:"completed_ns,omitempty"`
}

// MarshalJSON omits the completion time of a message that never completed.
func (m MessageResult) MarshalJSON() ([]byte, error) {
	out := messageJSON{Verb: m.Verb.String(), Length: m.Length, Status: m.Status, Posted: m.Posted.Nanoseconds()}
	if m.Status != StatusNone {
		at := m.Completed.Nanoseconds()
		out.Completed = &at
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the inverse of MarshalJSON, with times in whole nanoseconds.
func (m *MessageResult) UnmarshalJSON(data []byte) error {
	var in messageJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	verb, ok := ParseVerb(in.Verb)
	if !ok {
		return fmt.Errorf("verb %q is unknown", in.Verb)
	}
	*m = MessageResult{Verb: verb, Length: in.Length, Status: in.Status, Posted: nanoseconds(in.Posted)}
	if in.Completed != nil {
		m.Completed = nanoseconds(*in.Completed)
	}
	return nil
}

func nanoseconds(n int64) clock.Time { return clock.Time(0).Add(clock.Duration(n) * clock.Nanosecond) }

// CompletionTimes summarises the times from posting to completion of successful messages, in nanoseconds.
type CompletionTimes struct {
	Count int   `json:"count"`
	Min   int64 `json:"min_ns"`
	Mean  int64 `json:"mean_ns"`
	P50   int64 `json:"p50_ns"`
	P99   int64 `json:"p99_ns"`
	Max   int64 `json:"max_ns"`
}

// StatusCount is the number of messages that ended with a status.
type StatusCount struct {
	Status Status `json:"status"`
	Count  int    `json:"count"`
}

// StreamReport is the result of one direction of requests of one connection.
type StreamReport struct {
	Connection int             `json:"connection"` // from 1
	Side       string          `json:"side"`       // sender of the requests
	Posted     int             `json:"posted"`
	Completed  int             `json:"completed"`
	Statuses   []StatusCount   `json:"statuses"`
	Bytes      int64           `json:"bytes"`       // of successful messages
	GoodputBPS int64           `json:"goodput_bps"` // Bytes over the time from the first post to the last success
	Times      CompletionTimes `json:"message_completion_time"`
	Messages   []MessageResult `json:"messages"` // the first ones posted, in order of posting
	Truncated  bool            `json:"truncated"`
	// Failure is the status of the first message that completed in error; StatusNone: none did.
	Failure Status `json:"first_failure"`
}

// A report lists about maxMessages messages, shared among its streams, but at least minMessages of each stream. Longer
// runs are described by their distribution.
const (
	maxMessages = 1000
	minMessages = 16
)

// Report is the generators' report of a run.
type Report struct {
	Schema     string          `json:"schema"`
	Bytes      int64           `json:"bytes"`
	GoodputBPS int64           `json:"goodput_bps"` // all streams together
	Times      CompletionTimes `json:"message_completion_time"`
	Streams    []StreamReport  `json:"streams"`
	// Data is present if the testbed compares received with sent data.
	Data []DataReport `json:"data,omitempty"`
}

// Write writes r as indented JSON.
func (r *Report) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// Report returns the results so far of the streams posted here, in order of connections, the requester's stream before
// the responder's.
func (w *Workload) Report() Report {
	r := Report{Schema: ReportSchema, Streams: make([]StreamReport, 0, len(w.streams))}
	var all summary
	for _, s := range w.streams {
		if s.from.QP == nil {
			continue
		}
		var one summary
		failure := StatusNone
		for _, m := range s.messages[:s.posted] {
			one.add(m)
			all.add(m)
			if failure == StatusNone && m.Status != Success {
				failure = m.Status
			}
		}
		listed := min(s.posted, max(minMessages, maxMessages/len(w.streams)))
		r.Streams = append(r.Streams, StreamReport{
			Connection: s.connection + 1, Side: s.side.String(), Posted: s.posted, Completed: s.completed,
			Statuses: one.statusCounts(), Bytes: one.bytes, GoodputBPS: one.goodput(), Times: one.times(),
			Messages: s.messages[:listed:listed], Truncated: listed < s.posted, Failure: failure,
		})
	}
	r.Bytes, r.GoodputBPS, r.Times = all.bytes, all.goodput(), all.times()
	return r
}

// summary accumulates results of messages.
type summary struct {
	any         bool
	first, last clock.Time // first posting, last success
	bytes       int64
	durations   []int64 // ns
	statuses    [len(statusNames)]int
}

func (s *summary) add(m MessageResult) {
	if !s.any || m.Posted < s.first {
		s.any, s.first = true, m.Posted
	}
	if int(m.Status) < len(s.statuses) {
		s.statuses[m.Status]++
	}
	if m.Status != Success {
		return
	}
	s.last = max(s.last, m.Completed)
	s.bytes += int64(m.Length)
	s.durations = append(s.durations, m.Completed.Sub(m.Posted).Nanoseconds())
}

func (s *summary) goodput() int64 {
	span := s.last.Sub(s.first)
	if s.bytes == 0 || span <= 0 {
		return 0
	}
	return int64(float64(s.bytes) * 8 * float64(clock.Second) / float64(span))
}

func (s *summary) times() CompletionTimes {
	if len(s.durations) == 0 {
		return CompletionTimes{}
	}
	d := slices.Sorted(slices.Values(s.durations))
	var sum int64
	for _, v := range d {
		sum += v
	}
	at := func(percent int) int64 { return d[(len(d)-1)*percent/100] }
	return CompletionTimes{Count: len(d), Min: d[0], Mean: sum / int64(len(d)), P50: at(50), P99: at(99), Max: d[len(d)-1]}
}

// statusCounts lists the statuses that occurred; messages still outstanding count as "none".
func (s *summary) statusCounts() []StatusCount {
	counts := []StatusCount{}
	for status, n := range s.statuses {
		if n > 0 {
			counts = append(counts, StatusCount{Status(status), n})
		}
	}
	return counts
}
