//go:build linux

package agent

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/vishvananda/netlink"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/generator/verbs"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
)

// gro is a setting that a veth has.
const gro = "feature-rx-gro"

// tunedHost asks for settings that a veth has; without the MTU, its traffic would not fit.
func tunedHost(t *testing.T) (h *Host, before, wanted string) {
	t.Helper()
	before, err := nic.Kernel{}.Tuning("b", gro)
	if err != nil {
		t.Fatal(err)
	}
	wanted = map[string]string{"true": "false", "false": "true"}[before]
	h = deviceHost()
	h.Spec.Connections[0].MTU = 4096
	h.NIC.Settings = []testbeds.Setting{{Name: "mtu", Value: "4200"}, {Name: "ethtool " + gro, Value: wanted}}
	return h, before, wanted
}

// expectTuning checks what the interface has.
func expectTuning(t *testing.T, when, feature string, mtu int) {
	t.Helper()
	i, err := net.InterfaceByName("b")
	if err != nil || i.MTU != mtu {
		t.Errorf("%s the MTU is %d, %v, want %d", when, i.MTU, err, mtu)
	}
	if now, err := (nic.Kernel{}).Tuning("b", gro); err != nil || now != feature {
		t.Errorf("%s %s is %q, %v, want %q", when, gro, now, err, feature)
	}
}

func newJournal(t *testing.T, dir string) *nic.Journal {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	j, err := nic.OpenJournal(root)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestTheTestsSettingsHoldDuringTheTest(t *testing.T) {
	withDevice(t, "ok", func(program string, _ func(string) json.RawMessage) {
		h, before, wanted := tunedHost(t)
		journal := newJournal(t, t.TempDir())
		r, err := openRDMA(h, fakeDevice(), program, []string{"b"}, journal)
		if err != nil {
			t.Error(err)
			return
		}
		expectTuning(t, "during the test", wanted, 4200)
		for _, want := range []string{"set/ethtool " + gro + " = " + wanted + " (was " + before + ")",
			"set//sys/class/net/b/mtu = 4200 (was 1500)"} {
			if !slices.ContainsFunc(r.properties(), func(p *agentpb.Property) bool {
				return p.GetName()+" = "+p.GetValue() == want
			}) {
				t.Errorf("no %q in %v", want, r.properties())
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		expectTuning(t, "after the test", before, 1500)
		if list := journal.Pending(); len(list) > 0 {
			t.Errorf("the journal has %+v", list)
		}
	})
}

func TestASettingThatTheDeviceLacksIsRefusedAndNothingStays(t *testing.T) {
	withDevice(t, "ok", func(program string, _ func(string) json.RawMessage) {
		h, before, _ := tunedHost(t)
		h.NIC.Settings = append(h.NIC.Settings, testbeds.Setting{Name: "pfc", Value: "3"})
		_, err := openRDMA(h, fakeDevice(), program, []string{"b"}, newJournal(t, t.TempDir()))
		for _, word := range []string{`interface "b"`, "PFC", nic.ErrUnsupported.Error()} {
			if !errors.Is(err, errRDMA) || !strings.Contains(err.Error(), word) {
				t.Errorf("error %v does not say %q", err, word)
			}
		}
		expectTuning(t, "after the refusal", before, 1500)
	})
}

// TestAnAgentRestoresWhatAKilledOneLeft: at its start, and if that failed before the next run.
func TestAnAgentRestoresWhatAKilledOneLeft(t *testing.T) {
	for _, at := range []string{"start", "next run"} {
		withDevice(t, "ok", func(program string, _ func(string) json.RawMessage) {
			h, before, wanted := tunedHost(t)
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Error(err)
			}
			killed, err := openRDMA(h, fakeDevice(), program, []string{"b"}, newJournal(t, dir))
			if err != nil {
				t.Error(err)
				return
			}
			// Of the killed agent, only the process and its NIC's settings are left.
			defer func() { _ = killed.way.close() }()
			defer killed.process.Close()
			expectTuning(t, "after the kill", wanted, 4200)
			if at == "start" {
				s, err := Open(Config{Dir: dir, Interfaces: []string{"b"}, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Error(err)
					return
				}
				expectTuning(t, "after the next start", before, 1500)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			again := deviceHost()
			again.NIC.Settings = []testbeds.Setting{{Name: "mtu", Value: "2000"}}
			r, err := openRDMA(again, fakeDevice(), program, []string{"b"}, newJournal(t, dir))
			if err != nil {
				t.Error(err)
				return
			}
			expectTuning(t, "in the next run", before, 2000)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			expectTuning(t, "after the next run", before, 1500)
		})
	}
}

func TestALinkThatComesBackLateIsWaitedFor(t *testing.T) {
	withDevice(t, "ok", func(program string, _ func(string) json.RawMessage) {
		device := fakeDevice()
		const state = verbs.DeviceRoot + "/rxe0/ports/1/state"
		put(device, "state", "1: DOWN")
		up := &fstest.MapFile{Data: []byte("4: ACTIVE\n")}
		changing := &lateFS{MapFS: device, name: state, late: up, after: time.Now().Add(50 * time.Millisecond)}
		r, err := openRDMA(deviceHost(), changing, program, []string{"b"}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		a, err := netlink.LinkByName("a") // its peer loses the carrier
		if err == nil {
			err = netlink.LinkSetDown(a)
		}
		for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(pollEvery) {
			if i, err := net.InterfaceByName("b"); err == nil && i.Flags&net.FlagRunning == 0 {
				break // the kernel tells it after a moment
			}
		}
		carrier := carrierTime
		carrierTime = 0
		_, failure := openRDMA(deviceHost(), changing, program, []string{"b"}, nil)
		carrierTime = carrier
		if err != nil || failure == nil || !strings.Contains(failure.Error(), "no carrier") {
			t.Errorf("%v, %v: want no carrier", err, failure)
		}
	})
}

// lateFS has another version of a file after a time.
type lateFS struct {
	fstest.MapFS
	name  string
	late  *fstest.MapFile
	after time.Time
}

func (f *lateFS) ReadFile(name string) ([]byte, error) {
	if name == f.name && time.Now().After(f.after) {
		return f.late.Data, nil
	}
	return f.MapFS.ReadFile(name)
}
