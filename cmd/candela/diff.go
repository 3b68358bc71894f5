package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/diff"
	"candela.dev/candela/orchestrator/report/site"
)

func newDiff() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "diff RUN RUN",
		Short: "Compare two runs: environment, configuration and results",
		Long: `Print the differences of two run directories: environment, configuration,
verdict, findings that appeared or disappeared, distributions and counters.
Times of day and names of runs are ignored.

The exit status is 0 if they are the same and 1 if they differ.`,
		Example: `  candela diff runs/quickstart runs/quickstart-2
  candela diff runs/before runs/after --format json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %q: want text or json", format)
			}
			a, err := diff.Open(args[0])
			if err != nil {
				return err
			}
			b, err := diff.Open(args[1])
			if err != nil {
				return err
			}
			r := diff.Compare(a, b)
			if format == "json" {
				err = r.Write(cmd.OutOrStdout())
			} else {
				err = r.Text(cmd.OutOrStdout(), textOptions(cmd.OutOrStdout(), false))
			}
			if err != nil {
				return infrastructure(err)
			}
			s := &site.Site{Title: "Differences of " + r.A + " and " + r.B, Command: commandLine(cmd, args), Tables: r.Tables()}
			if err := tablesSite(cmd, out, s, args...); err != nil {
				return infrastructure(err)
			}
			if !r.Same {
				return statusError{status: orchestrator.ExitFail}
			}
			return nil
		},
	}
	reportFlag(cmd, &out)
	cmd.Flags().StringVar(&format, "format", "text", "format of stdout: text or json")
	return cmd
}
