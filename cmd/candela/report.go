package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/report/site"
)

// siteDir is the directory of the site that a command writes beside its runs.
const siteDir = "report"

func newReport() *cobra.Command {
	var out, title string
	var up upstreamFlags
	cmd := &cobra.Command{
		Use:   "report DIR|SWEEP|RUN|TRACE...",
		Short: "Write runs, sweeps and traces as one static site",
		Long: `Write a static site:
  - an index of all runs, with filters for verdict, rule, connection and text
  - a page for each run; each finding links to its packets, with the display
    filter for Wireshark
  - a page for each sweep: heat maps and line plots of any metric over any axis

For a directory, all runs and sweeps below it are shown. A bundle or a capture
is judged as by candela analyze; a run directory is shown with its recorded
verdict.

The site needs no server and no network: open index.html, also on a file share
or as an artefact of CI. Runs beside the site are linked; files of other runs
are copied into it if they have at most 4 MiB. An older site in the directory is
replaced.

With --upstream, print one finding of a run directory or bundle instead, as a
bug report for the maintainers of the device: environment, packets, clause, test
and what was ruled out. --out then also writes the packets (pcap), the test and,
where the hosts alone can show the finding, a C program that reproduces it.`,
		Example: `  candela report runs
  candela report runs/sweep-psn --out /tmp/sweep
  candela report runs/quickstart capture.pcap --out report
  candela report runs/nightly-17 --upstream gbn.nak-psn --out bug`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if up.finding != "" {
				return up.write(cmd, args, out)
			}
			if err := up.check(cmd); err != nil {
				return err
			}
			c := site.Collector{Judge: func(path string) (*report.Report, error) { return judge(cmd.Context(), path) }}
			s, err := c.Collect(args)
			if err != nil {
				return err
			}
			s.Title, s.Command = title, commandLine(cmd, args)
			if out == "" {
				out = defaultSite(args)
			}
			return writeSite(cmd, s, out)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&out, "out", "", "directory of the site (default report in DIR or SWEEP, otherwise in the current\n"+
		"directory)")
	fl.StringVar(&title, "title", "", "heading of the index")
	up.flags(fl)
	return cmd
}

// judge judges a capture or a bundle.
func judge(ctx context.Context, path string) (*report.Report, error) {
	o := orchestrator.AnalyzeOptions{Trace: path, Plots: true, Workers: 1, Version: toolVersion(), Command: toolName(),
		Config: configOptions("")}
	outcome, err := analyzeUnpacked(ctx, o)
	if err != nil {
		return nil, err
	}
	return outcome.Report, nil
}

// defaultSite is the directory of the site: below a directory with runs, so that both move together.
func defaultSite(args []string) string {
	info, err := os.Stat(args[0])
	if len(args) > 1 || err != nil || !info.IsDir() {
		return siteDir
	}
	for _, name := range []string{"run.json", report.DocumentFile} {
		if _, err := os.Stat(filepath.Join(args[0], name)); err == nil {
			return siteDir // a run directory belongs to its run
		}
	}
	return filepath.Join(args[0], siteDir)
}

// writeSite writes a site and says where it is.
func writeSite(cmd *cobra.Command, s *site.Site, dir string) error {
	s.Tool, s.Workers = toolVersion(), runtime.GOMAXPROCS(0)
	index, err := s.Write(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "report  %s\n", index)
	return nil
}

// commandLine is the command line, quoted for a shell.
func commandLine(cmd *cobra.Command, args []string) string {
	words := append([]string{toolName()}, strings.Fields(cmd.CommandPath())[1:]...)
	words = append(words, args...)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			words = append(words, "--"+f.Name+"="+strings.Join(v.GetSlice(), ","))
		default:
			if v.Type() == "bool" && v.String() == "true" {
				words = append(words, "--"+f.Name)
			} else {
				words = append(words, "--"+f.Name+"="+v.String())
			}
		}
	})
	for i, word := range words {
		if strings.ContainsAny(word, " \t\n\"'\\$&|;<>()*?[]#~`") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// noSite is the value of --report for no site.
const noSite = "none"

// site writes the runs of a suite as a site beside them. The runs are judged by then, so failing to write the site is a
// warning.
func (s *suite) site() {
	if s.total < 2 || s.flags.report == noSite {
		return
	}
	dir := s.flags.report
	if dir == "" {
		dir = freeSite(s.parent())
	}
	if err := s.writeSite(dir); err != nil {
		fmt.Fprintf(s.cmd.ErrOrStderr(), "warning: the site of the runs was not written: %v\n", err)
	}
}

// parent is the directory of the runs: that of the sweep if all are points of one.
func (s *suite) parent() string {
	if len(s.order) == 1 && len(s.singles) == 0 {
		return s.order[0].Dir()
	}
	return s.flags.out
}

// freeSite names the directory of a site below parent. A run directory may already have the usual name.
func freeSite(parent string) string {
	dir := filepath.Join(parent, siteDir)
	if _, err := os.Stat(dir); err == nil && !site.IsSite(dir) {
		return filepath.Join(parent, "candela-"+siteDir)
	}
	return dir
}

func (s *suite) writeSite(dir string) error {
	c := site.Collector{Judge: func(path string) (*report.Report, error) { return judge(s.cmd.Context(), path) }}
	all := &site.Site{Title: s.title(), Command: s.flags.line}
	for _, r := range s.singles {
		if r.Dir == "" { // refused before it ran
			all.Runs = append(all.Runs, site.Loaded(r, ""))
		} else if err := c.Add(all, r.Dir); err != nil {
			return err
		}
	}
	for _, sweep := range s.order {
		if err := c.Add(all, sweep.Dir()); err != nil {
			return err
		}
	}
	all.Tool, all.Workers = toolVersion(), runtime.GOMAXPROCS(0)
	index, err := all.Write(dir)
	if err == nil && s.flags.format == "text" {
		_, err = fmt.Fprintf(s.cmd.OutOrStdout(), "\nreport  %s\n", index)
	}
	return err
}

// title names the site after the one sweep that it shows.
func (s *suite) title() string {
	if len(s.order) == 1 && len(s.singles) == 0 {
		return filepath.Base(s.order[0].Dir())
	}
	return ""
}

// tablesSite writes the tables of a command as a site, with the runs, sweeps and traces of the paths that exist.
// Without a directory it writes nothing.
func tablesSite(cmd *cobra.Command, dir string, s *site.Site, paths ...string) error {
	if dir == "" || dir == noSite {
		return nil
	}
	c := site.Collector{Judge: func(path string) (*report.Report, error) { return judge(cmd.Context(), path) }}
	for _, path := range paths {
		if err := c.Add(s, path); err != nil {
			return err
		}
	}
	s.Tool, s.Workers = toolVersion(), runtime.GOMAXPROCS(0)
	index, err := s.Write(dir)
	if err != nil {
		return err
	}
	// Standard output may be read by a program.
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "report  %s\n", index)
	return err
}

// reportFlag adds the flag of commands that write a site only on request.
func reportFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "report", "", "directory for a static site of the result")
}
