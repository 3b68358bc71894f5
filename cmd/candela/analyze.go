package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/trace"
)

func newAnalyze() *cobra.Command {
	var o orchestrator.AnalyzeOptions
	var format, input, waivers, after, store string
	var taps []string
	var settings captureSettings
	var verbose bool
	var docs analysisFiles
	cmd := &cobra.Command{
		Use:   "analyze RUN|BUNDLE|CAPTURE...",
		Short: "Judge a run directory or a bundle again, or captures from anywhere",
		Long: `Judge one of these:
  - a run directory or a bundle (tar, also compressed by gzip or zstd), with the
    configuration, events and counters of the run
  - a mirror trace, or a trace of Lumina's prototype
  - plain captures, from tcpdump or a SPAN port

A single capture shows the packets that passed one tap. Two captures of the same
traffic, taken before and after a switch or at the two hosts, also show the
packets that were dropped, delayed, marked or corrupted between the taps.
Candela infers from the packets which capture is upstream in each direction,
estimates offset and drift of the clocks, and reports both. --tap gives the
place of a capture instead: requester, responder, before or after. Of more than
two captures Candela compares the two that enclose most of the path between the
hosts, and the report names them. The place of a single capture determines whose
frames it contains.

Captures are pcap or pcapng, also compressed by gzip or zstd, with the link
types Ethernet, Linux cooked (tcpdump -i any), raw IP or ERF. RoCEv2 and RoCEv1
are found below VLAN tags, MPLS, VXLAN, GENEVE, GRE and ERSPAN. Files that
follow each other in time (tcpdump -C, dumpcap -b) are read as one capture;
--tap takes them separated by commas. The name - means standard input.

Without --connections the connections are inferred from the packets, and the
report says so. A deviation that frames missing from a capture would explain is
a warning, unless --complete states that the captures contain every frame.

--out writes report.html, findings.json (the output of --format json) and
junit.xml, whatever the verdict. Older files are replaced when all three are
complete.`,
		Example: `  candela analyze runs/quickstart
  candela analyze before.pcap --after after.pcap
  candela analyze --tap requester=host1.pcap --tap responder=host2.pcap
  candela analyze ring_*.pcapng.gz
  candela analyze capture.pcap --out report
  candela analyze bug.tar --junit junit.xml
  ssh host tcpdump -i eth1 -w - udp port 4791 | candela analyze -
  candela analyze trace.pcap --connections connections.json --format json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %q: want text or json", format)
			}
			if o.Workers < 1 {
				return fmt.Errorf("--workers %d: want at least 1", o.Workers)
			}
			var err error
			if o.Format, err = trace.ParseFormat(input); err != nil {
				return fmt.Errorf("--input: %w", err)
			}
			if err := chooseTaps(cmd.Context(), &o, args, after, taps); err != nil {
				return err
			}
			if err := settings.apply(cmd, &o); err != nil {
				return err
			}
			o.Stdin = cmd.InOrStdin()
			o.Version, o.Command, o.Config = toolVersion(), toolName(), configOptions("")
			if o.Waivers, err = loadWaivers(waivers); err != nil {
				return err
			}
			defer warnOfWaivers(cmd, o.Waivers)
			if store != "" && (len(args) != 1 || !isRun(args[0])) {
				return errors.New("--history: only the analysis of one run directory belongs to a run")
			}
			if err := docs.prepare(); err != nil {
				return err
			}
			defer docs.discard()
			o.Plots = docs.dir != ""
			defer collectRarely()()
			outcome, err := analyzeUnpacked(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := docs.write(outcome); err != nil {
				return infrastructure(err)
			}
			if err := recordAnalysis(cmd.Context(), store, args, outcome); err != nil {
				return err
			}
			if format == "json" {
				err = outcome.Analysis.Write(cmd.OutOrStdout())
			} else {
				err = report.Text(cmd.OutOrStdout(), outcome.Report, textOptions(cmd.OutOrStdout(), verbose))
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
	fl.StringVar(&after, "after", "", "second capture, taken after the injector or switch")
	fl.StringArrayVar(&taps, "tap", nil,
		"PLACE=FILE: a capture and where it was taken (requester, responder, before, after); or NAME=FILE")
	fl.BoolVar(&o.SameClock, "same-clock", false, "both captures have timestamps of one clock: estimate no offset")
	fl.BoolVar(&o.Complete, "complete", false,
		"the captures contain every frame that was sent or, with --tap PLACE=FILE, that passed that place")
	settings.flags(fl)
	fl.StringVar(&o.Connections, "connections", "", "connections document (candela.connections/v1)")
	fl.StringVar(&waivers, "waivers", "", "file of known violations that do not fail; only for run directories")
	fl.StringVar(&input, "input", "auto", "encoding of the trace: auto, mirror, plain or lumina")
	fl.BoolVar(&o.KeepPartial, "keep-partial", false, "accept a plain capture that ends in the middle of a packet")
	fl.IntVar(&o.Workers, "workers", runtime.GOMAXPROCS(0),
		"processors to use; the result does not depend on it")
	fl.BoolVar(&o.Strict, "strict", false, "warnings fail, too")
	fl.StringVar(&docs.dir, "out", "", "directory for report.html, findings.json and junit.xml")
	fl.StringVar(&store, "history", "", "results store in which this analysis of a run replaces the earlier one")
	fl.StringVar(&docs.junit, "junit", "", "file for the result as JUnit XML")
	fl.StringVar(&format, "format", "text", "format of stdout: text or json")
	fl.BoolVarP(&verbose, "verbose", "v", false, "show all rows")
	return cmd
}

// inputOrInfrastructure leaves errors about the user's files at exit status 2; all others get 4.
func inputOrInfrastructure(err error) error {
	if errors.Is(err, orchestrator.ErrInput) {
		return err
	}
	return infrastructure(err)
}
