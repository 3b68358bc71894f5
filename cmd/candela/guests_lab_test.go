//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/lab/guests"
)

// A guestLab is a lab of virtual machines for a test.
type guestLab struct {
	*guests.Lab
	dir string // of keys, logs and consoles
}

// needGuests skips unless a lab of guests is requested and possible on this machine, and returns the image.
func needGuests(t *testing.T) string {
	t.Helper()
	if os.Getenv("CANDELA_TEST_LAB_GUESTS") == "" {
		t.Skip("SKIP-slow: guests take a while to boot; make test-lab-guests runs it")
	}
	for _, tool := range []string{"qemu-system-x86_64", "cpio"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIP-qemu: %s is not installed (tools/setup --vm)", tool)
		}
	}
	image, err := filepath.Abs("../../.cache/vm/lab")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(image, "candela")); err != nil {
		t.Skipf("SKIP-image: %v (tools/lab-image makes it)", err)
	}
	return image
}

// upGuests boots the machines and waits until their agents answer.
func upGuests(t *testing.T) *guestLab {
	t.Helper()
	image, start := needGuests(t), time.Now()
	l := &guestLab{dir: shortDir(t)}
	var err error
	if l.Lab, err = guests.Up(t.Context(), guests.Config{Image: image, Dir: l.dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("FIGURE %d guests serve after %v, cold (target 300 s)", len(guests.Names),
		time.Since(start).Round(time.Second))
	return l
}

// describe writes the description of the lab and returns its path.
func (l *guestLab) describe(t *testing.T, requester, responder string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "guests.yml")
	if err := l.Describe(file, requester, responder); err != nil {
		t.Fatal(err)
	}
	return file
}

// call runs the installed candela, as a user does.
func (l *guestLab) call(t *testing.T, args ...string) (orchestrator.Exit, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), l.Program, args...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return orchestrator.Exit(cmd.ProcessState.ExitCode()), string(out)
}

// lossyGuests loses a packet of a WRITE and one of a READ.
const lossyGuests = `name: lossy
requester: {nic: {ip-list: [10.0.0.1/24]}}
responder: {nic: {ip-list: [10.0.0.2/24]}}
traffic:
  rdma-verb: VERB
  num-msgs-per-qp: 2
  mtu: 1024
  message-size: 5120
  min-retransmit-timeout: 16
  data-pkt-events: [{qpn: 1, psn: 3, type: drop, iter: 1}]
`

func TestLabOfGuests(t *testing.T) {
	l := upGuests(t)
	devices := l.describe(t, guests.SoftRoCE, guests.SoftRoCE)
	t.Run("it passes its check", func(t *testing.T) {
		if status, out := l.call(t, "testbed", "check", "--lldp-wait", "0s", devices); status != orchestrator.ExitPass {
			t.Fatalf("%d: %s", status, out)
		}
	})
	for _, tt := range []struct{ name, bed, verb string }{
		{"soft-RoCE writes to soft-RoCE", devices, "write"},
		{"soft-RoCE reads from soft-RoCE", devices, "read"},
		{"soft-RoCE writes to our model", l.describe(t, guests.SoftRoCE, guests.NICModel), "write"},
		{"our model sends to soft-RoCE, and reads", l.describe(t, guests.NICModel, guests.SoftRoCE), "[send, read]"},
	} {
		t.Run(tt.name, func(t *testing.T) { l.recovers(t, tt.bed, tt.verb) })
	}
	for _, tt := range []struct{ name, program, verb, args, change string }{
		{name: "writes of ib_write_bw", program: "ib_write_bw", verb: "write"},
		{name: "reads of ib_read_bw", program: "ib_read_bw", verb: "read"},
		{name: "two queue pairs of ib_send_bw", program: "ib_send_bw", verb: "send", args: "-q 2",
			change: "external: {}, num-connections: 2"},
	} {
		t.Run(tt.name, func(t *testing.T) { l.applies(t, devices, tt.program, tt.verb, tt.args, tt.change) })
	}
	t.Run("an application that does not come is awaited in vain", func(t *testing.T) { l.awaits(t, devices) })
	t.Run("a device that is not as described is named", func(t *testing.T) { l.refuses(t) })
	victims := []string{guests.Switch, guests.Responder}
	if os.Getenv("CANDELA_TEST_LAB_GUESTS") != "sample" {
		victims = append(victims, guests.Dumper, guests.Requester)
	}
	for _, name := range victims {
		t.Run(name+" dies, is named, and serves again when it is back", func(t *testing.T) { l.dies(t, devices, name) })
	}
}

// recovers runs a test with a loss: the run is valid, everything arrives, and the data was compared.
func (l *guestLab) recovers(t *testing.T, bed, verb string) {
	t.Helper()
	start := time.Now()
	o := l.run(t, bed, strings.Replace(lossyGuests, "VERB", verb, 1), nil)
	if o.Verdict.Exit == orchestrator.ExitInfrastructure || o.Verdict.Exit == orchestrator.ExitInvalid {
		t.Fatalf("%+v\n%s", o.Verdict, l.Console(guests.Requester))
	}
	t.Logf("FIGURE a run with %s takes %v: %v", verb, time.Since(start).Round(100*time.Millisecond), o.Verdict.Reasons)
	if s := o.Generator.Streams; len(s) != 1 || len(s[0].Statuses) != 1 || s[0].Statuses[0].Status != generator.Success {
		t.Errorf("streams: %+v", s)
	}
	compared := 0
	for _, d := range o.Generator.Data {
		if compared += d.Messages; d.Wrong > 0 {
			t.Errorf("%+v", d)
		}
	}
	if compared < 2 {
		t.Errorf("%d messages were compared: %+v", compared, o.Generator.Data)
	}
}

