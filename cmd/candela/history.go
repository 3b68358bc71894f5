package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
)

// historyVariable names the results store where no flag does.
const historyVariable = "CANDELA_HISTORY"

// historyFlags are common to the commands of the results store.
type historyFlags struct {
	store  string
	asJSON bool
}

func newHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Ask the results store: what broke, since when, and whose is it",
		Long: `The results store keeps every run with its findings, metrics and environment. It
is a file (SQLite), or a PostgreSQL server that a lab shares:

  --history FILE
  --history postgres://USER@HOST/DATABASE

Without the flag it is CANDELA_HISTORY, otherwise runs/history.db. candela run
--history writes to it, and so does candela history import.`,
	}
	cmd.AddCommand(newHistoryImport(), newHistoryList(), newHistoryShow(), newHistoryTrend(), newHistoryFlaky(),
		newHistoryCompare(), newHistoryOwners(), newHistoryBlame(), newHistoryTestbeds())
	return cmd
}

func (f *historyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.store, "history", "", "results store: a file, or postgres://HOST/DATABASE (default\n"+
		"CANDELA_HISTORY, or runs/history.db)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
}

// address is that of the store.
func (f *historyFlags) address() string {
	for _, address := range []string{f.store, os.Getenv(historyVariable)} {
		if address != "" {
			return address
		}
	}
	return filepath.Join("runs", history.DefaultFile)
}

// ask opens the store for a question and prints the answer as text or JSON.
func (f *historyFlags) ask(cmd *cobra.Command, question func(context.Context, *history.Store) (history.Answer, error)) (
	err error) {
	s, err := history.OpenExisting(cmd.Context(), f.address())
	if err != nil {
		return storeFailed(err)
	}
	defer func() { err = errors.Join(err, storeFailed(s.Close())) }()
	answer, err := question(cmd.Context(), s)
	if err != nil {
		return storeFailed(err)
	}
	return f.print(cmd, answer)
}

func (f *historyFlags) print(cmd *cobra.Command, answer history.Answer) error {
	out := cmd.OutOrStdout()
	if !f.asJSON {
		return machineError(answer.Text(out, textOptions(out, false)))
	}
	return machineError(writeIndented(out, answer))
}

func writeIndented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func machineError(err error) error {
	if err != nil {
		return infrastructure(err)
	}
	return nil
}

// storeFailed gives an error of the store its exit status: 2 for what the user named, 4 for the rest.
func storeFailed(err error) error {
	if err == nil || errors.Is(err, history.ErrUsage) || errors.Is(err, orchestrator.ErrInput) {
		return err
	}
	return infrastructure(err)
}

