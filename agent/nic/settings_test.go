package nic_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/testbeds"
)

// lossless is a port with PFC on priority 3 and two classes.
func lossless() *nic.DCB {
	return &nic.DCB{PFC: &nic.PFC{Enabled: 1 << 3, Capable: 8, Delay: 7},
		ETS: &nic.ETS{Classes: 8, Class: [8]uint8{0, 0, 0, 1},
			Algorithm: [8]uint8{2, 2}, Bandwidth: [8]uint8{40, 60}}}
}

// parameters are those of a made-up device, as of ConnectX.
func parameters() []nic.Parameter {
	return []nic.Parameter{
		{Name: "enable_roce", Type: "bool", Values: []nic.ParameterValue{{Mode: nic.DriverInit, Value: "true"}}},
		{Name: "flow_steering_mode", Type: "string", Values: []nic.ParameterValue{{Mode: nic.Runtime, Value: "smfs"}}},
		{Name: "esw_port_metadata", Type: "bool", Values: []nic.ParameterValue{{Mode: nic.Runtime, Value: "false"}}},
		{Name: "io_eq_size", Type: "u32", Values: []nic.ParameterValue{{Mode: nic.DriverInit, Value: "1024"}}},
		{Name: "num_doorbells", Type: "u8",
			Values: []nic.ParameterValue{{Mode: nic.Runtime, Value: "8"}, {Mode: nic.Permanent, Value: "4"}}},
	}
}

