package trimming

import "candela.dev/candela/clock"

// Mode is how strictly an ingress pipeline trims packets for an egress port (figure 3 of the paper).
type Mode uint8

// Modes. The initial mode of a port is Optimistic.
const (
	NoMode          Mode = iota
	Optimistic           // trim to line rate, as if no other pipeline sent to this port
	HalfPessimistic      // trim to half of it
	Pessimistic          // trim to a quarter, the share of each of four pipelines
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Optimistic:
		return "optimistic"
	case HalfPessimistic:
		return "half-pessimistic"
	case Pessimistic:
		return "pessimistic"
	case NoMode:
	}
	return "none"
}

// Response is the action of an ingress pipeline while a port is Pessimistic.
type Response uint8

// Responses: the paper's scheme and the alternatives it compares (sections 4 and 6.3).
const (
	NoResponse Response = iota
	ToQuarter           // trim to a quarter of line rate
	TrimAll             // trim every packet
	TrimCount           // trim the next Count packets for each notification, without a time limit
)

// Flavour is the implementation of the loop in a pipeline.
type Flavour uint8

// Flavours (section 5 of the paper).
const (
	NoFlavour   Flavour = iota
	ThreeMeters         // ndp.p4: three single-rate meters, expiry times t0 and t1
	TwoMeters           // switch.p4: two two-rate meters, the time of the last notification in 32 bits
)

// LoopConfig sets up the control loop of one egress port in one ingress pipeline.
type LoopConfig struct {
	Line     clock.BitRate
	Burst    int            // bytes, of every bucket
	T0, T1   clock.Duration // pessimistic until T0 after a notification, half-pessimistic until T1; T1 ≤ T0: no half phase
	Response Response
	Count    int // of TrimCount
	Flavour  Flavour
	// WrapDefect keeps the time of the last notification in 32 bits of nanoseconds, as switch.p4 does, and compares it
	// without regard to the overflow every 4.3 s. Origin is the switch's clock at the start of the simulation.
	WrapDefect bool
	Origin     clock.Duration
}

// A Loop is the control loop of one egress port in one ingress pipeline. It starts Optimistic.
type Loop struct {
	cfg LoopConfig

	optimistic, half, pessimistic Meter      // of ThreeMeters
	t0, t1                        clock.Time // registers of ThreeMeters; 0: cleared

	opti, pesi TwoRateMeter // of TwoMeters
	last       uint32       // register of TwoMeters with its defect, in ns; 0: cleared
	lastWide   clock.Time   // the same without the defect; 0: cleared

	due int // of TrimCount: packets still to trim
}

// NewLoop returns a loop with full buckets.
func NewLoop(cfg LoopConfig) Loop {
	line := cfg.Line
	return Loop{
		cfg:         cfg,
		optimistic:  NewMeter(line, cfg.Burst),
		half:        NewMeter(line/2, cfg.Burst),
		pessimistic: NewMeter(line/4, cfg.Burst),
		opti:        NewTwoRateMeter(line, line/2, cfg.Burst),
		pesi:        NewTwoRateMeter(line/4, line/4, cfg.Burst),
	}
}

// Notify reports a deflected packet for the loop's port: the port becomes Pessimistic now.
func (l *Loop) Notify(now clock.Time) {
	switch {
	case l.cfg.T0 <= 0 && l.cfg.T1 <= 0 && l.cfg.Response != TrimCount:
		// The loop is off. Without this case a packet of the same instant would still see Pessimistic.
	case l.cfg.Response == TrimCount:
		l.due += l.cfg.Count
	case l.cfg.Flavour == TwoMeters:
		l.last, l.lastWide = l.stamp(now), now
	default:
		l.t0, l.t1 = now.Add(l.cfg.T0), now.Add(max(l.cfg.T0, l.cfg.T1))
	}
}

// Trim reports whether to trim a packet of bytes bytes from a front port here; if not, it goes to the traffic manager.
// Every packet runs all meters in every mode, so that the next mode's meter knows the load.
func (l *Loop) Trim(now clock.Time, bytes int) bool {
	if l.cfg.Flavour == TwoMeters {
		return l.trimTwo(now, bytes)
	}
	optimistic := l.optimistic.Execute(now, bytes)
	pessimistic := l.pessimistic.Execute(now, bytes)
	half := l.half.Execute(now, bytes)
	if l.due > 0 {
		l.due--
		return true
	}
	switch l.advance(now) {
	case Pessimistic:
		return l.cfg.Response == TrimAll || pessimistic == Red
	case HalfPessimistic:
		return half == Red
	case Optimistic, NoMode:
	}
	return optimistic == Red
}

func (l *Loop) trimTwo(now clock.Time, bytes int) bool {
	opti, pesi := l.opti.Execute(now, bytes), l.pesi.Execute(now, bytes)
	if l.due > 0 {
		l.due--
		return true
	}
	switch l.advance(now) {
	case Pessimistic:
		return l.cfg.Response == TrimAll || pesi != Green
	case HalfPessimistic:
		return opti != Green
	case Optimistic, NoMode:
	}
	return opti == Red
}

// advance returns the mode and clears expired registers, as the pipeline does when a packet passes.
func (l *Loop) advance(now clock.Time) Mode {
	m := l.Mode(now)
	if m == Optimistic {
		l.t0, l.t1, l.last, l.lastWide = 0, 0, 0, 0
	}
	return m
}

// Mode returns the mode for a packet that arrives now.
func (l *Loop) Mode(now clock.Time) Mode {
	switch {
	case l.due > 0:
		return Pessimistic
	case l.cfg.Flavour == TwoMeters && l.cfg.WrapDefect:
		return l.modeWrapping(now)
	case l.cfg.Flavour == TwoMeters:
		return l.modeByAge(now)
	case l.t0 != 0 && now <= l.t0:
		return Pessimistic
	case l.t1 != 0 && now <= l.t1:
		return HalfPessimistic
	}
	return Optimistic
}

// modeByAge is the rule of switch.p4 on a clock that never wraps.
func (l *Loop) modeByAge(now clock.Time) Mode {
	switch age := now.Sub(l.lastWide); {
	case l.lastWide == 0 || age > max(l.cfg.T0, l.cfg.T1):
		return Optimistic
	case age > l.cfg.T0:
		return HalfPessimistic
	}
	return Pessimistic
}

// modeWrapping is the literal rule of switch.p4, with 32-bit sums and comparisons. A notification in the last T1 before
// the clock wraps has no effect. For T1 after each wrap, a port whose register is cleared counts as congested.
func (l *Loop) modeWrapping(now clock.Time) Mode {
	stamp := l.stamp(now)
	nanoseconds := func(d clock.Duration) uint32 { return uint32(d.Nanoseconds()) }
	switch {
	case stamp > l.last+nanoseconds(max(l.cfg.T0, l.cfg.T1)):
		return Optimistic
	case stamp > l.last+nanoseconds(l.cfg.T0):
		return HalfPessimistic
	}
	return Pessimistic
}

// stamp returns the lower 32 bits of the switch's nanosecond clock.
func (l *Loop) stamp(now clock.Time) uint32 { return uint32(now.Add(l.cfg.Origin).Nanoseconds()) }
