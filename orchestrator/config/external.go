package config

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
)

// External says that an application of the user makes the traffic, on RDMA devices of a lab. Its connections are
// numbered by the requester's QPNs.
type External struct {
	// Pause stops the application's processes when its connections are there, until the injector has their events.
	Pause bool
	// Wait is how long the application may take to connect.
	Wait clock.Duration
}

func externalSchema() *object {
	return &object{
		title: "external",
		doc:   "An application of yours makes the traffic.",
		fields: []field{
			{key: "pause", doc: "Stop the application (SIGSTOP) when all its connections are there, until their events are " +
				"programmed. Otherwise its first packets pass before, and a run is invalid if they did.",
				kind: boolean{}, def: "true", at: at(func(e *External) *bool { return &e.Pause })},
			{key: "wait-ms", doc: "How long the application may take until it has num-connections connections.",
				kind: quantity{unit: "ms", scale: int64(clock.Millisecond), min: 1, max: 3_600_000}, def: "60000",
				at: at(func(e *External) *clock.Duration { return &e.Wait })},
		},
	}
}

// externalMessages bounds what an application sends on a connection in a direction, for the places of events: it is
// known only when it is sent.
const externalMessages = 1 << 20

// external is what an application may send: packets without end, as far as events may be placed.
func (tr *Traffic) external(g generator.Traffic) generator.Traffic {
	g.Messages, g.MessageSize = 1, maxMessageSize-1 // of 31 bits
	if g.Verbs[0].IsAtomic() {
		g.Messages = externalMessages
	}
	return g
}

// validateExternal refuses what only the generator can do.
func (d *decoder) validateExternal(t *Test) {
	tr := &t.Traffic
	if tr.External == nil {
		return
	}
	const path = "traffic.external"
	if d.fine(path, "testbed") {
		switch l := t.Testbed.Live; {
		case t.Testbed.Kind != KindLab || l == nil || l.Requester == nil || l.Responder == nil:
			d.problemAt(path, "testbed "+t.Testbed.Name+" is of kind "+t.Testbed.Kind+", which has no machines of yours",
				"traffic of an application needs a lab whose hosts are RDMA devices: --testbed LAB.yml")
		case l.Requester.RDMA == nil || l.Responder.RDMA == nil:
			d.problemAt(path, "a host of testbed "+t.Testbed.Name+" is a NIC model, which no application can use",
				"describe both hosts with rdma: {device: …}")
		}
	}
	if path := "traffic.rdma-verb"; tr.VerbsBy == ByMessage && len(tr.Verbs) > 1 && d.fine(path) {
		d.problemAt(path, "an application's order of verbs is unknown, and events could not be placed",
			"name the verb of its data packets, or one for each connection with verbs-by: connection")
	}
	for _, key := range []string{"mtu", "min-retransmit-timeout", "max-retransmit-retry", "rnr-retry"} {
		path := "traffic." + key
		if _, written := d.at[path]; !written && d.fine(path) {
			d.problemAt(path, "is missing",
				"the device is judged by what the application gives its queue pairs, which the trace does not show")
		}
	}
	one := func(key string, chosen bool) {
		if path := "traffic." + key; chosen && d.fine(path) {
			d.problemAt(path, "belongs to Candela's own traffic", "with external the application chooses it")
		}
	}
	one("num-msgs-per-qp", tr.Messages != 1)
	one("message-size", tr.MessageSize != 10240)
	one("tx-depth", tr.TxDepth != 1)
	one("rx-depth", tr.RxDepth != 50)
	one("rx-repost-delay-us", tr.RxRepostDelay != 0)
	one("barrier-sync", tr.BarrierSync)
	one("stale-rkey", tr.StaleRKey)
	one("multi-gid", tr.MultiGID)
	one("flow-label", len(tr.FlowLabels) > 0)
	one("source-port", len(tr.SourcePorts) > 0)
	one("max-rd-atomic", tr.MaxRDAtomic != 0)
	one("initial-psn", tr.InitialPSN != InitialPSN{})
	if len(t.Expect.Completion) > 0 && d.fine("expect.completion") {
		d.problemAt("expect.completion", "an application's completions are its own",
			"the verdict comes from the trace alone")
	}
}

// endless reports whether p selects packets up to the last, which nobody knows of an application.
func (p *Pattern) endless() bool {
	return p.Every != 0 && p.Until == 0 ||
		slices.ContainsFunc(p.PSN, func(s Span) bool { return s.First.FromLast || s.Last.FromLast })
}
