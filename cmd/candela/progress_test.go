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
