// Command bench measures the figures that Candela promises and prints each with its target, and with a peer measured in
// the same run if one can be installed. The figures are data: see figures.go for how to add one.
//
// Every figure is sampled several times, the samples of all figures and peers interleaved, so that a busy minute of the
// machine affects all; the table shows medians. One processor is used unless -cpu says otherwise: targets are per core.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// options are what the command line chooses.
type options struct {
	only      *regexp.Regexp
	count     int
	cpu       int
	benchtime time.Duration
	list      bool
	strict    bool
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&only, "only", "", "measure only figures whose name matches this regular expression")
	flags.IntVar(&o.count, "count", 5, "samples per figure; the table shows their median")
	flags.IntVar(&o.cpu, "cpu", 1, "processors that a measured Go program may use")
	flags.DurationVar(&o.benchtime, "benchtime", time.Second, "how long one sample of a Go benchmark runs")
	flags.BoolVar(&o.list, "list", false, "list the figures and their targets, measure nothing")
	flags.BoolVar(&o.strict, "strict", false, "end with an error if a target is missed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.count < 1 || o.cpu < 1 {
		return o, fmt.Errorf("-count %d and -cpu %d must be at least 1", o.count, o.cpu)
	}
	var err error
	o.only, err = regexp.Compile(only)
	return o, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	rows := chosen(opts.only)
	if len(rows) == 0 {
		return fmt.Errorf("-only %q matches none of %d figures; -list shows them", opts.only, len(figures))
	}
	if opts.list {
		return printTable(stdout, rows)
	}
	lab, err := newLab(opts)
	if err != nil {
		return err
	}
	defer lab.close()
	if err := measureAll(ctx, lab, rows, stderr); err != nil {
		return err
	}
	if err := printTable(stdout, rows); err != nil {
		return err
	}
	return verdict(rows, opts.strict)
}

func chosen(only *regexp.Regexp) []*result {
	var rows []*result
	for _, f := range figures {
		if only.MatchString(f.name) {
			rows = append(rows, &result{figure: f})
		}
	}
	return rows
}

// measureAll fills in the samples of all rows, round by round.
func measureAll(ctx context.Context, lab *lab, rows []*result, progress io.Writer) error {
	for _, row := range rows {
		fmt.Fprintf(progress, "preparing: %s\n", row.name)
		row.prepare(ctx, lab)
	}
	for round := range lab.opts.count {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, lab.opts.count)
		for _, row := range rows {
			row.sample(ctx)
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// verdict is an error if a figure could not be measured, unless only its peer is missing, or if strict and a target is
// missed.
func verdict(rows []*result, strict bool) error {
	failed, missed := 0, 0
	for _, row := range rows {
		switch {
		case errors.Is(row.failure, errSkipped):
		case row.failure != nil:
			failed++
		case !row.met():
			missed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d figures could not be measured", failed, len(rows))
	case strict && missed > 0:
		return fmt.Errorf("%d of %d targets are missed", missed, len(rows))
	}
	return nil
}
