package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/dumper"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/trace"
)

func newTrace() *cobra.Command {
	cmd := &cobra.Command{Use: "trace", Short: "Show, summarise, merge, cut and convert traces"}
	cmd.AddCommand(newTraceShow(), newTraceStats(), newTraceMerge(), newTraceSlice(), newTraceConvert(), newDissector())
	return cmd
}

// traceInput is the trace that a command reads: a run directory or a capture file.
type traceInput struct {
	connections string
	input       string
}

func (in *traceInput) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&in.connections, "connections", "",
		"connections document (candela.connections/v1); a run directory contains its own")
	cmd.Flags().StringVar(&in.input, "input", "auto", "encoding of the trace: auto, mirror, plain or lumina")
}

// source returns the capture that args name and how to read it; release frees what it holds.
func (in *traceInput) source(cmd *cobra.Command, args []string) (src trace.Source, o trace.Options, release func(),
	err error) {
	release = func() {}
	if o.Format, err = trace.ParseFormat(in.input); err != nil {
		return src, o, release, fmt.Errorf("--input: %w", err)
	}
	files, connections := args, in.connections
	if info, err := os.Stat(args[0]); len(args) == 1 && err == nil && info.IsDir() {
		arg := args[0]
		files = []string{filepath.Join(arg, "trace.pcap")}
		if connections == "" {
			connections = filepath.Join(arg, "connections.json")
			if _, err := os.Stat(connections); err != nil {
				return src, o, release, orchestrator.NoRun(arg, err)
			}
		}
		o.Format = trace.FormatMirror
	}
	if connections != "" {
		f, err := os.Open(connections)
		if err != nil {
			return src, o, release, err
		}
		defer f.Close()
		if o.Connections, err = trace.ReadConnections(f); err != nil {
			return src, o, release, fmt.Errorf("%s: %w", connections, err)
		}
	}
	src, remove, err := orchestrator.OpenCaptures(cmd.Context(), files, cmd.InOrStdin())
	return src, o, func() {
		if err := remove(); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", err)
		}
	}, err
}

// readable returns a trace to print. Unlike an analysis it needs no integrity: an incomplete mirror trace is read as a
// capture, with a warning.
func (in *traceInput) readable(cmd *cobra.Command, args []string) (checked *trace.Checked, release func(), err error) {
	src, o, release, err := in.source(cmd, args)
	if err != nil {
		return nil, release, err
	}
	checked, err = readable(cmd, src, o)
	return checked, release, err
}

func readable(cmd *cobra.Command, src trace.Source, o trace.Options) (*trace.Checked, error) {
	o.KeepTruncated = true
	checked, _, err := trace.Check(cmd.Context(), src, o)
	var incomplete *trace.IntegrityError
	if errors.As(err, &incomplete) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: the trace is incomplete and proves nothing: %v\n", err)
		checked, err = trace.Incomplete(cmd.Context(), src, o)
	}
	return checked, err
}

func newTraceShow() *cobra.Command {
	var in traceInput
	var o trace.ShowOptions
	cmd := &cobra.Command{
		Use:   "show RUN|TRACE...",
		Short: "Print a trace, one packet per line, with the names of test files",
		Example: `  candela trace show runs/quickstart --around 11
  candela trace show capture.pcap --connection 2 --limit 100`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Limit < 0 || o.Context < 0 || o.Connection < 0 {
				return fmt.Errorf("--limit %d, --context %d, --connection %d: want at least 0", o.Limit, o.Context, o.Connection)
			}
			src, opts, release, err := in.source(cmd, args)
			defer release()
			if err != nil {
				return err
			}
			w := bufio.NewWriter(cmd.OutOrStdout())
			lines := report.NewWrapper(w, textOptions(cmd.OutOrStdout(), false))
			checked, err := readable(cmd, src, opts)
			if errors.Is(err, trace.ErrNothingToAnalyse) && o.Connection == 0 {
				return errors.Join(trace.ShowFrames(cmd.Context(), src, lines, o), lines.Flush(), w.Flush())
			}
			if err != nil {
				return err
			}
			if n := checked.Meta().Connections.Len(); o.Connection > n {
				return fmt.Errorf("--connection %d: %s has connections 1 to %d", o.Connection, checked.Meta().Name, n)
			}
			return errors.Join(trace.Show(cmd.Context(), checked, lines, o), lines.Flush(), w.Flush())
		},
	}
	in.flags(cmd)
	fl := cmd.Flags()
	fl.Uint64Var(&o.Around, "around", 0, "only the packet with this number and its --context")
	fl.IntVar(&o.Context, "context", 10, "packets before and after --around")
	fl.IntVar(&o.Connection, "connection", 0, "only this connection")
	fl.Int64Var(&o.Limit, "limit", 0, "most lines; 0: all")
	return cmd
}

func newTraceStats() *cobra.Command {
	var in traceInput
	var format string
	cmd := &cobra.Command{
		Use:     "stats RUN|TRACE...",
		Short:   "Summarise a trace by connection and direction",
		Example: `  candela trace stats runs/quickstart`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			checked, release, err := in.readable(cmd, args)
			defer release()
			if err != nil {
				return err
			}
			stats, err := trace.GatherStats(cmd.Context(), checked)
			if err != nil {
				return err
			}
			switch format {
			case "json":
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(stats)
			case "text":
				return report.StatsText(cmd.OutOrStdout(), stats, textOptions(cmd.OutOrStdout(), false))
			}
			return fmt.Errorf("--format %q: want text or json", format)
		},
	}
	in.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "text", "format of stdout: text or json")
	return cmd
}

