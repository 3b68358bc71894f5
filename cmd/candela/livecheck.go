package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/remote"
)

// probeTest sends packets through every port of a testbed in both directions, enough for every dumper.
const probeTest = `name: testbed-check
requester: {nic: {profile: spec, ip-list: [10.99.0.2/24]}}
responder: {nic: {profile: spec, ip-list: [10.99.0.1/24]}}
traffic: {num-connections: 1, rdma-verb: write, num-msgs-per-qp: 256, mtu: 1024, message-size: 4096,
  min-retransmit-timeout: 16}
`

// checkLive checks every machine, then runs a probe and reports where packets were lost.
func checkLive(cmd *cobra.Command, name string, bed *config.Testbed, patience time.Duration) (err error) {
	var live livebeds
	defer func() { err = errors.Join(err, infrastructureIf(live.close())) }()
	scratch, err := os.MkdirTemp("", "candela-check-")
	if err != nil {
		return infrastructure(err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	test, err := config.Parse(filepath.Join(scratch, "check.yml"), []byte(probeTest), configOptions(name))
	if err != nil {
		return err
	}
	p, err := plan.New(test)
	if err != nil {
		return err
	}
	live.warn(cmd.ErrOrStderr(), bed)
	build := live.builder(cmd.Context(), bed)
	probe := &probed{patience: patience}
	outcome, err := orchestrator.Run(cmd.Context(), p, func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		t, err := build(spec)
		if err != nil {
			return nil, err
		}
		probe.Testbed, probe.remote = t, nil
		probe.remote, _ = t.(*remote.Testbed)
		return probe, nil
	}, orchestrator.Options{Out: scratch, ID: "check", Version: toolVersion(), Wall: time.Now, NoReports: true})
	if err != nil {
		return infrastructure(err)
	}
	w := cmd.ErrOrStderr()
	for _, line := range probe.lines {
		fmt.Fprintln(w, line)
	}
	reasons := outcome.Verdict.Reasons
	// What a device does wrong is what tests are for; the testbed showed it.
	found := outcome.Verdict.Exit == orchestrator.ExitFail && hasRDMA(bed)
	if found {
		fmt.Fprintf(w, "note: the probe already shows %s of the devices: %s\n", strings.Join(reasons, ", "),
			strings.Join(violatedRules(outcome.Analysis), ", "))
		reasons = nil
	}
	if outcome.Verdict.Exit != orchestrator.ExitPass && !found || len(probe.problems) > 0 {
		for _, reason := range append(probe.problems, reasons...) {
			fmt.Fprintln(w, "problem:", reason)
		}
		return infrastructure(fmt.Errorf("testbed %s has problems", name))
	}
	fmt.Fprintf(w, "%s is ready: %d probe packets, none lost\n", name, p.DataPackets)
	return nil
}

// violatedRules lists the rules that findings violate.
func violatedRules(a *analyzers.Analysis) (rules []string) {
	for _, f := range a.Findings {
		if f.Severity == analyzers.Violation && !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

func infrastructureIf(err error) error {
	if err == nil {
		return nil
	}
	return infrastructure(err)
}

// probed collects the messages and problems of a testbed during a run.
type probed struct {
	orchestrator.Testbed
	remote   *remote.Testbed
	patience time.Duration // for LLDP
	lines    []string
	problems []string
}

// Blame forwards to the testbed.
func (p *probed) Blame(err error) error {
	if b, ok := p.Testbed.(orchestrator.Blamer); ok {
		return b.Blame(err)
	}
	return err
}

// Environment checks every machine before any traffic.
func (p *probed) Environment(ctx context.Context) (testbeds.Environment, error) {
	if p.remote != nil {
		lines, problems, err := p.remote.Check(ctx, toolVersion(), p.patience)
		p.lines, p.problems = lines, append(p.problems, problems...)
		if err != nil {
			return testbeds.Environment{}, err
		}
	}
	return p.Testbed.Environment(ctx)
}

// CheckCabling finds the port to which every machine is cabled.
func (p *probed) CheckCabling(ctx context.Context, received func(context.Context) (map[uint16]uint64, error)) ([]string,
	error) {
	if p.remote == nil {
		return nil, nil
	}
	return p.remote.CheckCabling(ctx, received)
}

// CheckDelivery checks that each host receives the other's frames.
func (p *probed) CheckDelivery(ctx context.Context) ([]string, error) {
	if p.remote == nil {
		return nil, nil
	}
	return p.remote.CheckDelivery(ctx)
}

// Cables returns the hosts' records of their frames.
func (p *probed) Cables(ctx context.Context) ([]testbeds.Cable, error) {
	if p.remote == nil {
		return nil, nil
	}
	return p.remote.Cables(ctx)
}

// Run reports a direction that loses everything; counters may not show it.
func (p *probed) Run(ctx context.Context) (generator.Report, error) {
	report, err := p.Testbed.Run(ctx)
	if err != nil || p.remote == nil {
		return report, err
	}
	problems, err := p.remote.Silent(ctx)
	p.problems = append(p.problems, problems...)
	return report, err
}

// StopDumpers reports a dumper that received nothing.
func (p *probed) StopDumpers(ctx context.Context) (testbeds.Dump, error) {
	dump, err := p.Testbed.StopDumpers(ctx)
	for _, d := range dump.Dumpers {
		p.lines = append(p.lines, fmt.Sprintf("%s: %d copies", d.Name, d.Received))
		if d.Received == 0 {
			p.problems = append(p.problems,
				fmt.Sprintf("%s received no mirror copy: all were lost between the switch and it", d.Name))
		}
	}
	return dump, err
}