func newHistoryImport() *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "import DIR...",
		Short: "Write finished runs to the results store",
		Long: `Write run directories, sweeps, and all runs below other directories to the
results store. It is made if it does not exist. Importing a run again changes
nothing; a later analysis of a run replaces the earlier one.

The exit status is 2 if a run could not be read; all others are imported.`,
		Example: `  candela history import runs
  candela history import runs/2026-11-20 --history postgres://lab@db/candela`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			dirs, err := history.Runs(args)
			if err != nil {
				return storeFailed(err)
			}
			s, err := history.Open(cmd.Context(), f.address())
			if err != nil {
				return storeFailed(err)
			}
			defer func() { err = errors.Join(err, storeFailed(s.Close())) }()
			m := newMeter(cmd.ErrOrStderr(), "import", len(dirs))
			done, err := s.Import(cmd.Context(), dirs, func(n int) { m.at(n, "") })
			m.end()
			if err != nil {
				return storeFailed(err)
			}
			if err := f.print(cmd, &done); err != nil {
				return err
			}
			if len(done.Unreadable) > 0 {
				return errors.New(strings.Join(done.Unreadable, "\n"))
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

func newHistoryList() *cobra.Command {
	var f historyFlags
	var testbed, verdict, from, to string
	var limit int
	cmd := &cobra.Command{
		Use:   "list [TEST...]",
		Short: "List runs, the latest first",
		Long: `List the runs of a test, or of all tests, the latest first. TEST is the
metadata.id of a test, its name, or its file and name; * is any text, and
TEST@POINT is one point of a sweep.`,
		Example: `  candela history list
  candela history list drop-* --verdict fail --from 2026-11-01`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter := history.Filter{Tests: args, Testbed: testbed, Limit: limit}
			if limit < 0 {
				return fmt.Errorf("--limit %d: want at least 0", limit)
			}
			if verdict != "" {
				v, err := history.ParseVerdict(verdict)
				if err != nil {
					return fmt.Errorf("--verdict: %w", err)
				}
				filter.Verdict = &v
			}
			for _, n := range []struct {
				flag, text string
				to         **history.Night
			}{{"--from", from, &filter.From}, {"--to", to, &filter.To}} {
				if n.text == "" {
					continue
				}
				night, err := history.ParseNight(n.text)
				if err != nil {
					return fmt.Errorf("%s: %w", n.flag, err)
				}
				*n.to = &night
			}
			return f.ask(cmd, func(ctx context.Context, s *history.Store) (history.Answer, error) {
				list, err := s.List(ctx, filter)
				return &history.RunList{Runs: list}, err
			})
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&testbed, "testbed", "", "only runs on this testbed")
	fl.StringVar(&verdict, "verdict", "", "only runs with this verdict: pass, fail, invalid or broken")
	fl.StringVar(&from, "from", "", "first night, such as 2026-11-20")
	fl.StringVar(&to, "to", "", "last night")
	fl.IntVar(&limit, "limit", 20, "how many runs; 0: all")
	return cmd
}

func newHistoryShow() *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: environment, findings, metrics and where its files are",
		Long: `Show what the results store has of a run. RUN is its id, as candela history list
prints it, or the beginning of it.`,
		Example: `  candela history show 3f2a81c0`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.ask(cmd, func(ctx context.Context, s *history.Store) (history.Answer, error) {
				return s.Show(ctx, args[0])
			})
		},
	}
	f.add(cmd)
	return cmd
}

// windowFlags choose the nights of a question.
type windowFlags struct {
	night  string
	nights int
}

func (f *windowFlags) add(cmd *cobra.Command, nights int) {
	cmd.Flags().StringVar(&f.night, "night", "", "last night, such as 2026-11-20 (default the latest)")
	cmd.Flags().IntVar(&f.nights, "nights", nights, "how many nights")
}

func (f *windowFlags) window() (w history.Window, err error) {
	if f.nights < 1 || f.nights > maxNights {
		return w, fmt.Errorf("--nights %d: want 1 to %d", f.nights, maxNights)
	}
	w.Nights = f.nights
	if f.night != "" {
		night, err := history.ParseNight(f.night)
		if err != nil {
			return w, fmt.Errorf("--night: %w", err)
		}
		w.Last = &night
	}
	return w, nil
}

const maxNights = 10_000

// newQuestion returns a command that asks about nights.
func newQuestion(cmd *cobra.Command, nights int,
	ask func(context.Context, *history.Store, history.Window, []string) (history.Answer, error)) *cobra.Command {
	var f historyFlags
	var w windowFlags
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		window, err := w.window()
		if err != nil {
			return err
		}
		return f.ask(cmd, func(ctx context.Context, s *history.Store) (history.Answer, error) {
			return ask(ctx, s, window, args)
		})
	}
	f.add(cmd)
	w.add(cmd, nights)
	return cmd
}

func newHistoryTrend() *cobra.Command {
	var testbed string
	cmd := newQuestion(&cobra.Command{
		Use:   "trend [METRIC [TEST...]]",
		Short: "Show a metric night after night, or all metrics that shifted",
		Long: `Show the median of a metric night after night, where its level shifted, how much
it usually changes, and the smallest change that two nights would show. Without
METRIC, list the shifts of all metrics. * in METRIC and TEST is any text.

A shift is a difference of a night, or of the last nights together, from the
level before that chance does not explain. All metrics of a testbed together
cause fewer than one false alarm in ten nights.`,
		Example: `  candela history trend
  candela history trend retrans.nack-reaction drop-* --nights 90`,
		Args: cobra.ArbitraryArgs,
	}, 30, func(ctx context.Context, s *history.Store, w history.Window, args []string) (history.Answer, error) {
		if len(args) == 0 {
			return s.Shifts(ctx, w)
		}
		return s.Trend(ctx, args[0], args[1:], testbed, w)
	})
	cmd.Flags().StringVar(&testbed, "testbed", "", "only this testbed")
	return cmd
}

