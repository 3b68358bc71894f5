package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace"
)

// view is one way to watch a session.
type view struct {
	name      string
	equalIPSN bool // every initial PSN is 0
	partial   bool // it may show too little for a judgement
	// fateShown: the mirror copies show what the switch delays or doubles.
	fateShown bool
	// pair: two captures show what the switch between them delays or doubles. No connections document comes with them.
	pair  bool
	write writer
}

// writer makes the captures of a recording in dir and returns how to analyse them.
type writer func(rng *rand.Rand, s *traffic.Recording, dir string) (orchestrator.AnalyzeOptions, error)

// missing is the share of frames that the taps of some views miss.
const missing = 0.03

const mirrorView = "mirror"

var views = []view{
	{name: mirrorView, fateShown: true,
		write: func(_ *rand.Rand, s *traffic.Recording, dir string) (o orchestrator.AnalyzeOptions, err error) {
			o.Trace, o.Connections, o.Format = filepath.Join(dir, "trace.pcap"), filepath.Join(dir, "connections.json"),
				trace.FormatMirror
			return o, errors.Join(save(o.Trace, s.WriteMirror), save(o.Connections, s.WriteConnections))
		}},
	{name: "plain", write: plain(traffic.Tap{})},
	{name: "pair", pair: true, write: bracket(traffic.Tap{}, trace.PlacementUnknown)},
	{name: "hosts", pair: true, write: hosts(traffic.Tap{}, trace.PlacementUnknown)},
	{name: "hosts-named", pair: true, write: hosts(traffic.Tap{}, trace.PlacementHosts)},
	{name: "missing", write: plain(traffic.Tap{Missing: missing})},
	{name: "doubled", write: plain(traffic.Tap{Doubled: true})},
	{name: "routed", write: plain(traffic.Tap{Doubled: true, Routed: true})},
	{name: "ipsn0", equalIPSN: true, write: plain(traffic.Tap{})},

	{name: "counted", write: placed(plain(traffic.Tap{Format: traffic.PcapNG}), trace.PlaceBefore)},
	{name: "behind", write: plain(traffic.Tap{Place: traffic.BehindIt})},
	{name: "requester", write: plain(traffic.Tap{Place: traffic.AtRequester, Format: traffic.Microseconds})},
	{name: "responder", write: plain(traffic.Tap{Place: traffic.AtResponder})},
	{name: "snapped", partial: true, write: plain(traffic.Tap{Snap: 64})},
	{name: "cut", partial: true, write: cut},
	{name: "pair-named", pair: true,
		write: bracket(traffic.Tap{Format: traffic.Microseconds}, trace.PlacementBracket)},
	{name: "pair-missing", partial: true, pair: true,
		write: bracket(traffic.Tap{Missing: missing}, trace.PlacementUnknown)},
	{name: "pair-doubled", pair: true, write: bracket(traffic.Tap{Doubled: true}, trace.PlacementUnknown)},
	{name: "pair-snapped", partial: true, pair: true,
		write: bracket(traffic.Tap{Snap: 96, Tagged: true, Format: traffic.PcapNG}, trace.PlacementUnknown)},
	{name: "pair-ipsn0", equalIPSN: true, pair: true, write: bracket(traffic.Tap{}, trace.PlacementUnknown)},
	{name: "pair-late", partial: true, pair: true, write: late(bracket)},
	{name: "hosts-missing", partial: true, pair: true,
		write: hosts(traffic.Tap{Missing: missing}, trace.PlacementUnknown)},
	{name: "hosts-ipsn0", equalIPSN: true, pair: true, write: hosts(traffic.Tap{}, trace.PlacementUnknown)},
	{name: "hosts-late", partial: true, pair: true, write: late(hosts)},
	{name: "counted-behind", write: plain(traffic.Tap{Place: traffic.BehindIt, Format: traffic.PcapNG})},
	{name: "at-requester", write: placed(plain(traffic.Tap{Place: traffic.AtRequester, Format: traffic.PcapNG}),
		trace.PlaceRequester)},
	{name: "at-responder", write: placed(plain(traffic.Tap{Place: traffic.AtResponder, Format: traffic.PcapNG}),
		trace.PlaceResponder)},
	{name: "pair-cut", partial: true, pair: true, write: stopped(bracket)},
	{name: "hosts-cut", partial: true, pair: true, write: stopped(hosts)},
}

