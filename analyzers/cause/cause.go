// Package cause is the language of headlines: what happened when a rule was broken, as a code and a sentence of typed
// arguments (docs/internals/adr/0023-causes.md).
//
// An analyzer declares its causes in causes.go beside its rules, as functions that call [Of], and lists an example of
// each in a function Causes:
//
//	func neverRetransmitted(who cause.Argument, psn cause.PSN, nak cause.Instant) cause.Cause {
//		return cause.Of(RuleNakUnanswered, "never-retransmitted",
//			"%v never retransmitted psn %v after the NAK at %v.", who, psn, nak)
//	}
//
// It reports by [candela.dev/candela/analyzers.Reporter.Tell], after Wants said yes. Its tests compare the list with
// what it reports (package causetest).
package cause

import (
	"fmt"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// A Cause is what happened: the code of a sentence in past tense, and its arguments.
type Cause struct {
	Rule   string
	Code   string // unique within the rule
	format string
	args   []Argument
}

// Of returns a cause of rule. Format is a sentence with a %v for each argument. Each cause has one function that calls
// Of, so one example covers every place that reports it.
func Of[R ~string](rule R, code, format string, args ...Argument) Cause {
	return Cause{string(rule), code, format, args}
}

// Sentence returns what happened, in words.
func (c Cause) Sentence() string { return c.fill(Argument.String) }

// Example returns the sentence in Markdown, with the arguments in italics.
func (c Cause) Example() string {
	return c.fill(func(a Argument) string { return "*" + a.String() + "*" })
}

func (c Cause) fill(word func(Argument) string) string {
	words := make([]any, len(c.args))
	for i, a := range c.args {
		words[i] = word(a)
	}
	return fmt.Sprintf(c.format, words...)
}

// NotListed is the code of the notes that count findings which are not listed. Any rule may have it.
const NotListed = "not-listed"

// Unlisted is the cause of a note that counts findings of rule which are not listed.
func Unlisted(rule string, connection int, n int64) Cause {
	return Of(rule, NotListed, "The report does not list %v of %v on qpn %v.",
		Counted{n, "more finding"}, Name(rule), Count(connection))
}

// An Argument is a value in the sentence of a cause. Each kind of value has a type, so that all sentences write it the
// same way.
type Argument = fmt.Stringer

// Requester returns the subject of a sentence: who sends the requests on a flow.
func Requester(requests trace.FlowID) Argument { return party{"Requester", requests, "responder"} }

// Responder returns who answers the requests on a flow.
func Responder(requests trace.FlowID) Argument { return party{"Responder", requests, "requester"} }

// Sender returns who sent r.
func Sender(r *trace.Record) Argument {
	switch {
	case r.Opcode.IsRequest():
		return Requester(r.Flow)
	case r.Opcode.IsResponse():
		return Responder(r.Flow.Peer())
	}
	return Host(r.Flow)
}

type party struct {
	role  string
	flow  trace.FlowID
	other string // the host, if the responder of a connection sends requests, too
}

func (p party) String() string {
	if p.flow.Reverse() {
		return fmt.Sprintf("%s of qpn %d on the %s's host", p.role, p.flow.Connection(), p.other)
	}
	return fmt.Sprintf("%s of qpn %d", p.role, p.flow.Connection())
}

// Host is the sender of packets of a flow, where it does not matter whether they are requests.
type Host trace.FlowID

func (h Host) String() string {
	flow := trace.FlowID(h)
	switch {
	case flow == trace.NoFlow:
		return "A host"
	case flow.Reverse():
		return fmt.Sprintf("The responder's host of qpn %d", flow.Connection())
	}
	return fmt.Sprintf("The requester's host of qpn %d", flow.Connection())
}

// PSN is a relative packet sequence number, from 1, as in configurations.
type PSN int64

func (p PSN) String() string { return fmt.Sprint(int64(p)) }

// PSNs is a range of packets: "psn 6", "psn 6 to 10".
type PSNs struct{ First, Last PSN }

func (p PSNs) String() string {
	if p.First >= p.Last {
		return "psn " + p.First.String()
	}
	return fmt.Sprintf("psn %v to %v", p.First, p.Last)
}

// Instant is a time of the trace, in ns since its first packet.
type Instant int64

// At returns the instant ns of a trace.
func At(meta *trace.Meta, ns int64) Instant { return Instant(ns - meta.StartNS) }

func (t Instant) String() string { return Duration(t).String() }

// Clock returns an instant of a testbed's clock, which starts at 0.
func Clock(t clock.Time) Instant { return Instant(t.Nanoseconds()) }

// Span returns a duration of a testbed's clock.
func Span(d clock.Duration) Duration { return Duration(d.Nanoseconds()) }

// Duration is a span of time in ns.
type Duration int64

func (d Duration) String() string { return clock.TextNS(int64(d)) }

// Count is a number of something that the sentence names.
type Count int64

func (n Count) String() string { return fmt.Sprint(int64(n)) }

// Times is how often something happened: "once", "3 times".
type Times int64

func (n Times) String() string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", int64(n))
}

