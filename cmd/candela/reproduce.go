package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce"
)

// reproduceFlags are the options of candela reproduce.
type reproduceFlags struct {
	out    string
	keep   bool
	quick  bool
	jobs   int
	format string
}

func newReproduce() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reproduce PAPER",
		Short: "Measure a paper's results again, on the NIC models",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReproduceLumina())
	return cmd
}

func newReproduceLumina() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "lumina",
		Short: "Measure Lumina's evaluation again: L1 to L9 of spec/lumina.md",
		Long: `Run the tests of configs/lumina on the virtual testbed and hold every value that the paper gives against what traffic,
injector, mirror, dumpers and analyzers measure on the NIC models. The models were made to behave like this; what is tested
is that the harness measures it back.

With --out, results.json and one SVG for each figure are written there. The exit status is 1 if a value is out of tolerance.`,
		Example: `  candela reproduce lumina
  candela reproduce lumina --out /tmp/lumina --keep-runs
  candela reproduce lumina --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return reproduceLumina(cmd.Context(), cmd, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "directory for results.json and plots")
	fl.BoolVar(&f.keep, "keep-runs", false, "keep the run directories below --out")
	fl.BoolVar(&f.quick, "quick", false, "fewer messages and rounds where figures need many")
	fl.IntVar(&f.jobs, "jobs", runtime.GOMAXPROCS(0), "runs at a time")
	fl.StringVar(&f.format, "format", "text", "output on stdout: text or json")
	return cmd
}

func reproduceLumina(ctx context.Context, cmd *cobra.Command, f reproduceFlags) error {
	switch {
	case f.format != "text" && f.format != "json":
		return fmt.Errorf("--format %q: want text or json", f.format)
	case f.keep && f.out == "":
		return errors.New("--keep-runs needs --out")
	case f.jobs < 1:
		return fmt.Errorf("--jobs %d: want at least 1", f.jobs)
	}
	cfg := reproduce.Config{
		Build: buildTestbed, Options: configOptions(""), Out: f.out, Keep: f.keep, Quick: f.quick, Workers: f.jobs,
		Version: toolVersion(), Wall: time.Now,
	}
	if colourful(cmd.ErrOrStderr()) {
		cfg.Progress = func(name string) { fmt.Fprintf(cmd.ErrOrStderr(), "\r\x1b[K%s", name) }
		defer fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
	}
	results, err := reproduce.Lumina(ctx, cfg)
	if err != nil {
		return infrastructure(err)
	}
	if f.out != "" {
		if err := writeReproduction(f.out, results); err != nil {
			return infrastructure(err)
		}
	}
	write := results.WriteText
	if f.format == "json" {
		write = results.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return infrastructure(err)
	}
	if results.Failed() > 0 {
		return statusError{status: orchestrator.ExitFail}
	}
	return nil
}

// writeReproduction writes results.json and the plots into dir.
func writeReproduction(dir string, r *reproduce.Results) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := writeTo(filepath.Join(dir, "results.json"), r.WriteJSON); err != nil {
		return err
	}
	for i := range r.Plots {
		if err := writeTo(filepath.Join(dir, r.Plots[i].Name+".svg"), r.Plots[i].WriteSVG); err != nil {
			return err
		}
	}
	return nil
}

func writeTo(path string, write func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file)
}