// plain is one capture, in every other session with the connections document.
func plain(tap traffic.Tap) writer {
	return func(rng *rand.Rand, s *traffic.Recording, dir string) (o orchestrator.AnalyzeOptions, err error) {
		o.Trace = filepath.Join(dir, "capture.pcap")
		seed := rng.Uint64()
		if rng.IntN(2) == 0 {
			o.Connections = filepath.Join(dir, "connections.json")
			err = save(o.Connections, s.WriteConnections)
		}
		return o, errors.Join(err, save(o.Trace, func(w io.Writer) error { return s.Write(w, seed, tap) }))
	}
}

// placed is a capture whose place is given.
func placed(of writer, place trace.Place) writer {
	return func(rng *rand.Rand, s *traffic.Recording, dir string) (orchestrator.AnalyzeOptions, error) {
		o, err := of(rng, s, dir)
		o.Place = place
		return o, err
	}
}

// cut is one capture that begins and ends in the middle.
func cut(rng *rand.Rand, s *traffic.Recording, dir string) (orchestrator.AnalyzeOptions, error) {
	span := max(2, s.SpanNS())
	from := rng.Int64N(span / 2)
	return plain(traffic.Tap{FromNS: from, ToNS: from + 1 + rng.Int64N(span-from)})(rng, s, dir)
}

// bracket is two captures around the switch, the second with the faults of tap.
func bracket(tap traffic.Tap, placement trace.Placement) writer {
	first := tap
	first.Tagged = false
	first.Place, tap.Place = traffic.AtSwitch, traffic.BehindIt
	return pair(placement, first, tap, "before.pcap", "after.pcap")
}

// hosts is two captures at the hosts.
func hosts(tap traffic.Tap, placement trace.Placement) writer {
	first := tap
	first.Place, tap.Place = traffic.AtRequester, traffic.AtResponder
	return pair(placement, first, tap, "requester.pcap", "responder.pcap")
}

// pair is two captures with different clocks: up to 1 s and 100 ppm apart.
func pair(placement trace.Placement, first, second traffic.Tap, names ...string) writer {
	return func(rng *rand.Rand, s *traffic.Recording, dir string) (o orchestrator.AnalyzeOptions, err error) {
		o.Trace, o.Second, o.Placement = filepath.Join(dir, names[0]), filepath.Join(dir, names[1]), placement
		clock := second
		clock.OffsetNS, clock.DriftPPM = rng.Int64N(2_000_000_001)-1_000_000_000, 200*rng.Float64()-100
		return o, errors.Join(
			save(o.Trace, func(w io.Writer) error { return s.Write(w, 1, first) }),
			save(o.Second, func(w io.Writer) error { return s.Write(w, 2, clock) }))
	}
}

// stopped is a pair of captures that end at the same time, in the middle.
func stopped(of func(traffic.Tap, trace.Placement) writer) writer {
	return func(rng *rand.Rand, s *traffic.Recording, dir string) (orchestrator.AnalyzeOptions, error) {
		span := max(4, s.SpanNS())
		return of(traffic.Tap{ToNS: span/4 + rng.Int64N(span-span/4)}, trace.PlacementUnknown)(rng, s, dir)
	}
}

// late is a pair of captures of which one starts later and the other ends earlier.
func late(of func(traffic.Tap, trace.Placement) writer) writer {
	return func(rng *rand.Rand, s *traffic.Recording, dir string) (orchestrator.AnalyzeOptions, error) {
		span := max(4, s.SpanNS())
		o, err := of(traffic.Tap{FromNS: rng.Int64N(span / 4)}, trace.PlacementUnknown)(rng, s, dir)
		if err != nil {
			return o, err
		}
		place := traffic.AtSwitch
		if filepath.Base(o.Trace) == "requester.pcap" {
			place = traffic.AtRequester
		}
		whole := traffic.Tap{Place: place, ToNS: span - rng.Int64N(span/4)}
		return o, save(o.Trace, func(w io.Writer) error { return s.Write(w, 1, whole) })
	}
}

func save(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
