package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"candela.dev/candela/testbeds"
)

// ErrUnsupported says that a driver has no such setting.
var ErrUnsupported = errors.New("the driver has no such setting")

// A NIC is one network interface with its RDMA device. It is not safe for concurrent use.
type NIC struct {
	Interface string
	Device    string // of RDMA, such as mlx5_0; empty: the interface has none
	Port      int    // of the device, from 1
	PCI       string // address on the bus; empty: not a PCI device

	files   files
	control Control
	driver  driver
	journal *Journal // nil: none
	changed []Record // in order
	made    []testbeds.Property
}

// Find finds an interface and its device. root is the root of the file system, control the kernel's other interfaces.
func Find(root *os.Root, control Control, name string) (*NIC, error) {
	n := &NIC{Interface: name, files: files{root}, control: control}
	if name == "" || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
		return nil, fmt.Errorf("interface %q: not the name of an interface", name)
	}
	if _, err := root.Stat(n.net()); err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	if target, err := root.Readlink(n.net("device")); err == nil {
		n.PCI = path.Base(target)
	}
	if err := n.findDevice(); err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	n.driver = n.chooseDriver()
	return n, nil
}

// net is a path below the interface's directory.
func (n *NIC) net(elements ...string) string {
	return path.Join(append([]string{"sys/class/net", n.Interface}, elements...)...)
}

// rdma is a path below the RDMA device's directory.
func (n *NIC) rdma(elements ...string) string {
	return path.Join(append([]string{"sys/class/infiniband", n.Device}, elements...)...)
}

// port is a path below that of the device's port.
func (n *NIC) port(elements ...string) string {
	return n.rdma(append([]string{"ports", strconv.Itoa(n.Port)}, elements...)...)
}

// findDevice looks for the RDMA port one of whose addresses belongs to the interface.
func (n *NIC) findDevice() error {
	devices, err := n.files.list("sys/class/infiniband")
	if err != nil {
		return err
	}
	for _, device := range devices {
		ports, err := n.files.list(path.Join("sys/class/infiniband", device, "ports"))
		if err != nil {
			return err
		}
		for _, port := range ports {
			number, err := strconv.Atoi(port)
			if err != nil {
				continue
			}
			ndevs := path.Join("sys/class/infiniband", device, "ports", port, "gid_attrs/ndevs")
			if n.anyNames(ndevs) {
				n.Device, n.Port = device, number
				return nil
			}
		}
	}
	return nil
}

// anyNames reports whether a file in a directory of interface names has ours. Unused entries cannot be read and do not
// count.
func (n *NIC) anyNames(directory string) bool {
	entries, err := n.files.list(directory)
	return err == nil && slices.ContainsFunc(entries, func(e string) bool {
		name, err := n.files.read(path.Join(directory, e))
		return err == nil && name == n.Interface
	})
}

// chooseDriver uses the kernel driver of the PCI device: RDMA devices may have been renamed.
func (n *NIC) chooseDriver() driver {
	target, err := n.files.root.Readlink(n.net("device/driver"))
	switch {
	case n.Device == "":
		return plain{"virtual", unknownVendor}
	case err != nil:
		return plain{"rxe", "rxe"}
	}
	switch kernel := path.Base(target); kernel {
	case "mlx5_core":
		return mlx5{}
	case "bnxt_en":
		return bnxt{}
	case "ice", "i40e", "idpf":
		return irdma{}
	case "hns3":
		return plain{kernel, "hisilicon"}
	default:
		return plain{kernel, unknownVendor}
	}
}

// Driver is the name under which this package knows the driver.
func (n *NIC) Driver() string { return n.driver.name() }

// Vendor is the name of the vendor's counters in package analyzers/counters.
func (n *NIC) Vendor() string { return n.driver.vendor() }

// Settings are what a test requests of a NIC. Nil fields are not changed.
type Settings struct {
	MTU                *int // of the interface, bytes
	ReactionPoint      *bool
	NotificationPoint  *bool
	MinTimeBetweenCNPs *time.Duration // whole microseconds
	CNPDSCP            *int
	TrafficClass       *int // the whole byte that RoCE packets carry: DSCP and ECN
	Priority           int  // that DCQCN is switched on or off for; the default is 0
	Addresses          []netip.Prefix
	PFC                *uint8 // bit i: priority i pauses by itself
	ETS                *ETS
	Trust              string // what decides the priority of a frame that comes in: dscp or pcp; empty: not changed
	DSCPPriorities     []DSCPPriority
	Devlink            []DevlinkSetting
	Ethtool            []Tuning
}

func (s *Settings) check() error {
	var failed []error
	inRange := func(name string, v *int, low, high int) {
		if v != nil && (*v < low || *v > high) {
			failed = append(failed, fmt.Errorf("%s %d: allowed is %d…%d", name, *v, low, high))
		}
	}
	inRange("mtu", s.MTU, 256, 65535)
	inRange("CNP DSCP", s.CNPDSCP, 0, 63)
	inRange("traffic class", s.TrafficClass, 0, 255)
	inRange("priority", &s.Priority, 0, 7)
	if s.Trust != "" && s.Trust != trustDSCP && s.Trust != trustPCP {
		failed = append(failed, fmt.Errorf("trust %q: allowed are %s and %s", s.Trust, trustDSCP, trustPCP))
	}
	if t := s.MinTimeBetweenCNPs; t != nil && (*t < 0 || *t%time.Microsecond != 0) {
		failed = append(failed, fmt.Errorf("time between CNPs %v: NICs count whole microseconds", *t))
	}
	return errors.Join(failed...)
}

// Keep makes the NIC note every change in a journal.
func (n *NIC) Keep(j *Journal) { n.journal = j }

// Apply changes what s names. It checks all of s, and that everything can be read, before it writes the first. After an
// error Close restores what was changed.
func (n *NIC) Apply(s Settings) error {
	err := s.check()
	if err == nil {
		err = n.apply(&s)
	}
	if err != nil {
		return fmt.Errorf("interface %q, driver %s: %w", n.Interface, n.driver.name(), err)
	}
	return nil
}

func (n *NIC) apply(s *Settings) error {
	wishes, err := n.wishes(s)
	if err != nil {
		return err
	}
	for i := range wishes {
		if err := n.turn(&wishes[i]); err != nil {
			return err
		}
	}
	return nil
}

// wishes lists the settings in the order in which they are made, or reports all that the device lacks.
func (n *NIC) wishes(s *Settings) (list []wish, err error) {
	knobs, err := n.driver.knobs(n, *s)
	if err != nil {
		return nil, err
	}
	if s.MTU != nil {
		knobs = append(knobs, knob{file: n.net("mtu"), value: strconv.Itoa(*s.MTU)})
	}
	var failed []error
	for _, k := range knobs {
		if _, err := n.files.root.Stat(k.file); err != nil {
			failed = append(failed, fmt.Errorf("setting it to %s: %w", k.value, err))
		}
		list = append(list, wish{n.file(k), k.value})
	}
	for _, t := range s.Ethtool {
		w := wish{n.tuning(t.Name), t.Value}
		if _, err := w.read(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", w.name, err))
		}
		list = append(list, w)
	}
	dcb, err := n.dcbWishes(s)
	failed = append(failed, err, n.checkDevlink(s.Devlink))
	list = append(list, dcb...)
	for _, d := range s.Devlink {
		list = append(list, wish{n.parameter(d.Name, d.Mode), d.Value})
	}
	for _, a := range s.Addresses {
		list = append(list, wish{n.ip(a), present})
	}
	return list, errors.Join(failed...)
}
