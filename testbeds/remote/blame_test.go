package remote_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/remote"
)

func TestTheCulpritIsWhoseConditionExplainsAFailureBest(t *testing.T) {
	order := []string{"requester", "responder", "dumper-1", "switch"}
	killed, stopped := remote.Fate{Condition: remote.Killed, Text: "was killed"},
		remote.Fate{Condition: remote.Stopped, Text: "is stopped"}
	failed, ended := remote.Fate{Condition: remote.Failed, Text: "has failed"},
		remote.Fate{Condition: remote.Ended, Text: "has ended"}
	for name, tt := range map[string]struct {
		fates map[string]remote.Fate
		want  string
	}{
		"all are running": {nil, ""},
		"the switch failed because a host was killed": {map[string]remote.Fate{"responder": killed,
			"switch": failed}, "responder: was killed"},
		"the switch failed because a host was told to end": {map[string]remote.Fate{"responder": ended, "switch": failed},
			"responder: has ended"},
		"the switch failed because a dumper is stopped": {map[string]remote.Fate{"dumper-1": stopped,
			"switch": failed}, "dumper-1: is stopped"},
		"a process that was killed comes before a stopped one": {map[string]remote.Fate{"requester": stopped,
			"switch": killed}, "switch: was killed"},
		"two were killed": {map[string]remote.Fate{"switch": killed, "requester": killed},
			"requester: was killed; switch: was killed"},
	} {
		got := ""
		if err := remote.Fates(func() map[string]remote.Fate { return tt.fates }).Culprit(order); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if err := remote.Fates(nil).Culprit(order); err != nil {
		t.Errorf("nobody knows: %v", err)
	}
}

// TestAFailedStepIsBlamedOnTheProcessThatIsGone checks a failed call to another component.
func TestAFailedStepIsBlamedOnTheProcessThatIsGone(t *testing.T) {
	r := newRack(t, func(r *rack, m *remote.Machines, _ *testbeds.Spec) {
		r.hosts[0].fails["connect"] = refusal("the peer is gone")
		m.Fates = func() map[string]remote.Fate {
			return map[string]remote.Fate{"responder": {Condition: remote.Killed, Text: "process 17 was killed (SIGKILL)"}}
		}
	})
	_, err := r.run(t.Context(), t.TempDir())
	if err == nil || err.Error() != "responder: process 17 was killed (SIGKILL)" {
		t.Errorf("%v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("named again: %v", err)
	}
}

// TestAnErrorOfAStepIsKeptWhileAllAreRunning checks that running components are not blamed.
func TestAnErrorOfAStepIsKeptWhileAllAreRunning(t *testing.T) {
	r := newRack(t, func(r *rack, m *remote.Machines, _ *testbeds.Spec) {
		r.dumper.fails["finish"] = refusal("no space left")
		m.Fates = func() map[string]remote.Fate { return nil }
	})
	if _, err := r.run(t.Context(), t.TempDir()); err == nil || err.Error() != "dumper-1: finish: no space left" {
		t.Errorf("%v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestASwitchThatLetAFrameWaitIsBlamedInsteadOfTheModel(t *testing.T) {
	// A quarter of 4.096 us × 2¹⁴ is 16.8 ms; waits are counted by powers of two.
	for wait, blamed := range map[time.Duration]bool{0: false, 10 * time.Millisecond: false, 16 * time.Millisecond: false,
		34 * time.Millisecond: true} {
		r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) { r.sw.wait = wait })
		_, err := r.run(t.Context(), t.TempDir())
		if errors.Is(err, remote.ErrStalled) != blamed || blamed && !strings.HasPrefix(err.Error(), "switch: ") {
			t.Errorf("a frame waited %v: %v", wait, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestASwitchThatDoesNotSayWhatItIsEndsTheRun covers a switch that hangs on Describe.
func TestASwitchThatDoesNotSayWhatItIsEndsTheRun(t *testing.T) {
	t.Parallel() // it waits
	r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) { r.sw.hangs = true })
	begin := time.Now()
	_, err := r.Prepare(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "switch: describe: ") || time.Since(begin) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	_ = r.Close()
}
