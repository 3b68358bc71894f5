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

// Control is what the kernel provides about an interface outside files. A value that a driver does not have is empty.
type Control interface {
	Addresses(name string) ([]netip.Prefix, error)
	AddAddress(name string, address netip.Prefix) error
	RemoveAddress(name string, address netip.Prefix) error
	// Information lists driver, versions, pause, FEC and offloads as properties, without unreadable ones.
	Information(name string) ([]testbeds.Property, error)
	// Statistics are those of ethtool -S, in the driver's order if it has one.
	Statistics(name string) ([]testbeds.Counter, error)
	// DCB reads PFC, ETS and the rest, SetDCB sets what is not nil except Apps. ErrUnsupported: the driver has none.
	DCB(name string) (DCB, error)
	SetDCB(name string, d DCB) error
	// SetApp adds an entry to the application table, or removes it.
	SetApp(name string, a App, on bool) error
	// Tuning reads a setting of ethtool by its name in TuningNames, or feature-NAME or flag-NAME; SetTuning changes it.
	Tuning(name, setting string) (string, error)
	SetTuning(name, setting, value string) error
	// Parameters are those of a device's devlink, such as pci/0000:3b:00.0. ErrUnsupported: it has none.
	Parameters(bus, device string) ([]Parameter, error)
	SetParameter(bus, device string, s DevlinkSetting) error
}

// Properties lists what environment.json says about the NIC, as read now. A missing file is left out, which shows what
// a driver has; the value of an unreadable one is the error.
func (n *NIC) Properties() ([]testbeds.Property, error) {
	list := []testbeds.Property{{Name: "interface", Value: n.Interface}, {Name: "nic-driver", Value: n.driver.name()}}
	for _, p := range []struct{ name, file string }{
		{"mac", n.net("address")}, {"mtu", n.net("mtu")}, {"link-state", n.net("operstate")},
		{"link-speed-mbps", n.net("speed")},
		{"duplex", n.net("duplex")}, {"tx-queue-length", n.net("tx_queue_len")}, {"pci-vendor", n.net("device/vendor")},
		{"pci-device", n.net("device/device")}, {"numa-node", n.net("device/numa_node")},
		{"kernel", "proc/sys/kernel/osrelease"},
	} {
		list = n.appendFile(list, p.name, p.file)
	}
	if n.PCI != "" {
		list = append(list, testbeds.Property{Name: "pci", Value: n.PCI})
	}
	if n.Device != "" {
		list = append(list, testbeds.Property{Name: "rdma-device", Value: fmt.Sprintf("%s port %d", n.Device, n.Port)})
		for _, p := range []struct{ name, file string }{
			{"rdma-firmware", n.rdma("fw_ver")}, {"psid", n.rdma("board_id")}, {"hca-type", n.rdma("hca_type")},
			{"hardware-revision", n.rdma("hw_rev")}, {"node-guid", n.rdma("node_guid")}, {"rdma-state", n.port("state")},
			{"rdma-rate", n.port("rate")}, {"link-layer", n.port("link_layer")},
		} {
			list = n.appendFile(list, p.name, p.file)
		}
	}
	var failed []error
	for _, where := range n.driver.settings(n) {
		more, err := n.walk(where)
		failed = append(failed, err)
		list = append(list, more...)
	}
	addresses, err := n.control.Addresses(n.Interface)
	failed = append(failed, err)
	for _, a := range addresses {
		list = append(list, testbeds.Property{Name: "address", Value: a.String()})
	}
	for _, read := range []func() ([]testbeds.Property, error){n.dcbProperties, n.devlinkProperties} {
		more, err := read()
		failed = append(failed, err)
		list = append(list, more...)
	}
	more, err := n.control.Information(n.Interface)
	list = append(list, more...)
	if err := errors.Join(append(failed, err)...); err != nil {
		return list, fmt.Errorf("interface %q: %w", n.Interface, err)
	}
	return list, nil
}

func (n *NIC) appendFile(list []testbeds.Property, name, file string) []testbeds.Property {
	value, err := n.files.read(file)
	switch {
	case isMissing(err):
		return list
	case err != nil: // link speed of a port that is down, for example
		value = "unknown: " + err.Error()
	}
	return append(list, testbeds.Property{Name: name, Value: value})
}

// walk reads a file, or every file below a directory; names are paths of the host.
func (n *NIC) walk(where string) ([]testbeds.Property, error) {
	info, err := n.files.root.Stat(where)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, absolute(err)
	}
	if !info.IsDir() {
		return n.appendFile(nil, "/"+where, where), nil
	}
	names, err := n.files.list(where)
	var list []testbeds.Property
	for _, name := range names {
		if name == "apply" {
			continue // a command, not a setting
		}
		more, below := n.walk(path.Join(where, name))
		list, err = append(list, more...), errors.Join(err, below)
	}
	return list, err
}

// Counters reads the counters of port and hardware and the statistics of ethtool -S, whose names get the prefix
// "ethtool.". An unreadable counter is an error: a run must not be judged by the others only.
func (n *NIC) Counters() (testbeds.HostCounters, error) {
	c := testbeds.HostCounters{Vendor: n.driver.vendor()}
	var failed []error
	if n.Device != "" {
		for _, directory := range []string{"counters", "hw_counters"} {
			values, err := n.readCounters(n.port(directory))
			c.Values, failed = append(c.Values, values...), append(failed, err)
		}
	}
	statistics, err := n.control.Statistics(n.Interface)
	failed = append(failed, err)
	for _, s := range statistics {
		c.Values = append(c.Values, testbeds.Counter{Name: "ethtool." + s.Name, Value: s.Value})
	}
	if err := errors.Join(failed...); err != nil {
		return c, fmt.Errorf("counters of interface %q: %w", n.Interface, err)
	}
	return c, nil
}

// notCounters are files in a directory of counters that hold a setting.
var notCounters = []string{"lifespan"}

func (n *NIC) readCounters(directory string) (list []testbeds.Counter, err error) {
	names, err := n.files.list(directory)
	for _, name := range names {
		if slices.Contains(notCounters, name) {
			continue
		}
		file := path.Join(directory, name)
		text, unread := n.files.read(file)
		if unread != nil {
			err = errors.Join(err, unread)
			continue
		}
		if strings.HasPrefix(text, "N/A") { // some ports of mlx5 lack some
			continue
		}
		value, wrong := strconv.ParseUint(text, 10, 64)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("/%s: %q is not a counter", file, text))
			continue
		}
		list = append(list, testbeds.Counter{Name: name, Value: value})
	}
	return list, err
}
