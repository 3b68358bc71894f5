package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/testbeds"
)

// Prefixes of the names of settings; files have their absolute path.
const (
	devlinkPrefix = "devlink parameter " // followed by name and mode
	ethtoolPrefix = "ethtool "           // followed by the name, see ethtool.go
	dscpPrefix    = "dscp-prio "         // followed by the DSCP
	addressPrefix = "address "
	folderPrefix  = "directory " // followed by the absolute path
)

// settingOf finds the setting that a record names.
func (n *NIC) settingOf(r *Record) (setting, error) {
	name := r.Setting
	switch {
	case strings.HasPrefix(name, "/"):
		return n.file(knob{file: path.Clean(name)[1:], commit: r.Commit, prefix: r.Prefix}), nil
	case name == pfcName:
		return n.pfc(), nil
	case name == etsName:
		return n.ets(), nil
	case name == trustName:
		return n.dcbTrust(), nil
	case strings.HasPrefix(name, ethtoolPrefix):
		return n.tuning(name[len(ethtoolPrefix):]), nil
	case strings.HasPrefix(name, devlinkPrefix):
		if parameter, mode, ok := strings.Cut(name[len(devlinkPrefix):], " "); ok {
			return n.parameter(parameter, mode), nil
		}
	case strings.HasPrefix(name, dscpPrefix):
		if dscp, err := strconv.ParseUint(name[len(dscpPrefix):], 10, 6); err == nil {
			return n.dscpPriority(uint8(dscp)), nil
		}
	case strings.HasPrefix(name, folderPrefix):
		return n.directory(path.Clean("/" + name[len(folderPrefix):])[1:]), nil
	case strings.HasPrefix(name, addressPrefix):
		if a, err := netip.ParsePrefix(name[len(addressPrefix):]); err == nil {
			return n.ip(a), nil
		}
	}
	return setting{}, fmt.Errorf("no setting is called %q", name)
}

// file is the setting of a knob.
func (n *NIC) file(k knob) setting {
	return setting{name: "/" + k.file, knob: k, same: k.same, restore: k.bare,
		read: func() (string, error) { return n.files.read(k.file) },
		write: func(value string) error {
			if err := n.files.write(k.file, value); err != nil || k.commit == "" {
				return err
			}
			return n.files.write(k.commit, "1")
		}}
}

// tuning is a setting of ethtool.
func (n *NIC) tuning(name string) setting {
	return setting{name: ethtoolPrefix + name,
		read:  func() (string, error) { return n.control.Tuning(n.Interface, name) },
		write: func(value string) error { return n.control.SetTuning(n.Interface, name, value) }}
}

// States of an address or a directory.
const (
	present = "present"
	absent  = "absent"
)

// directory is one of configfs, where the driver shows its settings while it exists.
func (n *NIC) directory(name string) setting {
	return setting{name: folderPrefix + "/" + name,
		read: func() (string, error) {
			_, err := n.files.root.Stat(name)
			switch {
			case isMissing(err):
				return absent, nil
			case err != nil:
				return "", absolute(err)
			}
			return present, nil
		},
		write: func(value string) error {
			if value == present {
				return absolute(n.files.root.Mkdir(name, 0o755))
			}
			return absolute(n.files.root.Remove(name))
		}}
}

func (n *NIC) ip(a netip.Prefix) setting {
	return setting{name: addressPrefix + a.String(),
		read: func() (string, error) {
			have, err := n.control.Addresses(n.Interface)
			if err == nil && slices.Contains(have, a) {
				return present, nil
			}
			return absent, err
		},
		write: func(value string) error {
			if value == present {
				return n.control.AddAddress(n.Interface, a)
			}
			return n.control.RemoveAddress(n.Interface, a)
		}}
}

// A Tuning is a setting of ethtool by its name, see [Control].
type Tuning struct{ Name, Value string }

// Parse turns settings that a test names into Settings:
//
//	mtu N · pfc P… · ets … · trust dscp|pcp · dscp-prio D P · cnp-dscp D · devlink NAME · ethtool NAME
func Parse(list []testbeds.Setting) (s Settings, err error) {
	var failed []error
	for _, w := range list {
		if err := s.add(w.Name, w.Value); err != nil {
			failed = append(failed, fmt.Errorf("setting %s %q: %w", w.Name, w.Value, err))
		}
	}
	return s, errors.Join(failed...)
}

func (s *Settings) add(name, value string) (err error) {
	kind, of, _ := strings.Cut(name, " ")
	switch kind {
	case "mtu":
		s.MTU, err = numberOf(value)
	case "cnp-dscp":
		s.CNPDSCP, err = numberOf(value)
	case "pfc":
		var set uint8
		set, err = parsePriorities(value)
		s.PFC = &set
	case "ets":
		var e ETS
		err = e.parse(value)
		s.ETS = &e
	case "trust":
		s.Trust = value
	case "dscp-prio":
		var p DSCPPriority
		p, err = parseDSCPPriority(of, value)
		s.DSCPPriorities = append(s.DSCPPriorities, p)
	case "devlink":
		s.Devlink = append(s.Devlink, DevlinkSetting{Name: of, Mode: Runtime, Value: value})
	case "ethtool":
		s.Ethtool = append(s.Ethtool, Tuning{of, value})
	default:
		return errors.New("this agent knows no such setting: install the orchestrator's version of candela")
	}
	return err
}

func numberOf(value string) (*int, error) {
	v, err := strconv.Atoi(value)
	return &v, err
}
