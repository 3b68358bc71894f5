package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/netns"
	"candela.dev/candela/testbeds/vm"
)

func newTestbed() *cobra.Command {
	cmd := &cobra.Command{Use: "testbed", Short: "List and check testbeds; make and remove those of this machine"}
	cmd.AddCommand(newTestbedList(), newTestbedCheck(), newTestbedUp(), newTestbedDown(), newTestbedNode())
	return cmd
}

func newTestbedList() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List testbeds and which of them are up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := []string{config.VirtualTestbed, config.NetnsTestbed, config.NetnsAFPacketTestbed, config.BMv2Testbed,
				config.VMTestbed}
			found, err := filepath.Glob(filepath.Join(dir, "*.yml"))
			if err != nil {
				return err
			}
			slices.Sort(found)
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "testbed\tkind\thosts\tdumpers\tup")
			var errs []error
			for _, name := range append(names, found...) {
				t, err := config.LoadTestbed(name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", name, t.Kind, rates(t), len(t.Dumpers), upState(t))
			}
			return errors.Join(append(errs, w.Flush())...)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "testbeds", "directory with descriptions of testbeds")
	return cmd
}

func rates(t *config.Testbed) string {
	gbps := func(r clock.BitRate) string { return fmt.Sprintf("%g", float64(r)/float64(clock.Gbps)) }
	return gbps(t.Requester.Rate) + " and " + gbps(t.Responder.Rate) + " Gb/s"
}

// upState says whether a testbed of this machine is up.
func upState(t *config.Testbed) string {
	if t.Kind == config.KindVM {
		return vm.State(vmConfig(t))
	}
	if t.Kind != config.KindNetns {
		return "-"
	}
	s, err := netns.Load("", t.Name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "no"
	case errors.Is(err, os.ErrPermission):
		return "unknown without root"
	case err != nil:
		return "broken: " + err.Error()
	}
	if dead := s.Dead(); len(dead) > 0 {
		return "broken: " + strings.Join(dead, ", ") + " ended"
	}
	return "yes"
}

func newTestbedUp() *cobra.Command {
	return &cobra.Command{
		Use:   "up TESTBED",
		Short: "Make a testbed of namespaces or virtual machines",
		Long: `Make a testbed on this machine that stays until candela testbed down. Runs on it
start faster than runs that make their own.

netns and bmv2: requester, responder, injector switch and dumpers are processes
in network namespaces of their own, joined by veth pairs. Needs root.

vm: requester and responder are virtual machines with soft-RoCE. Needs an image
(make vm-image) and no privileges.`,
		Example: `  candela testbed up netns
  candela run --testbed netns configs/quickstart.yml
  candela testbed up vm`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := config.LoadTestbed(args[0])
			if err != nil {
				return err
			}
			if t.Kind == config.KindVM {
				return vmUp(cmd.Context(), cmd.OutOrStdout(), t)
			}
			if t.Kind != config.KindNetns {
				return notMadeHere(args[0], t)
			}
			cfg := netnsConfig(t)
			cfg.Detach = true
			b, err := netns.Up(cmd.Context(), cfg)
			if err != nil {
				return infrastructure(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is up: datapath %s, %d dumpers; logs in %s\n", t.Name, t.Live.Datapath,
				len(t.Dumpers), b.State.Dir)
			return b.Close()
		},
	}
}

func notMadeHere(name string, t *config.Testbed) error {
	return fmt.Errorf("%s is of kind %s: testbed up and down are for the kinds netns and vm", name, t.Kind)
}

func newTestbedDown() *cobra.Command {
	return &cobra.Command{
		Use:   "down TESTBED",
		Short: "Remove a testbed that testbed up made",
		Args:  cobra.ExactArgs(1),
		Long: `Remove a testbed that candela testbed up made, also if parts of it are gone.
TESTBED is the argument of testbed up or, of network namespaces, the name in
errors.`,
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := config.LoadTestbed(args[0])
			if err != nil && netns.Made("", args[0]) {
				return infrastructureIf(netns.Down("", args[0]))
			}
			if err != nil {
				return err
			}
			if t.Kind == config.KindVM {
				return infrastructureIf(vm.Down(vmConfig(t)))
			}
			if t.Kind != config.KindNetns {
				return notMadeHere(args[0], t)
			}
			if err := netns.Down("", t.Name); err != nil {
				return infrastructure(err)
			}
			return nil
		},
	}
}

// nodeCommand is the command of newTestbedNode.
const nodeCommand = "node"

// newTestbedNode is the command of the processes of a testbed.
func newTestbedNode() *cobra.Command {
	return &cobra.Command{
		Use: nodeCommand + " -- ARGS...", Short: "Be a node of a testbed", Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return infrastructure(netns.Become(args)) },
	}
}

// lldpPatience is how long to wait for a neighbour: most devices send LLDP every 30 s.
const lldpPatience = 35 * time.Second

func newTestbedCheck() *cobra.Command {
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "check TESTBED",
		Short: "Check the description of a testbed and its machines",
		Long: `Check a description of a testbed and print it with every default.

On a live testbed, also ask every machine for version, privileges, links, MTU
and clock, and send packets through every port: a switch can lose packets that
no counter shows. A testbed of network namespaces that is not up is made for the
check.

In a lab, also listen for LLDP for up to --lldp-wait, print the neighbour at the
other end of each cable, and compare it with the description.`,
		Example: `  candela testbed check virtual
  candela testbed check netns`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := config.LoadTestbed(args[0])
			if err != nil {
				return err
			}
			if _, err := cmd.OutOrStdout().Write(t.YAML()); err != nil {
				return infrastructure(err)
			}
			if t.Kind == config.KindVirtual {
				fmt.Fprintln(cmd.ErrOrStderr(), "a virtual testbed needs no check of this machine")
				return nil
			}
			if !t.HasInjector() {
				return checkNetwork(cmd, args[0], t)
			}
			return checkLive(cmd, args[0], t, patience)
		},
	}
	cmd.Flags().DurationVar(&patience, "lldp-wait", lldpPatience,
		"how long to wait for LLDP of the neighbours in the description; 0: do not listen")
	return cmd
}