func (l *guestLab) run(t *testing.T, bed, test string, application orchestrator.Application) *orchestrator.Outcome {
	t.Helper()
	p := livePlan(t, test, bed)
	var live livebeds
	o, err := orchestrator.Run(t.Context(), p, live.builder(t.Context(), p.Test.Testbed), orchestrator.Options{
		Out: t.TempDir(), Wall: time.Now, NoReports: true, Application: application})
	if err := errors.Join(err, live.close()); err != nil {
		t.Fatal(err)
	}
	return o
}

// externalTest loses the fifth packet of an application. %s: verb, and how the traffic differs.
const externalTest = `name: application
requester: {nic: {ip-list: [%s/24]}}
responder: {nic: {ip-list: [%s/24]}}
traffic:
  %s
  rdma-verb: %s
  mtu: 1024
  min-retransmit-timeout: 16
  max-retransmit-retry: 7
  rnr-retry: 7
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
`

// applies runs perftest as a user would, by hand on both machines, under a test that loses a packet of it.
func (l *guestLab) applies(t *testing.T, bed, program, verb, args, change string) {
	t.Helper()
	traffic := strings.ReplaceAll(cmp.Or(change, "external: {}"), ", ", "\n  ")
	text := fmt.Sprintf(externalTest, guests.DataAddress(guests.Requester), guests.DataAddress(guests.Responder), traffic, verb)
	command := fmt.Sprintf("%s -d rxe0 -x 1 -F -n 5 -s 8192 -m 1024 -u 16 %s", program, args)
	var said [2]string // of requester and responder
	start := func(ctx context.Context, _ string, _ io.Writer) (<-chan error, error) {
		ended, failed := make(chan error, 1), [2]error{}
		var both sync.WaitGroup
		both.Go(func() {
			// The server listens soon; the client tries again until it does.
			said[0], failed[0] = l.Do(ctx, guests.Requester, "for i in 1 2 3 4 5; do "+command+" "+
				guests.DataAddress(guests.Responder)+" && break; sleep 1; done")
		})
		both.Go(func() { said[1], failed[1] = l.Do(ctx, guests.Responder, command) })
		go func() { both.Wait(); ended <- errors.Join(failed[:]...) }() // which the run awaits
		return ended, nil
	}
	o := l.run(t, bed, text, start)
	if e := o.Verdict.Exit; e == orchestrator.ExitInfrastructure || e == orchestrator.ExitInvalid || o.EventsFired != 1 {
		t.Fatalf("%+v, %d events\n%v\n%s", o.Verdict, o.EventsFired, said, l.Console(guests.Requester))
	}
	for _, c := range o.Report.Connections {
		if least := int64(5 * 8192 / 1024); c.Data < least || (c.Index == 1) != (c.Resent > 0) {
			t.Errorf("connection %d: %d data packets, %d again", c.Index, c.Data, c.Resent)
		}
	}
	if text := said[0]; !strings.Contains(text, " 8192 ") {
		t.Errorf("the application did not end well:\n%s", text)
	}
}

// awaits waits for an application that nobody starts.
func (l *guestLab) awaits(t *testing.T, bed string) {
	t.Helper()
	text := fmt.Sprintf(externalTest, guests.DataAddress(guests.Requester), guests.DataAddress(guests.Responder),
		"external: {wait-ms: 1000}", "write")
	o := l.run(t, bed, text, nil)
	if reasons := strings.Join(o.Verdict.Reasons, "\n"); o.Verdict.Exit != orchestrator.ExitInfrastructure ||
		!strings.Contains(reasons, "0 of 1 connections between requester and responder") {
		t.Errorf("%+v", o.Verdict)
	}
}

// refuses describes devices that the machine doesn't have.
func (l *guestLab) refuses(t *testing.T) {
	t.Helper()
	for device, want := range map[string]string{
		"rdma: {device: mlx5_0}":                                `no RDMA device "mlx5_0"; there are rxe0`,
		"rdma: {device: rxe0, software: true, port: 2}":         "RDMA device rxe0 has no port 2",
		"rdma: {device: rxe0, software: false}":                 "software: true",
		"interface: eth1, rdma: {device: rxe0, software: true}": "belongs to interface eth0, not to eth1",
		"rdma: {device: rxe0, software: true, gid-index: 99}":   "GID 99 is not in use",
	} {
		o := l.run(t, l.describe(t, device, guests.SoftRoCE), strings.Replace(lossyGuests, "VERB", "write", 1), nil)
		text := strings.Join(o.Verdict.Reasons, "\n")
		if o.Verdict.Exit != orchestrator.ExitInfrastructure || !strings.Contains(text, "requester: ") ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %+v, want %q", device, o.Verdict, want)
		}
	}
}

// dies kills a machine during the traffic, and starts it again.
func (l *guestLab) dies(t *testing.T, bed, name string) {
	t.Helper()
	long := strings.NewReplacer("VERB", "write", "num-msgs-per-qp: 2", "num-msgs-per-qp: 100000").Replace(lossyGuests)
	p := livePlan(t, long, bed)
	var live livebeds
	killed := make(chan error, 1)
	o, err := orchestrator.Run(t.Context(), p, live.builder(t.Context(), p.Test.Testbed), orchestrator.Options{
		Out: t.TempDir(), Wall: time.Now, NoReports: true, Progress: func(step string) {
			if step == "run traffic" {
				time.AfterFunc(2*time.Second, func() { killed <- l.Kill(name) })
			}
		}})
	if err := errors.Join(err, live.close(), <-killed); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(o.Verdict.Reasons, "\n"); o.Verdict.Exit != orchestrator.ExitInfrastructure ||
		!strings.Contains(text, name) {
		t.Errorf("%+v", o.Verdict)
	}
	if err := l.Start(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	l.recovers(t, bed, "write")
}
