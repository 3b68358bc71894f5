package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// said runs a command that reports to a meter, in a bubble with simulated time, and returns the output lines.
func said(t *testing.T, m func(w *bytes.Buffer) *meter, command func(m *meter)) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		of := m(&out)
		command(of)
		of.end()
		time.Sleep(time.Hour) // after its end a meter must be silent
		lines = strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	})
	return lines
}

func TestAMeterSaysHowFarACommandIsOnceAMinute(t *testing.T) {
	got := said(t, func(w *bytes.Buffer) *meter { return newMeter(w, "minimize t", 100).atMost(10 * time.Minute) },
		func(m *meter) {
			for range 7 {
				time.Sleep(21 * time.Second)
				m.done()
			}
		})
	want := []string{
		"candela: minimize t: 2 of at most 100 runs done, 1m0s, at most 9m0s left",
		"candela: minimize t: 5 of at most 100 runs done, 2m0s, at most 8m0s left",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAMeterSpeaksWhileOneLongRunGoesOn(t *testing.T) {
	got := said(t, func(w *bytes.Buffer) *meter { return newMeter(w, "run", 4) }, func(m *meter) {
		time.Sleep(30 * time.Second)
		m.at(1, "long: run traffic")
		time.Sleep(100 * time.Second)
	})
	want := []string{
		"candela: run: 1 of 4 runs done, 1m0s, about 3m0s left; long: run traffic",
		"candela: run: 1 of 4 runs done, 2m0s, about 6m0s left; long: run traffic",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAMeterWithoutAnEstimateCounts(t *testing.T) {
	got := said(t, func(w *bytes.Buffer) *meter { return newMeter(w, "fuzz t", 0).atMost(90 * time.Second) },
		func(m *meter) {
			m.at(17, "")
			time.Sleep(70 * time.Second)
		})
	if diff := cmp.Diff([]string{"candela: fuzz t: 17 runs done, 1m0s, at most 30s left"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestATerminalHasOneLineThatFits(t *testing.T) {
	var shown string
	said(t, func(w *bytes.Buffer) *meter {
		m := newMeter(w, "detect", 1000)
		m.line, m.width = true, 40
		return m
	}, func(m *meter) {
		m.at(1, strings.Repeat("long ", 20))
		shown = m.w.(*bytes.Buffer).String()
	})
	line, ok := strings.CutPrefix(shown, "\r\x1b[K")
	if !ok || utf8.RuneCountInString(line) != 39 || strings.Contains(line, "\n") {
		t.Errorf("%q", shown)
	}
}
