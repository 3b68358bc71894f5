package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/bundle"
	"candela.dev/candela/orchestrator/report"
)

func newBundle() *cobra.Command {
	var output string
	var withTrace bool
	cmd := &cobra.Command{
		Use:   "bundle RUN -o FILE",
		Short: "Pack a run into one file that reproduces it on another machine",
		Long: `Pack a run into one tar file: test, testbed, connections, table entries,
environment, counters and analysis, with the SHA-256 of each and of the trace.
candela replay runs the test again and compares every byte.`,
		Example: `  candela bundle runs/quickstart -o quickstart.tar
  candela bundle runs/quickstart -o quickstart.tar --with-trace`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if output == "" {
				return errors.New("-o FILE is missing: it names the bundle to write")
			}
			run, err := orchestrator.OpenRun(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, run.Close()) }()
			m, err := writeBundle(output, run, withTrace)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %d files; replay it with\n  %s replay %s\n",
				output, m.Verdict, len(m.Files), toolName(), report.ShellWord(output))
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "out", "o", "", "file to write")
	renamed(cmd.Flags(), "output", "out")
	cmd.Flags().BoolVar(&withTrace, "with-trace", false, "include the trace, not only its hash")
	return cmd
}

// writeBundle removes the file if it cannot complete it.
func writeBundle(path string, run *orchestrator.OpenedRun, withTrace bool) (m *bundle.Manifest, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	m, err = bundle.Write(file, run, withTrace)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return m, nil
}
