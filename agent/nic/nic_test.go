package nic_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/testbeds"
)

// fake is a Control with made-up answers.
type fake struct {
	addresses  []netip.Prefix
	dcb        *nic.DCB // nil: there is none
	parameters []nic.Parameter
	tunings    map[string]string
	refuses    bool   // takes no setting, and says nothing
	rounds     string // the value that every setting of ethtool gets; empty: the wanted one
}

func (f *fake) Addresses(string) ([]netip.Prefix, error) { return slices.Clone(f.addresses), nil }

func (f *fake) AddAddress(_ string, a netip.Prefix) error {
	f.addresses = append(f.addresses, a)
	return nil
}

func (f *fake) RemoveAddress(_ string, a netip.Prefix) error {
	f.addresses = slices.DeleteFunc(f.addresses, func(b netip.Prefix) bool { return a == b })
	return nil
}

func (*fake) Information(string) ([]testbeds.Property, error) {
	return []testbeds.Property{{Name: "firmware", Value: "16.35.2000 (MT_0000000008)"}, {Name: "fec", Value: "rs"}}, nil
}

func (*fake) Statistics(string) ([]testbeds.Counter, error) {
	return []testbeds.Counter{{Name: "rx_prio0_pause", Value: 3}}, nil
}

func (f *fake) DCB(string) (nic.DCB, error) {
	if f.dcb == nil {
		return nic.DCB{}, nic.ErrUnsupported
	}
	return *f.dcb, nil
}

func (f *fake) SetDCB(_ string, d nic.DCB) error {
	if f.refuses {
		return nil
	}
	if d.PFC != nil {
		f.dcb.PFC = d.PFC
	}
	if d.ETS != nil {
		f.dcb.ETS = d.ETS
	}
	if d.Trust != nil {
		f.dcb.Trust = d.Trust
	}
	return nil
}

func (f *fake) SetApp(_ string, a nic.App, on bool) error {
	f.dcb.Apps = slices.DeleteFunc(slices.Clone(f.dcb.Apps), func(b nic.App) bool { return a == b })
	if on {
		f.dcb.Apps = append(f.dcb.Apps, a)
	}
	return nil
}

func (f *fake) Tuning(_, name string) (string, error) {
	value, ok := f.tunings[name]
	if !ok {
		return "", nic.ErrUnsupported
	}
	return value, nil
}

func (f *fake) SetTuning(_, name, value string) error {
	if f.rounds != "" {
		value = f.rounds
	}
	if !f.refuses {
		f.tunings[name] = value
	}
	return nil
}

func (f *fake) Parameters(bus, device string) ([]nic.Parameter, error) {
	if f.parameters == nil || bus != "pci" || device != "0000:3b:00.0" {
		return nil, nic.ErrUnsupported
	}
	return slices.Clone(f.parameters), nil
}

func (f *fake) SetParameter(_, _ string, s nic.DevlinkSetting) error {
	for i := range f.parameters {
		if p := &f.parameters[i]; p.Name == s.Name && !f.refuses {
			p.Values = slices.Clone(p.Values)
			for j := range p.Values {
				if p.Values[j].Mode == s.Mode {
					p.Values[j].Value = s.Value
				}
			}
		}
	}
	return nil
}

