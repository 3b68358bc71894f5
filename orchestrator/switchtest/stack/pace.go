package stack

import (
	"math"
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
)

// pace says when a flow's packets are due.
type pace struct {
	workload.Pace
	rate  clock.BitRate // without steps
	start clock.Time
	until clock.Time // clock.Never: without end
	rest  clock.Time // end of the phase in which it sends; clock.Never: it never rests
	draws *rand.Rand // nil: nothing is drawn
}

// newPace returns the pace of a flow that sends at a rate from start on; p nil: at nothing but that rate.
func newPace(p *workload.Pace, rate clock.BitRate, start, until clock.Time) pace {
	a := pace{rate: rate, start: start, until: until, rest: clock.Never}
	if p == nil {
		return a
	}
	a.Pace = *p
	if p.Jitter > 0 || p.Random {
		a.draws = rand.New(rand.NewPCG(p.Seed[0], p.Seed[1]))
	}
	if p.Off > 0 {
		a.rest = start.Add(a.phase(p.On))
	}
	return a
}

// first returns when the first packet is due. With jitter, flows that start together do not send together.
func (a *pace) first(size int32) clock.Time {
	if a.Jitter == 0 {
		return a.advance(a.start, 0)
	}
	return a.advance(a.start, a.draws.Float64()*float64(size))
}

// after returns when the packet after one of some bytes is due; clock.Never: the flow is over.
func (a *pace) after(due clock.Time, size int32) clock.Time {
	bytes := float64(size)
	if a.Jitter == 0 && a.Steps == nil && a.rest == clock.Never {
		return a.bounded(due.Add(a.rate.Serialise(int(size))))
	}
	if a.Jitter > 0 {
		bytes *= 1 + a.Jitter*(2*a.draws.Float64()-1)
	}
	return a.advance(due, bytes)
}

func (a *pace) bounded(at clock.Time) clock.Time {
	if at >= a.until {
		return clock.Never
	}
	return at
}

// advance returns when so many bytes after an instant have passed at the rates of the schedule, while the flow does not
// rest.
func (a *pace) advance(at clock.Time, bytes float64) clock.Time {
	for at < a.until {
		if at >= a.rest {
			at = a.rest.Add(a.phase(a.Off))
			a.rest = at.Add(a.phase(a.On))
			continue
		}
		rate, end := a.step(at)
		end = min(end, a.rest)
		if rate > 0 {
			takes := clock.Duration(math.Round(bytes * 8 * float64(clock.Second) / float64(rate)))
			if next := at.Add(takes); next < end {
				return a.bounded(next)
			}
		}
		if end == clock.Never {
			break
		}
		bytes = max(0, bytes-float64(rate)*float64(end.Sub(at))/8/float64(clock.Second))
		at = end
	}
	return clock.Never
}

// step returns the rate at an instant, and until when it holds.
func (a *pace) step(at clock.Time) (rate clock.BitRate, end clock.Time) {
	if a.Steps == nil {
		return a.rate, clock.Never
	}
	for _, s := range *a.Steps {
		if from := a.start.Add(s.At); from > at {
			return rate, from
		}
		rate = s.Rate
	}
	return rate, clock.Never
}

// phase returns how long a phase takes, at least a nanosecond.
func (a *pace) phase(mean clock.Duration) clock.Duration {
	if !a.Random {
		return mean
	}
	return max(clock.Nanosecond, clock.Duration(math.Round(a.draws.ExpFloat64()*float64(mean))))
}
