package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/agent"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds/lab"
	"candela.dev/candela/testbeds/live"
)

// networkLab returns the description of a lab whose switch is one of its machines; nil if name is something else. A
// description of a topology is read later.
func networkLab(name string) (*config.Testbed, error) {
	info, err := os.Stat(name)
	if name == "" || err != nil || info.IsDir() {
		return nil, nil
	}
	bed, err := config.LoadTestbed(name)
	if err == nil && !bed.HasInjector() {
		return bed, nil
	}
	data, unread := os.ReadFile(name)
	if unread != nil || !config.IsNetworkLab(data) {
		return nil, nil
	}
	return nil, err
}

// networkConfig returns the addresses of the machines of a lab.
func networkConfig(bed *config.Testbed) lab.NetworkConfig {
	l := bed.Live
	cfg := lab.NetworkConfig{Switch: l.Switch.Agent, Interfaces: l.Switch.Interfaces}
	for i, h := range l.Hosts {
		cfg.Hosts = append(cfg.Hosts, lab.Station{Name: fmt.Sprintf("host %d", i), Agent: h.Agent, Interface: h.Interface,
			Port: uint16(h.Port)})
	}
	if c := l.Certificates; c != nil {
		cfg.Credentials = lab.Credentials{Cert: c.Cert, Key: c.Key, CA: c.CA, CRL: c.CRL}
	}
	return cfg
}

func openNetwork(bed *config.Testbed) switchtest.LabOpener {
	return func(ctx context.Context, hosts int) (*lab.Network, error) {
		return lab.OpenNetwork(ctx, networkConfig(bed), hosts)
	}
}

// checkNetwork checks every machine of a lab and its cables.
func checkNetwork(cmd *cobra.Command, name string, bed *config.Testbed) (err error) {
	w := cmd.ErrOrStderr()
	for _, line := range expiring(bed, time.Now()) {
		fmt.Fprintln(w, line)
	}
	n, err := lab.OpenNetwork(cmd.Context(), networkConfig(bed), len(bed.Live.Hosts))
	if err != nil {
		return infrastructure(err)
	}
	defer func() { err = errors.Join(err, infrastructureIf(n.Close())) }()
	lines, problems, err := n.Check(cmd.Context(), toolVersion())
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	for _, problem := range problems {
		fmt.Fprintln(w, "problem:", problem)
	}
	switch {
	case err != nil:
		return infrastructure(err)
	case len(problems) > 0:
		return infrastructure(fmt.Errorf("testbed %s has problems", name))
	}
	fmt.Fprintf(w, "%s is ready: %d hosts around the switch, no probe frame lost\n", name, len(bed.Live.Hosts))
	return nil
}

// runSwitch runs a test of a switch between interfaces of this machine, for an agent.
func runSwitch(ctx context.Context, job *agent.SwitchJob) (string, error) {
	remote := &live.Remote{Ready: job.Ready, Finished: job.Finished, Over: func() ([]live.HostCounts, error) {
		hosts, err := job.Over()
		return hostCounts(hosts), err
	}}
	for _, p := range job.Ports {
		remote.Ports = append(remote.Ports, live.RemotePort{Interface: p.Interface, MAC: p.MAC})
	}
	return switchtest.Between(ctx, job.Config, remote, job.Dir, toolVersion())
}

// openHost opens a host of a test with UDP sockets of this machine, for an agent.
func openHost(job *agent.HostJob) (agent.HostProgram, error) {
	s, err := switchtest.OpenHost(job.Config, job.Host, job.Slowdown, job.Finished)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func hostCounts(hosts []*agentpb.UnequipResponse) (list []live.HostCounts) {
	for _, h := range hosts {
		c := live.HostCounts{Sent: h.GetSent(), Received: h.GetReceived()}
		for _, l := range h.GetLosses() {
			if l.GetValue() > 0 {
				c.Losses = append(c.Losses, fmt.Sprintf("%s %d", l.GetName(), l.GetValue()))
			}
		}
		list = append(list, c)
	}
	return list
}
