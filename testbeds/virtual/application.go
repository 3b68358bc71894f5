package virtual

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
)

// application wakes the workload when it has work due, such as a receive after a delay.
type application struct {
	testbed *Testbed
	task    task
	fault   error
}

func (a *application) act(now clock.Time) {
	w := a.testbed.workload
	if err := w.HandleTimer(now); err != nil && a.fault == nil {
		a.fault = err
	}
	a.arm(&a.testbed.engine, w)
	a.testbed.kickHosts(now)
}

func (a *application) arm(e *engine, w *generator.Workload) {
	if at := w.NextTimer(); at != clock.Never {
		e.schedule(&a.task, at)
	}
}
