package nic

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names of the settings of DCB.
const (
	pfcName   = "PFC"
	etsName   = "ETS"
	trustName = "trust"
)

// What decides the priority of a frame that comes in.
const (
	trustDSCP = "dscp"
	trustPCP  = "pcp"
)

// Selectors of the application table (linux/dcbnl.h).
const (
	selectDSCP = 5
	selectPCP  = 255
)

// An App is an entry of the application table: the priority of a kind of frame.
type App struct {
	Selector uint8 // selectDSCP: Protocol is a DSCP
	Priority uint8
	Protocol uint16
}

// DSCPPriority is the priority of the frames with a DSCP: the only one with that DSCP in the application table.
type DSCPPriority struct{ DSCP, Priority uint8 }

// parsePriorities is the inverse of priorities.
func parsePriorities(text string) (set uint8, err error) {
	if text == "none" {
		return 0, nil
	}
	for word := range strings.FieldsSeq(text) {
		p, err := strconv.ParseUint(word, 10, 8)
		if err != nil || p >= Priorities {
			return 0, fmt.Errorf("priority %q: allowed are 0 to %d", word, Priorities-1)
		}
		set |= 1 << p
	}
	return set, nil
}

func parseDSCPPriority(dscp, priority string) (p DSCPPriority, err error) {
	d, err := strconv.ParseUint(dscp, 10, 6)
	q, wrong := strconv.ParseUint(priority, 10, 3)
	return DSCPPriority{uint8(d), uint8(q)}, errors.Join(err, wrong)
}

// keys of ETS as text, as dcb-ets(8) has them.
const (
	keyClass     = "prio-tc"
	keyAlgorithm = "tc-tsa"
	keyBandwidth = "tc-bw"
)

func (e *ETS) String() string {
	numbers := func(list [Priorities]uint8) string { return strings.Trim(fmt.Sprint(list), "[]") }
	return fmt.Sprintf("%s %s %s %s %s %s", keyClass, numbers(e.Class), keyAlgorithm, algorithms(e.Algorithm),
		keyBandwidth, numbers(e.Bandwidth))
}

// parse is the inverse of String.
func (e *ETS) parse(text string) error {
	words := strings.Fields(text)
	for _, part := range []struct {
		key  string
		list *[Priorities]uint8
	}{{keyClass, &e.Class}, {keyAlgorithm, &e.Algorithm}, {keyBandwidth, &e.Bandwidth}} {
		if len(words) <= Priorities || words[0] != part.key {
			return fmt.Errorf("ETS %q: want %s, %s and %s, %d values each", text, keyClass, keyAlgorithm, keyBandwidth,
				Priorities)
		}
		for i, word := range words[1 : 1+Priorities] {
			v, err := etsValue(word)
			if err != nil {
				return fmt.Errorf("ETS: %s: %w", part.key, err)
			}
			part.list[i] = v
		}
		words = words[1+Priorities:]
	}
	if len(words) > 0 {
		return fmt.Errorf("ETS %q: more than %d values of %s", text, Priorities, keyBandwidth)
	}
	return nil
}

func etsValue(word string) (uint8, error) {
	for number, name := range algorithmNames {
		if word == name {
			return number, nil
		}
	}
	v, err := strconv.ParseUint(word, 10, 8)
	return uint8(v), err
}

// readDCB reads the state for a setting that the interface has been found to have.
func (n *NIC) readDCB() (DCB, error) {
	d, err := n.control.DCB(n.Interface)
	if err != nil {
		return d, fmt.Errorf("DCB: %w", err)
	}
	return d, nil
}

func (n *NIC) pfc() setting {
	read := func() (*PFC, error) {
		d, err := n.readDCB()
		if err == nil && d.PFC == nil {
			err = unsupported("it has no such DCB setting", pfcName)
		}
		return d.PFC, err
	}
	return setting{name: pfcName,
		read: func() (string, error) {
			p, err := read()
			if err != nil {
				return "", err
			}
			return priorities(p.Enabled), nil
		},
		write: func(value string) error {
			p, err := read()
			if err != nil {
				return err
			}
			next := *p
			if next.Enabled, err = parsePriorities(value); err != nil {
				return err
			}
			return n.control.SetDCB(n.Interface, DCB{PFC: &next})
		}}
}

