package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

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