func newTraceMerge() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge SHARD...",
		Short: "Merge dumpers' shards into one trace, by mirror sequence",
		Long: `Merge dumpers' shards into one trace, in the order of the mirror sequence. A
shard that is missing is an error before anything is written. A damaged one
contributes the packets before the damage, and the exit status says that it was
damaged.`,
		Example: `  candela trace merge runs/quickstart/shards/*.pcap --out trace.pcap`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			shards := make([]trace.Source, len(args))
			for i, a := range args {
				shards[i] = trace.FileSource(a)
			}
			return writeFile(out, func(w io.Writer) error {
				r, err := dumper.Reconstruct(cmd.Context(), shards, w, out)
				fmt.Fprintf(cmd.ErrOrStderr(), "%d packets from %d shards, mirror #%d to #%d\n", r.Packets, r.Shards, r.FirstSeq,
					r.LastSeq)
				if err == nil && r.FirstProblem != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %d duplicates, %d out of order; first: %s\n", r.Duplicates, r.Regressions,
						r.FirstProblem)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "trace.pcap", "file to write")
	return cmd
}

func newTraceSlice() *cobra.Command {
	var in traceInput
	var o trace.SliceOptions
	var out string
	var from, to time.Duration
	cmd := &cobra.Command{
		Use:   "slice RUN|TRACE...",
		Short: "Copy a part of a trace to a new file",
		Example: `  candela trace slice runs/quickstart --first 5 --last 20 --out part.pcap
  candela trace slice capture.pcap --from 1ms --to 2ms --out part.pcap`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, opts, release, err := in.source(cmd, args)
			defer release()
			if err != nil {
				return err
			}
			o.Format, o.Connections = opts.Format, opts.Connections
			o.FromNS, o.ToNS = from.Nanoseconds(), to.Nanoseconds()
			if o.Connection != 0 && o.Connections == nil {
				return errors.New("--connection needs --connections or a run directory")
			}
			return writeFile(out, func(w io.Writer) error {
				n, err := trace.Slice(cmd.Context(), src, w, out, o)
				if err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d packets written to %s\n", n, out)
				}
				return err
			})
		},
	}
	in.flags(cmd)
	fl := cmd.Flags()
	fl.Uint64Var(&o.FirstID, "first", 0, "number of the first packet to copy")
	fl.Uint64Var(&o.LastID, "last", 0, "number of the last packet to copy")
	fl.DurationVar(&from, "from", 0, "time of the first packet to copy, relative to the first packet of the trace")
	fl.DurationVar(&to, "to", 0, "time of the last packet to copy; 0: no limit")
	fl.IntVar(&o.Connection, "connection", 0, "only this connection")
	fl.BoolVar(&o.Renumber, "renumber", false, "give mirror copies new consecutive sequence numbers")
	fl.StringVarP(&out, "out", "o", "slice.pcap", "file to write")
	return cmd
}

func newTraceConvert() *cobra.Command {
	var in traceInput
	var to, view, out string
	cmd := &cobra.Command{
		Use:   "convert RUN|TRACE...",
		Short: "Convert between mirror traces and plain captures",
		Example: `  candela trace convert runs/quickstart --to plain --view before --out before.pcap
  candela trace convert runs/quickstart --to plain --view after --out after.pcap`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, o, release, err := in.source(cmd, args)
			defer release()
			if err != nil {
				return err
			}
			if o.Format == trace.FormatAuto {
				d, err := trace.Detect(cmd.Context(), src)
				if err != nil {
					return err
				}
				o.Format = d.Format
			}
			return writeFile(out, func(w io.Writer) error {
				n, err := convert(cmd.Context(), src, o.Format, to, view, w, out)
				if err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d packets written to %s\n", n, out)
				}
				return err
			})
		},
	}
	in.flags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&to, "to", "plain", "encoding to write: plain or mirror")
	fl.StringVar(&view, "view", "before", "side of the injector that a plain capture shows: before or after")
	fl.StringVarP(&out, "out", "o", "converted.pcap", "file to write")
	return cmd
}

func convert(ctx context.Context, src trace.Source, from trace.Format, to, view string, w io.Writer,
	name string) (int64, error) {
	views := map[string]trace.View{"before": trace.ViewBefore, "after": trace.ViewAfter}
	v, ok := views[view]
	switch {
	case !ok:
		return 0, fmt.Errorf("--view %q: want before or after", view)
	case to == "plain" && from == trace.FormatPlain:
		return 0, fmt.Errorf("%s is a plain capture already", src.Name)
	case to == "plain":
		return trace.ToPlain(ctx, src, from, v, w, name)
	case to == "mirror" && from != trace.FormatPlain:
		return 0, fmt.Errorf("%s is a mirror trace already", src.Name)
	case to == "mirror":
		return trace.ToMirror(ctx, src, w, name)
	}
	return 0, fmt.Errorf("--to %q: want plain or mirror", to)
}

// writeFile lets write fill path. After an error the incomplete file stays: it may be the only copy.
func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return infrastructure(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file)
}
