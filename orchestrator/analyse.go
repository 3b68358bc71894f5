package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/rp"
	"candela.dev/candela/analyzers/trim"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// analyzerNames lists the analyzers in report order.
var analyzerNames = []string{gbn.Name, retrans.Name, cnp.Name, rp.Name, trim.Name, fields.Name, counters.Name}

// check checks the trace in src for completeness. An incomplete trace is an outcome, not an error.
func (f *facts) check(ctx context.Context, src trace.Source) (err error) {
	cables := trace.Condition{}
	if len(f.cables) > 0 {
		if cables, err = f.cableCondition(ctx, src); err != nil {
			return err
		}
	}
	var incomplete *trace.IntegrityError
	complete := func() error {
		f.checked, f.integrity, err = trace.Check(ctx, src, trace.Options{
			Format: trace.FormatMirror, Connections: f.known, Counters: f.counters.integrity(),
			TimeDisorderNS: f.counters.TimeDisorderNS, Workers: f.workers,
			Vouched: f.soundCables || cables.Status == trace.StatusOK && len(f.trustedCables) == 0,
		})
		return err
	}
	err = complete()
	if err == nil && f.external() {
		moved, rerr := f.renumber(ctx)
		if rerr != nil {
			return rerr
		}
		if moved {
			err = complete()
		}
	}
	empty := errors.Is(err, trace.ErrNothingToAnalyse)
	if err != nil && !empty && !errors.As(err, &incomplete) {
		return err
	}
	conditions := []trace.Condition{f.counters.discardCondition(), f.eventCondition()}
	if len(f.cables) > 0 {
		conditions = append(conditions, cables)
	}
	if f.external() {
		numbering, err := f.numberingCondition(ctx)
		if err != nil {
			return err
		}
		conditions = append(conditions, numbering)
	}
	for _, c := range conditions {
		f.integrity.Conditions = append(f.integrity.Conditions, c)
		if c.Status == trace.StatusViolated {
			f.integrity.Valid, f.checked = false, nil
		}
	}
	if empty && f.integrity.Valid {
		return err // no cable explains it
	}
	return nil
}

// conditionEvents is an integrity condition beyond those of the trace: the trace shows the events that the switch
// counted.
const conditionEvents = "events"

// eventCondition compares the events of the trace with the hits of the injector's entries. An event that does not fit
// its packet counts a hit and has no effect; such event types may occur less often than they hit.
func (f *facts) eventCondition() trace.Condition {
	cond := trace.Condition{Name: conditionEvents, Status: trace.StatusOK,
		Message: "the trace shows the events that the switch counted"}
	var hits [trace.MaxEventType + 1]int64
	for i, n := range f.hits {
		hits[f.plan.Intents[i].Action.Type] += int64(n)
	}
	for e := trace.EventDrop; e <= trace.MaxEventType; e++ {
		seen, want := f.integrity.Events[e], hits[e]
		if seen == want || e.Edits() && seen < want {
			continue
		}
		cond.Status, cond.Expected, cond.Actual = trace.StatusViolated, &want, &seen
		cond.Message = fmt.Sprintf(
			"the switch counted %d packets with event %v, the trace shows %d: mirror copies are damaged", want, e, seen)
		break
	}
	return cond
}

func (f *facts) analyse(ctx context.Context) (err error) {
	if f.checked == nil {
		return nil
	}
	trimmed := cuts(f.plan, f.known, f.hits)
	f.checked = f.checked.WithDepartures(departures(f.plan, f.known, f.hits)).WithTrims(trimReactions(f.plan.Test),
		trimmed)
	if slices.Contains(f.plan.Test.Traffic.Verbs, generator.SendInvalidate) {
		f.checked = f.checked.WithInvalidations()
	}
	return f.examine(ctx, trimmed)
}

