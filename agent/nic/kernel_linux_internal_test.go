package nic

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestAnEntryOfTheApplicationTableIsSentAsDCBSendsIt: the bytes are what `dcb app add dev lo dscp-prio 26:3` of
// iproute2 6.1 passed to sendmsg, after the name of the interface.
func TestAnEntryOfTheApplicationTableIsSentAsDCBSendsIt(t *testing.T) {
	want := []byte{0x10, 0, 0x0d, 0x80, 0x0c, 0, 0x03, 0x80, 0x08, 0, 0x01, 0, 0x05, 0x03, 0x1a, 0}
	if got := appTable(App{selectDSCP, 3, 26}).Serialize(); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestApplicationTableAndTrustAreReadAsTheyAreWritten(t *testing.T) {
	apps := []App{{selectDSCP, 3, 26}, {1, 5, 0x8914}}
	table := attribute(ieeeApps|unix.NLA_F_NESTED, attribute(entryIEEE, string(appendApp(nil, apps[0])))+
		attribute(entryIEEE, string(appendApp(nil, apps[1]))))
	trust := []uint8{selectDSCP, selectPCP}
	d, err := parseDCB([]byte(attribute(attrIEEE|unix.NLA_F_NESTED, table+string(trustTable(trust).Serialize()))))
	if diff := cmp.Diff(DCB{Apps: apps, Trust: trust}, d); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if _, err := parseDCB([]byte(attribute(attrIEEE, attribute(ieeeApps, attribute(entryIEEE, "ab"))))); err == nil {
		t.Error("an entry of two bytes is no error")
	}
}

func TestValuesOfSettingsAreReadAsTheyAreWritten(t *testing.T) {
	e := &ETS{Class: [8]uint8{0, 1, 7}, Algorithm: [8]uint8{strict, 1, shared, 255, 9}, Bandwidth: [8]uint8{0, 0, 100}}
	var again ETS
	if err := again.parse(e.String()); err != nil || again.String() != e.String() || again.Algorithm != e.Algorithm {
		t.Errorf("%q becomes %q, %v", e, &again, err)
	}
	for _, text := range []string{"none", "0", "3 4", "0 1 2 3 4 5 6 7"} {
		if set, err := parsePriorities(text); err != nil || priorities(set) != text {
			t.Errorf("priorities %q become %q, %v", text, priorities(set), err)
		}
	}
	for _, list := range [][]uint8{{}, {selectDSCP}, {selectPCP, selectDSCP, 3}} {
		if again, err := parseSelectors(selectors(list)); err != nil || !slices.Equal(again, list) {
			t.Errorf("trust %v becomes %v, %v", list, again, err)
		}
	}
	for _, text := range []string{"rs", "auto baser"} {
		if mask, err := fecMask(text); err != nil || fecText(mask) != text {
			t.Errorf("FEC %q becomes %q, %v", text, fecText(mask), err)
		}
	}
	for name, value := range map[string]string{"pause-rx": "on", "feature-rx-gro": "1", "ring-rx": "true", "fec": "best"} {
		_, err := tuningNumber(name, value)
		if name == "fec" {
			_, err = fecMask(value)
		}
		if err == nil {
			t.Errorf("%s %q is no error", name, value)
		}
	}
}
