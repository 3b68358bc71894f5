package netns

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/testbeds"
)

func TestWhatCannotBeMadeIsRefusedBeforeAnythingIs(t *testing.T) {
	good := Config{Name: "t", Datapath: "xdp", Dumpers: []string{"dumper-1"}}
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"a name with a path":  {func(c *Config) { c.Name = "../t" }, `name "../t"`},
		"no name":             {func(c *Config) { c.Name = "" }, `name ""`},
		"an unknown datapath": {func(c *Config) { c.Datapath = "dpdk" }, "allowed are xdp, afpacket and bmv2"},
		"no dumper":           {func(c *Config) { c.Dumpers = nil }, "0 dumpers"},
		"too many dumpers":    {func(c *Config) { c.Dumpers = make([]string, 13) }, "13 dumpers; allowed are 1 to 12"},
	} {
		cfg := good
		cfg.StateDir = filepath.Join(t.TempDir(), "state")
		tt.change(&cfg)
		if _, err := Up(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if _, err := os.Stat(cfg.StateDir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was made: %v", name, err)
		}
	}
}

// TestANodeThatDoesNotStartIsNamedAndEverythingRemoved uses programs other than candela.
func TestANodeThatDoesNotStartIsNamedAndEverythingRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP-root: network namespaces need root")
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho the cat sat on $1 $2 >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	_, err := Up(t.Context(), Config{Name: "t", StateDir: state, Executable: program, Datapath: "afpacket",
		Dumpers: []string{"dumper-1"}})
	// All four end at once, before or while one of them is awaited.
	if err == nil || !strings.Contains(err.Error(), "ended") ||
		!strings.Contains(err.Error(), "the cat sat on testbed node") {
		t.Errorf("%v", err)
	}
	if names := left(t, state); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
	if _, err := Up(t.Context(), Config{Name: "t", StateDir: state, Executable: "/nowhere/candela", Datapath: "afpacket",
		Dumpers: []string{"d"}}); err == nil || !strings.Contains(err.Error(), "start requester") {
		t.Errorf("a program that is not there: %v", err)
	}
	if names := left(t, state); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}

// TestANodeThatIsKilledOnItsWayUpSaysSo kills a node that leaves an empty log.
func TestANodeThatIsKilledOnItsWayUpSaysSo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP-root: network namespaces need root")
	}
	program := filepath.Join(t.TempDir(), "program")
	text := "#!/bin/sh\nprintf x >&3\nhead -c 1 <&4 >/dev/null\n"
	for end, want := range map[string]string{
		"kill -KILL $$": "was killed (SIGKILL)", "exit 7": "has ended (exit status 7)",
		"exit 0": "has ended (exit status 0)"} {
		if err := os.WriteFile(program, []byte(text+end+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		state := t.TempDir()
		_, err := Up(t.Context(), Config{Name: "t", StateDir: state, Executable: program, Datapath: "afpacket",
			Dumpers: []string{"dumper-1"}})
		if err == nil || !strings.Contains(err.Error(), "requester: process ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", end, err, want)
		}
		if names := left(t, state); len(names) > 0 {
			t.Errorf("left: %v", names)
		}
	}
}

// sleeper starts a process that lives until the test is over.
func sleeper(t *testing.T) (*exec.Cmd, Process) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { cancel(); <-ended })
	p, err := identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, p
}

