package main

import (
	"context"
	"errors"
	"slices"

	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/detection"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
	"candela.dev/candela/trace"
)

// bed runs tests on the virtual testbed and records what passes each of its places.
type bed struct {
	bench   detection.Bench
	rack    virtual.Rack
	scratch *orchestrator.Scratch

	recording   *traffic.Recording
	connections []injector.Connection
}

// newBed returns a bed for the tests below configs.
func newBed(configs string) *bed {
	b := &bed{bench: detection.Bench{Options: models(), Configs: configs}}
	b.scratch = orchestrator.NewScratch(func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		t, err := b.rack.Build(spec)
		if err != nil {
			return nil, err
		}
		t.Watch(b.watch)
		return watched{t, b}, nil
	})
	return b
}

func (b *bed) close() error {
	b.scratch.Close()
	return b.rack.Close()
}

// models is what tests may name.
func models() config.Options {
	var o config.Options
	for _, p := range rdma.Profiles() {
		o.Profiles = append(o.Profiles,
			config.Profile{Name: p.Name, Adaptive: len(p.AdaptiveSchedule) > 0, Defaults: config.RoCE{
				DCQCNRP: true, DCQCNNP: true, TrimReaction: p.TrimReaction, TrimDSCP: p.TrimDSCP,
				MinTimeBetween: 4 * clock.Microsecond,
			}})
	}
	for _, bug := range rdma.Catalogue() {
		o.Bugs = append(o.Bugs, bug.Name)
	}
	for _, r := range orchestrator.Rules() {
		o.Rules = append(o.Rules, r.ID)
	}
	return o
}

// watched is a testbed of which the connections are remembered.
type watched struct {
	*virtual.Testbed
	bed *bed
}

// Prepare implements orchestrator.Testbed.
func (w watched) Prepare(ctx context.Context) (list []injector.Connection, err error) {
	list, err = w.Testbed.Prepare(ctx)
	w.bed.connections = list
	return list, err
}

var placesOf = [virtual.Places]traffic.Place{
	virtual.RequesterPort: traffic.AtRequester, virtual.ResponderPort: traffic.AtResponder,
	virtual.SwitchIngress: traffic.AtSwitch, virtual.SwitchEgress: traffic.BehindIt,
}

func (b *bed) watch(at clock.Time, place virtual.Place, p *packet.Packet) {
	if p.UDP.DstPort == packet.Port {
		b.recording.Add(placesOf[place], at.Nanoseconds(), p.AppendTo(nil))
	}
}

// run runs a test and returns what its views show, and the verdict of the run itself, which has all knowledge.
func (b *bed) run(ctx context.Context, t *config.Test) (*traffic.Recording, *orchestrator.Outcome, error) {
	b.recording, b.connections = &traffic.Recording{}, nil
	outcome, err := b.scratch.Run(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if b.recording.Frames() == 0 {
		return nil, nil, errors.New("no frame passed the switch")
	}
	for i, c := range b.connections {
		tr := &t.Traffic
		timeout, retry, rnr := tr.AckTimeout, tr.RetryCount, tr.RNRRetry
		var verbs []string
		for _, v := range tr.Verbs {
			if !slices.Contains(verbs, v.String()) {
				verbs = append(verbs, v.String())
			}
		}
		b.recording.Connections = append(b.recording.Connections, trace.Connection{
			Index: i + 1, MTU: tr.MTU, Verbs: verbs,
			Requester: trace.Side{IP: c.Requester.IP, QPN: c.Requester.QPN, IPSN: c.Requester.IPSN},
			Responder: trace.Side{IP: c.Responder.IP, QPN: c.Responder.QPN, IPSN: c.Responder.IPSN},
			Settings:  trace.Settings{Timeout: &timeout, Retry: &retry, RNRRetry: &rnr},
		})
	}
	return b.recording, outcome, nil
}

// zeroPSN makes a test of several connections that all start at PSN 0.
func zeroPSN(t *config.Test) *config.Test {
	c := *t
	zero := packet.PSN(0)
	c.Traffic.InitialPSN = config.InitialPSN{Requester: &zero, Responder: &zero}
	if c.Traffic.Connections == 1 {
		c.Traffic.Connections = 3
	}
	return &c
}

// uncut replaces trims by losses: the standard has no trimmed packets, so only a mirror shows their fate.
func uncut(t *config.Test) *config.Test {
	c := *t
	c.Traffic.DataEvents = slices.Clone(t.Traffic.DataEvents)
	for i := range c.Traffic.DataEvents {
		if e := &c.Traffic.DataEvents[i]; e.Type == trace.EventTrim {
			e.Type, e.Trim = trace.EventDrop, nil
		}
	}
	return &c
}
