package nic_test

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/testbeds"
)

func TestTheKernelTellsAboutARealInterface(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		root, err := os.OpenRoot("/")
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		n, err := nic.Find(root, nic.Kernel{}, "a")
		if err != nil {
			t.Fatal(err)
		}
		address := netip.MustParsePrefix("10.9.0.1/24")
		if err := n.Apply(nic.Settings{MTU: pointer(2048), Addresses: []netip.Prefix{address}}); err != nil {
			t.Fatal(err)
		}
		list, err := n.Properties()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []testbeds.Property{{Name: "mtu", Value: "2048"}, {Name: "driver", Value: "veth"},
			{Name: "address", Value: address.String()}, {Name: "nic-driver", Value: "virtual"}} {
			if !slices.Contains(list, want) {
				t.Errorf("no %v in %v", want, list)
			}
		}
		// A veth has neither; the kernel says so, which is not an error.
		if dcb := (testbeds.Property{Name: "dcb", Value: "not supported by the driver"}); !slices.Contains(list, dcb) {
			t.Errorf("no %v in %v", dcb, list)
		}
		if err := n.Apply(nic.Settings{PFC: pointer(uint8(8))}); !errors.Is(err, nic.ErrUnsupported) {
			t.Errorf("PFC on a veth: %v", err)
		}
		if _, err := (nic.Kernel{}).Parameters("pci", "ffff:ff:1f.7"); !errors.Is(err, nic.ErrUnsupported) {
			t.Errorf("devlink of a device that is not there: %v", err)
		}
		counters, err := n.Counters()
		if err != nil || len(counters.Values) == 0 {
			t.Errorf("counters %v, %v: a veth has statistics", counters, err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		left, err := nic.Kernel{}.Addresses("a")
		if err != nil || slices.Contains(left, address) {
			t.Errorf("addresses %v, %v after Close", left, err)
		}
		if mtu, err := root.ReadFile("sys/class/net/a/mtu"); err != nil || string(mtu) != "9000\n" {
			t.Errorf("MTU %q, %v after Close, want 9000", mtu, err)
		}
	})
}

func TestSettingsOfEthtoolHoldOnARealInterfaceUntilTheNextAgentRestoresThem(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		root, err := os.OpenRoot("/")
		if err != nil {
			t.Error(err)
			return
		}
		defer root.Close()
		dir, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Error(err)
			return
		}
		defer dir.Close()
		open := func(name string) (*nic.NIC, error) { return nic.Find(root, nic.Kernel{}, name) }
		const feature = "feature-rx-gro"
		before, err := nic.Kernel{}.Tuning("a", feature)
		if err != nil {
			t.Error(err)
			return
		}
		wanted := map[string]string{"true": "false", "false": "true"}[before]
		n, err := open("a")
		if err != nil {
			t.Error(err)
			return
		}
		journal, err := nic.OpenJournal(dir)
		if err != nil {
			t.Error(err)
			return
		}
		n.Keep(journal)
		if err := n.Apply(nic.Settings{MTU: pointer(2048),
			Ethtool: []nic.Tuning{{Name: feature, Value: wanted}}}); err != nil {
			t.Error(err)
			return
		}
		if now, err := (nic.Kernel{}).Tuning("a", feature); err != nil || now != wanted {
			t.Errorf("%s is %q, %v, want %q", feature, now, err, wanted)
		}
		// The process is killed here: nothing is closed.
		if journal, err = nic.OpenJournal(dir); err != nil {
			t.Error(err)
			return
		}
		if done, err := journal.Restore(open); err != nil || len(done) != 2 {
			t.Errorf("restored %q, %v", done, err)
		}
		if now, err := (nic.Kernel{}).Tuning("a", feature); err != nil || now != before {
			t.Errorf("%s is %q, %v afterwards, want %q", feature, now, err, before)
		}
		if mtu, err := root.ReadFile("sys/class/net/a/mtu"); err != nil || string(mtu) != "9000\n" {
			t.Errorf("MTU %q, %v afterwards, want 9000", mtu, err)
		}
		for _, name := range []string{"fec", "feature-none", "flag-none", "speed", "ring-rx"} {
			if _, err := (nic.Kernel{}).Tuning("a", name); !errors.Is(err, nic.ErrUnsupported) {
				t.Errorf("%s of a veth: %v", name, err)
			}
		}
		if err := n.Apply(nic.Settings{Ethtool: []nic.Tuning{{Name: "channels-combined", Value: "1"}}}); err == nil {
			t.Error("a veth has no combined channels")
		}
	})
}
