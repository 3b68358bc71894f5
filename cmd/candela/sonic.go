package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/lab/sonic"
)

// sonicFlags are the flags of all sonic commands.
type sonicFlags struct {
	address   string
	databases string
	timeout   time.Duration
	asJSON    bool
}

func newSonic() *cobra.Command {
	flags := &sonicFlags{}
	cmd := &cobra.Command{
		Use:   "sonic",
		Short: "Set up packet trimming on a SONiC switch and read its counters",
		Long: `Set up packet trimming on a SONiC switch and read its counters through the
switch's Redis databases. On the switch use their Unix socket; elsewhere use a
local port that SSH forwards to the switch. Redis does not encrypt, so other
addresses are refused.`,
		Example: `  ssh -L 6379:127.0.0.1:6379 admin@switch
  candela sonic show --address 127.0.0.1:6379
  candela sonic apply trimming.json --state before.json
  candela sonic counters Ethernet0
  candela sonic restore before.json`,
	}
	f := cmd.PersistentFlags()
	f.StringVar(&flags.address, "address", sonic.DefaultAddress,
		"address of the switch's databases: unix:/PATH or LOOPBACK:PORT")
	f.StringVar(&flags.databases, "database-config", "",
		"the switch's database_config.json, if its database numbers are not SONiC's defaults")
	f.DurationVar(&flags.timeout, "timeout", 30*time.Second, "longest time of the whole command")
	cmd.AddCommand(newSonicShow(flags), newSonicApply(flags), newSonicCounters(flags), newSonicRestore(flags))
	return cmd
}

// with opens the switch, runs use under the deadline and closes it.
func (f *sonicFlags) with(cmd *cobra.Command, use func(context.Context, *sonic.Switch) error) error {
	ctx, stop := context.WithTimeout(cmd.Context(), f.timeout)
	defer stop()
	o := sonic.Options{Address: f.address}
	if f.databases != "" {
		document, err := os.ReadFile(f.databases)
		if err != nil {
			return err
		}
		if o.Databases, err = sonic.ParseDatabases(document); err != nil {
			return fmt.Errorf("%s: %w", f.databases, err)
		}
	}
	sw, err := sonic.Open(ctx, o)
	if err != nil {
		return infrastructure(err)
	}
	if err := errors.Join(use(ctx, sw), sw.Close()); err != nil {
		return infrastructure(err)
	}
	return nil
}

func newSonicShow(flags *sonicFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the trimming settings and capabilities of the switch",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.with(cmd, func(ctx context.Context, sw *sonic.Switch) error {
				t, set, err := sw.Trimming(ctx)
				if err != nil {
					return err
				}
				c, err := sw.Capabilities(ctx)
				if err != nil {
					return err
				}
				return writeTrimming(cmd.OutOrStdout(), t, set, c)
			})
		},
	}
}

func writeTrimming(out io.Writer, t sai.Trimming, set bool, c sonic.Capabilities) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "trimming capable\t%s\n", c.Trimming)
	for _, m := range []sai.DSCPMode{sai.DSCPValue, sai.FromTC} {
		fmt.Fprintf(w, "DSCP mode %v\t%s\n", m, c.DSCPModes[m])
	}
	for _, m := range []sai.QueueMode{sai.Static, sai.Dynamic} {
		fmt.Fprintf(w, "queue mode %v\t%s\n", m, c.QueueModes[m])
	}
	if !set {
		fmt.Fprintln(w, "SWITCH_TRIMMING|GLOBAL\tnot set; the defaults follow")
	}
	fields := sonic.Rows(sai.Settings{Trimming: t}, nil)[0].Fields
	for _, name := range []string{"size", "dscp_value", "tc_value", "queue_index"} {
		value, ok := fields[name]
		if !ok {
			value = "N/A"
		}
		fmt.Fprintf(w, "%s\t%s\n", name, value)
	}
	return w.Flush()
}

