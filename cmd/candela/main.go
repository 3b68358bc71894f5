// Command candela tests hardware network stacks: it runs tests on a testbed, judges traces and shows what it saw.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
)

func main() {
	ctx, stop := signalContext(os.Args[1:])
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(int(status))
}

// impatience is how long after the first signal a second one is ignored: timeout(1) sends each signal twice. A later
// signal ends the process at once, and its testbeds end with it.
const impatience = time.Second

// signalContext returns a context that ends when this process gets a signal to stop. A node of a testbed keeps the
// default: until it executes its program it has nothing to clean up, and that would forget a signal caught here.
func signalContext(args []string) (context.Context, context.CancelFunc) {
	if len(args) > 1 && args[0] == "testbed" && args[1] == nodeCommand {
		return context.Background(), func() {}
	}
	stops := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // by nohup(1)
		stops = append(stops, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), stops...)
	context.AfterFunc(ctx, func() {
		time.Sleep(impatience)
		stop()
	})
	return ctx, stop
}

// outlivePipe makes a write to a closed pipe an error until the returned function is called. By default SIGPIPE would
// end the process before it removes its testbed. Children keep the default.
func outlivePipe() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// run executes one command line and returns the exit status; tests call it as main does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) orchestrator.Exit {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return orchestrator.ExitPass
	}
	status := orchestrator.ExitUsage
	var judged statusError
	switch {
	case interrupted(ctx, err):
		status, err = orchestrator.ExitInfrastructure, fmt.Errorf("stopped: %w", context.Cause(ctx))
	case errors.As(err, &judged):
		status, err = judged.status, judged.err
	case machineFailed(err):
		status = orchestrator.ExitInfrastructure
	}
	if err != nil {
		printError(stderr, err)
	}
	return status
}

// errorPrefix is the name of the program, or empty if the error begins with a place in a file: editors and CI systems
// find a place only at the start of a line.
func errorPrefix(err error) string {
	if placed.MatchString(err.Error()) {
		return ""
	}
	return "candela: "
}

// placed matches an error that begins with file, line and column.
var placed = regexp.MustCompile(`^[^:\n]+:[0-9]+:[0-9]+: `)

// statusError carries an exit status other than "bad usage" out of a command. With a nil err nothing is printed.
type statusError struct {
	status orchestrator.Exit
	err    error
}

func (e statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e statusError) Unwrap() error { return e.err }

// infrastructure makes err an infrastructure failure, exit status 4.
func infrastructure(err error) error { return statusError{orchestrator.ExitInfrastructure, err} }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "candela",
		Short: "Test hardware network stacks packet by packet",
		Long: `Candela tests RDMA NICs and switches. It puts a programmable switch between two
hosts, drops, marks or corrupts the packets that a test names, records every
packet, and judges the device under test from the trace.

Exit status:
  0  pass
  1  fail
  2  wrong usage or configuration
  3  invalid: the run proves nothing about the device
  4  Candela, the machine or the lab failed`,
		Example: `  candela run configs/quickstart.yml
  candela analyze capture.pcap
  candela trace show runs/quickstart --around 5`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(newRun(), newReport(), newAnalyze(), newTrace(), newConfig(), newTestbed(), newSwitchd(), newAgent(),
		newDetect(), newConform(), newReproduce(), newDiff(), newHistory(), newNightly(), newBundle(), newReplay(),
		newMinimize(), newFuzz(), newSonic(),
		newQueuing(), newVersion(), newMan())
	explainUsage(root)
	completeValues(root)
	completeWithoutPackage(root)
	// Texts are written for 80 columns; without this cobra does not wrap the flags.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages", "FlagUsagesWrapped 80"))
	return root
}
