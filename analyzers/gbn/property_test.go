package gbn_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

var allVerbs = []packet.Verb{packet.VerbWrite, packet.VerbSend, packet.VerbRead, packet.VerbAtomic}

func drawConfig(t *rapid.T) simConfig {
	delay := rapid.SampledFrom([]int64{0, 100, 2_000, 50_000, 1_000_000, 10_000_000}).Draw(t, "delay")
	return simConfig{
		seed:      rapid.Uint64().Draw(t, "seed"),
		messages:  rapid.IntRange(1, 12).Draw(t, "messages"),
		maxPSNs:   rapid.SampledFrom([]int{1, 3, 10, 30}).Draw(t, "psns"),
		verbs:     rapid.SliceOfNDistinct(rapid.SampledFrom(allVerbs), 1, 4, rapid.ID).Draw(t, "verbs"),
		delayNS:   delay,
		lossPct:   rapid.SampledFrom([]int{0, 2, 10, 40}).Draw(t, "loss"),
		losses:    rapid.IntRange(0, 40).Draw(t, "losses"),
		timeoutNS: rapid.SampledFrom([]int64{1, 10, 100}).Draw(t, "timeout") * max(20_000, delay/2),
		window:    rapid.SampledFrom([]int{4, 30, 1000}).Draw(t, "window"),
		ipsn:      packet.PSN(rapid.SampledFrom([]int{0, 1000, 0xfffff0, 0x7fffff}).Draw(t, "ipsn")),
		rnrs:      rapid.IntRange(0, 4).Draw(t, "rnrs"),
	}
}

// config returns what the analyzer may know of a scenario.
func (c simConfig) known(timeout bool) gbn.Config {
	if !timeout {
		return gbn.Config{HostDelayNS: max(c.delayNS+20_000, 1)}
	}
	return gbn.Config{HostDelayNS: max(c.delayNS+20_000, 1), Default: gbn.Limits{TimeoutNS: c.timeoutNS}}
}

// views are the traces that different observers make of one run.
func views(t testing.TB, s *simulation) map[string]*trace.Checked {
	t.Helper()
	conns := connections(t, 1, s.cfg.ipsn, false)
	before, after, pair := []trace.Record{}, []trace.Record{}, []trace.Record{}
	for _, r := range s.records {
		event := r.Event
		sent, passed := r, r
		sent.Flags, passed.Flags = r.Flags&^trace.Passed, r.Flags&^trace.Sent
		sent.Event, passed.Event = trace.EventNone, trace.EventNone
		pair = append(pair, sent)
		r.Event = trace.EventNone
		before = append(before, r)
		if event == trace.EventCorrupt {
			passed.ICRC, r.ICRC = packet.ICRCInvalid, packet.ICRCInvalid
		}
		if event != trace.EventDrop {
			pair = append(pair, passed)
			after = append(after, r)
		}
	}
	inferred := connections(t, 1, s.cfg.ipsn, true)
	out := map[string]*trace.Checked{
		"mirror, inferred": trace.CheckedRecords(trace.Meta{Kind: trace.KindMirror, Connections: inferred}, s.records),
		"mirror":           trace.CheckedRecords(trace.Meta{Kind: trace.KindMirror, Connections: conns}, s.records),
		"pair":             trace.CheckedRecords(trace.Meta{Kind: trace.KindPair, Connections: conns}, pair),
		"before":           trace.CheckedRecords(trace.Meta{Kind: trace.KindPlain, Connections: conns}, before),
		"after":            trace.CheckedRecords(trace.Meta{Kind: trace.KindPlain, Connections: conns}, after),
	}
	if s.lost == 0 && len(before) > 0 {
		cut := before[s.cfg.seed%uint64(len(before)):]
		out["before, midway"] = trace.CheckedRecords(trace.Meta{Kind: trace.KindPlain, Connections: inferred}, cut)
	}
	if len(s.records) > 1 {
		cut := s.records[1+s.cfg.seed%uint64(len(s.records)-1):]
		out["mirror, midway"] = trace.CheckedRecords(trace.Meta{Kind: trace.KindMirror, Connections: inferred}, cut)
	}
	return out
}

// blamed returns the findings that a correct endpoint must not get in a view.
func blamed(view string, fs []analyzers.Finding) []analyzers.Finding {
	return slices.DeleteFunc(slices.Clone(fs), func(f analyzers.Finding) bool {
		plain := strings.HasPrefix(view, "before") || strings.HasPrefix(view, "after") || strings.HasSuffix(view, "midway")
		return f.Severity == analyzers.Note && plain
	})
}

func TestNoCorrectEndpointIsBlamedWhateverIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := drawConfig(rt)
		s := simulate(cfg)
		if s.a.una != s.a.end {
			rt.Fatalf("the simulation itself did not finish: %v", cfg)
		}
		for view, c := range views(t, s) {
			for _, timeout := range []bool{false, true} {
				if !timeout && cfg.timeoutNS < 1_000_000 {
					continue // without settings no timer is taken to be that short
				}
				res := analyse(t, c, cfg.known(timeout))
				if fs := blamed(view, res.Findings); len(fs) > 0 {
					rt.Fatalf("%s: %v\n%s", view, cfg, dump(fs))
				}
			}
		}
	})
}

func TestRequestsOfBothSidesDoNotDisturbEachOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := drawConfig(rt)
		there := simulate(cfg)
		cfg.seed++
		back := simulate(cfg)
		records := slices.Clone(there.records)
		for _, r := range back.records {
			r.Flow = r.Flow.Peer()
			records = append(records, r)
		}
		slices.SortStableFunc(records, func(a, b trace.Record) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
		for i := range records {
			records[i].ID = uint64(i + 1)
		}
		c := trace.CheckedRecords(trace.Meta{Connections: connections(t, 1, cfg.ipsn, false)}, records)
		if res := analyse(t, c, cfg.known(true)); len(res.Findings) > 0 {
			rt.Fatalf("%v\n%s", cfg, dump(res.Findings))
		}
	})
}
