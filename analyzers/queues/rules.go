// Package queues judges how switches use their buffer and serve their queues: limits, dynamic thresholds, work
// conservation, rates, priority and shares. It sees each packet join and leave its queue.
package queues

import "candela.dev/candela/analyzers"

// Name is the analyzer's.
const Name = "queue"

// Rules. Identifiers are never reused or renamed.
const (
	Buffer    = "queue.buffer"
	Limit     = "queue.limit"
	Threshold = "queue.threshold"
	Refusal   = "queue.refused"
	Idle      = "queue.idle"
	Rate      = "queue.rate"
	Priority  = "queue.priority"
	Share     = "queue.share"
)

// Rules lists what is checked.
func Rules() []analyzers.Rule {
	const clause = "Choudhury and Hahne, 1998; Shreedhar and Varghese, 1995"
	rule := func(id, statement string) analyzers.Rule {
		return analyzers.Rule{ID: id, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: statement}
	}
	return []analyzers.Rule{
		rule(Buffer, "The queues of a switch never hold more than its shared buffer."),
		rule(Limit, "A queue never holds more than its own limit."),
		rule(Threshold, "A packet joins a queue only if the queue then holds at most alpha times the bytes that were free."),
		rule(Refusal, "A packet is refused only if the queue's limit, its threshold or the buffer leaves no room."),
		rule(Idle, "A port with waiting packets sends as soon as its wire is free."),
		rule(Rate, "A port sends no frame before the one before it has ended at the rate of its link."),
		rule(Priority, "A port serves no queue while one of higher priority has packets."),
		rule(Share, "While two queues have packets, what they are served differs from their weights by at most a quantum "+
			"and a packet of each."),
	}
}
