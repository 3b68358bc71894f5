package trace

import (
	"context"
	"errors"
	"io"
)

// tapView reads two captures as what senders sent and what receivers got, on the first one's clock.
type tapView struct {
	first, second Source
	o             Options
	connections   *Connections
	clock         *clockEstimate
	bounds        clockBounds      // that the clock rests on
	upstream      map[flowKey]bool // of each way: the first capture is upstream. nil: of all
	identified    bool             // IPv4 identifications distinguish frames
	paired        func(s, p *observation)
	complete      bool  // nothing suggests that a tap missed frames
	tickNS        int64 // resolution of the coarser clock; 0: nanoseconds, or one clock
	assumed       []otherPlaces
	shared        [2]int64 // first and last instant at which both captures have frames
	payloads      bool     // records get the hash of their payload
}

// mixed reports whether each of the captures is upstream for some way.
func (v *tapView) mixed() bool {
	some := [2]bool{}
	for _, first := range v.upstream {
		some[bit(first)] = true
	}
	return some[0] && some[1]
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// records opens a capture.
func (v *tapView) records(second bool) (*recordStream, error) {
	src := v.first
	if second {
		src = v.second
	}
	frames, err := src.OpenFrames()
	if err != nil {
		return nil, err
	}
	s := &recordStream{
		frames: frames, file: frames, dec: NewDecoder(FormatPlain, v.connections, !v.o.SkipICRC),
		keepTruncated: v.o.KeepTruncated, second: second,
	}
	s.dec.payloads = v.payloads
	if second {
		s.clock = v.clock
	}
	return s, nil
}

// open returns what is upstream, or else what is downstream, in order of time.
func (v *tapView) open(upstream bool) (tapStream, error) {
	if !v.mixed() {
		first := true
		for _, first = range v.upstream {
			break // all are alike
		}
		return v.records(first != upstream)
	}
	a, err := v.records(false)
	if err != nil {
		return nil, err
	}
	b, err := v.records(true)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &mergedStream{
		a: filteredStream{recordStream: a, upstream: v.upstream, want: upstream},
		b: filteredStream{recordStream: b, upstream: v.upstream, want: !upstream},
	}, nil
}

// run streams the captures through a matcher and hands every record to fn.
func (v *tapView) run(ctx context.Context, fn func(*Record) error) (report *PairReport, err error) {
	before, err := v.open(true)
	if err != nil {
		return nil, err
	}
	defer func() { err = alsoClose(err, before) }()
	after, err := v.open(false)
	if err != nil {
		return nil, err
	}
	defer func() { err = alsoClose(err, after) }()
	m := newMatcher(before, after)
	m.identified, m.slackNS, m.paired, m.shared = v.identified, v.clock.slack(), v.paired, v.shared
	if !v.mixed() {
		m.earlyNS = 2 * v.tickNS // of the stamp, and of those that the correction rests on
	}
	for i := 0; ; i++ {
		if i%cancelEvery == 0 && ctx.Err() != nil {
			return &m.report, context.Cause(ctx)
		}
		r, err := m.next()
		if errors.Is(err, io.EOF) {
			return &m.report, nil
		}
		if err != nil {
			return &m.report, err
		}
		if err := fn(r); err != nil {
			return &m.report, err
		}
	}
}

// A tapStream yields observations in order of time, until io.EOF.
type tapStream interface {
	read(o *observation) error
	io.Closer
}

// filteredStream keeps the packets of the ways for which its capture is, or is not, upstream.
type filteredStream struct {
	*recordStream
	upstream map[flowKey]bool // the first capture is upstream
	want     bool
	held     observation
	holding  bool
}

// peek returns the next observation without taking it; io.EOF ends the stream.
func (s *filteredStream) peek() (*observation, error) {
	for !s.holding {
		if err := s.read(&s.held); err != nil {
			return nil, err
		}
		first, known := s.upstream[s.held.way]
		s.holding = (first || !known) == s.want
	}
	return &s.held, nil
}

// mergedStream takes packets of some ways from one capture and those of the others from another.
type mergedStream struct{ a, b filteredStream }

func (m *mergedStream) read(o *observation) error {
	a, errA := m.a.peek()
	if errA != nil && !errors.Is(errA, io.EOF) {
		return errA
	}
	b, errB := m.b.peek()
	if errB != nil && !errors.Is(errB, io.EOF) {
		return errB
	}
	switch {
	case a == nil && b == nil:
		return io.EOF
	case b == nil || a != nil && a.rec.TimeNS <= b.rec.TimeNS:
		*o, m.a.holding = *a, false
	default:
		*o, m.b.holding = *b, false
	}
	return nil
}

func (m *mergedStream) Close() error { return errors.Join(m.a.Close(), m.b.Close()) }
