//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/vm"
)

// needVM skips unless virtual machines are requested and possible on this machine, and returns the image.
func needVM(t *testing.T) string {
	t.Helper()
	if os.Getenv("CANDELA_TEST_VM") == "" {
		t.Skip("SKIP-slow: guests take seconds to boot; make test-vm runs it")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("SKIP-qemu: qemu-system-x86_64 is not installed (tools/setup --vm)")
	}
	image, err := filepath.Abs("../../" + vm.DefaultImage)
	if named := os.Getenv("CANDELA_VM_IMAGE"); named != "" {
		image, err = filepath.Abs(named)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(image, "image.json")); err != nil {
		t.Skipf("SKIP-image: %v (make vm-image)", err)
	}
	return image
}

// vmState makes persistent testbeds use a directory of the test.
func vmState(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cvm") // sockets are below it: TempDir is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "candela-vm")
}

func callCandela(t *testing.T, args ...string) (orchestrator.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	status := run(t.Context(), args, &out, &out)
	return status, out.String()
}

// upVM starts a testbed that is stopped with the test.
func upVM(t *testing.T, testbed string) {
	t.Helper()
	if status, out := callCandela(t, "testbed", "up", testbed); status != orchestrator.ExitPass {
		t.Fatalf("up: %d: %s", status, out)
	}
	t.Cleanup(func() {
		if status, out := callCandela(t, "testbed", "down", testbed); status != orchestrator.ExitPass {
			t.Errorf("down: %d: %s", status, out)
		}
	})
}

const vmQuickstart = "../../configs/quickstart.yml"

func TestVMTestbedStaysForSeveralCommands(t *testing.T) {
	needVM(t)
	state := vmState(t)
	upVM(t, "vm")
	pids := vmProcesses(t, state)
	for i := range 3 {
		if status, out := callCandela(t, "run", "--testbed", "vm", "--out", t.TempDir(),
			vmQuickstart); status != orchestrator.ExitPass {
			t.Fatalf("run %d: %d: %s", i+1, status, out)
		}
	}
	if _, out := callCandela(t, "testbed", "up", "vm"); !strings.Contains(out, "candela testbed down vm") {
		t.Errorf("up again: %s", out)
	}
	if status, out := callCandela(t, "testbed", "down", "vm"); status != orchestrator.ExitPass {
		t.Fatalf("down: %s", out)
	}
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil && !zombie(pid) {
			t.Errorf("process %d outlives its testbed", pid)
		}
	}
	if _, err := os.Stat(filepath.Join(state, "vm")); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// vmProcesses returns the process ids of switch and guests.
