package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds"
)

// TestTheAgentKnowsEverySettingOfTheLanguage: the names of both are text on the wire.
func TestTheAgentKnowsEverySettingOfTheLanguage(t *testing.T) {
	number, trust := func(v int) *int { return &v }, config.TrustPCP
	of := func(name, value string) []config.NamedValue { return []config.NamedValue{{Name: name, Value: value}} }
	s := config.NICSettings{MTU: number(4200), PFC: &[]int{}, Trust: &trust, CNPDSCP: number(48),
		DSCPPriorities: of("63", "7"), Devlink: of("a", "b"), Ethtool: of("ring-rx", "512"),
		ETS: &config.ETS{Class: []int{0, 1, 2, 3, 4, 5, 6, 7}, Bandwidth: []int{100, 0, 0, 0, 0, 0, 0, 0},
			Algorithm: []config.TSA{config.TSAShared, "strict", "strict", "strict", "strict", "strict", "strict", "strict"}}}
	var list []testbeds.Setting
	for _, v := range s.List() {
		list = append(list, testbeds.Setting(v))
	}
	got, err := nic.Parse(list)
	if err != nil || len(list) != 8 {
		t.Fatalf("%d settings, %v", len(list), err)
	}
	if *got.MTU != 4200 || *got.PFC != 0 || got.Trust != "pcp" || *got.CNPDSCP != 48 || got.ETS.Class[7] != 7 ||
		got.ETS.Algorithm[0] != 2 || got.ETS.Bandwidth[0] != 100 || got.DSCPPriorities[0].DSCP != 63 ||
		got.DSCPPriorities[0].Priority != 7 || got.Devlink[0].Mode != nic.Runtime || got.Ethtool[0].Value != "512" {
		t.Errorf("they become %+v", got)
	}
}

// TestTheAnalyzerKnowsTheVendorOfEveryDriver: otherwise a run on such a card would end in an error.
func TestTheAnalyzerKnowsTheVendorOfEveryDriver(t *testing.T) {
	for kernel, want := range map[string]string{"mlx5_core": "nvidia", "bnxt_en": "broadcom", "ice": "intel",
		"hns3": "hisilicon", "qede": "unknown"} {
		dir := t.TempDir()
		for _, d := range []string{"sys/class/net/eth0/device", "sys/class/infiniband/dev0/ports/1/gid_attrs/ndevs",
			"sys/bus/pci/drivers/" + kernel} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(
			os.WriteFile(filepath.Join(dir, "sys/class/infiniband/dev0/ports/1/gid_attrs/ndevs/0"), []byte("eth0\n"), 0o644),
			os.Symlink("../../../../bus/pci/drivers/"+kernel, filepath.Join(dir, "sys/class/net/eth0/device/driver")))
		if err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		n, err := nic.Find(root, nic.Kernel{}, "eth0")
		if err != nil {
			t.Fatal(err)
		}
		if n.Vendor() != want || !slices.Contains(counters.Namings(), n.Vendor()) {
			t.Errorf("%s: vendor %q, want %q, one of %v", kernel, n.Vendor(), want, counters.Namings())
		}
		_ = root.Close()
	}
}
