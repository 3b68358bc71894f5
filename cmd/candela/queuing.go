package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"candela.dev/candela/aqm"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/trace"
)

func newQueuing() *cobra.Command {
	var q queuingFlags
	cmd := &cobra.Command{
		Use:   "queuing FILE",
		Short: "Check the counters of `show queuing interface`",
		Long: `Read the output of show queuing interface (NX-OS), of any number of interfaces,
and check its counters:
  - WD & Tail Drop Pkts are at least WRED/AFD Drop Pkts
  - the mean frame has 60 bytes to --mtu, and there are bytes only with packets
  - since an earlier output (--since) no counter fell
  - with --ecn, nothing was dropped early

Captures of an interface are compared with its counters, all groups together:
  - --sent: the frames that left by it are Tx Pkts, their bytes, with or
    without FCS, are Tx Byts
  - --arrived: the frames for it are those sent, dropped and still waiting
The captures must contain what the counters counted, and no other frames; save
an output before the traffic and name it with --since.

--run RUN compares with what the taps of a run saw of each queue: queuing.txt
in its directory shows how interfaces and groups are named.

The exit status is 1 if a counter is wrong. A FILE of - is standard input.`,
		Example: `  candela queuing after.txt --since before.txt
  candela queuing after.txt --since before.txt --sent Ethernet1/1=span.pcap
  ssh admin@n9k show queuing interface | candela queuing - --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return q.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&q.since, "since", "", "an earlier output, which is subtracted")
	f.StringArrayVar(&q.sent, "sent", nil, "INTERFACE=CAPTURE: the frames that left by an interface")
	f.StringArrayVar(&q.arrived, "arrived", nil, "INTERFACE=CAPTURE: the frames that were meant for an interface")
	f.StringVar(&q.runs, "run", "", "directory of a run of a switch test, whose taps saw what was counted")
	f.IntVar(&q.bounds.MTU, "mtu", aqm.JumboMTU, "bytes of the largest frame, with FCS")
	f.BoolVar(&q.bounds.AllECN, "ecn", false, "ECN is on, and all packets are ECN-capable")
	f.BoolVar(&q.asJSON, "json", false, "print the counters and what is wrong as JSON")
	return cmd
}

type queuingFlags struct {
	since         string
	sent, arrived []string
	runs          string
	bounds        aqm.Bounds
	asJSON        bool
}

func (q *queuingFlags) run(cmd *cobra.Command, file string) error {
	if q.bounds.MTU < 64 {
		return fmt.Errorf("--mtu %d: want at least 64", q.bounds.MTU)
	}
	if file == orchestrator.StandardInput && q.since == file {
		return errors.New("--since -: standard input is FILE already")
	}
	text, err := readQueuing(cmd, file)
	if err != nil {
		return err
	}
	var broken []aqm.Broken
	if q.since != "" {
		before, err := readQueuing(cmd, q.since)
		if err != nil {
			return err
		}
		if text, broken, err = text.Since(before); err != nil {
			return fmt.Errorf("%s: %w", q.since, err)
		}
	}
	broken = append(broken, text.Check(q.bounds)...)
	taps, order, err := q.taps(cmd)
	if err != nil {
		return err
	}
	for _, name := range order {
		list, err := text.CheckTaps(name, *taps[name], q.bounds)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		broken = append(broken, list...)
	}
	if q.runs != "" {
		list, err := q.compareRun(text)
		if err != nil {
			return fmt.Errorf("--run %s: %w", q.runs, err)
		}
		broken = append(broken, list...)
	}
	if err := q.print(cmd.OutOrStdout(), text, broken); err != nil {
		return infrastructure(err)
	}
	if len(broken) == 0 {
		return nil
	}
	if !q.asJSON {
		for _, b := range broken {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s:%d: %s: %s\n", file, b.Line, strings.TrimSpace(b.Interface+" "+b.Group), b.What)
		}
	}
	return statusError{status: orchestrator.ExitFail}
}

func (q *queuingFlags) compareRun(text *aqm.Queuing) (list []aqm.Broken, err error) {
	opened, err := orchestrator.OpenRun(q.runs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	return switchtest.CompareQueuing(opened, configOptions(""), text)
}

func readQueuing(cmd *cobra.Command, file string) (*aqm.Queuing, error) {
	if file == orchestrator.StandardInput {
		return aqm.ReadQueuing("standard input", cmd.InOrStdin())
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return aqm.ReadQueuing(file, f)
}

// taps counts the frames of the captures, by interface.
func (q *queuingFlags) taps(cmd *cobra.Command) (taps map[string]*aqm.Taps, order []string, err error) {
	taps = make(map[string]*aqm.Taps)
	for i, list := range [][]string{q.sent, q.arrived} {
		flag := [...]string{"--sent", "--arrived"}[i]
		for _, item := range list {
			name, file, ok := strings.Cut(item, "=")
			if !ok || name == "" || file == "" || file == orchestrator.StandardInput {
				return nil, nil, fmt.Errorf("%s %s: want INTERFACE=CAPTURE with the name of a file", flag, item)
			}
			if taps[name] == nil {
				taps[name] = new(aqm.Taps)
				order = append(order, name)
			}
			to := &taps[name].Sent
			if i == 1 {
				to = &taps[name].Arrived
			}
			if *to != nil {
				return nil, nil, fmt.Errorf("%s %s: %s has a capture already; name the files of a ring buffer with commas", flag,
					item, name)
			}
			if *to, err = countFrames(cmd, file); err != nil {
				return nil, nil, fmt.Errorf("%s %s: %w", flag, item, err)
			}
		}
	}
	return taps, order, nil
}

// countFrames counts the frames of a capture, whose files are separated by commas.
func countFrames(cmd *cobra.Command, files string) (seen *aqm.Observed, err error) {
	src, release, err := orchestrator.OpenCaptures(cmd.Context(), strings.Split(files, ","), nil)
	if err != nil {
		return nil, err
	}
	frames, err := src.OpenFrames()
	if err != nil {
		return nil, errors.Join(err, release())
	}
	defer func() { err = errors.Join(err, frames.Close(), release()) }()
	seen = new(aqm.Observed)
	for frame := new(trace.Frame); ; {
		switch err := frames.Next(frame); {
		case errors.Is(err, io.EOF):
			return seen, nil
		case err != nil:
			return nil, err
		}
		seen.Packets++
		seen.Bytes += uint64(frame.OrigLen)
	}
}

// print writes a line for each group, or JSON.
func (q *queuingFlags) print(to io.Writer, text *aqm.Queuing, broken []aqm.Broken) error {
	if q.asJSON {
		enc := json.NewEncoder(to)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			*aqm.Queuing
			Broken []aqm.Broken `json:"broken"`
		}{text, append([]aqm.Broken{}, broken...)})
	}
	columns := []string{aqm.RowTxPackets, aqm.RowTxBytes, aqm.RowEarlyPackets, aqm.RowEarlyBytes, aqm.RowDropped,
		aqm.RowDepth}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "interface\tgroup\t%s\t\n", strings.Join(columns, "\t"))
	for i := range text.Interfaces {
		f := &text.Interfaces[i]
		for j := range f.Groups {
			g := &f.Groups[j]
			cells := slices.Clone(columns)
			for k, name := range columns {
				cells[k] = "–"
				if n, ok := g.Sum(name); ok {
					cells[k] = strconv.FormatUint(n, 10)
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t\n", f.Name, strings.TrimPrefix(g.Name, "QOS GROUP "), strings.Join(cells, "\t"))
		}
	}
	return w.Flush()
}