func newSonicApply(flags *sonicFlags) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Save the current settings, then write new ones to CONFIG_DB",
		Long: `Save the rows that FILE replaces in --state, then write FILE to CONFIG_DB.
candela sonic restore undoes it.

FILE has the form of SONiC's config_db.json, with the tables SWITCH_TRIMMING,
BUFFER_PROFILE, BUFFER_QUEUE, TC_TO_DSCP_MAP, PORT_QOS_MAP, ACL_TABLE_TYPE,
ACL_TABLE and ACL_RULE.`,
		Example: `  candela sonic apply trimming.json --state before.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			document, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			rows, err := sonic.ParseDocument(document)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return flags.with(cmd, func(ctx context.Context, sw *sonic.Switch) error {
				change, err := sw.Plan(ctx, rows)
				if err != nil {
					return err
				}
				if err := saveChange(state, change); err != nil {
					return err
				}
				if err := sw.Apply(ctx, change); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d rows written; undo with: candela sonic restore %s\n", len(rows), state)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&state, "state", "sonic-before.json", "file for the replaced rows; it must not exist yet")
	return cmd
}

// saveChange writes the state file. An existing one has not been restored yet, so it is never replaced.
func saveChange(path string, c sonic.Change) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s contains the settings of before an earlier apply: restore them first, or name a new --state",
			path)
	}
	if err != nil {
		return err
	}
	_, err = c.WriteTo(f)
	return errors.Join(err, f.Sync(), f.Close())
}

func newSonicRestore(flags *sonicFlags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restore STATE",
		Short: "Write the settings in STATE back, and remove STATE",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			document, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			change, err := sonic.ParseChange(document)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return flags.with(cmd, func(ctx context.Context, sw *sonic.Switch) error {
				left, err := sw.Restore(ctx, change, force)
				for _, l := range left {
					fmt.Fprintf(cmd.OutOrStdout(), "not removed (SONiC ignores the removal of this row): %s\n", l)
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d rows restored\n", len(change.Rows))
				return os.Remove(args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also overwrite rows that have changed since apply")
	return cmd
}

func newSonicCounters(flags *sonicFlags) *cobra.Command {
	var settled, check bool
	var since string
	cmd := &cobra.Command{
		Use:   "counters [PORT…]",
		Short: "Print the trimming counters and check their sums",
		Long: `Print the trimming counters of all ports, or of each PORT. Counters are as old
as the switch's last poll; --settled waits until they stop changing. A switch
never resets them: save a snapshot with --json before the traffic and subtract
it with --since.

With --check the exit status is 1 if the sums are wrong:
  - TRIM = TX_TRIM + DROPPED_TRIM
  - a port is the sum of its queues, the switch the sum of its ports
  - trimmed packets count as dropped
Counters that the switch does not keep (N/A) are ignored.`,
		Example: `  candela sonic counters --json > before.json
  candela sonic counters --settled --since before.json --check`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var broken []sai.Broken
			err := flags.with(cmd, func(ctx context.Context, sw *sonic.Switch) error {
				read := sw.Counters
				if settled {
					read = sw.Settled
				}
				s, err := read(ctx, args...)
				if err == nil {
					s, err = subtract(s, since)
				}
				if err != nil {
					return err
				}
				broken = s.Invariants()
				if flags.asJSON {
					enc := json.NewEncoder(cmd.OutOrStdout())
					enc.SetIndent("", "  ")
					return enc.Encode(s)
				}
				return writeCounters(cmd.OutOrStdout(), s)
			})
			if err != nil || !check || len(broken) == 0 {
				return err
			}
			for _, b := range broken {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s is %s, want %s\n", brokenAt(b), b.Counter, b.Actual, b.Expected)
			}
			return statusError{orchestrator.ExitFail, nil}
		},
	}
	cmd.Flags().BoolVar(&settled, "settled", false,
		"wait until two readings, 1.5 polls apart, are equal")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print the snapshot as JSON")
	cmd.Flags().StringVar(&since, "since", "", "file of a snapshot to subtract, saved with --json")
	cmd.Flags().BoolVar(&check, "check", false, "exit with status 1 if the sums are wrong")
	return cmd
}

func brokenAt(b sai.Broken) string {
	switch {
	case b.Port == "":
		return "switch"
	case b.Queue < 0:
		return b.Port
	}
	return fmt.Sprintf("%s UC%d", b.Port, b.Queue)
}

// subtract subtracts the snapshot in a file, if there is one, from s.
func subtract(s sai.Snapshot, file string) (sai.Snapshot, error) {
	if file == "" {
		return s, nil
	}
	document, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	var base sai.Snapshot
	if err := json.Unmarshal(document, &base); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	if base.Schema != sai.Schema {
		return s, fmt.Errorf("%s: schema %q, want %q", file, base.Schema, sai.Schema)
	}
	d, err := s.Since(base)
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// writeCounters prints the columns of SONiC's own show commands.
func writeCounters(out io.Writer, s sai.Snapshot) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "Port\tTxQ\tCounter/pkts\tDrop/pkts\tTrim/pkts\tTrimSent/pkts\tTrimDrop/pkts\t")
	for _, p := range s.Ports {
		for i, q := range p.Queues {
			fmt.Fprintf(w, "%s\tUC%d\t%v\t%v\t%v\t%v\t%v\t\n", p.Name, i, q.Packets, q.DroppedPackets, q.Trim, q.TxTrim,
				q.DroppedTrim)
		}
		fmt.Fprintf(w, "%s\tall\t%v\t%v\t%v\t%v\t%v\t\n", p.Name, p.OutPackets, p.OutDiscards, p.Trim, p.TxTrim,
			p.DroppedTrim)
	}
	fmt.Fprintf(w, "switch\t\t\t\t\t%v\t%v\t\n", s.TxTrim, s.DroppedTrim)
	for _, a := range s.ACL {
		fmt.Fprintf(w, "%s\tACL\t%v\t\t\t\t\t\n", a.Rule, a.Packets)
	}
	return w.Flush()
}
