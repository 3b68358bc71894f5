package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/trace"
)

func newAnalyze() *cobra.Command {
	var o orchestrator.AnalyzeOptions
	var format, input, waivers string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "analyze RUN|TRACE",
		Short: "Judge a run directory again, or a capture from anywhere",
		Long: `Judge a trace: a run directory with all that it knows, a reconstructed mirror trace, a trace of Lumina's prototype, or a
plain capture (tcpdump at a tap). With --after, a second capture behind the injector or switch tells which packets were
dropped, delayed, marked or corrupted in between, so that two taps are enough to judge a NIC.

Without --connections the connections are inferred from the packets, and the result says so.`,
		Example: `  candela analyze runs/quickstart
  candela analyze before.pcap --after behind.pcap
  candela analyze trace.pcap --connections connections.json --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %q: want text or json", format)
			}
			var err error
			if o.Format, err = trace.ParseFormat(input); err != nil {
				return fmt.Errorf("--input: %w", err)
			}
			o.Trace, o.Version, o.Command, o.Config = args[0], toolVersion(), toolName(), configOptions("")
			if o.Waivers, err = loadWaivers(waivers); err != nil {
				return err
			}
			defer warnOfWaivers(cmd, o.Waivers)
			outcome, err := analyzeAny(cmd.Context(), o)
			if err != nil {
				return inputOrInfrastructure(err)
			}
			if format == "json" {
				err = outcome.Analysis.Write(cmd.OutOrStdout())
			} else {
				err = report.Text(cmd.OutOrStdout(), outcome.Report, report.TextOptions{Color: colourful(cmd.OutOrStdout()), Verbose: verbose})
			}
			if err != nil {
				return infrastructure(err)
			}
			if outcome.Verdict.Exit != orchestrator.ExitPass {
				return statusError{status: outcome.Verdict.Exit}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.After, "after", "", "second capture, behind the injector or switch")
	fl.StringVar(&o.Connections, "connections", "", "connections document (candela.connections/v1)")
	fl.StringVar(&waivers, "waivers", "", "file of known violations that do not fail, for run directories")
	fl.StringVar(&input, "input", "auto", "encoding of the trace: auto, mirror, plain or lumina")
	fl.BoolVar(&o.KeepPartial, "keep-partial", false, "accept a plain capture that ends in the middle of a packet")
	fl.BoolVar(&o.Strict, "strict", false, "warnings fail, too")
	fl.StringVar(&format, "format", "text", "output on stdout: text or json")
	fl.BoolVarP(&verbose, "verbose", "v", false, "print everything, not just what tells")
	return cmd
}

// inputOrInfrastructure keeps errors about the user's files at exit status 2 and makes all others failures of ours.
func inputOrInfrastructure(err error) error {
	if errors.Is(err, orchestrator.ErrInput) {
		return err
	}
	return infrastructure(err)
}
