package comparison

import (
	"fmt"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/packet"
)

// Family is a class of traces by their contents and what is known of them. Each has its own limits in CI, so that a new
// family does not weaken the limits of the others.
type Family int

// Families. A trace belongs to the first that fits, from the last to the first.
const (
	Basic     Family = iota // one host requests, full packets, a tap at the switch, everything is known or nothing
	Lengths                 // some message has no bytes or an odd length
	Partial                 // a part of T, host delay and counters is known, or the trace is closed without T
	TwoWay                  // both hosts send requests
	Elsewhere               // a single capture at a host or after the switch
	Disturbed               // a pair of captures of a switch that reorders and doubles frames
	AtHosts                 // a pair of captures at the hosts

	Families // how many there are
)

var familyNames = [Families]string{"basic", "lengths", "partial", "two-way", "elsewhere", "disturbed", "hosts"}

// String names the family as limits do.
func (f Family) String() string { return familyNames[f] }

// familyOf returns the family of a trace that was captured at the switch.
func familyOf(t *oracle.Trace) Family {
	v := &t.View
	known := 0
	for _, on := range []bool{v.TimeoutNS > 0, v.HostDelayNS > 0, v.Retry >= 0, v.RNRRetry >= 0} {
		if on {
			known++
		}
	}
	switch {
	case t.TwoWay():
		return TwoWay
	case known > 0 && known < 4, known == 0 && v.Closed:
		return Partial
	}
	for i := range t.Packets {
		p := &t.Packets[i]
		if p.Short != 0 || p.Lacks != 0 || p.Op.Headers()&packet.HasRETH != 0 && p.Count == 0 {
			return Lengths
		}
	}
	return Basic
}

// Counts are the disagreements of one family.
type Counts struct {
	Disagreements int
	Unjust        int // of them, false alarms and too severe findings
}

// ParseLimits reads the most that each family may have: FAMILY=DISAGREEMENTS/UNJUST with commas between them.
func ParseLimits(text string) (map[Family]Counts, error) {
	limits := map[Family]Counts{}
	if text == "" {
		return limits, nil
	}
	for _, item := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		family := Family(-1)
		for f := range Families {
			if f.String() == name {
				family = f
			}
		}
		if family < 0 {
			return nil, fmt.Errorf("%q is not a family of traces: want %s", name, strings.Join(familyNames[:], ", "))
		}
		if _, ok := limits[family]; ok {
			return nil, fmt.Errorf("%s has two limits", name)
		}
		all, unjust, ok := strings.Cut(value, "/")
		n, err := strconv.ParseUint(all, 10, 31)
		m, err2 := strconv.ParseUint(unjust, 10, 31)
		if !ok || err != nil || err2 != nil {
			return nil, fmt.Errorf("%q: want FAMILY=DISAGREEMENTS/UNJUST, such as basic=3/0", item)
		}
		limits[family] = Counts{Disagreements: int(n), Unjust: int(m)}
	}
	return limits, nil
}
