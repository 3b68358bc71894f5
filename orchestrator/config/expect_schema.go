package config

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"gopkg.in/yaml.v3"
)

// status is a word, with the String method that an enum needs.
type status string

func (s status) String() string { return string(s) }

var (
	ruleForm = text{newPattern(`^[a-z0-9]+\.[a-z0-9-]+$`),
		"a rule id such as gbn.nak-psn (docs/reference/rules.md lists them)"}
	counterForm = text{newPattern(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`), "names of counters as the NIC spells them"}
	qpnForm     = text{newPattern(`^qpn [1-9][0-9]{0,8}( responder)?$`),
		"qpn N, or qpn N responder for the responder's requests in bidirectional traffic"}
)

func expectSchema() *object {
	return &object{
		title: "expect",
		doc: "Expectations. An analyzer takes pass, fail (at least one violation), or a mapping: violations " +
			"lists the rules that " +
			"must be violated, and no others.",
		fields: append([]field{
			{key: "gbn", doc: "Go-back-N: retransmission logic.",
				kind: analyzer("gbn", judgementOf(func(j *Judgement) *Judgement { return j })),
				def:  "{}", at: at(func(e *Expect) *Judgement { return &e.GBN })},
			{key: "retrans", doc: "Latencies of retransmission.", def: "{}",
				kind: analyzer("retrans", judgementOf(func(r *RetransExpect) *Judgement { return &r.Judgement }),
					retransBounds()...),
				at: at(func(e *Expect) *RetransExpect { return &e.Retrans })},
			{key: "cnp", doc: "Congestion notification.", def: "{}",
				kind: analyzer("cnp", judgementOf(func(c *CNPExpect) *Judgement { return &c.Judgement }), cnpFields()...),
				at:   at(func(e *Expect) *CNPExpect { return &e.CNP })},
			{key: "rp", doc: "Rate control: the reaction to congestion notification.",
				kind: analyzer("rp", judgementOf(func(j *Judgement) *Judgement { return j })),
				def:  "{}", at: at(func(e *Expect) *Judgement { return &e.RP })},
			{key: "fields",
				doc:  "Single fields: versions, reserved bits, MigReq, source ports, marks, and equal headers in retransmissions.",
				kind: analyzer("fields", judgementOf(func(f *FieldsExpect) *Judgement { return &f.Judgement }), fieldSettings()...),
				def:  "{}", at: at(func(e *Expect) *FieldsExpect { return &e.Fields })},
			{key: "trim", doc: "Repair of trimmed packets.", def: "{}",
				kind: analyzer("trim", judgementOf(func(t *TrimExpect) *Judgement { return &t.Judgement }), trimBounds()...),
				at:   at(func(e *Expect) *TrimExpect { return &e.Trim })},
			{key: "counters", doc: "Counters of the NICs against the trace.", def: "{}",
				kind: analyzer("counters", judgementOf(func(c *CountersExpect) *Judgement { return &c.Judgement }),
					counterFields()...),
				at: at(func(e *Expect) *CountersExpect { return &e.Counters })},
			{key: "completion", doc: "How the work requests of a connection end; by default all succeed, or run out of " +
				"retries where the requester had to give up.", kind: completionSchema(),
				at: at(func(e *Expect) *[]CompletionExpect { return &e.Completion })},
		}, baselineFields(storedMetrics(), func(e any) *BaselineExpect { return &e.(*Expect).Baseline })...),
	}
}

// verdict is the word for an outcome; outcomes without a word are not written.
type verdict struct{ enum[Outcome] }

func (k verdict) encode(src any) *yaml.Node {
	if o := *src.(*Outcome); o != OutcomePass && o != OutcomeFail {
		return nil
	}
	return k.enum.encode(src)
}

// analyzer declares pass, fail, or a mapping with the rules that fire and with more fields. judgement returns the
// Judgement in the Go value.
func analyzer(name string, judgement func(any) *Judgement, more ...field) kind {
	rules := list[string]{of: ruleForm, max: 256, omit: true}
	verdicts := verdict{enum[Outcome]{values: []Outcome{OutcomePass, OutcomeFail}}}
	outcome := func(parent any) any { return &judgement(parent).Outcome }
	fields := []field{
		{key: "verdict", doc: "pass: no violation; fail: at least one.", kind: verdicts, at: outcome, defDoc: "pass"},
		{key: "violations", doc: "Exactly these rules are violated, each at least once.", kind: rules,
			at: func(parent any) any { return &judgement(parent).Violations }},
		{key: "tolerated", doc: "These rules may be violated or not.", kind: rules,
			at: func(parent any) any { return &judgement(parent).Tolerated }},
	}
	whole := object{title: "expect." + name, doc: "Expectations of the " + name + " analyzer.",
		fields: append(fields, more...)}
	return &orScalar{
		object:     whole,
		scalar:     verdicts,
		fromScalar: func(d *decoder, n *yaml.Node, path string, dst any) { verdicts.decode(d, n, path, outcome(dst)) },
		toScalar: func(src any) *yaml.Node {
			if n := whole.encode(src); n != nil && len(n.Content) == 2 && n.Content[0].Value == "verdict" {
				return n.Content[1]
			}
			return nil
		},
	}
}

func judgementOf[T any](f func(*T) *Judgement) func(any) *Judgement {
	return func(parent any) *Judgement { return f(parent.(*T)) }
}

// fieldSettings are values that NICs are configured with outside of the test.
func fieldSettings() []field {
	return []field{
		{key: "mig-req", doc: "MigReq that both hosts send; ConnectX sends 1, E810 and soft-RoCE send 0.",
			kind: optional[int]{integer{min: 0, max: 1}}, at: at(func(f *FieldsExpect) **int { return &f.MigReq })},
		{key: "cnp-dscp", doc: "DSCP of CNPs. That of all other packets is traffic.dscp.",
			kind: optional[int]{integer{min: 0, max: 63, why: "DSCP has 6 bits"}},
			at:   at(func(f *FieldsExpect) **int { return &f.CNPDSCP })},
	}
}

func retransBounds() []field {
	bound := optional[Bound]{boundSchema()}
	silence := optional[clock.Duration]{quantity{unit: "us", scale: int64(clock.Microsecond), min: 1, max: 86_400_000_000}}
	return []field{
		{key: "nack-generation-us", doc: "From the first out-of-order packet to the NAK.", kind: bound,
			at: at(func(r *RetransExpect) **Bound { return &r.NackGeneration })},
		{key: "nack-reaction-us", doc: "From the NAK to the retransmission.", kind: bound,
			at: at(func(r *RetransExpect) **Bound { return &r.NackReaction })},
		{key: "retransmission-us", doc: "From the lost packet to its retransmission.", kind: bound,
			at: at(func(r *RetransExpect) **Bound { return &r.Retransmission })},
		{key: "timeout-us", doc: "From the last transmission to the retransmission by timeout.", kind: bound,
			at: at(func(r *RetransExpect) **Bound { return &r.Timeout })},
		{key: "ack-silence-us", doc: "An acknowledgement that comes only when the timer repeats a request is a warning " +
			"from this time after the request on.",
			kind: silence, defDoc: "half of the local ACK timeout",
			at: at(func(r *RetransExpect) **clock.Duration { return &r.AckSilence })},
		{key: "nak-silence-us", doc: "A retransmission this long after its NAK is a warning: the NAK changed nothing.",
			kind: silence, defDoc: "three quarters of the local ACK timeout, if it may have expired",
			at: at(func(r *RetransExpect) **clock.Duration { return &r.NakSilence })},
	}
}

func boundSchema() *object {
	us := optional[clock.Duration]{quantity{unit: "us", scale: int64(clock.Microsecond), max: 86_400_000_000}}
	limit := optional[TimeLimit]{&object{
		title: "limits", doc: "Limits of a time.",
		fields: []field{
			{key: "min", doc: "Least value.", kind: us, at: at(func(l *TimeLimit) **clock.Duration { return &l.Min })},
			{key: "max", doc: "Greatest value.", kind: us, at: at(func(l *TimeLimit) **clock.Duration { return &l.Max })},
		},
	}}
	return &object{
		title: "bound",
		doc:   "Limits of every value that is measured, and of mean, median and 99th percentile.",
		fields: []field{
			{key: "min", doc: "Least value.", kind: us,
				at: at(func(b *Bound) **clock.Duration { return &b.Min })},
			{key: "max", doc: "Greatest value.", kind: us,
				at: at(func(b *Bound) **clock.Duration { return &b.Max })},
			{key: "mean", doc: "Bounds of the mean.", kind: limit, at: at(func(b *Bound) **TimeLimit { return &b.Mean })},
			{key: "p50", doc: "Bounds of the median.", kind: limit, at: at(func(b *Bound) **TimeLimit { return &b.P50 })},
			{key: "p99", doc: "Bounds of the 99th percentile.", kind: limit,
				at: at(func(b *Bound) **TimeLimit { return &b.P99 })},
			{key: "count", doc: "Number of values.", kind: optional[int64]{integer{min: 0, max: maxRelPSN}},
				at: at(func(b *Bound) **int64 { return &b.Count })},
		},
	}
}

func cnpFields() []field {
	return []field{
		{key: "per-connection", doc: "CNPs of each connection in turn.",
			kind: list[int]{of: integer{min: 0, max: math.MaxInt32}, max: maxConnections, omit: true},
			at:   at(func(c *CNPExpect) *[]int { return &c.PerConnection })},
		{key: "modes", doc: "Pacing modes that must explain the CNPs seen.",
			kind: list[CNPPacing]{of: enum[CNPPacing]{values: pacings()}, max: 4, omit: true},
			at:   at(func(c *CNPExpect) *[]CNPPacing { return &c.Modes })},
	}
}

func counterFields() []field {
	n := optional[int64]{integer{min: 0, max: maxRelPSN}}
	value := &orScalar{
		scalar: n,
		fromScalar: func(d *decoder, v *yaml.Node, path string, dst any) {
			c := dst.(*CounterExpect)
			n.decode(d, v, path, &c.Min)
			c.Max = c.Min
		},
		toScalar: func(src any) *yaml.Node {
			if c := src.(*CounterExpect); c.Min != nil && c.Max != nil && *c.Min == *c.Max {
				return n.encode(&c.Min)
			}
			return nil
		},
		object: object{
			title: "counter",
			doc:   "Limits of a counter's growth during the run; a lone number is both.",
			fields: []field{
				{key: "min", doc: "Least growth.", kind: n, at: at(func(c *CounterExpect) **int64 { return &c.Min })},
				{key: "max", doc: "Greatest growth.", kind: n, at: at(func(c *CounterExpect) **int64 { return &c.Max })},
			},
		},
	}
	counters := keyed[CounterExpect]{
		key: counterForm, of: value,
		parse:   func(key string, c *CounterExpect) { c.Name = key },
		format:  func(c *CounterExpect) string { return c.Name },
		compare: func(a, b CounterExpect) int { return cmp.Compare(a.Name, b.Name) },
	}
	return []field{
		{key: "requester", doc: "Counters of the requester's NIC, each with its growth: N or {min: N, max: N}.",
			kind: counters,
			at:   at(func(c *CountersExpect) *[]CounterExpect { return &c.Requester })},
		{key: "responder", doc: "Counters of the responder's NIC.", kind: counters,
			at: at(func(c *CountersExpect) *[]CounterExpect { return &c.Responder })},
	}
}

func completionSchema() kind {
	statuses := []generator.Status{
		generator.Success, generator.LocalLengthError, generator.WorkRequestFlushed, generator.BadResponse,
		generator.RemoteInvalidRequest, generator.RemoteAccessError, generator.RemoteOperationError,
		generator.RetryExceeded, generator.ReceiverNotReadyExceed,
	}
	return keyed[CompletionExpect]{
		key: qpnForm,
		parse: func(key string, c *CompletionExpect) {
			words := strings.Fields(key)
			c.QPN, _ = strconv.Atoi(words[1]) // qpnForm leaves at most nine digits
			if len(words) == 3 {
				c.From = Responder
			}
		},
		format: func(c *CompletionExpect) string {
			if c.From == Responder {
				return fmt.Sprintf("qpn %d responder", c.QPN)
			}
			return fmt.Sprintf("qpn %d", c.QPN)
		},
		compare: func(a, b CompletionExpect) int {
			return cmp.Or(cmp.Compare(a.QPN, b.QPN), cmp.Compare(a.From, b.From))
		},
		of: &object{
			title: "completion",
			doc:   "How the work requests of a connection end.",
			fields: []field{
				{key: "status", doc: "Status of the first work completion that is no success, or IBV_WC_SUCCESS.", required: true,
					kind: enum[generator.Status]{values: statuses},
					at:   at(func(c *CompletionExpect) *generator.Status { return &c.Status })},
				{key: "after-retries", doc: "Retries before the error.", kind: optional[int]{integer{min: 0, max: 65535}},
					at: at(func(c *CompletionExpect) **int { return &c.AfterRetries })},
			},
		},
	}
}
