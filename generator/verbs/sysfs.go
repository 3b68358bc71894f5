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

// port is the port used: a RoCE device has one.
const port = "ports/1"

// GIDIndex returns the index of an address's RoCEv2 GID, which the queue pair's address handle needs. It reads sysfs in
// root.
func GIDIndex(root fs.FS, device string, ip netip.Addr) (int, error) {
	dir := path.Join(DeviceRoot, device, port)
	entries, err := fs.ReadDir(root, path.Join(dir, "gids"))
	if err != nil {
		return 0, err
	}
	want := netip.AddrFrom16(ip.As16())
	for _, e := range entries {
		index, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		gid, err := fs.ReadFile(root, path.Join(dir, "gids", e.Name()))
		if err != nil {
			continue // the kernel returns an error for unused entries
		}
		kind, err := fs.ReadFile(root, path.Join(dir, "gid_attrs/types", e.Name()))
		if err != nil {
			continue
		}
		addr, err := netip.ParseAddr(strings.TrimSpace(string(gid)))
		if err == nil && netip.AddrFrom16(addr.As16()) == want && strings.TrimSpace(string(kind)) == "RoCE v2" {
			return index, nil
		}
	}
	return 0, fmt.Errorf("device %s has no RoCE v2 GID for %v; is the address configured on its interface?", device, ip)
}

// Counters reads every counter of a device, sorted by name.
func Counters(root fs.FS, device string) ([]Counter, error) {
	values := make(map[string]uint64)
	found := false
	for _, sub := range []string{port + "/counters", port + "/hw_counters", "hw_counters"} {
		dir := path.Join(DeviceRoot, device, sub)
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
		return nil, fmt.Errorf("device %s shows no counters below /%s", device, DeviceRoot)
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
