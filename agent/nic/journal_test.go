package nic_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/testbeds"
)

// everything is one setting of each kind, as a test names them.
func everything() []testbeds.Setting {
	return []testbeds.Setting{{Name: "mtu", Value: "4200"}, {Name: "cnp-dscp", Value: "46"},
		{Name: "ethtool ring-rx", Value: "512"}, {Name: "pfc", Value: "3 4"},
		{Name: "ets", Value: "prio-tc 0 0 0 1 2 0 0 0 tc-tsa ets ets strict strict strict strict strict strict " +
			"tc-bw 10 90 0 0 0 0 0 0"},
		{Name: "trust", Value: "dscp"}, {Name: "dscp-prio 26", Value: "3"},
		{Name: "devlink flow_steering_mode", Value: "dmfs"}}
}

// machine is a card whose every setting can be made, and a directory for the journal.
type machine struct {
	root, dir *os.Root
	control   *fake
	files     string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{control: &fake{dcb: lossless(), parameters: parameters(), tunings: map[string]string{"ring-rx": "1024"}}}
	m.control.dcb.Trust = []uint8{255}
	m.control.dcb.Apps = []nic.App{{Selector: 1, Priority: 5, Protocol: 26}, {Selector: 5, Priority: 5, Protocol: 26}}
	m.root, m.files = tree(t, "mlx5-kernel")
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	m.dir = dir
	return m
}

func (m *machine) find(name string) (*nic.NIC, error) { return nic.Find(m.root, m.control, name) }

