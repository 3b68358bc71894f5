package lock

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Reasons of drops.
const (
	reasonTaken fabric.Reason = fabric.ReasonOwn + iota
	reasonIgnored
)

// Family declares the family.
func Family() switches.Family {
	return switches.Family{
		Name: "lock", Makes: true, Counters: count,
		Reasons: []analyzers.DropReason{
			{Name: "taken", Doc: "A packet of the lock manager that the switch has processed. What it sends is a packet of " +
				"its own."},
			{Name: "ignored", Doc: "A release of nobody, a request that is queued, or an answer to nothing."},
		},
		Models: []switches.Model{model()},
	}
}

func model() switches.Model {
	const most = 1 << 24
	automatic := []string{"auto", "on", "off"}
	return switches.Model{
		Model: parameter.Model{Name: "netlock",
			Doc: "NetLock (Yu et al., SIGCOMM 2020): the switch queues and grants requests for locks that it has slots for; " +
				"lock servers own the others, and buffer requests that find no slot.",
			Parameters: parameter.Table{
				{Name: "processing", Kind: parameter.Word, Words: []string{"listing", "snapshot", "chainlock"},
					Default: "chainlock",
					Doc: "How a release finds whom to grant. listing: algorithm 2 as printed, which grants twice; snapshot: a chain " +
						"of grants ends where the queue ended, as in the artefact, and loses requests if recirculation is slow; " +
						"chainlock: shared requests wait while a chain runs."},
				{Name: "recirculation-ns", Kind: parameter.Duration, Unit: "ns", Default: "200", Max: 1_000_000_000,
					Doc: "How long a packet takes from one pass through the switch to the next."},
				{Name: "latency-ns", Kind: parameter.Duration, Unit: "ns", Default: "600", Max: 1_000_000_000,
					Doc: "Forwarding latency beyond store-and-forward."},
				{Name: "slots", Kind: parameter.Integer, Default: "100000", Max: most, Doc: "Slots for requests."},
				{Name: "slots-each", Kind: parameter.Integer, Default: "0", Max: most,
					Doc: "Slots of each lock that is installed from the start; 0: an equal share."},
				{Name: "locks", Kind: parameter.Integer, Default: "0", Max: most,
					Doc: "Locks that are installed from the start, as far as there are slots."},
				{Name: "first-lock", Kind: parameter.Integer, Default: "1", Max: 1 << 30, Doc: "Number of the first of them."},
				{Name: "tid-check", Kind: parameter.Word, Words: automatic, Default: "auto",
					Doc: "Whether a release counts only if its transaction has the lock; auto: with chainlock."},
				{Name: "dedup", Kind: parameter.Word, Words: automatic, Default: "auto",
					Doc: "Whether a request that is queued already is ignored; auto: with chainlock."},
				{Name: "push-timeout-us", Kind: parameter.Duration, Unit: "us", Default: "30", Max: 1_000_000_000,
					Doc: "When the switch asks again for what a server buffers; 0: never."},
			},
		},
		NoNIC: "it manages locks for many hosts",
		Configure: func(_ parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = []fabric.QueueSpec{{}}
			return nil
		},
		New: func(_ *fabric.Switch, v parameter.Values, _ []string) (fabric.Mechanism, error) {
			plane := New(configOf(v))
			if err := install(plane, v); err != nil {
				return nil, err
			}
			return NewMechanism(plane, v.Duration("recirculation-ns")), nil
		},
	}
}

func configOf(v parameter.Values) Config {
	names := []string{"listing", "snapshot", "chainlock"}
	c := Config{Processing: Processing(slices.Index(names, v.Word("processing"))),
		PushTimeout: v.Duration("push-timeout-us")}
	on := func(name string) bool {
		word := v.Word(name)
		return word == "on" || word == "auto" && c.Processing == ChainLock
	}
	c.TIDCheck, c.Dedup = on("tid-check"), on("dedup")
	return c
}

// install installs the locks that the switch has from the start.
func install(plane *DataPlane, v parameter.Values) error {
	locks, slots, each := v.Int("locks"), v.Int("slots"), v.Int("slots-each")
	if each == 0 && locks > 0 {
		each = max(1, slots/locks)
	}
	for i := range locks {
		if slots < each {
			return nil
		}
		slots -= each
		if err := plane.Install(uint32(v.Int("first-lock")+i), each); err != nil {
			return err
		}
	}
	return nil
}

func count(sw *fabric.Switch, add func(name string, n int64)) error {
	m, ok := sw.Mechanism().(*Mechanism)
	if !ok {
		return fmt.Errorf("switch %s is out of service", sw.Name())
	}
	c := m.Counts()
	for _, of := range []struct {
		name string
		n    int64
	}{
		{"lock-requests", c.Requests}, {"lock-releases", c.Releases}, {"lock-grants", c.Grants},
		{"lock-forwarded", c.Owned}, {"lock-buffered", c.Buffered}, {"lock-push-requests", c.PushRequests},
		{"lock-pushed-back", c.PushedBack}, {"lock-recirculations", c.Recirculations}, {"lock-ignored", c.Ignored},
	} {
		add(of.name, of.n)
	}
	return nil
}
