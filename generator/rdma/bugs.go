package rdma

import (
	"fmt"
	"strings"
)

// Bug is a deliberate fault that can be enabled in any profile. An analyzer must detect it.
type Bug uint8

// Bugs is a set of faults. The zero value is empty.
type Bugs [3]uint64

// NewBugs returns the set of the given faults.
func NewBugs(list ...Bug) Bugs {
	var s Bugs
	for _, b := range list {
		s[b/64] |= 1 << (b % 64)
	}
	return s
}

// Has reports whether fault b is enabled.
func (s Bugs) Has(b Bug) bool { return s[b/64]>>(b%64)&1 != 0 }

// Any reports whether any fault is enabled.
func (s Bugs) Any() bool { return s != Bugs{} }

// Names returns the names of the enabled faults, in catalogue order.
func (s Bugs) Names() []string {
	var names []string
	for _, b := range catalogue {
		if s.Has(b.Bug) {
			names = append(names, b.Name)
		}
	}
	return names
}

// ParseBugs returns the set of the named faults. The error for an unknown name lists the known ones.
func ParseBugs(names []string) (Bugs, error) {
	var set Bugs
	for _, name := range names {
		b, ok := findBug(name)
		if !ok {
			return Bugs{}, fmt.Errorf("bug %q is unknown (known: %s)", name, strings.Join(bugNames(), ", "))
		}
		set[b/64] |= 1 << (b % 64)
	}
	return set, nil
}

func findBug(name string) (Bug, bool) {
	for _, b := range catalogue {
		if b.Name == name {
			return b.Bug, true
		}
	}
	return 0, false
}

func bugNames() []string {
	names := make([]string, len(catalogue))
	for i, b := range catalogue {
		names[i] = b.Name
	}
	return names
}
