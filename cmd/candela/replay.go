package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/bundle"
)

func newReplay() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "replay BUNDLE",
		Short: "Run the test of a bundle again and compare every byte",
		Long: `Run the test of a bundle again on the virtual testbed, and compare every file of
the new run with the bundle, including the trace.

The exit status is 0 if all files are identical and 1 if any differs. The
verdict of the test does not matter.`,
		Example: `  candela replay bug.tar
  candela replay bug.tar --out /tmp/runs`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := readBundle(args[0])
			if err != nil {
				return err
			}
			r, err := b.Replay(cmd.Context(), buildTestbed, configOptions(""), orchestrator.Options{
				Out: out, Version: toolVersion(), Command: toolName(), File: args[0], Wall: time.Now,
			})
			if err != nil {
				return replayError(err)
			}
			if err := r.Text(cmd.OutOrStdout()); err != nil {
				return infrastructure(err)
			}
			if !r.Reproduced() {
				return statusError{status: orchestrator.ExitFail}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "runs", "directory in which the run directory is made")
	return cmd
}

// replayError keeps errors about the bundle at exit status 2.
func replayError(err error) error {
	if errors.Is(err, bundle.ErrInvalid) {
		return err
	}
	return infrastructure(err)
}

func readBundle(path string) (b *bundle.Bundle, err error) {
	file, err := openBundle(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if b, err = bundle.Read(file, io.Discard); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// openBundle opens a bundle, plain or compressed. Other files are opened, too: the bundle's reader explains what is
// wrong.
func openBundle(path string) (io.ReadCloser, error) {
	if archive, err := bundle.OpenArchive(path); archive != nil || err != nil {
		return archive, err
	}
	return os.Open(path)
}
