package nic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unsafe"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// fecParameters is struct ethtool_fecparam.
type fecParameters struct{ command, active, configured, _ uint32 }

// fecCall asks for the forward error correction, or sets it.
func fecCall(name string, p *fecParameters) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(p)}
	if len(name) >= len(request.name) {
		return unix.EINVAL
	}
	copy(request.name[:], name)
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); code != 0 {
		return code
	}
	return nil
}

// tunings is a group of settings that the kernel reads and writes at once.
type tunings struct {
	values map[string]*uint32 // by name; they point into what write writes
	write  func() error
}

// readTunings reads the group of a setting.
func readTunings(control *ethtool.Ethtool, device, name string) (tunings, error) {
	switch group, _, _ := strings.Cut(name, "-"); group {
	case "pause":
		p, err := control.GetPause(device)
		return tunings{map[string]*uint32{"pause-autoneg": &p.Autoneg, "pause-rx": &p.RxPause, "pause-tx": &p.TxPause},
			func() error { _, err := control.SetPause(device, p); return err }}, err
	case "ring":
		r, err := control.GetRing(device)
		return tunings{map[string]*uint32{"ring-rx": &r.RxPending, "ring-tx": &r.TxPending},
			func() error { _, err := control.SetRing(device, r); return err }}, err
	case "channels":
		c, err := control.GetChannels(device)
		return tunings{map[string]*uint32{"channels-rx": &c.RxCount, "channels-tx": &c.TxCount,
			"channels-combined": &c.CombinedCount},
			func() error { _, err := control.SetChannels(device, c); return err }}, err
	case "coalesce":
		c, err := control.GetCoalesce(device)
		return tunings{map[string]*uint32{"coalesce-rx-usecs": &c.RxCoalesceUsecs,
			"coalesce-rx-frames": &c.RxMaxCoalescedFrames, "coalesce-tx-usecs": &c.TxCoalesceUsecs,
			"coalesce-tx-frames": &c.TxMaxCoalescedFrames, "coalesce-adaptive-rx": &c.UseAdaptiveRxCoalesce,
			"coalesce-adaptive-tx": &c.UseAdaptiveTxCoalesce},
			func() error { _, err := control.SetCoalesce(device, c); return err }}, err
	}
	return tunings{}, nil
}

// of returns the setting, or an error with those that there are.
func (t tunings) of(name string) (*uint32, error) {
	if v := t.values[name]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("%w: there are %s, %sNAME and %sNAME", ErrUnsupported, strings.Join(TuningNames, ", "),
		featurePrefix, flagPrefix)
}

// switches are the features or the private flags of a device.
func switches(control *ethtool.Ethtool, device, name string) (own string, list map[string]bool,
	set func(string, map[string]bool) error, err error) {
	var isOne bool
	if own, isOne = strings.CutPrefix(name, featurePrefix); isOne {
		list, err = control.Features(device)
		set = control.Change
	} else if own, isOne = strings.CutPrefix(name, flagPrefix); isOne {
		list, err = control.PrivFlags(device)
		set = control.UpdatePrivFlags
	} else {
		return "", nil, nil, nil
	}
	if _, has := list[own]; err == nil && !has {
		err = fmt.Errorf("%w: the device has %s", ErrUnsupported, strings.Join(slices.Sorted(maps.Keys(list)), ", "))
	}
	return own, list, set, err
}

// Tuning reads a setting of ethtool.
func (Kernel) Tuning(device, name string) (string, error) {
	if name == "fec" {
		p := fecParameters{command: unix.ETHTOOL_GFECPARAM}
		err := fecCall(device, &p)
		return fecText(p.configured), unknownToKernel(err)
	}
	control, err := ethtool.NewEthtool()
	if err != nil {
		return "", err
	}
	defer control.Close()
	own, list, set, err := switches(control, device, name)
	if err != nil {
		return "", unknownToKernel(err)
	}
	if set != nil {
		return tuningText(name, map[bool]uint32{true: 1}[list[own]]), nil
	}
	t, err := readTunings(control, device, name)
	if err != nil {
		return "", unknownToKernel(err)
	}
	v, err := t.of(name)
	if err != nil {
		return "", err
	}
	return tuningText(name, *v), nil
}

// SetTuning changes a setting of ethtool.
func (Kernel) SetTuning(device, name, value string) error {
	if name == "fec" {
		mask, err := fecMask(value)
		if err != nil {
			return err
		}
		return fecCall(device, &fecParameters{command: unix.ETHTOOL_SFECPARAM, configured: mask})
	}
	number, err := tuningNumber(name, value)
	if err != nil {
		return err
	}
	control, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer control.Close()
	own, _, set, err := switches(control, device, name)
	if err != nil {
		return err
	}
	if set != nil {
		return set(device, map[string]bool{own: number != 0})
	}
	t, err := readTunings(control, device, name)
	if err != nil {
		return err
	}
	v, err := t.of(name)
	if err != nil {
		return err
	}
	*v = number
	return errors.Join(t.write())
}