func (n *NIC) ets() setting {
	read := func() (*ETS, error) {
		d, err := n.readDCB()
		if err == nil && d.ETS == nil {
			err = unsupported("it has no such DCB setting", etsName)
		}
		return d.ETS, err
	}
	return setting{name: etsName,
		read: func() (string, error) {
			e, err := read()
			if err != nil {
				return "", err
			}
			return e.String(), nil
		},
		write: func(value string) error {
			e, err := read()
			if err != nil {
				return err
			}
			next := *e
			if err := next.parse(value); err != nil {
				return err
			}
			return n.control.SetDCB(n.Interface, DCB{ETS: &next})
		}}
}

// dcbTrust is the order in which a driver looks at the fields of a frame; of several the first that is there counts.
func (n *NIC) dcbTrust() setting {
	return setting{name: trustName,
		read: func() (string, error) {
			d, err := n.readDCB()
			if err == nil && d.Trust == nil {
				err = unsupported("it reports none; that of mlx5 in the kernel trusts the DSCP once dscp-prio has an entry",
					trustName)
			}
			return selectors(d.Trust), err
		},
		write: func(value string) error {
			list, err := parseSelectors(value)
			if err != nil {
				return err
			}
			return n.control.SetDCB(n.Interface, DCB{Trust: list})
		}}
}

// selectors names those of the application table.
func selectors(list []uint8) string {
	var names []string
	for _, s := range list {
		switch s {
		case selectDSCP:
			names = append(names, trustDSCP)
		case selectPCP:
			names = append(names, trustPCP)
		default:
			names = append(names, strconv.Itoa(int(s)))
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, " ")
}

func parseSelectors(text string) ([]uint8, error) {
	list := []uint8{}
	for word := range strings.FieldsSeq(text) {
		switch word {
		case trustDSCP:
			list = append(list, selectDSCP)
		case trustPCP:
			list = append(list, selectPCP)
		case "none":
		default:
			s, err := strconv.ParseUint(word, 10, 8)
			if err != nil {
				return nil, fmt.Errorf("trust %q: want %s or %s", word, trustDSCP, trustPCP)
			}
			list = append(list, uint8(s))
		}
	}
	return list, nil
}

// dscpPriority is the set of priorities that the application table has for a DSCP.
func (n *NIC) dscpPriority(dscp uint8) setting {
	read := func() (set uint8, err error) {
		d, err := n.readDCB()
		for _, a := range d.Apps {
			if a.Selector == selectDSCP && a.Protocol == uint16(dscp) && a.Priority < Priorities {
				set |= 1 << a.Priority
			}
		}
		return set, err
	}
	return setting{name: dscpPrefix + strconv.Itoa(int(dscp)),
		read: func() (string, error) {
			set, err := read()
			return priorities(set), err
		},
		write: func(value string) error {
			want, err := parsePriorities(value)
			if err != nil {
				return err
			}
			have, err := read()
			// Additions come first: mlx5 stops trusting the DSCP when the last entry goes.
			for _, on := range []bool{true, false} {
				set := want &^ have
				if !on {
					set = have &^ want
				}
				for p := uint8(0); p < Priorities && err == nil; p++ {
					if set>>p&1 == 1 {
						err = n.control.SetApp(n.Interface, App{selectDSCP, p, uint16(dscp)}, on)
					}
				}
				if now, again := read(); err == nil {
					have, err = now, again // some drivers replace the former entry themselves
				}
			}
			return err
		}}
}

// dcbWishes lists the settings of DCB, or reports those that the interface lacks.
func (n *NIC) dcbWishes(s *Settings) (list []wish, err error) {
	err = n.checkDCB(s.PFC, s.ETS)
	if s.PFC != nil {
		list = append(list, wish{n.pfc(), priorities(*s.PFC)})
	}
	if s.ETS != nil {
		list = append(list, wish{n.ets(), s.ETS.String()})
	}
	if s.Trust != "" {
		w := wish{n.trust(), s.Trust}
		if _, lacks := w.read(); lacks != nil {
			err = errors.Join(err, lacks)
		}
		list = append(list, w)
	}
	if len(s.DSCPPriorities) == 0 {
		return list, err
	}
	if _, lacks := n.readDCB(); lacks != nil {
		err = errors.Join(err, fmt.Errorf("dscp-prio: %w", lacks))
	}
	for _, p := range s.DSCPPriorities {
		list = append(list, wish{n.dscpPriority(p.DSCP), priorities(1 << p.Priority)})
	}
	return list, err
}

// trust is a file of NVIDIA's own distribution, or DCB's.
func (n *NIC) trust() setting {
	k := knob{file: n.net("qos/trust")}
	if _, err := n.files.root.Stat(k.file); err == nil && slices.Contains(n.driver.settings(n), k.file) {
		return n.file(k)
	}
	return n.dcbTrust()
}
