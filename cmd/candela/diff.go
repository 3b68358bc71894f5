package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/diff"
	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/report/site"
)

func newDiff() *cobra.Command {
	var format, out, store string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs, sweeps or nights: environment and results",
		Long: `Print the differences of two run directories: environment, configuration,
verdict, findings that appeared or disappeared, distributions and counters.
Times of day and names of runs are ignored.

Sweeps, directories with several runs, and references to the results store, such
as last-green, night-2026-11-20 or fw:28.39.1002, are compared as by candela
history compare: environment, then findings that are new, flaky, not run, fixed,
still there or waived, then metrics that changed.

The exit status is 0 if they are the same and 1 if they differ.`,
		Example: `  candela diff runs/quickstart runs/quickstart-2
  candela diff runs/before runs/after --format json
  candela diff last-green runs/tonight --history lab.db`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %q: want text or json", format)
			}
			if !isRun(args[0]) || !isRun(args[1]) {
				if out != "" && out != noSite && (isReference(args[0]) || isReference(args[1])) {
					return errors.New("--report: only two single runs have a site of their differences")
				}
				f := historyFlags{store: store, asJSON: format == "json"}
				if isReference(args[0]) || isReference(args[1]) {
					return f.compare(cmd, args[0], args[1])
				}
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
	cmd.Flags().StringVar(&store, "history", "", "results store of references: a file, or "+
		"postgres://HOST/DATABASE (default\n"+
		"CANDELA_HISTORY, or runs/history.db)")
	cmd.Flags().StringVar(&format, "format", "text", "format of stdout: text or json")
	return cmd
}

// isRun reports whether a path is a single run directory, a bundle's included, as far as names show.
func isRun(path string) bool {
	for _, name := range []string{"run.json", orchestrator.BundleManifest} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return false
}

// isReference reports whether an argument names several runs: a directory with runs below it, or no path at all. What
// is neither is left to the errors of single runs.
func isReference(arg string) bool {
	if isRun(arg) {
		return false
	}
	if _, err := os.Lstat(arg); err != nil {
		return true
	}
	runs, err := history.Runs([]string{arg})
	return err == nil && len(runs) > 0
}
