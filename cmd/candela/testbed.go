package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
)

func newTestbed() *cobra.Command {
	cmd := &cobra.Command{Use: "testbed", Short: "List and check descriptions of testbeds"}
	cmd.AddCommand(newTestbedList(), newTestbedCheck())
	return cmd
}

func newTestbedList() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the embedded testbed and the descriptions in a directory",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := []string{config.VirtualTestbed}
			found, err := filepath.Glob(filepath.Join(dir, "*.yml"))
			if err != nil {
				return err
			}
			slices.Sort(found)
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "testbed\tkind\thosts\tdumpers")
			var errs []error
			for _, name := range append(names, found...) {
				t, err := config.LoadTestbed(name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", name, t.Kind, rates(t), len(t.Dumpers))
			}
			return errors.Join(append(errs, w.Flush())...)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "testbeds", "directory with descriptions")
	return cmd
}

func rates(t *config.Testbed) string {
	gbps := func(r clock.BitRate) string { return fmt.Sprintf("%g", float64(r)/float64(clock.Gbps)) }
	return gbps(t.Requester.Rate) + " and " + gbps(t.Responder.Rate) + " Gb/s"
}

func newTestbedCheck() *cobra.Command {
	return &cobra.Command{
		Use:     "check TESTBED",
		Short:   "Check a description and print it with every default",
		Example: `  candela testbed check virtual`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := config.LoadTestbed(args[0])
			if err != nil {
				return err
			}
			if _, err := cmd.OutOrStdout().Write(t.YAML()); err != nil {
				return infrastructure(err)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "a virtual testbed needs nothing of this machine")
			return nil
		},
	}
}
