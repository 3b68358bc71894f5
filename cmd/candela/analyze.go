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
	var format, input, waivers, after string
	var taps []string
	var settings captureSettings
	var verbose bool
	var docs analysisFiles
	cmd := &cobra.Command{
		Use:   "analyze RUN|BUNDLE|CAPTURE...",
		Short: "Judge a run directory or a bundle again, or captures from anywhere",
		Long: `Judge a run directory or a bundle (tar, plain or compressed by gzip or zstd)
with all that it knows, a reconstructed mirror trace, a trace of Lumina's
prototype, or plain captures (tcpdump, a SPAN port).

One capture shows what passed its tap. Two captures of the same traffic, taken
before and after a switch or at the two hosts, also show what was dropped,
delayed, marked or corrupted in between. Candela infers from the packets which
capture is upstream for each direction, estimates offset and drift of the
clocks, and reports both. --tap says it outright, with the places requester,
responder, before and after. Of more than two captures, under any names, those
two are compared that bound best what happened between the hosts; the result
says which. The place of a single capture says whose frames it holds completely
if it missed none.

Captures are pcap or pcapng, plain or compressed by gzip or zstd, of Ethernet,
Linux cooked (tcpdump -i any), raw IP or ERF. RoCE is found below VLAN tags,
MPLS, VXLAN, GENEVE, GRE and ERSPAN; RoCEv1 is read, too. Files that follow each
other in time and repeat no packet (tcpdump -C, dumpcap -b) are one capture;
--tap takes several, too, with commas in between. The name - is standard input.

Without --connections the connections are inferred from the packets, and the
result says so. What a capture that missed frames would explain is a warning,
unless --complete says that the captures hold every frame.

--out writes report.html (findings, packet by packet, PSN over time,
connections, how the captures were read), findings.json (what --format json
prints) and junit.xml, whatever the verdict. Existing files are replaced once
the new ones are complete.`,
		Example: `  candela analyze runs/quickstart
  candela analyze before.pcap --after behind.pcap
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
	fl.StringVar(&after, "after", "", "second capture, downstream of the injector or switch")
	fl.StringArrayVar(&taps, "tap", nil,
		"PLACE=FILE: a capture and where it was taken (requester, responder, before, after), or NAME=FILE")
	fl.BoolVar(&o.SameClock, "same-clock", false, "one clock stamped both captures: do not estimate")
	fl.BoolVar(&o.Complete, "complete", false,
		"the captures hold every frame that was sent or, with --tap PLACE=FILE, that passed there")
	settings.flags(fl)
	fl.StringVar(&o.Connections, "connections", "", "connections document (candela.connections/v1)")
	fl.StringVar(&waivers, "waivers", "", "file of known violations that do not fail, for run directories")
	fl.StringVar(&input, "input", "auto", "encoding of the trace: auto, mirror, plain or lumina")
	fl.BoolVar(&o.KeepPartial, "keep-partial", false, "accept a plain capture that ends in the middle of a packet")
	fl.IntVar(&o.Workers, "workers", runtime.GOMAXPROCS(0),
		"processors to analyse with, connections being divided between them; the result is the same for any number")
	fl.BoolVar(&o.Strict, "strict", false, "warnings fail, too")
	fl.StringVar(&docs.dir, "out", "", "directory for report.html, findings.json and junit.xml")
	fl.StringVar(&docs.junit, "junit", "", "file for the result as JUnit XML")
	fl.StringVar(&format, "format", "text", "output on stdout: text or json")
	fl.BoolVarP(&verbose, "verbose", "v", false, "show all rows")
	return cmd
}

// inputOrInfrastructure keeps errors about the user's files at exit status 2 and makes all others failures of ours.
func inputOrInfrastructure(err error) error {
	if errors.Is(err, orchestrator.ErrInput) {
		return err
	}
	return infrastructure(err)
}
