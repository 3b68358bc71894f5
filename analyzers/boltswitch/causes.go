package boltswitch

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// word is a word of a sentence.
type word string

func (w word) String() string { return string(w) }

// String lists the flags.
func (f Flags) String() string {
	s := ""
	for i, name := range []string{" FIRST", " LAST", " INC", " DEC"} {
		if f&(1<<i) != 0 {
			s += name
		}
	}
	if s == "" {
		return "none"
	}
	return s[1:]
}

// size is a number of bytes that need not be whole.
func size(bytes float64) cause.Argument { return cause.Bytes(int(bytes)) }

func (j *Judge) who() cause.Switch { return cause.Switch(j.cfg.Name) }

func (j *Judge) causeMissing(l *look) cause.Cause {
	return cause.Of(ruleMissing, "never",
		"%v sent no SRC packet for packet %v of host %v at %v, which found %v at port %v.",
		j.who(), cause.Count(l.Number), cause.Count(l.Sender), cause.Clock(j.now), cause.Bytes(l.waiting),
		cause.Port{Number: l.port})
}

func (j *Judge) causeNothing(e *Event) cause.Cause {
	return cause.Of(ruleUnfounded, "nothing",
		"%v sent an SRC packet for packet %v of host %v at %v, which it did not queue "+
			"then.", j.who(), cause.Count(e.Number), cause.Count(e.Sender), cause.Clock(j.now))
}

func (j *Judge) causeUnfounded(l *look) cause.Cause {
	return cause.Of(ruleUnfounded, "below-threshold",
		"%v sent an SRC packet for packet %v of host %v at %v, which found %v at port %v; the threshold is %v.", j.who(),
		cause.Count(l.Number), cause.Count(l.Sender), cause.Clock(j.now), cause.Bytes(l.waiting), cause.Port{Number: l.port},
		cause.Bytes(j.cfg.Threshold))
}

func (j *Judge) causeRepeated(l *look) cause.Cause {
	return cause.Of(ruleUnfounded, "after-another",
		"%v sent an SRC packet for packet %v of host %v at %v, which had DEC.", j.who(), cause.Count(l.Number),
		cause.Count(l.Sender), cause.Clock(j.now))
}

func (j *Judge) causeTwice(l *look) cause.Cause {
	return cause.Of(ruleTwice, "again", "%v sent a second SRC packet for packet %v of host %v at %v.", j.who(),
		cause.Count(l.Number), cause.Count(l.Sender), cause.Clock(j.now))
}

func (j *Judge) causeContent(l *look, what word, got, want int64) cause.Cause {
	return cause.Of(ruleContent, "wrong", "%v sent an SRC packet for packet %v of host %v at %v; %v is %v in it, and was "+
		"%v.", j.who(), cause.Count(l.Number), cause.Count(l.Sender), cause.Clock(j.now), what, cause.Count(got),
		cause.Count(want))
}

func (j *Judge) causeMark(l *look, got, want Flags, congestion word) cause.Cause {
	return cause.Of(ruleMark, "wrong",
		"%v gave packet %v of host %v flags %v at %v; they must be %v (waiting at port %v: "+
			"%v; congestion: %v).", j.who(), cause.Count(l.Number), cause.Count(l.Sender), got, cause.Clock(j.now), want,
		cause.Port{Number: l.port}, cause.Bytes(l.waiting), congestion)
}

func (j *Judge) causeGrant(l *look, sm float64) cause.Cause {
	return cause.Of(ruleGrant, "no-token", "%v left INC on packet %v of host %v at %v; port %v had no PRU token, and SM "+
		"tokens of %v.", j.who(), cause.Count(l.Number), cause.Count(l.Sender), cause.Clock(j.now),
		cause.Port{Number: l.port}, size(sm))
}

func (j *Judge) causeRefusal(l *look, pru int, sm float64) cause.Cause {
	return cause.Of(ruleRefusal, "token", "%v took INC from packet %v of host %v at %v; port %v had %v of PRU, and SM "+
		"tokens of %v.", j.who(), cause.Count(l.Number), cause.Count(l.Sender), cause.Clock(j.now),
		cause.Port{Number: l.port}, cause.Counted{N: int64(pru), Noun: "token"}, size(sm))
}

func (j *Judge) causeRefusalLast(l *look) cause.Cause {
	return cause.Of(ruleRefusal, "last", "%v took INC from packet %v of host %v at %v, which has LAST.", j.who(),
		cause.Count(l.Number), cause.Count(l.Sender), cause.Clock(j.now))
}

// Causes lists an example of each cause, as the tests of this package report it.
func Causes() []cause.Cause {
	j := &Judge{cfg: Config{Name: "leaf-0", Threshold: 3000}, now: clock.Time(0).Add(clock.Microsecond)}
	late := &Judge{cfg: j.cfg, now: clock.Time(0).Add(2 * clock.Microsecond)}
	k := func(number uint32) Key { return Key{Sender: 1, Receiver: 2, Number: number} }
	full := &look{key: k(3), waiting: 3000, owed: true}
	return []cause.Cause{
		j.causeMissing(full), late.causeNothing(&Event{Key: k(3)}), j.causeUnfounded(&look{key: k(2), waiting: 1500}),
		j.causeRepeated(full), j.causeTwice(full), j.causeContent(full, "the queue", 1500, 3000),
		j.causeMark(full, Inc|Dec, Dec, "congestion"), j.causeGrant(&look{key: k(1)}, 0),
		j.causeRefusal(&look{key: k(2)}, 1, 0), j.causeRefusalLast(&look{key: k(1)}),
	}
}
