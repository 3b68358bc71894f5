//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/netns"
)

// A strike is a signal to one process of a run, as from a script with ps and kill.
type strike struct {
	target string // a component, or orchestrator
	signal unix.Signal
	resume time.Duration // after SIGSTOP; 0: never
	bed    string        // datapath of the testbed
	step   string        // the signal is sent after this step has begun; empty: after the process exists
	delay  time.Duration // further delay
}

// theOrchestrator is the target for the run's own process.
const theOrchestrator = "orchestrator"

// building is the part of a run before its first step.
const building = "build testbed"

func (s strike) String() string {
	text := fmt.Sprintf("%s of %s gets %s %v after the start of %q", s.target, s.bed, unix.SignalName(s.signal),
		s.delay.Round(100*time.Microsecond), s.step)
	if s.signal == unix.SIGSTOP && s.resume > 0 {
		text += fmt.Sprintf(", continues after %v", s.resume.Round(10*time.Millisecond))
	}
	return text
}

// victims are all processes of a run on the testbed netns.
var victims = []string{"requester", "responder", "switch", "dumper-1", "dumper-2", theOrchestrator}

// drawStrike draws one strike. Victims take turns.
func drawStrike(seed uint64, i int) strike {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	s := strike{target: victims[i%len(victims)], step: building, bed: "xdp"}
	if r.IntN(4) == 0 {
		s.bed = "afpacket"
	}
	switch kind := r.IntN(10); {
	case kind < 3:
		s.signal = unix.SIGKILL
	case kind < 5:
		s.signal = unix.SIGTERM
	case kind < 7 && s.target != theOrchestrator:
		s.signal = unix.SIGSTOP
	default:
		s.signal = unix.SIGSTOP
		s.resume = time.Duration(50+r.IntN(2000)) * time.Millisecond
		if r.IntN(3) == 0 {
			s.resume = time.Duration(2000+r.IntN(18000)) * time.Millisecond
		}
	}
	if r.IntN(3) == 0 { // at any instant
		s.delay = time.Duration(r.Int64N(int64(4 * time.Second)))
		return s
	}
	at := append([]string{building}, steps...)
	s.step = at[r.IntN(len(at))]
	most := map[string]time.Duration{building: 500 * time.Millisecond, "prepare hosts": 300 * time.Millisecond,
		"run traffic": 2 * time.Second}[s.step]
	s.delay = time.Duration(r.Int64N(int64(max(most, 20*time.Millisecond))))
	return s
}

// struck is the result of a run with a strike.
type struck struct {
	strike
	hit     bool   // the process existed
	at      string // current step at the strike; empty: all steps were complete
	exit    int    // -1: ended by the signal
	stderr  string
	reasons string
	took    time.Duration // from the signal to the end of the run
}

const killTest = `name: kill
requester: {nic: {profile: spec, ip-list: [10.0.0.2/24]}}
responder: {nic: {profile: spec, ip-list: [10.0.0.1/24]}}
traffic:
  num-connections: 1
  rdma-verb: write
  num-msgs-per-qp: 2000
  mtu: 1024
  message-size: 10240
  min-retransmit-timeout: 17
`

// endure runs a test and applies a strike.
func endure(t *testing.T, s strike) (result struck) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	file := filepath.Join(out, "kill.yml")
	if err := os.WriteFile(file, []byte(killTest), 0o600); err != nil {
		t.Fatal(err)
	}
	result.strike = s
	bed := "netns"
	if s.bed == "afpacket" {
		bed = afpacketTestbed(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self, "run", "--testbed", bed, "--out", out, file)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	begun := begins(out, s.step, ended)
	select {
	case <-ended:
	case <-time.After(time.Until(begun.Add(s.delay))):
	}
	pid := findVictim(cmd.Process.Pid, s.target, ended)
	sent := time.Now()
	if result.hit = pid != 0 && unix.Kill(pid, s.signal) == nil; result.hit {
		result.at = underWay(out)
	}
	if result.hit && s.resume > 0 {
		time.Sleep(s.resume)
		_ = unix.Kill(pid, unix.SIGCONT) // fails if the process has ended
	}
	<-ended
	result.took = time.Since(sent)
	result.exit, result.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	for line := range strings.Lines(stdout.String()) {
		if strings.HasPrefix(line, "INVALID") || strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "         ") {
			result.reasons += line
		}
	}
	if ctx.Err() != nil {
		t.Errorf("%v: it hangs", s)
	}
	checkNothingLeft(t, cmd.Process.Pid, result.exit < 0)
	return result
}

// stepsDone returns the number of completed steps in a run's log.
func stepsDone(out string) int {
	text, err := os.ReadFile(filepath.Join(out, "kill.partial", "log.jsonl"))
	if err != nil {
		if _, err := os.Stat(filepath.Join(out, "kill")); err == nil {
			return len(steps)
		}
		return 0
	}
	return bytes.Count(text, []byte("\n"))
}

// underWay returns the current step; "" after the last.
func underWay(out string) string {
	n := stepsDone(out)
	if n >= len(steps) {
		return ""
	}
	if n == 0 {
		return building + " or " + steps[0]
	}
	return steps[n]
}

// begins waits until a step has begun or the run has ended.
func begins(out, step string, ended <-chan struct{}) time.Time {
	for step != building && stepsDone(out) < slices.Index(steps, step) {
		select {
		case <-ended:
			return time.Now()
		case <-time.After(200 * time.Microsecond):
		}
	}
	return time.Now()
}

