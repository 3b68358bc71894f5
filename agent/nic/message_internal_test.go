package nic

import (
	"encoding/binary"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attribute is one of netlink, padded.
func attribute(kind uint16, value string) string {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return string(b) + value + strings.Repeat("\x00", -len(value)&3)
}

const nested = 0x8000

// port is what the kernel answers about one with PFC on priority 3 and 4.
func port() string {
	ets := make([]byte, etsBytes)
	ets[0], ets[etsCapable], ets[etsTransmit], ets[etsTransmit+1] = 1, 8, 30, 70 // willing
	ets[etsTSA], ets[etsTSA+1], ets[etsClass+3] = 2, 2, 1
	pfc := make([]byte, pfcBytes)
	pfc[0], pfc[1], pfc[2] = 8, 0x18, 1
	binary.NativeEndian.PutUint16(pfc[pfcDelay:], 700)
	binary.NativeEndian.PutUint64(pfc[pfcRequests+8*3:], 5)
	binary.NativeEndian.PutUint64(pfc[pfcReceived+8*4:], 6)
	return attribute(attrIEEE|nested,
		attribute(ieeeETS, string(ets))+attribute(ieeePFC, string(pfc))+attribute(7, "other"))
}

func TestDCBIsReadAndWrittenAsTheKernelHasIt(t *testing.T) {
	d, err := parseDCB([]byte(attribute(1, "ens1\x00") + port()))
	if err != nil {
		t.Fatal(err)
	}
	e, p := d.ETS, d.PFC
	if e.Classes != 8 || e.Bandwidth != [8]uint8{30, 70} || e.Algorithm != [8]uint8{2, 2} ||
		e.Class != [8]uint8{0, 0, 0, 1} {
		t.Errorf("ETS %+v", e)
	}
	if p.Capable != 8 || p.Enabled != 0x18 || p.Delay != 700 || p.Requests[3] != 5 || p.Received[4] != 6 {
		t.Errorf("PFC %+v", p)
	}
	// What is not changed is written back: willing, and the macsec bypass.
	e.Class[3], p.Enabled = 2, 0
	b, c := appendETS(nil, e), appendPFC(nil, p)
	if len(b) != etsBytes || b[0] != 1 || b[etsClass+3] != 2 || len(c) != pfcBytes || c[1] != 0 || c[2] != 1 {
		t.Errorf("written:\n%x\n%x", b, c)
	}
	for _, short := range []string{attribute(attrIEEE, attribute(ieeeETS, "abc")),
		attribute(attrIEEE, attribute(ieeePFC, "abc")), "\x03\x00\x00\x00", "\x08\x00\x0d\x00ab"} {
		if _, err := parseDCB([]byte(short)); err == nil {
			t.Errorf("%x is no error", short)
		}
	}
	if failure, err := parseDCBResult([]byte(attribute(attrIEEE,
		string([]byte{256 - 95})))); failure != syscall.EOPNOTSUPP || err != nil {
		t.Errorf("a refusal reads %v, %v", failure, err)
	}
	if failure, err := parseDCBResult([]byte(attribute(attrIEEE, "\x00"))); failure != 0 || err != nil {
		t.Errorf("success reads %v, %v", failure, err)
	}
}

// parameter is what the kernel answers about one of a device.
func parameter(device, name, kind string, values ...string) string {
	return attribute(attrBusName, "pci\x00") + attribute(attrDevName, device+"\x00") + attribute(attrParam|nested,
		attribute(attrName, name+"\x00")+attribute(82, "")+attribute(attrType, kind)+attribute(attrValues|nested,
			strings.Join(values, "")))
}

func value(mode, data string) string {
	return attribute(attrValue|nested, attribute(attrValueMode, mode)+attribute(attrValueData, data))
}

func TestParametersAreReadAsTheKernelTellsThem(t *testing.T) {
	u16, u32 := string(binary.NativeEndian.AppendUint16(nil, 512)), string(binary.NativeEndian.AppendUint32(nil, 70000))
	for name, tt := range map[string]struct {
		message string
		want    Parameter
	}{
		"u8": {parameter("a", "p", "\x01", value("\x00", "\xff"), value("\x02", "\x01")),
			Parameter{"p", "u8", []ParameterValue{{Runtime, "255"}, {Permanent, "1"}}}},
		"u16": {parameter("a", "p", "\x02", value("\x00", u16)),
			Parameter{"p", "u16", []ParameterValue{{Runtime, "512"}}}},
		"u32": {parameter("a", "p", "\x03", value("\x01", u32)),
			Parameter{"p", "u32", []ParameterValue{{DriverInit, "70000"}}}},
		"string": {parameter("a", "p", "\x05", value("\x00", "smfs\x00")),
			Parameter{"p", "string", []ParameterValue{{Runtime, "smfs"}}}},
		"true": {parameter("a", "p", "\x06", value("\x01", "")),
			Parameter{"p", "bool", []ParameterValue{{DriverInit, "true"}}}},
		"false": {parameter("a", "p", "\x06", attribute(attrValue, attribute(attrValueMode, "\x01"))),
			Parameter{"p", "bool", []ParameterValue{{DriverInit, "false"}}}},
		"a type of the future": {parameter("a", "p", "\x0e", value("\x00", "\x01\x02")),
			Parameter{"p", "", []ParameterValue{{Runtime, "0102"}}}},
	} {
		device, got, err := parseParameter([]byte(tt.message))
		if err != nil || device != "pci/a" {
			t.Errorf("%s: of %s: %v", name, device, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, _, err := parseParameter([]byte(parameter("a", "p", "\x01", value("\x03", "\x01")))); err == nil {
		t.Error("a mode of the future is no error: what it means for a setting is unknown")
	}
}

// FuzzMessages: whatever a kernel says, a value or an error.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(port()))
	f.Add([]byte(parameter("a", "p", "\x01", value("\x00", "\xff"))))
	f.Add([]byte(parameter("a", "p", "\x06", attribute(attrValue, attribute(attrValueMode, "\x01")))))
	f.Add([]byte(attribute(attrIEEE, "\xa1")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := parseDCB(b); err == nil && d.ETS != nil && len(appendETS(nil, d.ETS)) != etsBytes {
			t.Error("ETS of another length")
		}
		if _, p, err := parseParameter(b); err == nil {
			for _, v := range p.Values {
				if err := p.check(v.Value); p.Type == "bool" && err != nil {
					t.Errorf("%s has the impossible value %q: %v", p.Type, v.Value, err)
				}
			}
		}
		_, _ = parseDCBResult(b)
	})
}
