package nic

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
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
	undo    []func() error // of every change, in order
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
		return plain{"virtual"}
	case err != nil:
		return plain{"rxe"}
	}
	switch kernel := path.Base(target); kernel {
	case "mlx5_core":
		return mlx5{}
	case "bnxt_en":
		return bnxt{}
	case "ice", "i40e", "idpf":
		return irdma{}
	default:
		return plain{kernel}
	}
}

// Driver is the name under which this package knows the driver.
func (n *NIC) Driver() string { return n.driver.name() }

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
	Devlink            []DevlinkSetting
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
	if t := s.MinTimeBetweenCNPs; t != nil && (*t < 0 || *t%time.Microsecond != 0) {
		failed = append(failed, fmt.Errorf("time between CNPs %v: NICs count whole microseconds", *t))
	}
	return errors.Join(failed...)
}

// Apply changes what s names. It checks all of s, and that all files exist, before it writes the first. After an error
// Close restores what was changed.
func (n *NIC) Apply(s Settings) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("interface %q: %w", n.Interface, err)
	}
	knobs, err := n.driver.knobs(n, s)
	if err != nil {
		return fmt.Errorf("interface %q, driver %s: %w", n.Interface, n.driver.name(), err)
	}
	if s.MTU != nil {
		knobs = append(knobs, knob{file: n.net("mtu"), value: strconv.Itoa(*s.MTU)})
	}
	for _, k := range knobs {
		if _, err := n.files.root.Stat(k.file); err != nil {
			return fmt.Errorf("interface %q, driver %s: setting it to %s: %w", n.Interface, n.driver.name(), k.value, err)
		}
	}
	if err := errors.Join(n.checkDCB(s.PFC, s.ETS), n.checkDevlink(s.Devlink)); err != nil {
		return fmt.Errorf("interface %q, driver %s: %w", n.Interface, n.driver.name(), err)
	}
	for _, k := range knobs {
		if err := n.turn(k); err != nil {
			return fmt.Errorf("interface %q, driver %s: %w", n.Interface, n.driver.name(), err)
		}
	}
	if err := n.setDCB(s.PFC, s.ETS); err != nil {
		return fmt.Errorf("interface %q, driver %s: %w", n.Interface, n.driver.name(), err)
	}
	for _, d := range s.Devlink {
		if err := n.setDevlink(d); err != nil {
			return fmt.Errorf("interface %q, driver %s: %w", n.Interface, n.driver.name(), err)
		}
	}
	return n.addAddresses(s.Addresses)
}

// turn writes one knob, reads it back and notes how to undo it.
func (n *NIC) turn(k knob) error {
	before, err := n.files.read(k.file)
	if err != nil {
		return err
	}
	if k.same(before, k.value) {
		return nil
	}
	n.undo = append(n.undo, func() error {
		err := n.set(k, k.bare(before))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the interface is gone
		}
		return err
	})
	return n.set(k, k.value)
}

func (n *NIC) set(k knob, value string) error {
	if err := n.files.write(k.file, value); err != nil {
		return err
	}
	if k.commit != "" {
		if err := n.files.write(k.commit, "1"); err != nil {
			return err
		}
	}
	after, err := n.files.read(k.file)
	if err != nil {
		return err
	}
	if !k.same(after, value) {
		return fmt.Errorf("/%s: wrote %q, read back %q", k.file, value, after)
	}
	return nil
}

func (n *NIC) addAddresses(list []netip.Prefix) error {
	have, err := n.control.Addresses(n.Interface)
	if len(list) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("interface %q: %w", n.Interface, err)
	}
	for _, a := range list {
		if slices.Contains(have, a) {
			continue
		}
		if err := n.control.AddAddress(n.Interface, a); err != nil {
			return fmt.Errorf("interface %q: add address %v: %w", n.Interface, a, err)
		}
		n.undo = append(n.undo, func() error { return n.control.RemoveAddress(n.Interface, a) })
	}
	if have, err = n.control.Addresses(n.Interface); err != nil {
		return fmt.Errorf("interface %q: %w", n.Interface, err)
	}
	for _, a := range list {
		if !slices.Contains(have, a) {
			return fmt.Errorf("interface %q: added address %v, read back %v", n.Interface, a, have)
		}
	}
	return nil
}

// Close restores every setting that Apply changed, the last first, and continues after errors. It may be called again.
func (n *NIC) Close() error {
	var failed []error
	for _, undo := range slices.Backward(n.undo) {
		if err := undo(); err != nil {
			failed = append(failed, fmt.Errorf("interface %q: restore: %w", n.Interface, err))
		}
	}
	n.undo = nil
	return errors.Join(failed...)
}
