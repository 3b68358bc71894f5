package vm_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/vm"
)

// boot boots guests for a test, or skips it.
func boot(t *testing.T) *vm.Guests {
	t.Helper()
	if os.Getenv("CANDELA_TEST_VM") == "" {
		t.Skip("SKIP-slow: guests take seconds to boot; make test-vm runs it")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("SKIP-qemu: qemu-system-x86_64 is not installed (tools/setup --vm)")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	guests, err := vm.Up(ctx, vm.Config{})
	if errors.Is(err, vm.ErrImage) {
		t.Skipf("SKIP-image: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := guests.Close(); err != nil {
			t.Error(err)
		}
	})
	return guests
}

func planOf(t *testing.T, text string) *plan.Plan {
	t.Helper()
	test, err := config.Parse("test.yml", []byte(text), config.Options{Testbed: config.VMTestbed})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const lossy = `name: lossy
requester: {nic: {ip-list: [10.0.0.1/24]}}
responder: {nic: {ip-list: [10.0.0.2/24]}}
traffic:
  rdma-verb: VERB
  num-msgs-per-qp: 10
  mtu: 1024
  message-size: 10240
  min-retransmit-timeout: 14
  data-pkt-events: [{qpn: 1, psn: 5, type: drop, iter: 1}]
`

func lossyWrite() string { return strings.Replace(lossy, "VERB", "write", 1) }

func run(t *testing.T, guests *vm.Guests, p *plan.Plan) *orchestrator.Outcome {
	t.Helper()
	o := orchestrator.Options{Out: t.TempDir(), Wall: time.Now}
	outcome, err := orchestrator.Run(t.Context(), p, func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		return guests.Testbed(spec)
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func TestSoftRoCERecoversFromALossOfEveryVerb(t *testing.T) {
	guests := boot(t)
	for _, verb := range []string{"write", "write-imm", "send", "send-imm", "read", "[write, send, read]",
		"[compare-swap, fetch-add]"} {
		t.Run(verb, func(t *testing.T) {
			outcome := run(t, guests, planOf(t, strings.Replace(lossy, "VERB", verb, 1)))
			if outcome.Verdict.Exit == orchestrator.ExitInfrastructure || outcome.Verdict.Exit == orchestrator.ExitInvalid {
				t.Fatalf("%+v", outcome.Verdict)
			}
			if s := outcome.Generator.Streams; len(s) != 1 || len(s[0].Statuses) != 1 ||
				s[0].Statuses[0].Status != generator.Success {
				t.Errorf("streams: %+v", s)
			}
			if notes := strings.Join(outcome.Report.Notes, "\n"); !strings.Contains(notes, "hosts held packets in this run: ") {
				t.Errorf("the run does not say for how long its guests held packets: %s", notes)
			}
			compared := 0
			for _, d := range outcome.Generator.Data {
				compared += d.Messages
				if d.Wrong > 0 {
					t.Errorf("%+v", d)
				}
			}
			if compared < 10 {
				t.Errorf("%d messages were compared: %+v", compared, outcome.Generator.Data)
			}
		})
	}
}

// TestAGuestThatHangsEndsTheRunUnderItsName checks that a run does not wait for a hung guest.
func TestAGuestThatHangsEndsTheRunUnderItsName(t *testing.T) {
	guests := boot(t)
	p := planOf(t, strings.NewReplacer("VERB", "write", "num-msgs-per-qp: 10", "num-msgs-per-qp: 100000").Replace(lossy))
	var stopped time.Time
	timer := time.AfterFunc(3*time.Second, func() {
		stopped = time.Now()
		_ = syscall.Kill(guests.Processes()[1], syscall.SIGSTOP)
	})
	defer timer.Stop()
	outcome := run(t, guests, p)
	took := time.Since(stopped)
	text := strings.Join(outcome.Verdict.Reasons, "\n")
	if outcome.Verdict.Exit != orchestrator.ExitInfrastructure || !strings.Contains(text, "guest responder") ||
		strings.Contains(text, "guest requester") ||
		!strings.Contains(text, "is stopped by a signal") {
		t.Errorf("%+v", outcome.Verdict)
	}
	if took > time.Minute {
		t.Errorf("the run took %v more", took)
	}
	t.Logf("FIGURE a run with a stopped guest ends after %v", took.Round(100*time.Millisecond))
}

func TestAGuestThatDiesIsAnInfrastructureFailureWithItsConsole(t *testing.T) {
	guests := boot(t)
	p := planOf(t, strings.NewReplacer("VERB", "write", "num-msgs-per-qp: 10", "num-msgs-per-qp: 100000").Replace(lossy))
	go func() {
		time.Sleep(3 * time.Second)
		_ = syscall.Kill(guests.Processes()[1], syscall.SIGKILL)
	}()
	outcome := run(t, guests, p)
	if outcome.Verdict.Exit != orchestrator.ExitInfrastructure {
		t.Fatalf("%+v", outcome.Verdict)
	}
	text := strings.Join(outcome.Verdict.Reasons, "\n")
	for _, want := range []string{"guest responder has ended", "killed", "candela: control on"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
}