func newHistoryFlaky() *cobra.Command {
	return newQuestion(&cobra.Command{
		Use:   "flaky",
		Short: "List the tests that fail and pass without a change",
		Long: `List the tests whose failures come and go in one environment, with the rate of
failures and its 95 % interval. A test that broke or was repaired is not flaky,
and runs that the lab spoiled do not count.`,
		Example: `  candela history flaky --nights 60`,
		Args:    cobra.NoArgs,
	}, 30, func(ctx context.Context, s *history.Store, w history.Window, _ []string) (history.Answer, error) {
		return s.Flaky(ctx, w)
	})
}

func newHistoryOwners() *cobra.Command {
	return newQuestion(&cobra.Command{
		Use:   "owners",
		Short: "List the failing tests of a night by owner",
		Long: `List the failing tests of a night by metadata.owner: new, still failing, or
flaky, and since when.`,
		Example: `  candela history owners --night 2026-11-20`,
		Args:    cobra.NoArgs,
	}, 30, func(ctx context.Context, s *history.Store, w history.Window, _ []string) (history.Answer, error) {
		return s.Owners(ctx, w)
	})
}

func newHistoryTestbeds() *cobra.Command {
	return newQuestion(&cobra.Command{
		Use:   "testbeds",
		Short: "Show which change each testbed could show, and how testbeds differ",
		Long: `Show for each testbed the smallest change of a metric that two nights would
show, how much runs and nights vary, how its metrics differ from those of the
other testbeds, and how many runs were not judged.`,
		Example: `  candela history testbeds --nights 60`,
		Args:    cobra.NoArgs,
	}, 30, func(ctx context.Context, s *history.Store, w history.Window, _ []string) (history.Answer, error) {
		return s.Beds(ctx, w)
	})
}

func newHistoryBlame() *cobra.Command {
	var testbed string
	cmd := newQuestion(&cobra.Command{
		Use:   "blame TEST|FINDING",
		Short: "Find the last good run, the first bad one and what changed",
		Long: `Find the last good and the first bad run of a test, or of a finding by its
identity, and what changed between them: environment, candela, the test. Of a
test that fails in some runs only, the night of the change has an interval.
TEST is named as in candela history list.`,
		Example: `  candela history blame drop-retransmission
  candela history blame 5c0de91b22 --testbed lab-2`,
		Args: cobra.ExactArgs(1),
	}, 90, func(ctx context.Context, s *history.Store, w history.Window, args []string) (history.Answer, error) {
		return s.Blame(ctx, args[0], testbed, w)
	})
	cmd.Flags().StringVar(&testbed, "testbed", "", "only this testbed")
	return cmd
}

