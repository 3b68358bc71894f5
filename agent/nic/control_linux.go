package nic

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"candela.dev/candela/link"
	"candela.dev/candela/testbeds"
)

// Kernel is the Control of the machine that we run on.
type Kernel struct{}

// Addresses lists the addresses of an interface.
func (Kernel) Addresses(name string) ([]netip.Prefix, error) {
	device, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	addresses, err := netlink.AddrList(device, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	var list []netip.Prefix
	for _, a := range addresses {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			ones, _ := a.Mask.Size()
			list = append(list, netip.PrefixFrom(ip.Unmap(), ones))
		}
	}
	return list, nil
}

// AddAddress adds an address to an interface.
func (Kernel) AddAddress(name string, a netip.Prefix) error {
	return change(name, a, netlink.AddrAdd)
}

// RemoveAddress removes an address from an interface; a missing one is not an error.
func (Kernel) RemoveAddress(name string, a netip.Prefix) error {
	err := change(name, a, netlink.AddrDel)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone || errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return err
}

func change(name string, a netip.Prefix, do func(netlink.Link, *netlink.Addr) error) error {
	device, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	network := &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}
	address := &netlink.Addr{IPNet: network}
	if a.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD // usable immediately
	}
	return do(device, address)
}

// Information lists what ethtool and ethtool -k, -a and --show-fec show.
func (Kernel) Information(name string) ([]testbeds.Property, error) {
	control, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("ethtool: %w", err)
	}
	defer control.Close()
	var list []testbeds.Property
	add := func(name, value string) {
		if value != "" {
			list = append(list, testbeds.Property{Name: name, Value: value})
		}
	}
	if d, err := control.DriverInfo(name); err == nil {
		add("driver", d.Driver)
		add("driver-version", d.Version)
		add("firmware", d.FwVersion)
		add("bus", d.BusInfo)
	}
	if p, err := control.GetPause(name); err == nil {
		add("pause", fmt.Sprintf("autoneg %d rx %d tx %d", p.Autoneg, p.RxPause, p.TxPause))
	}
	if c, err := control.GetChannels(name); err == nil {
		add("channels", fmt.Sprintf("rx %d tx %d combined %d", c.RxCount, c.TxCount, c.CombinedCount))
	}
	if p := (fecParameters{command: unix.ETHTOOL_GFECPARAM}); fecCall(name, &p) == nil {
		add("fec", fecText(p.active))
	}
	active, err := link.ActiveOffloads(name)
	if err != nil {
		return list, err
	}
	add("offloads", strings.Join(active, " "))
	return list, nil
}

// Statistics reads those of ethtool -S, by name; a driver without any has none.
func (Kernel) Statistics(name string) ([]testbeds.Counter, error) {
	control, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("ethtool: %w", err)
	}
	defer control.Close()
	values, err := control.Stats(name)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ethtool statistics: %w", err)
	}
	var list []testbeds.Counter
	for _, key := range slices.Sorted(maps.Keys(values)) {
		list = append(list, testbeds.Counter{Name: strings.TrimSpace(key), Value: values[key]})
	}
	return list, nil
}
