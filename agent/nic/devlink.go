package nic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/testbeds"
)

// Parameter is a devlink setting of a device, with its value in each configuration mode of the driver.
type Parameter struct {
	Name   string
	Type   string // u8, u16, u32, string or bool
	Values []ParameterValue
}

// ParameterValue is a value as text: numbers in base ten, true or false.
type ParameterValue struct {
	Mode  string // runtime: applies now; driverinit: after a reload of the driver; permanent: after a reset of the device
	Value string
}

// DevlinkSetting is a value that a parameter of the device shall have.
type DevlinkSetting struct{ Name, Mode, Value string }

// Modes of devlink parameters.
const (
	Runtime    = "runtime"
	DriverInit = "driverinit"
	Permanent  = "permanent"
)

// bits are how many a number of a type has.
var bits = map[string]int{"u8": 8, "u16": 16, "u32": 32}

// check reports a value that the parameter can't have.
func (p *Parameter) check(value string) error {
	switch {
	case p.Type == "string":
		const most = 31 // __DEVLINK_PARAM_MAX_STRING_VALUE of net/devlink.h, less the final zero
		if len(value) > most || strings.ContainsRune(value, 0) {
			return fmt.Errorf("%q: want at most %d bytes, none of them zero", value, most)
		}
		return nil
	case p.Type == "bool":
		if value != "true" && value != "false" {
			return fmt.Errorf("%q: want true or false", value)
		}
		return nil
	case bits[p.Type] > 0:
		if _, err := strconv.ParseUint(value, 10, bits[p.Type]); err != nil {
			return fmt.Errorf("%q: want a whole number of %d bits", value, bits[p.Type])
		}
		return nil
	}
	return fmt.Errorf("%w: its type is not known", ErrUnsupported)
}

// in returns the value in a mode.
func (p *Parameter) in(mode string) (string, bool) {
	for _, v := range p.Values {
		if v.Mode == mode {
			return v.Value, true
		}
	}
	return "", false
}

// bus is that of the devices with a devlink that this package looks for.
const bus = "pci"

// parameters reads those of the NIC's device; none if there is no devlink for it.
func (n *NIC) parameters() ([]Parameter, error) {
	if n.PCI == "" {
		return nil, nil
	}
	list, err := n.control.Parameters(bus, n.PCI)
	if errors.Is(err, ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("devlink parameters of %s/%s: %w", bus, n.PCI, err)
	}
	return list, nil
}

// devlinkProperties are named devlink/PARAMETER, followed by the mode unless it is runtime.
func (n *NIC) devlinkProperties() (properties []testbeds.Property, err error) {
	list, err := n.parameters()
	for _, p := range list {
		for _, v := range p.Values {
			name := path.Join("devlink", p.Name)
			if v.Mode != Runtime {
				name += " " + v.Mode
			}
			properties = append(properties, testbeds.Property{Name: name, Value: v.Value})
		}
	}
	return properties, err
}

// checkDevlink reports all settings that the device cannot take before one is made.
func (n *NIC) checkDevlink(settings []DevlinkSetting) error {
	if len(settings) == 0 {
		return nil
	}
	list, err := n.parameters()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return unsupported("the device has no devlink", names(settings)...)
	}
	var failed []error
	for _, s := range settings {
		at := slices.IndexFunc(list, func(p Parameter) bool { return p.Name == s.Name })
		if at < 0 {
			failed = append(failed, fmt.Errorf("devlink parameter %s: %w: the device has %s", s.Name, ErrUnsupported,
				strings.Join(parameterNames(list), ", ")))
			continue
		}
		if _, ok := list[at].in(s.Mode); !ok {
			failed = append(failed, fmt.Errorf("devlink parameter %s in mode %s: %w", s.Name, s.Mode, ErrUnsupported))
			continue
		}
		if err := list[at].check(s.Value); err != nil {
			failed = append(failed, fmt.Errorf("devlink parameter %s: %w", s.Name, err))
		}
	}
	return errors.Join(failed...)
}