// set makes settings as an agent does that is then killed: nothing is closed.
func (m *machine) set(t *testing.T, list ...testbeds.Setting) error {
	t.Helper()
	journal, err := nic.OpenJournal(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	n, err := m.find("ens1")
	if err != nil {
		t.Fatal(err)
	}
	s, err := nic.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	n.Keep(journal)
	return n.Apply(s)
}

func (m *machine) restore(t *testing.T) ([]string, error) {
	t.Helper()
	journal, err := nic.OpenJournal(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	return journal.Restore(m.find)
}

// state is all that a setting can change.
func (m *machine) state(t *testing.T) any {
	return []any{contents(t, m.files), *m.control.dcb, m.control.parameters, m.control.tunings["ring-rx"]}
}

var unexported = cmpopts.IgnoreUnexported(nic.ETS{}, nic.PFC{})

func TestTheNextAgentRestoresWhatAKilledOneHasSet(t *testing.T) {
	m := newMachine(t)
	before := m.state(t)
	if err := m.set(t, everything()...); err != nil {
		t.Fatal(err)
	}
	d := m.control.dcb
	if d.PFC.Enabled != 0x18 || d.ETS.Class[4] != 2 || d.ETS.Bandwidth[1] != 90 || !slices.Equal(d.Trust, []uint8{5}) ||
		!slices.Contains(d.Apps, nic.App{Selector: 5, Priority: 3, Protocol: 26}) || len(d.Apps) != 2 ||
		m.control.tunings["ring-rx"] != "512" {
		t.Errorf("DCB is %+v, tunings are %v", d, m.control.tunings)
	}
	done, err := m.restore(t)
	if err != nil || len(done) != len(everything()) {
		t.Errorf("restored %q, %v", done, err)
	}
	if diff := cmp.Diff(before, m.state(t), unexported); diff != "" {
		t.Errorf("after the next start (-want +got):\n%s", diff)
	}
	if _, err := m.dir.Stat(nic.JournalFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal is still there: %v", err)
	}
}

func TestAnAgentThatEndsLeavesNoJournal(t *testing.T) {
	m := newMachine(t)
	journal, err := nic.OpenJournal(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	n, err := m.find("ens1")
	if err != nil {
		t.Fatal(err)
	}
	n.Keep(journal)
	before := m.state(t)
	s, err := nic.Parse(everything())
	if err == nil {
		err = errors.Join(n.Apply(s), n.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, m.state(t), unexported); diff != "" {
		t.Errorf("after Close (-want +got):\n%s", diff)
	}
	if list := journal.Pending(); len(list) > 0 {
		t.Errorf("the journal has %+v", list)
	}
	var made []string
	for _, p := range n.Made() {
		made = append(made, p.Name+" = "+p.Value)
	}
	for _, want := range []string{"set/PFC = 3 4 (was 3)", "set/ethtool ring-rx = 512 (was 1024)",
		"set/trust = dscp (was pcp)", "set/dscp-prio 26 = 3 (was 5)"} {
		if !slices.Contains(made, want) {
			t.Errorf("no %q in %q", want, made)
		}
	}
}

func TestNothingIsChangedThatCannotBeNoted(t *testing.T) {
	m := newMachine(t)
	journal, err := nic.OpenJournal(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.dir.Mkdir(nic.JournalFile+".new", 0o700); err != nil { // takes the place of the file
		t.Fatal(err)
	}
	n, err := m.find("ens1")
	if err != nil {
		t.Fatal(err)
	}
	n.Keep(journal)
	before := m.state(t)
	if err := n.Apply(nic.Settings{PFC: pointer(uint8(1))}); err == nil || !strings.Contains(err.Error(), "is not changed") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, m.state(t), unexported); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestWhatSomebodyHasChangedSinceIsLeft(t *testing.T) {
	m := newMachine(t)
	if err := m.set(t, testbeds.Setting{Name: "pfc", Value: "3 4"}, testbeds.Setting{Name: "mtu",
		Value: "4200"}); err != nil {
		t.Fatal(err)
	}
	m.control.dcb.PFC.Enabled = 1 << 5
	done, err := m.restore(t)
	if err != nil || len(done) != 2 || !slices.ContainsFunc(done, func(s string) bool {
		return strings.Contains(s, `PFC of interface ens1 is left at "5"`)
	}) {
		t.Errorf("restored %q, %v", done, err)
	}
	if got := m.control.dcb.PFC.Enabled; got != 1<<5 {
		t.Errorf("PFC is %08b", got)
	}
	if done, err := m.restore(t); len(done) > 0 || err != nil {
		t.Errorf("a second start restores %q, %v", done, err)
	}
}

func TestAValueThatTheDeviceRoundedIsRestored(t *testing.T) {
	m := newMachine(t)
	m.control.rounds = "500"
	err := m.set(t, testbeds.Setting{Name: "ethtool ring-rx", Value: "512"})
	if err == nil || !strings.Contains(err.Error(), `interface "ens1", driver mlx5: ethtool ring-rx: set "512", read back "500"`) {
		t.Errorf("error %v", err)
	}
	m.control.rounds = ""
	if done, err := m.restore(t); err != nil || len(done) != 1 || m.control.tunings["ring-rx"] != "1024" {
		t.Errorf("restored %q, %v: %v", done, err, m.control.tunings)
	}
}

func TestAnotherCardUnderTheNameIsNotTouched(t *testing.T) {
	m := newMachine(t)
	if err := m.set(t, testbeds.Setting{Name: "pfc", Value: "3 4"}); err != nil {
		t.Fatal(err)
	}
	address := filepath.Join(m.files, "sys/class/net/ens1/address")
	if err := os.WriteFile(address, []byte("02:00:00:00:00:99\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it stays in the journal
		if _, err := m.restore(t); err == nil || !strings.Contains(err.Error(), "another address") ||
			!strings.Contains(err.Error(), `PFC of interface ens1 from "3" to "3 4"`) {
			t.Errorf("error %v", err)
		}
	}
	if got := m.control.dcb.PFC.Enabled; got != 0x18 {
		t.Errorf("PFC is %08b", got)
	}
}

func TestAJournalThatCannotBeReadIsNotIgnored(t *testing.T) {
	m := newMachine(t)
	if err := m.dir.WriteFile(nic.JournalFile, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := nic.OpenJournal(m.dir); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("error %v", err)
	}
}

func TestSettingsThatCannotBeMeantAreRefused(t *testing.T) {
	for name, value := range map[string]string{"mtu": "many", "pfc": "8", "ets": "prio-tc 0", "dscp-prio 64": "3",
		"dscp-prio 3": "8", "speed": "100"} {
		if _, err := nic.Parse([]testbeds.Setting{{Name: name, Value: value}}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s %s: %v", name, value, err)
		}
	}
}
