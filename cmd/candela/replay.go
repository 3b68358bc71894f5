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
		Short: "Run a bundle again and compare with the original to the byte",
		Long: `Run the test of a bundle again on the virtual testbed, and compare every file
that the bundle names with what came out now, the trace included.

The exit status is 0 if all is the same, 1 if anything differs, whatever the
verdict of the test.`,
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
	cmd.Flags().StringVar(&out, "out", "runs", "directory for the run directory")
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

// openBundle opens a bundle, plain or compressed. What is no archive is opened, too: the bundle's reader says what is
// wrong.
func openBundle(path string) (io.ReadCloser, error) {
	if archive, err := bundle.OpenArchive(path); archive != nil || err != nil {
		return archive, err
	}
	return os.Open(path)
}