// examine feeds the trace, annotated with losses and trims, to every analyzer.
func (f *facts) examine(ctx context.Context, trimmed []trace.Cut) (err error) {
	f.summary = newSummary(f.known)
	for i := range f.plan.Intents {
		if in := &f.plan.Intents[i]; in.RelPSN != 0 {
			f.summary.watch(f.packetOf(in))
		}
	}
	set := analyzersOf(f.checked.Meta(), f.plan.Test, &f.counters, f.calibration)
	trims := trimConfig(f.plan, trimmed)
	trims.Follow = f.follow
	losses := trim.New(f.checked.Meta(), trims)
	f.losses, set = losses.Packets, slices.Insert(set, len(set)-1, analyzers.Analyzer(losses))
	f.analysis, err = analyzers.RunParallel(ctx, f.checked, f.workers, append(set, f.summary)...)
	if err == nil && f.external() {
		timeout := f.plan.Test.Traffic.AckTimeout
		err = softenEnd(ctx, f.checked, f.analysis, &trace.Settings{Timeout: &timeout})
	}
	if err != nil || f.plan == nil || f.plan.Test == nil || !f.plan.Test.Testbed.SoftwareHosts() {
		return err
	}
	proofs, err := proveTimes(ctx, f.checked, f.plan.Test, f.analysis)
	if err == nil {
		reportTimes(f.analysis, proofs)
	}
	return err
}

// packetOf returns the key of the packet that an intent gives by relative PSN.
func (f *facts) packetOf(in *injector.Intent) packetKey {
	first := f.known.InitialPSN(in.Flow, in.Space)
	return packetKey{in.Flow, in.Space, first.Add(int(in.RelPSN - 1))}
}

// analyzersOf returns every analyzer, configured from the test and the counters. t, c and half are nil for a bare
// trace.
func analyzersOf(meta trace.Meta, t *config.Test, c *Counters, half *Calibration) []analyzers.Analyzer {
	set := []analyzers.Analyzer{
		gbn.New(meta, gbnConfig(meta.Connections.Len(), t, c)),
		retrans.New(meta, retransConfig(t, half, c)),
		cnp.New(meta, cnpConfig(t, c)),
		rp.New(meta, rpConfig(t, c)),
		fields.New(meta, fieldsConfig(t)),
	}
	if c != nil {
		set = append(set, counters.New(meta, c.Input))
	}
	return set
}

func cnpConfig(t *config.Test, c *Counters) cnp.Config {
	if t == nil {
		return cnp.Config{}
	}
	return cnp.Config{
		Requester: notificationPoint(t, config.Requester, c), Responder: notificationPoint(t, config.Responder, c),
		JitterNS: cnpJitter(t, c).Nanoseconds(),
	}
}

// cnpJitter bounds the extra delay between two CNPs at the switch if a host or the switch waited for a CPU; 0: hardware
// hosts. A run in which either waits for a quarter of the timeout has ended.
func cnpJitter(t *config.Test, c *Counters) clock.Duration {
	switch timeout := plan.AckTimeout(t.Traffic.AckTimeout); {
	case t.Testbed.HardwareTimes():
		return 0
	case t.Testbed.MeasuresWaits() && timeout > 0:
		return timeout / 2
	case c.hostDelayNS() > 0:
		return clock.Duration(c.hostDelayNS()) * clock.Nanosecond
	}
	return config.LongestBetweenCNPs // waits were not measured
}

// notificationPoint returns the notification point of a side as set by the test and declared by the device. A device
// that declares none owes no CNP and may send none.
func notificationPoint(t *config.Test, side config.Side, c *Counters) cnp.NotificationPoint {
	h := t.Host(side)
	if absent, _ := c.lacks(side); absent {
		return cnp.NotificationPoint{Known: true, Absent: true}
	}
	r := &h.RoCE
	mode, _ := cnp.ParseMode(strings.TrimPrefix(r.Pacing.String(), "per-")) // a test keeps the mode names equal
	return cnp.NotificationPoint{
		Known: true, Enabled: r.DCQCNNP, MinTimeNS: r.MinTimeBetween.Nanoseconds(), Mode: mode, WithNack: r.SlowRestart &&
			!h.NIC.IgnoresSlowRestart,
	}
}

// hostDelay bounds the delay that a NIC and its queues add before the switch sees a CNP. It exceeds the slowest
// reaction of any known NIC (Lumina, figure 5-9).
const hostDelay = 200 * clock.Microsecond

func rpConfig(t *config.Test, c *Counters) rp.Config {
	if t == nil {
		return rp.Config{}
	}
	point := func(s config.Side) rp.ReactionPoint {
		link := t.Testbed.Link(s)
		_, absent := c.lacks(s)
		return rp.ReactionPoint{
			Known: true, Enabled: t.Host(s).RoCE.DCQCNRP && !absent, LineRate: int64(link.Rate),
			DelayNS: (2*link.Propagation + hostDelay).Nanoseconds(),
		}
	}
	return rp.Config{Requester: point(config.Requester), Responder: point(config.Responder)}
}