func TestAProcessIsNotTakenForAnotherOfItsNumber(t *testing.T) {
	_, p := sleeper(t)
	if !p.Alive() {
		t.Error("it does not live")
	}
	former := Process{PID: p.PID, Start: p.Start - 1}
	if former.Alive() {
		t.Error("a process that had the number before lives")
	}
	if err := former.kill(time.Second); err != nil || !p.Alive() {
		t.Errorf("the process that has the number now was killed in its place: %v", err)
	}
	if err := p.kill(time.Minute); err != nil || p.Alive() {
		t.Errorf("kill: %v", err)
	}
	if err := p.kill(time.Second); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestATestbedWithADeadNodeSaysWhichAndGoesDown(t *testing.T) {
	state := t.TempDir()
	_, alive := sleeper(t)
	dead := Process{PID: alive.PID, Start: 1}
	s := State{Name: "t", Datapath: "xdp", Switch: Node{Name: "switch", Process: alive},
		Hosts:   [2]Node{{Name: "requester", Process: alive}, {Name: "responder", Process: dead}},
		Dumpers: []Node{{Name: "dumper-1", Process: alive}}}
	directory(t, state, "t", map[string]any{stateFile: s, makerFile: gone()})
	got, err := Load(state, "t")
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Join(got.Dead(), " "); names != "responder" {
		t.Errorf("dead: %s", names)
	}
	if _, err := got.Testbed(testbeds.Spec{}); err == nil || !strings.Contains(err.Error(), "responder has ended") ||
		!strings.Contains(err.Error(), "candela testbed down t") {
		t.Errorf("%v", err)
	}
	if list, err := List(state); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	if err := Down(state, "t"); err != nil {
		t.Fatal(err)
	}
	if alive.Alive() || len(left(t, state)) > 0 {
		t.Errorf("after down: alive %v, left %v", alive.Alive(), left(t, state))
	}
	if err := Down(state, "t"); err != nil {
		t.Errorf("down again: %v", err)
	}
}

func TestAStateThatIsNoTestbedsIsNotActedOn(t *testing.T) {
	state := t.TempDir()
	_, alive := sleeper(t)
	directory(t, state, "other", map[string]any{stateFile: State{Name: "t", Switch: Node{Process: alive}}})
	directory(t, state, "empty", map[string]any{stateFile: map[string]int{}})
	directory(t, state, "text", map[string]any{stateFile: "text"})
	for name, want := range map[string]string{"other": `is of "t"`, "empty": `is of ""`,
		"text": "rm -r " + filepath.Join(state, "text"), "../x": "lower-case letters"} {
		if err := Down(state, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("down %s: %v, want %q", name, err, want)
		}
	}
	if !alive.Alive() || len(left(t, state)) != 3 {
		t.Errorf("alive %v, left %v", alive.Alive(), left(t, state))
	}
	if _, err := Load(state, "none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}

// TestATestbedWhoseStateIsDamagedGoesDown covers a state.json that is truncated, empty or missing.
func TestATestbedWhoseStateIsDamagedGoesDown(t *testing.T) {
	for name, text := range map[string]string{"cut-off": `{"name": "cut-off", "switch": {"na`, "empty": "", "gone": "none",
		"another": `{"name": "t"}`} {
		state := t.TempDir()
		dir := filepath.Join(state, name)
		// A process that serves on a socket of the testbed, one on another testbed's socket, and one on neither.
		var processes []Process
		for _, socket := range []string{dir + "/requester.sock", dir + "2/requester.sock", "/nowhere"} {
			processes = append(processes, served(t, "unix:"+socket))
		}
		directory(t, state, name, map[string]any{makerFile: gone()})
		if text != "none" {
			if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(state, name); err == nil || !strings.Contains(err.Error(), "candela testbed down "+name) {
				t.Errorf("%s: load: %v", name, err)
			}
		}
		if !Made(state, name) {
			t.Errorf("%s: it is not found", name)
		}
		if err := Down(state, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if processes[0].Alive() || !processes[1].Alive() || !processes[2].Alive() || len(left(t, state)) > 0 {
			t.Errorf("%s: alive %v %v %v, want only the last two; left %v", name, processes[0].Alive(), processes[1].Alive(),
				processes[2].Alive(), left(t, state))
		}
	}
}

// served starts a process whose command line has a listening address.
func served(t *testing.T, address string) Process {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read x", "candela", "agent", "--listen", address)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = in.Close(); <-ended })
	p, err := identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestATestbedThatIsBeingMadeIsLeftToItsMaker(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	directory(t, state, "t", map[string]any{makerFile: self})
	if err := Down(state, "t"); err == nil || !strings.Contains(err.Error(), "is making it") || len(left(t, state)) != 1 {
		t.Errorf("%v, left %v", err, left(t, state))
	}
}
