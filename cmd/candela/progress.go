package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// meterEvery is how often a command that counts says how far it is where stderr is no terminal.
const meterEvery = time.Minute

// A meter says how far a command with many runs is: at each of them on a terminal, otherwise once in a while.
type meter struct {
	w     io.Writer
	name  string
	most  int           // runs
	limit time.Duration // of time; 0: none
	now   func() time.Time

	start, said time.Time
	line        bool // of a terminal: it is written anew
}

func newMeter(w io.Writer, name string, most int, limit time.Duration) *meter {
	now := time.Now()
	return &meter{w: w, name: name, most: most, limit: limit, now: time.Now, start: now, said: now, line: colourful(w)}
}

// begin says that a run begins, counted from 1.
func (m *meter) begin(run int) {
	now := m.now()
	text := fmt.Sprintf("%s: run %d of at most %d, %v%s", m.name, run, m.most, now.Sub(m.start).Round(time.Second),
		m.left(run, now.Sub(m.start)))
	switch {
	case m.line:
		fmt.Fprintf(m.w, "\r\x1b[K%s", text)
	case now.Sub(m.said) >= meterEvery:
		fmt.Fprintf(m.w, "candela: %s\n", text)
		m.said = now
	}
}

// left is the estimate of what is to come: the rest of the runs as fast as those that are over, or the rest of the
// time.
func (m *meter) left(run int, took time.Duration) string {
	if run < 2 {
		return ""
	}
	rest := took / time.Duration(run-1) * time.Duration(m.most-run+1)
	if m.limit > 0 {
		rest = min(rest, m.limit-took)
	}
	return fmt.Sprintf(", at most %v left", max(rest, 0).Round(time.Second))
}

// end clears the line of a terminal.
func (m *meter) end() {
	if m.line {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}

// sayEvery is how often a run that stays in one step says so.
const sayEvery = 10 * time.Second

// A vigil says on stderr which step of a run takes long: nobody has to guess whether it hangs.
type vigil struct {
	w    io.Writer
	name string

	lock  sync.Mutex
	step  string
	since time.Time
	timer *time.Timer // nil once it is over
}

// watch starts with the step that a run takes before it tells of any.
func watch(w io.Writer, name string, every time.Duration) *vigil {
	v := &vigil{w: w, name: name, step: "build testbed", since: time.Now()}
	v.lock.Lock()
	defer v.lock.Unlock()
	v.timer = time.AfterFunc(every, func() { v.say(every) })
	return v
}

func (v *vigil) say(every time.Duration) {
	v.lock.Lock()
	defer v.lock.Unlock()
	if v.timer == nil {
		return
	}
	if took := time.Since(v.since); took >= every {
		fmt.Fprintf(v.w, "candela: %s: %s has taken %v so far\n", v.name, v.step, took.Round(time.Second))
	}
	v.timer.Reset(every)
}

// at says that a step begins.
func (v *vigil) at(step string) {
	v.lock.Lock()
	defer v.lock.Unlock()
	v.step, v.since = step, time.Now()
}

// end returns when nothing more will be said.
func (v *vigil) end() {
	v.lock.Lock()
	defer v.lock.Unlock()
	v.timer.Stop()
	v.timer = nil
}