func retransConfig(t *config.Test, half *Calibration, c *Counters) retrans.Config {
	if t == nil {
		return retrans.Config{}
	}
	silence := func(d *clock.Duration) int64 {
		if d == nil {
			return 0
		}
		return d.Nanoseconds()
	}
	e := &t.Expect.Retrans
	return retrans.Config{HalfRTT: half.sides(), HostDelayNS: c.hostDelayNS(), LinkDelayNS: linkDelayNS(t),
		AckSilenceNS: silence(e.AckSilence), NakSilenceNS: silence(e.NakSilence), Default: retrans.Params{
			Known: true, TimeoutExponent: uint8(t.Traffic.AckTimeout), RetryCount: uint8(t.Traffic.RetryCount),
			RNRRetry: uint8(t.Traffic.RNRRetry),
			Adaptive: t.Requester.RoCE.AdaptiveRetrans || t.Responder.RoCE.AdaptiveRetrans,
		}}
}

// linkDelayNS returns the longest one-way propagation delay between a host and the switch, in ns.
func linkDelayNS(t *config.Test) int64 {
	return max(t.Testbed.Link(config.Requester).Propagation, t.Testbed.Link(config.Responder).Propagation).Nanoseconds()
}

// fieldsConfig returns the header fields that the test sets on both hosts.
func fieldsConfig(t *config.Test) fields.Config {
	if t == nil {
		return fields.Config{}
	}
	dscp, ecn := uint8(t.Traffic.DSCP), packet.ECN(t.Traffic.ECN)
	s := fields.Settings{DSCP: &dscp, ECN: &ecn, Origin: "expect.fields.mig-req"}
	if t.Traffic.External != nil {
		s.DSCP, s.ECN = nil, nil // of the application
	}
	if e := &t.Expect.Fields; e.CNPDSCP != nil {
		cnp := uint8(*e.CNPDSCP)
		s.CNPDSCP = &cnp
	}
	if m := t.Expect.Fields.MigReq; m != nil {
		set := *m == 1
		s.MigReq = &set
	}
	cfg := fields.Config{Requester: s, Responder: s, Connections: map[int]fields.Settings{}}
	for n := 1; n <= t.Traffic.Connections; n++ {
		label, port := uint32(t.Traffic.FlowLabelOf(n)), uint16(t.Traffic.SourcePortOf(n))
		own := s
		if label != 0 {
			own.FlowLabel = &label // what port follows from it is the host's choice
		}
		if port != 0 {
			own.SourcePort = &port
		}
		if label != 0 || port != 0 {
			cfg.Connections[n] = own
		}
	}
	return cfg
}

func gbnConfig(connections int, t *config.Test, c *Counters) gbn.Config {
	if t == nil {
		return gbn.Config{}
	}
	limits := gbn.Limits{
		RNRRetry: gbn.AtMost(t.Traffic.RNRRetry), MinRNRTimerNS: packet.RNRTimer(uint8(t.Traffic.MinRNRTimer)),
	}
	if !t.Requester.RoCE.AdaptiveRetrans && !t.Responder.RoCE.AdaptiveRetrans {
		// An adaptive NIC chooses timeouts and retries itself; retrans notes its choice.
		limits.TimeoutNS = plan.AckTimeout(t.Traffic.AckTimeout).Nanoseconds()
		limits.Retry = gbn.AtMost(t.Traffic.RetryCount)
	}
	cfg := gbn.Config{
		Default: limits, Connections: map[int]gbn.Limits{}, SoftwareHosts: t.Testbed.SoftwareHosts(),
		HostDelayNS: c.hostDelayNS(),
		LinkDelayNS: linkDelayNS(t),
	}
	for n := 1; n <= connections; n++ {
		if failureExpected(t, n) {
			l := limits
			l.ErrorsExpected = true
			cfg.Connections[n] = l
		}
	}
	return cfg
}

// failureExpected reports whether the test expects the requests of a connection to complete in error.
func failureExpected(t *config.Test, connection int) bool {
	for _, side := range []config.Side{config.Requester, config.Responder} {
		if e := t.Expect.CompletionOf(connection, side); e != nil && e.Status != generator.Success {
			return true
		}
	}
	return false
}
