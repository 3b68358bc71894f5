package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// A Tap is one of several captures, with the name that the user gave it.
type Tap struct {
	Name  string
	Files []string
}

// String returns "name (first file)".
func (t *Tap) String() string { return fmt.Sprintf("%s (%s)", t.Name, t.Files[0]) }

// analyzeTaps compares the two captures that bound most of the path between the hosts, and notes which they are.
func analyzeTaps(ctx context.Context, o AnalyzeOptions) (_ *Outcome, err error) {
	var sources []trace.Source
	var releases []func() error
	defer func() {
		for _, release := range releases {
			err = errors.Join(err, release())
		}
	}()
	for i := range o.Taps {
		src, release, err := OpenCaptures(ctx, o.Taps[i].Files, o.Stdin)
		if err != nil {
			return nil, err
		}
		sources, releases = append(sources, src), append(releases, release)
	}
	options, err := o.traceOptions()
	if err != nil {
		return nil, err
	}
	var best *comparedTaps
	var failures []error
	for i := range sources {
		for j := i + 1; j < len(sources); j++ {
			checked, pair, err := trace.CheckPair(ctx, sources[i], sources[j], options)
			if err != nil {
				failures = append(failures, err)
				continue
			}
			if c := newComparedTaps(i, j, checked, pair); best == nil || c.compare(best) < 0 {
				best = c
			}
		}
	}
	if best == nil {
		var unjudged *trace.UnjudgedError
		if errors.As(failures[0], &unjudged) {
			return unjudgedCapture(o, nil, unjudged), nil
		}
		return nil, traceError(failures[0])
	}
	o.Notes = append(o.Notes, best.note(o.Taps))
	first, second := o.Taps[best.first], o.Taps[best.second]
	o.Trace, o.More, o.Second, o.SecondMore = first.Files[0], first.Files[1:], second.Files[0], second.Files[1:]
	return analyzeCapture(ctx, o, sources[best.first], sources[best.second])
}

type comparedTaps struct {
	first, second           int
	agreed                  bool
	assumed, missed, events int64
	transit                 int64
}

func newComparedTaps(first, second int, checked *trace.Checked, pair *trace.PairReport) *comparedTaps {
	c := &comparedTaps{first: first, second: second, agreed: checked.Meta().Complete, missed: pair.Missed + pair.Outside,
		transit: pair.MinTransitNS}
	for i := range pair.Ways {
		if pair.Ways[i].Assumed {
			c.assumed++
		}
	}
	c.events = pair.Dropped + pair.Marked + pair.Corrupted + pair.Trimmed + pair.Reordered
	return c
}

// compare orders pairs by evidence: complete captures first, then fewest directions with assumed places, fewest missed
// packets, most events, and longest transit, which bounds most of the path.
func (c *comparedTaps) compare(other *comparedTaps) int {
	rank := func(agreed bool) int {
		if agreed {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(c.agreed), rank(other.agreed)), cmp.Compare(c.assumed, other.assumed),
		cmp.Compare(c.missed, other.missed),
		-cmp.Compare(c.events, other.events), -cmp.Compare(c.transit, other.transit))
}

// note names the compared captures with the reason.
func (c *comparedTaps) note(taps []Tap) string {
	var rest []string
	for i := range taps {
		if i != c.first && i != c.second {
			rest = append(rest, taps[i].String())
		}
	}
	return fmt.Sprintf("%d captures: %s and %s are compared, because they bound best what happened between the hosts "+
		"(%d packets missed by the upstream tap, "+
		"%d lost or changed in between, at least %s apart); not used: %s", len(taps), &taps[c.first], &taps[c.second],
		c.missed, c.events,
		clock.TextNS(c.transit), strings.Join(rest, ", "))
}

// OnlyTaps keeps two of several taps and notes the unused ones.
func (o *AnalyzeOptions) OnlyTaps(taps []Tap, first, second int, why string) {
	a, b := taps[first], taps[second]
	o.Trace, o.More, o.Second, o.SecondMore = a.Files[0], a.Files[1:], b.Files[0], b.Files[1:]
	rest := slices.DeleteFunc(slices.Clone(taps), func(t Tap) bool { return t.Name == a.Name || t.Name == b.Name })
	if len(rest) == 0 {
		return
	}
	var names []string
	for i := range rest {
		names = append(names, rest[i].String())
	}
	o.Notes = append(o.Notes, fmt.Sprintf("%d captures: %s and %s are compared, because %s; not used: %s", len(taps), &a,
		&b, why, strings.Join(names, ", ")))
}
