// Package fault has the common part of the fault catalogues of sans-IO hosts: faults by name, and sets of faults. The
// cores implement the faults.
package fault

import (
	"fmt"
	"strings"
)

// Most is how many faults a catalogue may have.
const Most = 128

// Set is a set of faults B, numbered from 0 to Most-1. The zero value is empty.
type Set[B ~uint8] [Most / 64]uint64

// NewSet returns the set of the given faults.
func NewSet[B ~uint8](list ...B) Set[B] {
	var s Set[B]
	for _, b := range list {
		s.add(b)
	}
	return s
}

func (s *Set[B]) add(b B) { s[b/64] |= 1 << (b % 64) }

// Has reports whether b is in the set.
func (s Set[B]) Has(b B) bool { return s[b/64]>>(b%64)&1 != 0 }

// Empty reports whether nothing is in the set.
func (s Set[B]) Empty() bool { return s == Set[B]{} }

// Info describes one fault.
type Info[B ~uint8] struct {
	Name string
	Bug  B
	What string // effect on the host
	Rule string // ID of the analyzer's rule that detects it
}

// Catalogue has the faults of a core: element i is fault i. The elements' Bug need not be set.
type Catalogue[B ~uint8] []Info[B]

// List returns every fault, in numerical order.
func (c Catalogue[B]) List() []Info[B] {
	list := make([]Info[B], len(c))
	for i := range list {
		list[i] = c[i]
		list[i].Bug = B(i)
	}
	return list
}

// Parse returns the set of the named faults. The error for an unknown name lists the known ones.
func (c Catalogue[B]) Parse(names []string) (Set[B], error) {
	var set Set[B]
	for _, name := range names {
		b, err := c.find(name)
		if err != nil {
			return Set[B]{}, err
		}
		set.add(b)
	}
	return set, nil
}

func (c Catalogue[B]) find(name string) (B, error) {
	known := make([]string, len(c))
	for i := range c {
		if c[i].Name == name {
			return B(i), nil
		}
		known[i] = c[i].Name
	}
	return 0, fmt.Errorf("bug %q is unknown (known: %s)", name, strings.Join(known, ", "))
}
