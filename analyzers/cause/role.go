package cause

import (
	"strings"

	"candela.dev/candela/trace"
)

// Role returns what the subject of the sentence is to the test: the same for every connection, port and host, so that
// a finding of tonight can be recognised tomorrow. Empty: the sentence names nobody.
func (c Cause) Role() string {
	for _, a := range c.args {
		switch a := a.(type) {
		case party:
			if a.flow.Reverse() {
				return strings.ToLower(a.role) + " on the " + a.other + "'s host"
			}
			return strings.ToLower(a.role)
		case Host:
			switch flow := trace.FlowID(a); {
			case flow == trace.NoFlow:
				return "host"
			case flow.Reverse():
				return "responder's host"
			}
			return "requester's host"
		case End:
			return strings.ToLower(a.Role)
		case Switch:
			return a.role()
		}
	}
	return ""
}

// Place returns the first port that the sentence names, and the name of its switch.
func (c Cause) Place() (sw string, port int, ok bool) {
	for _, a := range c.args {
		switch a := a.(type) {
		case Switch:
			sw = string(a)
		case Port:
			if !ok {
				port, ok = a.Number, true
			}
		case Queue:
			if p, named := a.Port.(Port); named && !ok {
				port, ok = p.Number, true
			}
		}
	}
	return sw, port, ok
}

// role is the name without its number: leaf-0 and leaf-3 have one role.
func (s Switch) role() string {
	if name := s.Layer(); name != "" {
		return "switch " + name
	}
	return "switch"
}

// Layer returns the name without its number; empty: it has no other.
func (s Switch) Layer() string {
	return strings.TrimRight(strings.TrimRight(string(s), "0123456789"), "-_.")
}
