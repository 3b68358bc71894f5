package rdma

import (
	"errors"
	"fmt"

	"candela.dev/candela/clock"
)

// ReactionPoint configures the sender's part of DCQCN. Zero values mean the defaults, which are from the DCQCN paper
// (Zhu et al., SIGCOMM 2015, sections 4 and 5.2) unless another source is given.
type ReactionPoint struct {
	Enable        bool
	G             float64        // weight of a new sample of alpha; 1/256
	AlphaTimer    clock.Duration // alpha decays after this time without a CNP; 55 us
	IncreaseTimer clock.Duration // a rate increase is due after this time; 55 us
	ByteCounter   int64          // and after this many bytes; 10 MB
	FastRecovery  int            // steps of fast recovery, F; 5
	AdditiveRate  clock.BitRate  // step of additive increase, R_AI; 40 Mb/s
	HyperRate     clock.BitRate  // step of hyper increase, R_HAI; 400 Mb/s (ours: ten times AdditiveRate)
	MinRate       clock.BitRate  // floor; 10 Mb/s (ours)
	// CNPs within this time after a cut have no effect; 4 us (NVIDIA's rate_reduce_monitor_period)
	ReduceInterval clock.Duration
	InitialAlpha   float64 // 1
}

func (c *ReactionPoint) setDefaults() {
	setDefault(&c.G, 1.0/256)
	setDefault(&c.AlphaTimer, 55*clock.Microsecond)
	setDefault(&c.IncreaseTimer, 55*clock.Microsecond)
	setDefault(&c.ByteCounter, 10_000_000)
	setDefault(&c.FastRecovery, 5)
	setDefault(&c.AdditiveRate, clock.Gbps/25)
	setDefault(&c.HyperRate, 2*clock.Gbps/5)
	setDefault(&c.MinRate, clock.Gbps/100)
	setDefault(&c.ReduceInterval, 4*clock.Microsecond)
	setDefault(&c.InitialAlpha, 1)
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func (c *ReactionPoint) validate() error {
	var errs []error
	if c.G <= 0 || c.G > 1 || c.InitialAlpha < 0 || c.InitialAlpha > 1 {
		errs = append(errs, fmt.Errorf("DCQCN g %g and initial alpha %g are not both within 0 to 1", c.G, c.InitialAlpha))
	}
	if c.AlphaTimer < 0 || c.IncreaseTimer < 0 || c.ByteCounter < 0 || c.FastRecovery < 0 || c.ReduceInterval < 0 {
		errs = append(errs, errors.New("a DCQCN timer, byte counter or step count is negative"))
	}
	if c.AdditiveRate < 0 || c.HyperRate < 0 || c.MinRate < 0 {
		errs = append(errs, errors.New("a DCQCN rate is negative"))
	}
	return errors.Join(errs...)
}

// rateLimiter is DCQCN's reaction point for one queue pair. Its timers are served lazily, when a packet is sent or a
// CNP arrives, because the rate has no effect in between. Products are rounded to float64 explicitly, so that every
// platform computes the same rates.
type rateLimiter struct {
	cfg  ReactionPoint
	line float64 // port rate in bit/s

	// earliest transmission of the next packet; stays 0 while the limiter is off or at line rate
	gate            clock.Time
	current, target float64 // R_C and R_T in bit/s
	alpha           float64
	limited         bool // a CNP has cut the rate, and it has not fully recovered

	lastCut      clock.Time
	alphaDue     clock.Time // 0 before the first cut
	increaseDue  clock.Time
	bytes        int64 // since the last increase by the byte counter
	timerSteps   int   // increases since the last cut by timer
	counterSteps int   // by byte counter
}

func (l *rateLimiter) init(cfg ReactionPoint, line clock.BitRate) {
	*l = rateLimiter{cfg: cfg, line: float64(line), current: float64(line), target: float64(line), alpha: cfg.InitialAlpha}
}

func (l *rateLimiter) enabled() bool { return l.cfg.Enable }

// rateAt returns the sending rate in bit/s at now.
func (l *rateLimiter) rateAt(now clock.Time) float64 {
	l.catchUp(now)
	return l.current
}

// sent charges a frame transmitted at now.
func (l *rateLimiter) sent(now clock.Time, frame int) {
	if !l.limited {
		return
	}
	l.catchUp(now)
	const overhead = 24 // frame check sequence, preamble and gap
	bits := float64((frame + overhead) * 8)
	l.gate = now.Add(clock.Duration(bits * float64(clock.Second) / l.current))
	if l.bytes += int64(frame); l.bytes >= l.cfg.ByteCounter {
		l.bytes = 0
		l.counterSteps++
		l.increase()
	}
}

// cut reacts to a CNP: it stores the rate as target, reduces it by alpha/2 and raises alpha (equation 1 of the paper).
func (l *rateLimiter) cut(now clock.Time) {
	l.catchUp(now)
	if l.limited && now.Sub(l.lastCut) < l.cfg.ReduceInterval {
		return
	}
	l.decay(now)
	l.target = l.current
	l.current = max(float64(l.cfg.MinRate), float64(l.current*(1-l.alpha/2)))
	l.alpha = float64((1-l.cfg.G)*l.alpha) + l.cfg.G
	l.limited, l.lastCut = true, now
	l.bytes, l.timerSteps, l.counterSteps = 0, 0, 0
	l.alphaDue, l.increaseDue = now.Add(l.cfg.AlphaTimer), now.Add(l.cfg.IncreaseTimer)
}

// decay serves the alpha timers that expired at line rate.
func (l *rateLimiter) decay(now clock.Time) {
	const negligible = 1e-9
	for l.alphaDue != 0 && l.alphaDue <= now && l.alpha > negligible {
		l.alpha = float64((1 - l.cfg.G) * l.alpha)
		l.alphaDue = l.alphaDue.Add(l.cfg.AlphaTimer)
	}
}

// catchUp serves the timers that expired up to now, in order.
func (l *rateLimiter) catchUp(now clock.Time) {
	for l.limited {
		switch {
		case l.alphaDue <= now && l.alphaDue <= l.increaseDue:
			l.alpha = float64((1 - l.cfg.G) * l.alpha)
			l.alphaDue = l.alphaDue.Add(l.cfg.AlphaTimer)
		case l.increaseDue <= now:
			l.increaseDue = l.increaseDue.Add(l.cfg.IncreaseTimer)
			l.timerSteps++
			l.increase()
		default:
			return
		}
	}
}

// increase is one step towards the line rate: fast recovery, then additive, then hyper increase.
func (l *rateLimiter) increase() {
	switch most, least := max(l.timerSteps, l.counterSteps), min(l.timerSteps, l.counterSteps); {
	case least > l.cfg.FastRecovery:
		l.target += float64(float64(least-l.cfg.FastRecovery) * float64(l.cfg.HyperRate))
	case most >= l.cfg.FastRecovery:
		l.target += float64(l.cfg.AdditiveRate)
	}
	l.target = min(l.target, l.line)
	l.current = (l.target + l.current) / 2
	const close = 0.999 // halving the distance never reaches the line rate
	if l.current >= l.line*close {
		l.current, l.target, l.limited = l.line, l.line, false
		l.gate = 0
	}
}
