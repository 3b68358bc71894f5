package orchestrator_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
	"candela.dev/candela/trace"
)

// applied is a testbed whose traffic is an application's: 16 packets of a model, whose queue pairs are found late.
type applied struct {
	*virtual.Testbed
	conns []injector.Connection
	late  int           // packets that the application seems to have sent before
	never chan struct{} // closed: no application comes; nil: one does
	met   func()        // called after the traffic; nil: nothing is
}

func (a *applied) Run(ctx context.Context) (generator.Report, error) {
	r, err := a.Testbed.Run(ctx)
	if a.met != nil {
		a.met()
	}
	return r, err
}

func (a *applied) Prepare(ctx context.Context) ([]injector.Connection, error) {
	conns, err := a.Testbed.Prepare(ctx)
	a.conns = slices.Clone(conns)
	return nil, err
}

func (a *applied) Await(ctx context.Context) ([]injector.Connection, error) {
	if a.never != nil {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-a.never:
			return nil, errors.New("no application")
		}
	}
	for i := range a.conns {
		a.conns[i].Requester.IPSN = a.conns[i].Requester.IPSN.Add(a.late)
	}
	return a.conns, nil
}

const appliedTest = `name: application
traffic: {mtu: 1024, min-retransmit-timeout: 10, data-pkt-events: [{qpn: 1, psn: 5, type: drop}]}
`

// runApplied runs a test of an application on a.
func runApplied(t *testing.T, a *applied, start orchestrator.Application) *orchestrator.Outcome {
	t.Helper()
	return runAppliedTest(t, a, appliedTest, start)
}

func runAppliedTest(t *testing.T, a *applied, text string, start orchestrator.Application) *orchestrator.Outcome {
	t.Helper()
	test, err := config.Parse("application.yml", []byte(text), orchestrator.Models())
	if err != nil {
		t.Fatal(err)
	}
	test.Traffic.External = &config.External{} // which only a lab takes from a file
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	o, err := orchestrator.Run(t.Context(), p, func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		spec.Connections[0].Traffic[0] = generator.Traffic{Verbs: []generator.Verb{generator.Write}, Messages: 2,
			MessageSize: 8192, MTU: 1024, TxDepth: 1}
		a.Testbed, err = virtual.New(spec)
		return a, err
	}, orchestrator.Options{Out: t.TempDir(), Wall: func() time.Time { return time.Unix(0, 0) }, Application: start})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEventsMeetThePacketsOfAnApplication(t *testing.T) {
	var wanted string
	o := runApplied(t, &applied{}, func(_ context.Context, wants string, out io.Writer) (<-chan error, error) {
		wanted = wants
		_, err := io.WriteString(out, "hello\n")
		return nil, err
	})
	if o.Verdict.Exit != orchestrator.ExitPass || o.EventsFired != 1 {
		t.Errorf("%+v, %d events", o.Verdict, o.EventsFired)
	}
	if !strings.Contains(wanted, "10.0.0.2") || !strings.Contains(wanted, "10.0.0.1") {
		t.Errorf("the user is told %q", wanted)
	}
	text, err := os.ReadFile(filepath.Join(o.Dir, "application.log"))
	if err != nil || string(text) != "hello\n" {
		t.Errorf("application.log: %q, %v", text, err)
	}
	if c := o.Report.Connections; len(c) != 1 || c[0].Traffic != "write of an application, mtu 1024" || c[0].Data != 16+4 || !c[0].OK {
		t.Errorf("connections: %+v", c)
	}
}

func TestAnApplicationThatHasSentBeforeMakesTheRunInvalid(t *testing.T) {
	o := runApplied(t, &applied{late: 3}, nil)
	reasons := strings.Join(o.Verdict.Reasons, "\n")
	if o.Verdict.Exit != orchestrator.ExitInvalid || !strings.Contains(reasons, "had sent 3 packets") {
		t.Errorf("%+v", o.Verdict)
	}
}

func TestAnApplicationWithoutEventsIsJudgedFromItsFirstPacket(t *testing.T) {
	const noEvents = "name: application\ntraffic: {mtu: 1024, min-retransmit-timeout: 10}\n"
	a := &applied{late: 3}
	o := runAppliedTest(t, a, noEvents, nil)
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Fatalf("%+v", o.Verdict)
	}
	if c := o.Report.Connections; len(c) != 1 || c[0].Data != 16 || !c[0].OK {
		t.Errorf("connections: %+v", c)
	}
	file, err := os.Open(filepath.Join(o.Dir, "connections.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	known, err := trace.ReadConnections(file)
	if err != nil || known.All()[0].Requester.IPSN != a.conns[0].Requester.IPSN.Add(-3) {
		t.Errorf("connections.json: %+v, %v", known, err)
	}
	if late := runAppliedTest(t, &applied{late: -2}, noEvents, nil); late.Verdict.Exit != orchestrator.ExitInvalid ||
		!strings.Contains(strings.Join(late.Verdict.Reasons, "\n"), "first 2 packets are not in the trace") {
		t.Errorf("first packets are missing: %+v", late.Verdict)
	}
}

func TestAnApplicationThatFailsBeforeItsConnectionsEndsTheRun(t *testing.T) {
	o := runApplied(t, &applied{never: make(chan struct{})},
		func(_ context.Context, _ string, out io.Writer) (<-chan error, error) {
			_, err := io.WriteString(out, "no such device\n")
			end := make(chan error, 1)
			end <- errors.New("exit status 2")
			return end, err
		})
	reasons := strings.Join(o.Verdict.Reasons, "\n")
	if o.Verdict.Exit != orchestrator.ExitInfrastructure || !strings.Contains(reasons, "exit status 2") ||
		!strings.Contains(reasons, "no such device") {
		t.Errorf("%+v", o.Verdict)
	}
}

func TestAnApplicationThatEndsBadlyIsMentionedAndNotJudged(t *testing.T) {
	run := make(chan error, 1)
	o := runApplied(t, &applied{met: func() { run <- errors.New("exit status 1") }},
		func(_ context.Context, _ string, out io.Writer) (<-chan error, error) {
			_, err := io.WriteString(out, "its queue pair failed\n")
			return run, err
		})
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("%+v", o.Verdict)
	}
	notes := strings.Join(o.Report.Notes, "\n")
	if !strings.Contains(notes, "exit status 1") || !strings.Contains(notes, "its queue pair failed") {
		t.Errorf("notes: %s", notes)
	}
}

func TestAnApplicationThatNeverComesEndsTheRun(t *testing.T) {
	never := make(chan struct{})
	close(never)
	o := runApplied(t, &applied{never: never}, nil)
	if o.Verdict.Exit != orchestrator.ExitInfrastructure || !strings.Contains(o.Verdict.Reasons[0], "no application") {
		t.Errorf("%+v", o.Verdict)
	}
}