// findVictim returns the process id of a component, found by its command line and parent; 0 if it has ended. It waits
// for a process that has not started.
func findVictim(run int, name string, ended <-chan struct{}) int {
	if name == theOrchestrator {
		return run
	}
	socket := fmt.Sprintf("unix:%s/netns-%d/%s.sock", netns.StateDir, run, name)
	for {
		for _, pid := range childrenOf(run) {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if slices.Contains(strings.Split(string(text), "\x00"), socket) {
				return pid
			}
		}
		select {
		case <-ended:
			return 0
		case <-time.After(200 * time.Microsecond):
		}
	}
}

func childrenOf(pid int) (list []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(field); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// checkNothingLeft checks that processes, which hold namespaces and links, and the directory of a testbed are gone. A
// killed orchestrator leaves a directory, which the next one removes.
func checkNothingLeft(t *testing.T, run int, killed bool) {
	t.Helper()
	dir := filepath.Join(netns.StateDir, fmt.Sprintf("netns-%d", run))
	var left []string
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left = nil
		names, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), dir+"/") {
				left = append(left, name)
			}
		}
		if _, err := os.Stat(dir); !killed && !errors.Is(err, os.ErrNotExist) {
			left = append(left, dir)
		}
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// culprits lists the components that a text names.
func culprits(text string) (list []string) {
	for _, v := range victims {
		if strings.Contains(text, v) {
			list = append(list, v)
		}
	}
	return list
}

// wrong returns what is wrong with how a run ended, "" if nothing is.
func (s *struck) wrong() string {
	culprit := slices.Equal(culprits(s.stderr), []string{s.target})
	if s.target == theOrchestrator && s.signal == unix.SIGTERM {
		culprit = len(culprits(s.stderr)) == 0 && strings.Contains(s.stderr, "stopped: terminated signal received")
	}
	stopped := s.signal == unix.SIGSTOP && s.resume > 0
	const bound = 60 * time.Second
	switch {
	case s.took-s.resume > bound:
		return fmt.Sprintf("it took %v", s.took)
	case s.target == theOrchestrator && s.signal == unix.SIGKILL:
		if s.exit >= 0 && s.at != "" {
			return "it survived"
		}
		return ""
	case s.exit == int(orchestrator.ExitInfrastructure) && culprit:
		return ""
	case s.exit == int(orchestrator.ExitInfrastructure):
		return fmt.Sprintf("named are %q", culprits(s.stderr))
	case s.exit == int(orchestrator.ExitPass) && (s.at == "" || stopped):
		return ""
	case s.exit == int(orchestrator.ExitInvalid) && stopped && culprit:
		return ""
	}
	return fmt.Sprintf("exit %d, named are %q", s.exit, culprits(s.stderr))
}

// knownStrikes are strikes that were once judged wrongly: components killed during the construction of the testbed, and
// stopped processes.
func knownStrikes() (list []strike) {
	for _, after := range []time.Duration{30, 80, 140, 200} {
		list = append(list, strike{target: "responder", signal: unix.SIGKILL, bed: "xdp", step: building,
			delay: after * time.Millisecond})
	}
	return append(list,
		strike{target: "requester", signal: unix.SIGTERM, bed: "xdp", step: building, delay: 50 * time.Millisecond},
		strike{target: theOrchestrator, signal: unix.SIGSTOP, resume: 20 * time.Second, bed: "xdp", step: "run traffic",
			delay: 500 * time.Millisecond},
		strike{target: "switch", signal: unix.SIGSTOP, resume: 2500 * time.Millisecond, bed: "afpacket", step: "run traffic",
			delay: 400 * time.Millisecond},
		strike{target: "dumper-2", signal: unix.SIGSTOP, bed: "xdp", step: "collect"},
	)
}

const killSeed = 13

// TestAKilledComponentIsNamed is the kill matrix: CANDELA_KILLS strikes (make test-kills), or the first few of them
// (make test-live).
func TestAKilledComponentIsNamed(t *testing.T) {
	needLive(t)
	count := 10
	if !inSample(1) {
		count = 3
	}
	if text := os.Getenv("CANDELA_KILLS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatalf("CANDELA_KILLS: %v", err)
		}
	}
	seed := uint64(killSeed)
	if text := os.Getenv("CANDELA_KILLS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CANDELA_KILLS_SEED: %v", err)
		}
		seed = n
	}
	exits := map[string]int{}
	for i, s := range knownStrikes() {
		judgeStrike(t, fmt.Sprint("known ", i), s, exits)
	}
	hits := 0
	for i := 0; hits < count && i < 3*count; i++ {
		if judgeStrike(t, fmt.Sprint(i), drawStrike(seed, i), exits) {
			hits++
		} // otherwise the process had ended
	}
	for _, line := range slices.Sorted(maps.Keys(exits)) {
		t.Logf("FIGURE strikes: %s: %d", line, exits[line])
	}
}

// judgeStrike reports whether the strike hit.
func judgeStrike(t *testing.T, name string, s strike, exits map[string]int) bool {
	result := endure(t, s)
	if !result.hit {
		return false
	}
	end := ""
	if s.resume > 0 {
		end = " and SIGCONT"
	}
	exits[fmt.Sprintf("%-12s %s%s, exit %d", s.target, unix.SignalName(s.signal), end, result.exit)]++
	if wrong := result.wrong(); wrong != "" {
		t.Errorf("strike %s: %v, during %q: %s\nstderr: %s\nstdout: %s", name, s, result.at, wrong, result.stderr,
			result.reasons)
		return true
	}
	t.Logf("strike %s: %v, during %q: exit %d after %v: %s", name, s, result.at, result.exit,
		result.took.Round(10*time.Millisecond), strings.TrimSpace(result.stderr))
	return true
}