func vmProcesses(t *testing.T, state string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, "vm", "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	type process struct {
		PID int `json:"pid"`
	}
	var s struct {
		Switch process            `json:"switch"`
		Guests map[string]process `json:"guests"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return map[string]int{"switch": s.Switch.PID, "requester": s.Guests["requester"].PID,
		"responder": s.Guests["responder"].PID}
}

func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), ") Z ")
}

// busyTest is traffic that continues during and after a kill.
const busyTest = `name: busy
requester: {nic: {ip-list: [10.0.0.1/24]}}
responder: {nic: {ip-list: [10.0.0.2/24]}}
traffic: {rdma-verb: write, num-msgs-per-qp: 200000, mtu: 1024, message-size: 4096, min-retransmit-timeout: 16}
`

func TestVMWhateverIsKilledIsAnInfrastructureFailureWithTheConsole(t *testing.T) {
	needVM(t)
	for _, victim := range []string{"requester", "responder", "switch"} {
		t.Run(victim, func(t *testing.T) {
			state := vmState(t)
			upVM(t, "vm")
			pid := vmProcesses(t, state)[victim]
			file := filepath.Join(t.TempDir(), "busy.yml")
			if err := os.WriteFile(file, []byte(busyTest), 0o600); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(4*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			defer timer.Stop()
			status, out := callCandela(t, "run", "--testbed", "vm", "--out", t.TempDir(), file)
			if status != orchestrator.ExitInfrastructure {
				t.Fatalf("status %d: %s", status, out)
			}
			for _, want := range []string{victim, "ended", "candela: control on"} {
				if !strings.Contains(out, want) {
					t.Errorf("the report does not say %q:\n%s", want, out)
				}
			}
			// A broken testbed remains broken, and the message gives the remedy.
			if status, out := callCandela(t, "run", "--testbed", "vm", "--out", t.TempDir(),
				vmQuickstart); status != orchestrator.ExitInfrastructure ||
				!strings.Contains(out, "candela testbed down vm") {
				t.Errorf("the next run: %d: %s", status, out)
			}
		})
	}
}

func TestVMGuestsDieWithTheCommandThatBootedThem(t *testing.T) {
	needVM(t)
	vmState(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "run", "--repeat", "100", "--testbed", "vm", "--out", t.TempDir(), vmQuickstart)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var guests []int
	for deadline := time.Now().Add(time.Minute); len(guests) < 2; time.Sleep(50 * time.Millisecond) {
		if guests = children(t, cmd.Process.Pid); time.Now().After(deadline) {
			t.Fatal("no guests were started")
		}
	}
	time.Sleep(time.Second)
	guests = children(t, cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		alive := 0
		for _, pid := range guests {
			if syscall.Kill(pid, 0) == nil && !zombie(pid) {
				alive++
			}
		}
		if alive == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d guests outlive the command", alive)
		}
	}
}

func children(t *testing.T, parent int) (list []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			pid := 0
			if _, err := fmt.Sscan(field, &pid); err == nil {
				list = append(list, pid)
			}
		}
	}
	return list
}

// interoperability is a test of all verbs, with optional events.
const interoperability = `name: interoperability
requester: {nic: {ip-list: [10.0.0.1/24]}}
responder: {nic: {ip-list: [10.0.0.2/24]}}
traffic:
  rdma-verb: VERB
  num-msgs-per-qp: 6
  mtu: 1024
  message-size: 10240
  tx-depth: 3
  bidirectional: true
  min-retransmit-timeout: 15
`

func TestVMModelsAndSoftRoCEUnderstandEachOther(t *testing.T) {
	needVM(t)
	vmState(t)
	for _, side := range []string{"requester", "responder"} {
		bed, err := filepath.Abs("../../testbeds/vm-model-" + side + ".yml")
		if err != nil {
			t.Fatal(err)
		}
		upVM(t, bed)
		for _, verb := range []string{"write", "write-imm", "send", "send-imm", "read", "fetch-add", "compare-swap",
			"[write, send, read]"} {
			for _, events := range []string{"", "  iter-scope: packet\n  data-pkt-events: [{qpn: 1, psn: 3, type: drop}, " +
				"{qpn: 1, psn: 2, from: responder, type: corrupt}]\n"} {
				t.Run(fmt.Sprintf("model as %s, %s, events %t", side, verb, events != ""), func(t *testing.T) {
					interoperate(t, bed, strings.Replace(interoperability, "VERB", verb, 1)+events)
				})
			}
		}
	}
}

// interoperate runs a test and checks that all data arrived, whatever the findings.
func interoperate(t *testing.T, bed, text string) {
	t.Helper()
	out := t.TempDir()
	file := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, printed := callCandela(t, "run", "--testbed", bed, "--out", out, file)
	if status != orchestrator.ExitPass && status != orchestrator.ExitFail {
		t.Fatalf("status %d: %s", status, printed)
	}
	data, err := os.ReadFile(filepath.Join(out, "interoperability", "generator.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r generator.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, d := range r.Data {
		compared += d.Messages
		if d.Wrong > 0 {
			t.Errorf("%+v", d)
		}
	}
	if compared < 6 {
		t.Errorf("%d messages were compared: %+v", compared, r.Data)
	}
	for _, s := range r.Streams {
		if len(s.Statuses) != 1 || s.Statuses[0].Status != generator.Success || s.Completed != 6 {
			t.Errorf("%s: %+v", s.Side, s.Statuses)
		}
	}
	if status == orchestrator.ExitFail {
		t.Logf("found: %s", printed)
	}
}
