package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestARunThatStaysInOneStepSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		v := watch(&said, "quickstart", sayEvery)
		time.Sleep(4 * time.Second)
		v.at("prepare hosts")
		time.Sleep(7 * time.Second) // a look finds the step too young
		v.at("run traffic")
		time.Sleep(35 * time.Second)
		v.end()
		time.Sleep(time.Minute)
		got := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(got) != 2 && len(got) != 3 || !strings.HasPrefix(got[0], "candela: quickstart: run traffic has taken 1") {
			t.Errorf("said:\n%s", said.String())
		}
	})
}

func TestAMeterSaysHowFarACommandIsOnceAMinute(t *testing.T) {
	var out strings.Builder
	m := newMeter(&out, "minimize t", 100, 10*time.Minute)
	at := m.start
	m.now = func() time.Time { return at }
	for run := 1; run <= 8; run++ {
		m.begin(run)
		at = at.Add(20 * time.Second)
	}
	m.end()
	want := "candela: minimize t: run 4 of at most 100, 1m0s, at most 9m0s left\n" +
		"candela: minimize t: run 7 of at most 100, 2m0s, at most 8m0s left\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestAMeterExpectsTheRestOfTheRunsToBeAsFast(t *testing.T) {
	m := &meter{most: 10}
	if got := m.left(5, 8*time.Second); got != ", at most 12s left" {
		t.Errorf("%q", got)
	}
	if got := m.left(1, 0); got != "" {
		t.Errorf("before the first run is over: %q", got)
	}
}
