package nic

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// unknownToKernel turns the kernel's errors for missing features into ErrUnsupported.
func unknownToKernel(err error) error {
	for _, e := range []error{unix.EOPNOTSUPP, unix.ENOENT, unix.ENODEV} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
	}
	return err
}

// dcbMessage is struct dcbmsg of linux/dcbnl.h.
type dcbMessage struct{ command byte }

func (dcbMessage) Len() int            { return 4 }
func (m dcbMessage) Serialize() []byte { return []byte{unix.AF_UNSPEC, m.command, 0, 0} }

// Messages, commands and the attribute with the interface's name, of linux/rtnetlink.h and linux/dcbnl.h.
const (
	rtmGetDCB  = 78
	rtmSetDCB  = 79
	ieeeSet    = 20
	ieeeGet    = 21
	ieeeDelete = 27
	attrIFName = 1
)

// DCB reads PFC and ETS.
func (Kernel) DCB(name string) (DCB, error) {
	answers, err := askDCB(rtmGetDCB, ieeeGet, name)
	if err != nil {
		return DCB{}, unknownToKernel(err)
	}
	var d DCB
	for _, a := range answers {
		if d, err = parseDCB(a); err != nil {
			return d, err
		}
	}
	if d.PFC == nil && d.ETS == nil {
		return d, fmt.Errorf("%w: it reports neither PFC nor ETS", ErrUnsupported)
	}
	return d, nil
}

// SetDCB sets what of d is not nil, except the application table.
func (Kernel) SetDCB(name string, d DCB) error {
	ieee := nl.NewRtAttr(attrIEEE|unix.NLA_F_NESTED, nil)
	if d.ETS != nil {
		ieee.AddRtAttr(ieeeETS, appendETS(nil, d.ETS))
	}
	if d.PFC != nil {
		ieee.AddRtAttr(ieeePFC, appendPFC(nil, d.PFC))
	}
	if d.Trust != nil {
		ieee.AddChild(trustTable(d.Trust))
	}
	return changeDCB(ieeeSet, name, ieee)
}

// SetApp adds an entry to the application table, or removes it.
func (Kernel) SetApp(name string, a App, on bool) error {
	if on {
		return changeDCB(ieeeSet, name, appTable(a))
	}
	return changeDCB(ieeeDelete, name, appTable(a))
}

// appTable is an application table of one entry.
func appTable(a App) *nl.RtAttr {
	ieee := nl.NewRtAttr(attrIEEE|unix.NLA_F_NESTED, nil)
	table := nl.NewRtAttr(ieeeApps|unix.NLA_F_NESTED, nil)
	table.AddRtAttr(entryOf(a.Selector), appendApp(nil, a))
	ieee.AddChild(table)
	return ieee
}

// trustTable is a table of selectors.
func trustTable(list []uint8) *nl.RtAttr {
	table := nl.NewRtAttr(ieeeTrust|unix.NLA_F_NESTED, nil)
	for _, s := range list {
		table.AddRtAttr(entryOf(s), []byte{s})
	}
	return table
}

// changeDCB makes a change and reads its result.
func changeDCB(command byte, name string, ieee *nl.RtAttr) error {
	answers, err := askDCB(rtmSetDCB, command, name, ieee)
	if err != nil {
		return unknownToKernel(err)
	}
	for _, a := range answers {
		if failure, err := parseDCBResult(a); err != nil || failure != 0 {
			return errors.Join(err, failure)
		}
	}
	return nil
}

// askDCB returns the attributes of the answers.
func askDCB(message int, command byte, name string, more ...nl.NetlinkRequestData) (answers [][]byte, err error) {
	request := nl.NewNetlinkRequest(message, unix.NLM_F_ACK)
	request.AddData(dcbMessage{command})
	request.AddData(nl.NewRtAttr(attrIFName, nl.ZeroTerminated(name)))
	for _, m := range more {
		request.AddData(m)
	}
	list, err := request.Execute(unix.NETLINK_ROUTE, 0)
	for _, m := range list {
		if header := (dcbMessage{}).Len(); len(m) >= header {
			answers = append(answers, m[header:])
		}
	}
	return answers, err
}

// devlinkGet is DEVLINK_CMD_PARAM_GET.
const devlinkGet = nl.DEVLINK_CMD_PARAM_GET

// Parameters lists the devlink parameters of a device.
func (Kernel) Parameters(bus, device string) (list []Parameter, err error) {
	family, err := netlink.GenlFamilyGet(nl.GENL_DEVLINK_NAME)
	if err != nil {
		return nil, unknownToKernel(err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	request.AddData(&nl.Genlmsg{Command: devlinkGet, Version: nl.GENL_DEVLINK_VERSION})
	request.AddData(nl.NewRtAttr(attrBusName, nl.ZeroTerminated(bus)))
	request.AddData(nl.NewRtAttr(attrDevName, nl.ZeroTerminated(device)))
	answers, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, unknownToKernel(err)
	}
	for _, a := range answers {
		if len(a) < nl.SizeofGenlmsg {
			continue
		}
		of, p, err := parseParameter(a[nl.SizeofGenlmsg:])
		if err != nil {
			return nil, err
		}
		if of == bus+"/"+device {
			list = append(list, p)
		}
	}
	return list, nil
}

// SetParameter sets a devlink parameter.
func (k Kernel) SetParameter(bus, device string, s DevlinkSetting) error {
	list, err := k.Parameters(bus, device)
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.Name != s.Name {
			continue
		}
		mode, value, err := p.typed(s)
		if err != nil {
			return err
		}
		return unknownToKernel(netlink.DevlinkSetDeviceParam(bus, device, s.Name, mode, value))
	}
	return fmt.Errorf("%w: %s/%s has no parameter %s", ErrUnsupported, bus, device, s.Name)
}

// typed is a value as the kernel wants it.
func (p *Parameter) typed(s DevlinkSetting) (mode uint8, value any, err error) {
	if err := p.check(s.Value); err != nil {
		return 0, nil, err
	}
	for i, name := range parameterModes {
		if name == s.Mode {
			mode = uint8(i)
		}
	}
	switch p.Type {
	case "string":
		return mode, s.Value, nil
	case "bool":
		return mode, s.Value == "true", nil
	}
	n, err := strconv.ParseUint(s.Value, 10, bits[p.Type])
	switch p.Type {
	case "u8":
		return mode, uint8(n), err
	case "u16":
		return mode, uint16(n), err
	}
	return mode, uint32(n), err
}