// tree makes the file system that testdata/name describes: "path = content" or "path -> target" on each line.
func tree(t *testing.T, name string) (*os.Root, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		file, target, linked := strings.Cut(line, " -> ")
		file, content, _ := strings.Cut(file, " =")
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		switch {
		case linked:
			err = os.Symlink(target, at)
		case strings.HasSuffix(file, "/"):
			err = os.MkdirAll(at, 0o755)
		default:
			err = os.WriteFile(at, []byte(strings.TrimSpace(content)+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root, dir
}

func find(t *testing.T, name string) (*nic.NIC, *fake, string) {
	t.Helper()
	root, dir := tree(t, name)
	control := &fake{addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}
	n, err := nic.Find(root, control, "ens1")
	if err != nil {
		t.Fatal(err)
	}
	return n, control, dir
}

// contents lists every file below a directory with its content.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.Walk(dir, func(file string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		b, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		list[name] = strings.TrimSpace(string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func pointer[T any](v T) *T { return &v }

// all is what every setting may be.
func all() nic.Settings {
	return nic.Settings{
		MTU: pointer(4200), ReactionPoint: pointer(false), NotificationPoint: pointer(false),
		MinTimeBetweenCNPs: pointer(4 * time.Microsecond),
		CNPDSCP:            pointer(48), TrafficClass: pointer(104),
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")},
	}
}

func TestSettingsAreWrittenAndTakenBack(t *testing.T) {
	both := func(on bool) nic.Settings {
		return nic.Settings{ReactionPoint: pointer(on), NotificationPoint: pointer(on)}
	}
	withoutInterval := all()
	withoutInterval.MinTimeBetweenCNPs = nil
	cases := []struct {
		tree, driver string
		settings     nic.Settings
		changed      map[string]string
	}{
		{"mlx5-ofed", "mlx5", all(), map[string]string{
			"sys/class/net/ens1/mtu":                               "4200",
			"sys/class/net/ens1/ecn/roce_np/enable/0":              "0",
			"sys/class/net/ens1/ecn/roce_rp/enable/0":              "0",
			"sys/class/net/ens1/ecn/roce_np/cnp_dscp":              "48",
			"sys/class/infiniband/mlx5_0/tc/1/traffic_class":       "tclass=104",
			"sys/class/net/ens1/ecn/roce_np/min_time_between_cnps": "",
		}},
		{"mlx5-kernel", "mlx5", nic.Settings{CNPDSCP: pointer(46), MinTimeBetweenCNPs: pointer(8 * time.Microsecond)},
			map[string]string{
				"sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp":              "46",
				"sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_min_time_between_cnps": "8",
			}},
		{"bnxt-config", "bnxt_re", withoutInterval, map[string]string{
			"sys/class/net/ens1/mtu":                                   "4200",
			"sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/ecn_enable": "0",
			"sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/cnp_dscp":   "48",
			"sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/roce_dscp":  "26",
			"sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/apply":      "1",
		}},
		{"bnxt-kernel", "bnxt_re", both(false),
			map[string]string{"sys/kernel/debug/bnxt_re/0000:17:00.0/cc_config/enable_cc": "0"}},
		{"irdma", "irdma", both(true), nil},
		{"rxe", "rxe", nic.Settings{MTU: pointer(2048)}, map[string]string{"sys/class/net/ens1/mtu": "2048"}},
	}
	for _, c := range cases {
		t.Run(c.tree, func(t *testing.T) {
			n, control, dir := find(t, c.tree)
			if n.Driver() != c.driver {
				t.Fatalf("driver %s, want %s", n.Driver(), c.driver)
			}
			before, addresses := contents(t, dir), slices.Clone(control.addresses)
			if err := n.Apply(c.settings); err != nil {
				t.Fatal(err)
			}
			want := contents(t, dir) // with the untouched ones
			for file, value := range c.changed {
				if value != "" && want[file] != value {
					t.Errorf("/%s is %q, want %q", file, want[file], value)
				}
			}
			for file := range want {
				if _, expected := c.changed[file]; !expected && want[file] != before[file] {
					t.Errorf("/%s is %q and was %q: nobody asked for that", file, want[file], before[file])
				}
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			after := contents(t, dir)
			for file := range after {
				if strings.HasSuffix(file, "/apply") || strings.HasSuffix(file, "/traffic_class") {
					delete(after, file)
					delete(before, file)
				}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("not restored: %s", diff)
			}
			if !slices.Equal(control.addresses, addresses) {
				t.Errorf("addresses %v, before %v", control.addresses, addresses)
			}
		})
	}
}

func TestWhatADriverLacksIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	on := true
	cases := []struct {
		tree     string
		settings nic.Settings
		words    []string
	}{
		{"mlx5-kernel", nic.Settings{MTU: pointer(4200), ReactionPoint: &on},
			[]string{"ens1", "mlx5", "reaction point", "/ecn"}},
		{"bnxt-config", nic.Settings{MTU: pointer(4200), ReactionPoint: &on}, []string{"both", "reaction point"}},
		{"bnxt-config", nic.Settings{MinTimeBetweenCNPs: pointer(time.Microsecond)}, []string{"time between CNPs"}},
		{"irdma", nic.Settings{ReactionPoint: pointer(false), NotificationPoint: pointer(false)},
			[]string{"/sys/module/irdma/parameters/dcqcn_enable", "modprobe"}},
		{"rxe", nic.Settings{CNPDSCP: pointer(3)}, []string{"rxe", "CNP DSCP"}},
	}
	for _, c := range cases {
		n, _, dir := find(t, c.tree)
		before := contents(t, dir)
		err := n.Apply(c.settings)
		if !errors.Is(err, nic.ErrUnsupported) {
			t.Fatalf("%s: error %v, want ErrUnsupported", c.tree, err)
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: error %q does not say %q", c.tree, err, word)
			}
		}
		if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
			t.Errorf("%s: changed: %s", c.tree, diff)
		}
	}
}

func TestValuesOutOfRangeAreRefusedAllAtOnce(t *testing.T) {
	n, _, _ := find(t, "mlx5-ofed")
	err := n.Apply(nic.Settings{MTU: pointer(70000), CNPDSCP: pointer(64), TrafficClass: pointer(-1), Priority: 8,
		MinTimeBetweenCNPs: pointer(1500 * time.Nanosecond)})
	for _, word := range []string{"70000", "64", "-1", "priority 8", "1.5µs"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not say %s", err, word)
		}
	}
}