func names(settings []DevlinkSetting) (list []string) {
	for _, s := range settings {
		list = append(list, "devlink parameter "+s.Name)
	}
	return list
}

func parameterNames(list []Parameter) (names []string) {
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names
}

// parameter is a devlink parameter in a mode.
func (n *NIC) parameter(name, mode string) setting {
	s := DevlinkSetting{Name: name, Mode: mode}
	return setting{name: devlinkPrefix + name + " " + mode,
		read: func() (string, error) { return n.devlinkValue(s) },
		write: func(value string) error {
			s.Value = value
			return n.control.SetParameter(bus, n.PCI, s)
		}}
}

func (n *NIC) devlinkValue(s DevlinkSetting) (string, error) {
	list, err := n.parameters()
	if err != nil {
		return "", err
	}
	for _, p := range list {
		if value, ok := p.in(s.Mode); ok && p.Name == s.Name {
			return value, nil
		}
	}
	return "", fmt.Errorf("devlink parameter %s is gone", s.Name)
}

// Attributes and values of linux/devlink.h.
const (
	attrBusName   = 1
	attrDevName   = 2
	attrParam     = 80
	attrName      = 81
	attrType      = 83
	attrValues    = 84
	attrValue     = 85
	attrValueData = 86
	attrValueMode = 87
)

// parameterTypes are by number those of netlink's dynamic attributes.
var parameterTypes = map[byte]string{1: "u8", 2: "u16", 3: "u32", 5: "string", 6: "bool"}

var parameterModes = []string{Runtime, DriverInit, Permanent}

// parseParameter reads the attributes of an answer to DEVLINK_CMD_PARAM_GET and its device: kernels before 6.5 answer
// for all devices.
func parseParameter(b []byte) (device string, p Parameter, err error) {
	var busName, name string
	err = attributes(b, func(kind uint16, value []byte) error {
		switch kind {
		case attrBusName:
			busName = text(value)
		case attrDevName:
			name = text(value)
		case attrParam:
			return p.parse(value)
		}
		return nil
	})
	return busName + "/" + name, p, err
}

func (p *Parameter) parse(b []byte) error {
	var values []byte
	err := attributes(b, func(kind uint16, value []byte) error {
		switch kind {
		case attrName:
			p.Name = text(value)
		case attrType:
			if len(value) > 0 {
				p.Type = parameterTypes[value[0]]
			}
		case attrValues:
			values = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	return attributes(values, func(kind uint16, value []byte) error {
		if kind != attrValue {
			return nil
		}
		v, err := p.parseValue(value)
		if err == nil {
			p.Values = append(p.Values, v)
		}
		return err
	})
}

func (p *Parameter) parseValue(b []byte) (v ParameterValue, err error) {
	var data []byte
	given := false
	err = attributes(b, func(kind uint16, value []byte) error {
		switch kind {
		case attrValueData:
			data, given = value, true
		case attrValueMode:
			if len(value) != 1 || int(value[0]) >= len(parameterModes) {
				return fmt.Errorf("devlink parameter %s: mode %x", p.Name, value)
			}
			v.Mode = parameterModes[value[0]]
		}
		return nil
	})
	if err != nil {
		return v, err
	}
	switch n := bits[p.Type] / 8; {
	case p.Type == "bool":
		v.Value = strconv.FormatBool(given)
	case p.Type == "string":
		v.Value = text(data)
	case n == 1 && len(data) == n:
		v.Value = strconv.Itoa(int(data[0]))
	case n == 2 && len(data) == n:
		v.Value = strconv.Itoa(int(binary.NativeEndian.Uint16(data)))
	case n == 4 && len(data) == n:
		v.Value = strconv.FormatUint(uint64(binary.NativeEndian.Uint32(data)), 10)
	default:
		v.Value = fmt.Sprintf("%x", data)
	}
	return v, nil
}