func newHistoryCompare() *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two nights, firmwares or directories of runs",
		Long: `Compare the runs of B with those of A. A and B are references:
  - last-night; night-2026-11-20
  - last-green: for each test of B, the latest night before with no failure
  - fw:28.39.1002, driver:, kernel:, os:, tool:   the latest night with it
  - run:ID, or a directory with runs
Changes of the environment come first. Findings are new, flaky, not run, fixed,
still there or waived. A metric has changed if a Mann-Whitney test says so and
the change is greater than its usual one from night to night.

The exit status is 0 if nothing is new, fixed, flaky or not run and no metric
has changed, otherwise 1.`,
		Example: `  candela history compare last-green last-night
  candela history compare fw:28.39.1002 fw:28.41.1000
  candela history compare night-2026-11-19 runs/tonight --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.compare(cmd, args[0], args[1]) },
	}
	f.add(cmd)
	return cmd
}

// compare compares two references. Directories need no store.
func (f *historyFlags) compare(cmd *cobra.Command, a, b string) (err error) {
	var s *history.Store
	if f.store != "" || os.Getenv(historyVariable) != "" || !isDir(a) || !isDir(b) {
		if s, err = history.OpenExisting(cmd.Context(), f.address()); err != nil {
			return storeFailed(err)
		}
		defer func() {
			if closing := s.Close(); closing != nil {
				err = errors.Join(err, infrastructure(closing))
			}
		}()
	}
	c, err := s.Compare(cmd.Context(), a, b)
	if err != nil {
		return storeFailed(err)
	}
	if err := f.print(cmd, c); err != nil {
		return err
	}
	if !c.Same() {
		return statusError{status: orchestrator.ExitFail}
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// recorder writes the runs of a command to the results store as they end. Nil records nothing.
type recorder struct {
	store   *history.Store
	address string
	missed  []string // directories of runs that are not in the store
	failure error    // the first
}

// openRecorder opens the store that a flag or the environment names; nil: none does.
func openRecorder(ctx context.Context, flag string) (*recorder, error) {
	address := flag
	if address == "" {
		address = os.Getenv(historyVariable)
	}
	if address == "" {
		return nil, nil
	}
	s, err := history.Open(ctx, address)
	if err != nil {
		return nil, storeFailed(err)
	}
	return &recorder{store: s, address: address}, nil
}

// record writes a run. A store that fails does not stop the runs: their directories can be imported later.
func (r *recorder) record(ctx context.Context, o *orchestrator.Outcome) {
	if r == nil || o.Dir == "" {
		return
	}
	run, err := history.FromOutcome(o)
	if err == nil {
		_, err = r.store.Ingest(context.WithoutCancel(ctx), run)
	}
	if err != nil {
		r.missed = append(r.missed, o.Dir)
		if r.failure == nil {
			r.failure = err
		}
	}
}

// recordAnalysis writes the later analysis of a run to a results store; none without a store.
func recordAnalysis(ctx context.Context, store string, args []string, o *orchestrator.Outcome) (err error) {
	if store == "" {
		return nil
	}
	s, err := history.Open(ctx, store)
	if err != nil {
		return storeFailed(err)
	}
	defer func() { err = errors.Join(err, storeFailed(s.Close())) }()
	run, err := history.Reanalysed(args[0], o, toolVersion(), time.Now())
	if err == nil {
		_, err = s.Ingest(ctx, run)
	}
	return storeFailed(err)
}

// comparable refuses tests that compare themselves with earlier runs where there are none.
func comparable(plans []planned, r *recorder) error {
	for i := range plans {
		if ref := plans[i].baseline(); r == nil && ref != "" {
			return fmt.Errorf("%s: expect.baseline: %s needs a results store: give --history or set %s", plans[i].file, ref,
				historyVariable)
		}
	}
	return nil
}

// baseline returns the earlier runs that the test compares itself with, as it names them; empty: none.
func (p *planned) baseline() string {
	switch {
	case p.ofSwitch != nil:
		return p.ofSwitch.Test.Expect.Baseline.Ref
	case p.Plan != nil:
		return p.Test.Expect.Baseline.Ref
	}
	return ""
}

// baseline gives a run the earlier ones that its test compares itself with. Without them the test says so; a store that
// fails does not stop the runs.
func (r *recorder) baseline(ctx context.Context, stderr io.Writer, p *planned, o *orchestrator.Options) {
	ref := p.baseline()
	if r == nil || ref == "" {
		return
	}
	name, point := p.named()
	var metadata *config.Metadata
	var testbed string
	if t := p.ofSwitch; t != nil {
		metadata, testbed = t.Test.Metadata, t.Testbed()
	} else {
		metadata, testbed = p.Test.Metadata, p.Test.Testbed.Name
	}
	key := history.Test{Path: o.SuitePath(), Name: name}
	if m := metadata; m != nil {
		key.ID, key.Was = m.ID, m.Was
	}
	night := history.NightOf(o.Wall())
	if o.Night != "" {
		night, _ = history.ParseNight(o.Night) // checked
	}
	var err error
	if o.Baseline, err = r.store.Baseline(ctx, &key, point.Assigned(), testbed, ref, night); err != nil {
		printProblem(stderr, "warning: expect.baseline: "+err.Error())
	}
}

// close closes the store and says what is missing.
func (r *recorder) close() error {
	if r == nil {
		return nil
	}
	err := r.store.Close()
	if r.failure != nil {
		err = fmt.Errorf("%w\n  not recorded: %s\n  candela history import %s records them", errors.Join(r.failure, err),
			strings.Join(r.missed, ", "), strings.Join(r.missed, " "))
	}
	return machineError(err)
}

// unrecorded adds to what a command came to that runs are not in the store. That outranks every verdict.
func unrecorded(err, closing error) error {
	var judged statusError
	if errors.As(err, &judged) && judged.err == nil {
		return closing
	}
	return errors.Join(err, closing)
}