func TestAValueThatDoesNotHoldIsAnError(t *testing.T) {
	n, _, dir := find(t, "bnxt-config")
	cc := filepath.Join(dir, "sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc")
	// Applying changes the value to another one, as a driver may that knows better.
	if err := os.Remove(filepath.Join(cc, "apply")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(cc, "cnp_dscp"), filepath.Join(cc, "apply")); err != nil {
		t.Fatal(err)
	}
	err := n.Apply(nic.Settings{CNPDSCP: pointer(48)})
	for _, word := range []string{"/sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/cnp_dscp", `"48"`, `"1"`} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not say %s", err, word)
		}
	}
}

func TestWhatWasChangedBeforeAnErrorIsRestored(t *testing.T) {
	n, _, dir := find(t, "mlx5-ofed")
	mtu := filepath.Join(dir, "sys/class/net/ens1/mtu") // is written last
	if err := os.Remove(mtu); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(mtu, 0o755); err != nil { // can neither be read nor written
		t.Fatal(err)
	}
	err := n.Apply(nic.Settings{MTU: pointer(4200), CNPDSCP: pointer(3)})
	if err == nil || !strings.Contains(err.Error(), "/sys/class/net/ens1/mtu") {
		t.Fatalf("error %v does not name the file", err)
	}
	const file = "sys/class/net/ens1/ecn/roce_np/cnp_dscp"
	if got := contents(t, dir)[file]; got != "3" {
		t.Errorf("/%s is %s before Close: the test tests nothing", file, got)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir)[file]; got != "50" {
		t.Errorf("/%s is %s after Close, want 50", file, got)
	}
}

func TestPropertiesAndCountersOfEachTree(t *testing.T) {
	for name, want := range map[string]struct {
		properties []string
		vendor     string
		counters   []string
	}{
		"mlx5-ofed": {[]string{"nic-driver=mlx5", "psid=MT_0000000008", "rdma-firmware=16.35.2000", "pci=0000:3b:00.0",
			"link-speed-mbps=100000",
			"/sys/class/net/ens1/ecn/roce_rp/rpg_ai_rate=5", "/sys/class/net/ens1/qos/trust=dscp", "fec=rs",
			"address=192.0.2.1/24"},
			"nvidia", []string{"out_of_sequence=7", "np_cnp_sent=12", "port_rcv_packets=1000", "ethtool.rx_prio0_pause=3"}},
		"mlx5-kernel": {[]string{"/sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp=48"}, "nvidia",
			[]string{"rp_cnp_handled=4"}},
		"bnxt-config": {[]string{"/sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/cc_mode=0x1"}, "broadcom",
			[]string{"rx_pkts=5"}},
		"irdma": {[]string{"/sys/module/irdma/parameters/dcqcn_enable=Y", "nic-driver=irdma"}, "intel",
			[]string{"cnpSent=9"}},
		"rxe": {[]string{"nic-driver=rxe", "rdma-device=rxe0 port 1"}, "rxe", []string{"sent_pkts=11"}},
	} {
		n, _, _ := find(t, name)
		list, err := n.Properties()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, p := range list {
			got = append(got, p.Name+"="+p.Value)
		}
		for _, p := range want.properties {
			if !slices.Contains(got, p) {
				t.Errorf("%s: no %s in %q", name, p, got)
			}
		}
		counters, err := n.Counters()
		if err != nil || counters.Vendor != want.vendor {
			t.Fatalf("%s: vendor %q, %v", name, counters.Vendor, err)
		}
		got = nil
		for _, c := range counters.Values {
			got = append(got, fmt.Sprintf("%s=%d", c.Name, c.Value))
		}
		for _, c := range want.counters {
			if !slices.Contains(got, c) {
				t.Errorf("%s: no %s in %q", name, c, got)
			}
		}
	}
}

func TestACounterThatIsNoNumberIsNamed(t *testing.T) {
	n, _, dir := find(t, "mlx5-ofed")
	file := "sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent"
	if err := os.WriteFile(filepath.Join(dir, file), []byte("many"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Counters(); err == nil || !strings.Contains(err.Error(), "/"+file) ||
		!strings.Contains(err.Error(), "many") {
		t.Errorf("error %v", err)
	}
}

func TestNamesThatAreNoInterfaceAreRefused(t *testing.T) {
	root, _ := tree(t, "rxe")
	for _, name := range []string{"", ".", "..", "../net/ens1", "nowhere"} {
		if _, err := nic.Find(root, &fake{}, name); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}
