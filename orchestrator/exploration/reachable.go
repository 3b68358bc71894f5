package exploration

import (
	"regexp"
)

// An Obstacle says why no exploration takes some transitions: what the virtual testbed never shows, or what is needed
// and not drawn. Transitions without one count as reachable.
type Obstacle struct {
	Transitions string // regular expression of "analyzer/machine: state + input -> state"
	Reason      string
	Needs       string // what would take it; empty: nothing does here
	match       *regexp.Regexp
}

// Obstacles lists them; the first that matches counts. A test compares the table with explorations: no transition that
// one takes may have an obstacle.
func Obstacles() []Obstacle {
	list := []Obstacle{
		{
			Transitions: `\+ capture-gap ->`,
			Reason:      "only plain captures have gaps: a mirror trace with one has no integrity, and is not analysed",
			Needs:       "candela analyze of a capture by tcpdump",
		},
		{
			Transitions: `responder: failed \+ (ack|ack-again|re-ack|nack|rnr-nak|fatal-nak|atomic-ack|` +
				`read-first|read-next|read-replay) ->`,
			Reason: "a responder answers nothing after its fatal NAK; a device that does violates gbn.after-error",
		},
		{
			Transitions: `responder: rnr \+ read-first ->`,
			Reason: "after an RNR NAK every request is discarded until the refused one passes again, which makes the " +
				"responder ready; where it may have been retransmitted before the RNR NAK, it is unknown what was " +
				"accepted, and first responses do not differ from later ones",
		},
		{
			Transitions: `requester: idle \+ (ack|ack-all|nack|rnr|implied-nak|fatal-nak) ->`,
			Reason: "idle is nothing outstanding, so nothing can be acknowledged or asked for; a device that answers all " +
				"the same violates a rule",
		},
		{
			Transitions: `\+ trimmed ->`,
			Reason:      "only their mark distinguishes trimmed headers from damaged packets",
			Needs:       "roce-parameters.trim-reaction, and trim events with its DSCP",
		},
		{
			Transitions: `responder: (gap|nacked|ready|rnr) \+ re-ack ->`,
			Reason:      "the models acknowledge duplicates with the latest PSN",
			Needs:       "a NIC that acknowledges a duplicate by its own PSN",
		},
		{
			Transitions: `responder: (gap|nacked|rnr) \+ ahead -> gap`,
			Reason:      "once a gap is open, what is ahead is discarded; a second gap needs the first to close unseen",
			Needs:       "a NIC that answers a gap late, with later requests still in flight",
		},
	}
	for i := range list {
		list[i].match = regexp.MustCompile(list[i].Transitions)
	}
	return list
}

// obstacle returns what keeps a transition from being taken; nil: nothing.
func obstacle(list []Obstacle, transition string) *Obstacle {
	for i := range list {
		if list[i].match.MatchString(transition) {
			return &list[i]
		}
	}
	return nil
}
