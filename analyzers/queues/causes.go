package queues

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// place is a queue, and an instant.
type place struct {
	who   cause.Switch
	port  cause.Port
	queue cause.Count
	at    cause.Instant
}

func (j *Judge) place(port, queue int, now clock.Time) place {
	return place{cause.Switch(j.cfg.Name), cause.Port{Number: port}, cause.Count(queue), cause.Clock(now)}
}

func packets(n int) cause.Counted { return cause.Counted{N: int64(n), Noun: "packet"} }

func causeBuffer(p place, used, limit int) cause.Cause {
	return cause.Of(Buffer, "over", "%v held %v in its queues at %v; its shared buffer has %v.", p.who,
		cause.Bytes(used), p.at, cause.Bytes(limit))
}

func causeLimit(p place, holds, limit cause.Counted) cause.Cause {
	return cause.Of(Limit, "over", "Queue %v of port %v of %v held %v at %v; its limit is %v.", p.queue, p.port, p.who,
		holds, p.at, limit)
}

func causeThreshold(p place, holds, allowed int) cause.Cause {
	return cause.Of(Threshold, "over", "Queue %v of port %v of %v held %v at %v; alpha times the free bytes were %v.",
		p.queue, p.port, p.who, cause.Bytes(holds), p.at, cause.Bytes(allowed))
}

func causeRefusal(p place, size, holds int) cause.Cause {
	return cause.Of(Refusal, "room", "Queue %v of port %v of %v refused a packet of %v at %v. It held %v, and no limit "+
		"was reached.", p.queue, p.port, p.who, cause.Bytes(size), p.at, cause.Bytes(holds))
}

func causeIdle(p place, late clock.Duration) cause.Cause {
	return cause.Of(Idle, "late", "Port %v of %v sent a waiting packet of queue %v at %v, %v after its wire was free.",
		p.port, p.who, p.queue, p.at, cause.Span(late))
}

func causeRate(p place, early clock.Duration) cause.Cause {
	return cause.Of(Rate, "early", "Port %v of %v sent a packet of queue %v at %v, %v before the frame before it had "+
		"ended.", p.port, p.who, p.queue, p.at, cause.Span(early))
}

func causePriority(p place, higher int) cause.Cause {
	return cause.Of(Priority, "inverted", "Port %v of %v served queue %v at %v while queue %v, of higher priority, had "+
		"packets.", p.port, p.who, p.queue, p.at, cause.Count(higher))
}

func causeShare(p place, other int, apart, allowed float64) cause.Cause {
	return cause.Of(Share, "apart", "Queues %v and %v of port %v of %v both had packets until %v. What they were served "+
		"differed %v as much as their weights allow.", p.queue, cause.Count(other), p.port, p.who, p.at,
		cause.Ratio(apart/allowed))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	p := place{who: "sw1", port: cause.Port{Number: 3}, queue: 1, at: 2400}
	return []cause.Cause{
		causeBuffer(p, 210_000, 200_000), causeLimit(p, cause.Bytes(31_000), cause.Bytes(30_000)),
		causeThreshold(p, 12_000, 11_250), causeRefusal(p, 1500, 3000), causeIdle(p, 120*clock.Nanosecond),
		causeRate(p, 8*clock.Nanosecond), causePriority(p, 2), causeShare(p, 2, 9000, 4500),
	}
}
