package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Condition is the state of a component's process, ordered by how well it explains a failure.
type Condition int

// Conditions.
const (
	Running Condition = iota // or unknown
	Failed                   // it ended with an error, which may be a consequence
	Stopped                  // by a signal
	Ended                    // without an error, or for an unknown reason
	Killed                   // by a signal
)

// Fate is the state of a component's process.
type Fate struct {
	Condition Condition
	Text      string // such as "process 17 was killed (SIGKILL)"
}

// A Fates returns the fates of all components by name, for testbeds whose processes run on this machine.
type Fates func() map[string]Fate

// Culprit returns an error that names the components whose condition best explains a failure; nil if all run.
func (f Fates) Culprit(order []string) error {
	if f == nil {
		return nil
	}
	worst, list := Running, []string(nil)
	fates := f()
	for _, name := range order {
		switch fate := fates[name]; {
		case fate.Condition == Running || fate.Condition < worst:
		default:
			if fate.Condition > worst {
				worst, list = fate.Condition, nil
			}
			list = append(list, name+": "+fate.Text)
		}
	}
	if list == nil {
		return nil
	}
	return errors.New(strings.Join(list, "; "))
}

// Blame returns the cause of a step's error. A component whose process was killed, ended or stopped takes precedence
// over the calls that failed because of it; so does a standstill of this process.
func (t *Testbed) Blame(err error) error {
	if err == nil {
		return nil
	}
	t.grace()
	cause := t.cause(err)
	t.blamed = t.blamed || t.alive.Err() != nil
	return cause
}

// watchGrace is the time for the cause of a failed call to become visible.
const watchGrace = 100 * time.Millisecond

// grace gives the watch and the kernel time to notice the failure.
func (t *Testbed) grace() {
	wait := time.NewTimer(watchGrace)
	defer wait.Stop()
	if t.m.Fates == nil && t.alive.Err() != nil {
		return
	}
	<-wait.C
}

func (t *Testbed) cause(err error) error {
	if culprit := t.m.Fates.Culprit(t.names()); culprit != nil {
		t.fail(culprit)
		return culprit
	}
	if gone := context.Cause(t.alive); gone != nil && !errors.Is(gone, errOver) {
		err = gone
	}
	if stood := t.stood.longest(); stood > standstillLimit && unanswered(err) {
		own := fmt.Errorf("orchestrator: this process stood still for %v: it was stopped or got no CPU; the run had lost "+
			"its hold of the testbed by then",
			stood.Round(100*time.Millisecond))
		if t.m.Fates == nil { // the component's state is unknown
			own = fmt.Errorf("%w (%w)", own, err)
		}
		return own
	}
	return err
}

// unanswered reports whether err may follow from a time in which this process received nothing.
func unanswered(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() { //nolint:exhaustive // the others are answers
	case codes.DeadlineExceeded, codes.Canceled, codes.Unavailable, codes.Aborted, codes.FailedPrecondition:
		return true
	}
	return false
}

// names lists the components in the order for errors.
func (t *Testbed) names() (list []string) {
	for _, c := range t.agents() {
		list = append(list, c.Name())
	}
	return append(list, t.m.Switch.Name)
}