// Ratio is how many times as large one value is as another: "2.5 times".
type Ratio float64

func (r Ratio) String() string { return fmt.Sprintf("%.3g times", float64(r)) }

// Counted is a number with its noun: "1 byte", "3 bytes".
type Counted struct {
	N    int64
	Noun string // singular
}

func (c Counted) String() string {
	if c.N == 1 {
		return "1 " + c.Noun
	}
	return fmt.Sprintf("%d %ss", c.N, c.Noun)
}

// Bytes is a number of bytes with its unit.
func Bytes[T ~int | ~int64 | ~uint16 | ~uint32](n T) Counted { return Counted{int64(n), "byte"} }

// Size is a number of bytes for people: "64 bytes", "4.2 KB".
type Size int64

func (s Size) String() string {
	if s < 1000 {
		return Bytes(int64(s)).String()
	}
	n, units := float64(s), []string{"KB", "MB", "GB", "TB", "PB", "EB"}
	for n /= 1000; n >= 999.5 && len(units) > 1; n /= 1000 {
		units = units[1:]
	}
	return strconv.FormatFloat(n, 'g', 3, 64) + " " + units[0]
}

// Between is what a value must be: "2", "2 to 4".
type Between struct{ Least, Most int64 }

func (b Between) String() string {
	if b.Least >= b.Most {
		return fmt.Sprint(b.Least)
	}
	return fmt.Sprintf("%d to %d", b.Least, b.Most)
}

// Hex is a key or an address.
type Hex uint64

func (h Hex) String() string { return fmt.Sprintf("0x%x", uint64(h)) }

// Name is a name of a counter, a switch or a setting.
type Name string

func (n Name) String() string { return string(n) }

// Switch is the switch of that name, as the subject of a sentence; "" is the only one.
type Switch string

func (s Switch) String() string {
	if s == "" {
		return "The switch"
	}
	return "Switch " + string(s)
}

// Port is a port of a switch. Text is what sentences call it; empty: its number.
type Port struct {
	Number int
	Text   string
}

func (p Port) String() string {
	if p.Text == "" {
		return fmt.Sprint(p.Number)
	}
	return p.Text
}

// Queue is a queue of a port of a switch: "queue 2 of port 0".
type Queue struct {
	Queue int
	Port  Argument
}

func (q Queue) String() string { return fmt.Sprintf("queue %d of port %v", q.Queue, q.Port) }

// An End is a host at one end of a connection: "Sender of connection 1 (host 2)".
type End struct {
	Role       string
	Connection int
	Host       uint32
}

func (e End) String() string {
	return fmt.Sprintf("%s of connection %d (host %d)", e.Role, e.Connection, e.Host)
}
