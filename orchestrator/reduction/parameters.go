package reduction

import (
	"slices"

	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator/config"
)

// parameters simplifies everything but the events, and where these are.
func (r *reducer) parameters() {
	r.expectations()
	r.connections()
	r.verbs()
	r.number(func(t *config.Test) *int { return &t.Traffic.Messages }, 1)
	r.number(func(t *config.Test) *int { return &t.Traffic.TxDepth }, 1)
	r.mtu()
	r.number(func(t *config.Test) *int { return &t.Traffic.MessageSize }, 0)
	r.switches()
	r.places()
}

// change tries a copy of the smallest test with one change.
func (r *reducer) change(f func(*config.Test)) bool {
	c := *r.Test
	c.Traffic.DataEvents = slices.Clone(c.Traffic.DataEvents)
	c.Traffic.ControlEvents = slices.Clone(c.Traffic.ControlEvents)
	f(&c)
	return r.try(&c)
}

// expectations drops what the test expects: the broken rule alone makes it fail.
func (r *reducer) expectations() {
	if r.Target.Rule != "" {
		r.change(func(t *config.Test) { t.Expect = config.Expect{} })
	}
	r.change(func(t *config.Test) { t.Testbed = config.DefaultTestbed() })
}

// number lowers a number: first to the least value, else by halves, else by one.
func (r *reducer) number(of func(*config.Test) *int, least int) {
	set := func(v int) bool {
		return v < *of(r.Test) && r.change(func(t *config.Test) { *of(t) = v })
	}
	if set(least) {
		return
	}
	for step := (*of(r.Test) - least) / 2; step > 0; {
		if v := *of(r.Test) - step; v < least || !set(v) {
			step /= 2
		}
		if r.exhausted() {
			return
		}
	}
}

// connections first tries the connection of the finding alone, as number 1, then fewer.
func (r *reducer) connections() {
	if r.Test.Traffic.Connections > 1 && r.Finding != nil && r.Finding.Connection > 0 {
		only := r.Finding.Connection
		r.change(func(t *config.Test) { keepConnection(t, only) })
	}
	r.number(func(t *config.Test) *int { return &t.Traffic.Connections }, 1)
}

// keepConnection leaves one connection and its events.
func keepConnection(t *config.Test, only int) {
	t.Traffic.DataEvents = slices.DeleteFunc(t.Traffic.DataEvents, func(e config.DataEvent) bool { return e.QPN != only })
	t.Traffic.ControlEvents = slices.DeleteFunc(t.Traffic.ControlEvents,
		func(e config.ControlEvent) bool { return e.QPN != only })
	for i := range t.Traffic.DataEvents {
		t.Traffic.DataEvents[i].QPN = 1
	}
	for i := range t.Traffic.ControlEvents {
		t.Traffic.ControlEvents[i].QPN = 1
	}
	if t.Traffic.VerbsBy == config.ByConnection {
		i := (only - 1) % len(t.Traffic.Verbs)
		t.Traffic.Verbs = t.Traffic.Verbs[i : i+1 : i+1]
	}
	t.Traffic.Connections = 1
}

// verbs tries each verb alone, then leaves out single ones.
func (r *reducer) verbs() {
	if len(r.Test.Traffic.Verbs) < 2 {
		return
	}
	for _, v := range r.Test.Traffic.Verbs {
		if r.change(func(t *config.Test) { t.Traffic.Verbs, t.Traffic.VerbsBy = []generator.Verb{v}, config.ByMessage }) {
			return
		}
	}
	from := *r.Test
	ddmin(from.Traffic.Verbs, func(list []generator.Verb) bool {
		return len(list) > 0 && r.change(func(t *config.Test) { t.Traffic.Verbs = list })
	})
}

// mtu tries smaller packets, as many as before.
func (r *reducer) mtu() {
	for _, mtu := range []int{256, 512, 1024, 2048} {
		tr := &r.Test.Traffic
		if mtu >= tr.MTU {
			return
		}
		size := tr.MessageSize * mtu / tr.MTU
		if r.change(func(t *config.Test) { t.Traffic.MTU, t.Traffic.MessageSize = mtu, size }) {
			return
		}
	}
}

// switches sets what a plain test leaves alone to its usual value.
func (r *reducer) switches() {
	for _, f := range []func(*config.Test){
		func(t *config.Test) { t.Traffic.Bidirectional = false },
		func(t *config.Test) { t.Traffic.MultiGID = false },
		func(t *config.Test) { t.Traffic.BarrierSync = false },
		func(t *config.Test) { t.Traffic.InitialPSN = config.InitialPSN{} },
		func(t *config.Test) { t.Traffic.DSCP = 0 },
		func(t *config.Test) { t.Injector.Snap = nil },
		func(t *config.Test) { t.Traffic.RxRepostDelay = 0 },
		func(t *config.Test) { t.Requester.RoCE.AdaptiveRetrans = false },
		func(t *config.Test) { t.Responder.RoCE.AdaptiveRetrans = false },
		func(t *config.Test) { t.Seed = 1 },
	} {
		r.change(f)
	}
}

// places moves the remaining events to the front: the first packet, the first transmission.
func (r *reducer) places() {
	for i := range r.Test.Traffic.DataEvents {
		r.place(func(t *config.Test) *int64 { return &t.Traffic.DataEvents[i].PSN })
		r.ordinal(func(t *config.Test) *uint16 { return &t.Traffic.DataEvents[i].Iter })
	}
	for i := range r.Test.Traffic.ControlEvents {
		r.ordinal(func(t *config.Test) *uint16 { return &t.Traffic.ControlEvents[i].Nth })
	}
}

func (r *reducer) place(of func(*config.Test) *int64) {
	for step := *of(r.Test) - 1; step > 0; {
		v := *of(r.Test) - step
		if v < 1 || !r.change(func(t *config.Test) { *of(t) = v }) {
			step /= 2
		}
		if r.exhausted() {
			return
		}
	}
}

func (r *reducer) ordinal(of func(*config.Test) *uint16) {
	for v := uint16(1); v < *of(r.Test); v++ {
		if r.change(func(t *config.Test) { *of(t) = v }) {
			return
		}
		if r.exhausted() {
			return
		}
	}
}
