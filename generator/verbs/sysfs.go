package verbs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// DeviceRoot is the directory of RDMA devices in sysfs.
const DeviceRoot = "sys/class/infiniband"

// Port is a port of an RDMA device.
type Port struct {
	Device string
	Number int // from 1
}

// String returns the device and its port.
func (p Port) String() string { return fmt.Sprintf("%s port %d", p.Device, p.Number) }

// path returns a path below the port's directory.
func (p Port) path(elements ...string) string {
	return path.Join(append([]string{DeviceRoot, p.Device, "ports", strconv.Itoa(p.Number)}, elements...)...)
}

// read returns a file below the port's directory without its final newline.
func (p Port) read(root fs.FS, elements ...string) (string, error) {
	text, err := fs.ReadFile(root, p.path(elements...))
	return strings.TrimSpace(string(text)), err
}

// Check returns why the port cannot carry RoCE; nil: it can.
func (p Port) Check(root fs.FS) error {
	if _, err := fs.Stat(root, path.Join(DeviceRoot, p.Device)); err != nil {
		return fmt.Errorf("there is no RDMA device %q; there are %s", p.Device, devices(root))
	}
	if _, err := fs.Stat(root, p.path()); err != nil {
		return fmt.Errorf("RDMA device %s has no port %d", p.Device, p.Number)
	}
	for _, f := range []struct{ file, want string }{{"link_layer", "Ethernet"}, {"state", "ACTIVE"}} {
		got, err := p.read(root, f.file)
		if err != nil {
			return fmt.Errorf("%v: %s: %w", p, f.file, err)
		}
		if !strings.HasSuffix(got, f.want) {
			err = fmt.Errorf("%v: %s is %q, want %s", p, f.file, got, f.want)
			if f.file == "state" {
				err = &inactiveError{err}
			}
			return err
		}
	}
	return nil
}

// ErrInactive is the class of a port without a link, which may come up.
var ErrInactive = errors.New("the port is not active")

type inactiveError struct{ error }

func (e *inactiveError) Is(target error) bool { return target == ErrInactive }

// Software reports whether the port's device is software: a device of hardware hangs on a bus.
func (p Port) Software(root fs.FS) bool {
	_, err := fs.Stat(root, path.Join(DeviceRoot, p.Device, "device"))
	return err != nil
}

// devices lists the RDMA devices for an error.
func devices(root fs.FS) string {
	entries, err := fs.ReadDir(root, DeviceRoot)
	if err != nil || len(entries) == 0 {
		return "none"
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, ", ")
}

// roceV2 is the kernel's name of the type of a RoCE v2 GID.
const roceV2 = "RoCE v2"

// GID is an entry of a port's table of GIDs.
type GID struct {
	Index     int
	Address   netip.Addr // IPv4 addresses are mapped into IPv6
	Type      string
	Interface string
}

// gid reads an entry; the kernel returns errors for unused ones.
func (p Port) gid(root fs.FS, index int) (g GID, err error) {
	n := strconv.Itoa(index)
	text, err := p.read(root, "gids", n)
	if err != nil {
		return g, err
	}
	g.Index = index
	if g.Address, err = netip.ParseAddr(text); err != nil {
		return g, err
	}
	if g.Address.IsUnspecified() {
		return g, fs.ErrNotExist // how newer kernels show an unused entry
	}
	if g.Type, err = p.read(root, "gid_attrs/types", n); err != nil {
		return g, err
	}
	g.Interface, err = p.read(root, "gid_attrs/ndevs", n)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a kernel before 4.14
	}
	return g, err
}

// errStop ends a walk over GIDs.
var errStop = errors.New("enough")

