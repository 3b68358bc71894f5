package main

import (
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"
)

// How often a command with many runs reports its progress: on a terminal, where the line is rewritten, and elsewhere.
const (
	meterLine  = time.Second
	meterEvery = time.Minute
)

// A meter reports the progress of a command with many runs: in one line on a terminal, otherwise one line a minute,
// also during a long run. Its methods may be called by several goroutines.
type meter struct {
	name  string
	most  bool          // the number of runs is a limit
	limit time.Duration // of time; 0: none

	lock  sync.Mutex
	w     io.Writer
	over  int    // runs
	of    int    // runs; 0: unknown
	now   string // current step; may be empty
	start time.Time
	timer *time.Timer // nil once it has ended
	every time.Duration
	line  bool // of a terminal
	width int  // of it
	still bool // the line is cleared until the next run
}

// newMeter reports progress towards a number of runs on w until end.
func newMeter(w io.Writer, name string, of int) *meter {
	m := &meter{w: w, name: name, of: of, start: time.Now(), line: colourful(w), width: defaultColumns}
	if width := terminalWidth(w); width > 0 {
		m.width = width
	}
	m.every = meterEvery
	if m.line {
		m.every = meterLine
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.timer = time.AfterFunc(m.every, m.tick)
	return m
}

// defaultColumns is the width of a terminal of unknown width.
const defaultColumns = 80

// atMost makes the number of runs a limit, and limits the time if limit is not 0.
func (m *meter) atMost(limit time.Duration) *meter {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.most, m.limit = true, limit
	return m
}

// expect adds runs to the expected number.
func (m *meter) expect(runs int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.of += runs
}

// done counts one completed run.
func (m *meter) done() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.over++
	m.still = false
	m.show()
}

// at sets the number of completed runs and the current step.
func (m *meter) at(over int, doing string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.over, m.now, m.still = over, doing, false
	m.show()
}

// doing sets the current step.
func (m *meter) doing(what string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.now, m.still = what, false
	m.show()
}

// show writes the line of a terminal.
func (m *meter) show() {
	if m.line && !m.still && m.timer != nil {
		fmt.Fprintf(m.w, "\r\x1b[K%s", clip(m.text(), m.width-1))
	}
}

// tick reports progress and schedules the next report.
func (m *meter) tick() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.timer == nil {
		return
	}
	m.show()
	if !m.line {
		fmt.Fprintf(m.w, "candela: %s\n", m.text())
	}
	m.timer.Reset(m.every)
}

// text is the line of progress.
func (m *meter) text() string {
	took := time.Since(m.start)
	text := fmt.Sprintf("%s: %s done", m.name, count(m.over, "run"))
	switch {
	case m.of > 0 && m.most:
		text = fmt.Sprintf("%s: %d of at most %d runs done", m.name, m.over, m.of)
	case m.of > 0:
		text = fmt.Sprintf("%s: %d of %d runs done", m.name, m.over, m.of)
	}
	text += fmt.Sprintf(", %v%s", took.Round(time.Second), m.left(took))
	if m.now != "" {
		text += "; " + m.now
	}
	return text
}

// left estimates the remaining time: the remaining runs at the speed so far, or the rest of the time limit.
func (m *meter) left(took time.Duration) string {
	rest := time.Duration(-1)
	if m.of > 0 && m.over > 0 {
		rest = max(took/time.Duration(m.over)*time.Duration(m.of-m.over), 0)
	}
	if m.limit > 0 && (rest < 0 || m.limit-took < rest) {
		rest = max(m.limit-took, 0)
	}
	word := "about"
	if m.most {
		word = "at most"
	}
	if rest < 0 {
		return ""
	}
	return fmt.Sprintf(", %s %v left", word, rest.Round(time.Second))
}

// clear clears the line of a terminal until the next run, so that other text can be written.
func (m *meter) clear() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.still = true; m.line {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}

// end clears the line of a terminal and stops the meter.
func (m *meter) end() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.timer == nil {
		return
	}
	m.timer.Stop()
	m.timer = nil
	if m.line {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}

// clip cuts a line to the width of the terminal: a wrapped line cannot be rewritten.
func clip(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}