func TestTheEnvironmentHasDCBAndDevlink(t *testing.T) {
	n, control, _ := find(t, "mlx5-kernel")
	control.dcb, control.parameters = lossless(), parameters()
	list, err := n.Properties()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range list {
		got[p.Name] = p.Value
	}
	for name, want := range map[string]string{
		"pfc-priorities": "3", "pfc-capable": "8", "pfc-delay": "7", "ets-classes": "8",
		"ets-class-of-priority": "[0 0 0 1 0 0 0 0]",
		"ets-algorithms":        "ets ets strict strict strict strict strict strict", "ets-bandwidths": "[40 60 0 0 0 0 0 0]",
		"devlink/enable_roce driverinit": "true", "devlink/flow_steering_mode": "smfs", "devlink/num_doorbells": "8",
		"devlink/num_doorbells permanent": "4",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestAnInterfaceWithoutDCBOrDevlinkSaysSo(t *testing.T) {
	n, _, _ := find(t, "rxe")
	list, err := n.Properties()
	if err != nil {
		t.Fatal(err)
	}
	dcb := testbeds.Property{Name: "dcb", Value: "not supported by the driver"}
	found := false
	for _, p := range list {
		found = found || p == dcb
		if strings.HasPrefix(p.Name, "devlink/") || strings.HasPrefix(p.Name, "pfc") {
			t.Errorf("it has %v", p)
		}
	}
	if !found {
		t.Errorf("no %v in %v", dcb, list)
	}
}

func TestDCBAndDevlinkAreSetReadBackAndRestored(t *testing.T) {
	n, control, _ := find(t, "mlx5-kernel")
	control.dcb, control.parameters = lossless(), parameters()
	wanted := &nic.ETS{Class: [8]uint8{0, 0, 0, 2}, Algorithm: [8]uint8{2, 0, 2}, Bandwidth: [8]uint8{10, 0, 90}}
	err := n.Apply(nic.Settings{PFC: pointer(uint8(1<<3 | 1<<4)), ETS: wanted, Devlink: []nic.DevlinkSetting{
		{Name: "flow_steering_mode", Mode: nic.Runtime, Value: "dmfs"},
		{Name: "num_doorbells", Mode: nic.Permanent, Value: "255"},
		{Name: "enable_roce", Mode: nic.DriverInit, Value: "true"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := control.dcb.PFC.Enabled; got != 0x18 {
		t.Errorf("PFC is enabled for %08b", got)
	}
	ignore := cmpopts.IgnoreUnexported(nic.ETS{}, nic.PFC{})
	wanted.Classes = 8 // not ours to set
	if diff := cmp.Diff(wanted, control.dcb.ETS, ignore); diff != "" {
		t.Errorf("ETS (-want +got):\n%s", diff)
	}
	changed := parameters()
	changed[1].Values[0].Value, changed[4].Values[1].Value = "dmfs", "255"
	if diff := cmp.Diff(changed, control.parameters); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lossless(), control.dcb, ignore); diff != "" {
		t.Errorf("DCB after Close (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(parameters(), control.parameters); diff != "" {
		t.Errorf("parameters after Close (-want +got):\n%s", diff)
	}
}

func TestWhatADeviceCannotTakeIsRefusedBeforeAnythingIsSet(t *testing.T) {
	bandwidths := func(b ...uint8) *nic.ETS {
		e := &nic.ETS{Algorithm: [8]uint8{2, 2}}
		copy(e.Bandwidth[:], b)
		return e
	}
	for name, tt := range map[string]struct {
		device      string
		s           nic.Settings
		want        string
		unsupported bool
	}{
		"PFC without DCB": {"rxe", nic.Settings{PFC: pointer(uint8(8))}, "PFC: the driver has no such setting",
			true},
		"ETS without DCB": {"rxe", nic.Settings{ETS: bandwidths(50, 50)}, "ETS: the driver has no such setting",
			true},
		"devlink without a device": {"rxe", nic.Settings{Devlink: []nic.DevlinkSetting{{Name: "enable_roce"}}},
			"devlink parameter enable_roce", true},
		"bandwidths that don't add up": {"mlx5-kernel", nic.Settings{ETS: bandwidths(50, 40)}, "add up to 90 %", false},
		"bandwidth of a strict class": {"mlx5-kernel", nic.Settings{ETS: bandwidths(40, 40, 20)}, "class 2 is strict",
			false},
		"a class that can't be": {"mlx5-kernel", nic.Settings{ETS: &nic.ETS{Class: [8]uint8{8}}},
			"priority 0: class 8", false},
		"an unknown algorithm": {"mlx5-kernel", nic.Settings{ETS: &nic.ETS{Algorithm: [8]uint8{1}}}, "algorithm 1",
			false},
		"an unknown parameter": {"mlx5-kernel",
			nic.Settings{Devlink: []nic.DevlinkSetting{{"enable_rocky", nic.Runtime, "true"}}},
			"the device has enable_roce, flow", true},
		"a mode that it lacks": {"mlx5-kernel",
			nic.Settings{Devlink: []nic.DevlinkSetting{{"enable_roce", nic.Runtime, "true"}}}, "in mode runtime", true},
		"a number for a truth": {"mlx5-kernel",
			nic.Settings{Devlink: []nic.DevlinkSetting{{"enable_roce", nic.DriverInit, "1"}}}, "want true or false", false},
		"too large a number": {"mlx5-kernel",
			nic.Settings{Devlink: []nic.DevlinkSetting{{"num_doorbells", nic.Runtime, "256"}}}, "whole number of 8 bits", false},
		"too long a string": {"mlx5-kernel",
			nic.Settings{Devlink: []nic.DevlinkSetting{{"flow_steering_mode", nic.Runtime, strings.Repeat("x", 32)}}},
			"at most 31 bytes", false},
	} {
		n, control, _ := find(t, tt.device)
		if tt.device != "rxe" {
			control.dcb, control.parameters = lossless(), parameters()
		}
		tt.s.MTU = pointer(4200)
		err := n.Apply(tt.s)
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, nic.ErrUnsupported) != tt.unsupported {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if list, _ := n.Properties(); cmp.Equal(list, nil) || strings.Contains(propertiesText(list), "4200") {
			t.Errorf("%s: the MTU is changed", name)
		}
	}
}

func propertiesText(list []testbeds.Property) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.Name + "=" + p.Value + "\n")
	}
	return b.String()
}

func TestADeviceThatDoesNotTakeASettingIsAnError(t *testing.T) {
	for name, s := range map[string]nic.Settings{
		"read back": {PFC: pointer(uint8(1))}, "ETS: set": {ETS: &nic.ETS{}},
		`set "dmfs", read back "smfs"`: {Devlink: []nic.DevlinkSetting{{Name: "flow_steering_mode", Mode: nic.Runtime,
			Value: "dmfs"}}},
	} {
		n, control, _ := find(t, "mlx5-kernel")
		control.dcb, control.parameters, control.refuses = lossless(), parameters(), true
		if err := n.Apply(s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}