// eachGID calls f with the entries in use, by index, until it returns errStop. A table has a thousand entries, mostly
// unused: whoever looks for one stops there.
func (p Port) eachGID(root fs.FS, f func(GID) error) error {
	entries, err := fs.ReadDir(root, p.path("gids"))
	if err != nil {
		return err
	}
	var indices []int
	for _, e := range entries {
		if index, err := strconv.Atoi(e.Name()); err == nil {
			indices = append(indices, index)
		}
	}
	slices.Sort(indices)
	for _, index := range indices {
		g, err := p.gid(root, index)
		if err != nil {
			continue
		}
		if err := f(g); errors.Is(err, errStop) {
			return nil
		}
	}
	return nil
}

// Interface returns the network interface of the port: that of its first GID, which is the default one.
func (p Port) Interface(root fs.FS) (name string, err error) {
	err = p.eachGID(root, func(g GID) error {
		if name = g.Interface; name != "" {
			return errStop
		}
		return nil
	})
	if err == nil && name == "" {
		err = fmt.Errorf("%v has no GID with an interface: is its interface up?", p)
	}
	return name, err
}

// GIDIndex returns the index of an address's RoCE v2 GID, which the queue pair's address handle needs.
func (p Port) GIDIndex(root fs.FS, ip netip.Addr) (int, error) {
	found, others := -1, ""
	err := p.eachGID(root, func(g GID) error {
		switch {
		case g.Address != mapped(ip):
		case g.Type == roceV2:
			found = g.Index
			return errStop
		default:
			others += fmt.Sprintf("; GID %d of the address is of type %s", g.Index, g.Type)
		}
		return nil
	})
	if err == nil && found < 0 {
		err = fmt.Errorf("%v has no RoCE v2 GID for %v; is the address configured on its interface?%s", p, ip, others)
	}
	return found, err
}

// CheckGID returns why the GID with an index is not an address's RoCE v2 GID; nil: it is.
func (p Port) CheckGID(root fs.FS, index int, ip netip.Addr) error {
	g, err := p.gid(root, index)
	switch {
	case err != nil:
		return fmt.Errorf("%v: GID %d is not in use", p, index)
	case g.Type != roceV2:
		return fmt.Errorf("%v: GID %d is of type %s, want %s", p, index, g.Type, roceV2)
	case g.Address != mapped(ip):
		return fmt.Errorf("%v: GID %d is that of %v, not of %v", p, index, g.Address.Unmap(), ip)
	}
	return nil
}

func mapped(ip netip.Addr) netip.Addr { return netip.AddrFrom16(ip.As16()) }

// Counters reads every counter of the port and its device, sorted by name.
func (p Port) Counters(root fs.FS) ([]Counter, error) {
	values := make(map[string]uint64)
	found := false
	for _, dir := range []string{p.path("counters"), p.path("hw_counters"),
		path.Join(DeviceRoot, p.Device, "hw_counters")} {
		entries, err := fs.ReadDir(root, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = true
		for _, e := range entries {
			text, err := fs.ReadFile(root, path.Join(dir, e.Name()))
			if err != nil {
				continue // some drivers show names of counters that they don't have
			}
			if v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && e.Name() != "lifespan" {
				values[e.Name()] = v
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("%v shows no counters below /%s", p, DeviceRoot)
	}
	list := make([]Counter, 0, len(values))
	for name, v := range values {
		list = append(list, Counter{name, v})
	}
	slices.SortFunc(list, func(a, b Counter) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// AddStatistic adds the counters that only `rdma -j statistic show link` has. Its output is text.
func AddStatistic(counters []Counter, text []byte) ([]Counter, error) {
	var links []map[string]json.RawMessage
	if err := json.Unmarshal(text, &links); err != nil {
		return nil, fmt.Errorf("rdma statistic: %w", err)
	}
	known := make(map[string]bool)
	for _, c := range counters {
		known[c.Name] = true
	}
	for _, link := range links {
		for name, value := range link {
			v, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil || known[name] || name == "ifindex" || name == "port" {
				continue
			}
			known[name] = true
			counters = append(counters, Counter{name, v})
		}
	}
	slices.SortFunc(counters, func(a, b Counter) int { return cmp.Compare(a.Name, b.Name) })
	return counters, nil
}
